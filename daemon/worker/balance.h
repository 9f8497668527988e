/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Load balancing between workers (the option balance): decides which worker moves connections,
 * to which other worker, and which connections. The functions are pure: they depend only on
 * their arguments.
 *
 * Once a second main measures the CPU share of each active worker. A worker is hot if its share
 * is above BALANCE_HOT and exceeds that of the least busy worker by BALANCE_GAP. A worker that
 * is hot for BALANCE_SECONDS moves connections with half of the difference in load, and again
 * each second while it stays hot.
 *
 * The load of a connection is the number of units of work of its turns in the previous second.
 * They are counted only in these seconds (daemon/conn/conn_weigh.h), so that turns of a worker
 * that is not hot pay nothing. For the same reason a worker that had no connection to move, for
 * example because one connection is all of the load, is skipped for BALANCE_PAUSE_S.
 *
 * Context: any thread, for all.
 */
#ifndef MAYFLY_DAEMON_WORKER_BALANCE_H
#define MAYFLY_DAEMON_WORKER_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

/* Shares are thousandths of a CPU. */
#define BALANCE_HOT 800u
#define BALANCE_GAP 250u

/* Seconds for which a worker is hot before it moves connections. */
#define BALANCE_SECONDS 3u

/* Seconds until a worker that had no connection to move is considered again. */
#define BALANCE_PAUSE_S 20u

/* Seconds for which a moved connection stays with its new worker. */
#define BALANCE_STAY_S 60u

#define BALANCE_NOBODY UINT32_MAX

enum balance_act {
    BALANCE_NOTHING,
    BALANCE_WEIGH, /* start measuring the work of each connection */
    BALANCE_GIVE,  /* move some, by the work since the last order; continue measuring */
    BALANCE_END,   /* add up no longer */
};

/* An order of main to a worker. */
struct balance_order {
    enum balance_act act;
    uint32_t to;    /* BALANCE_GIVE: the worker that gets them */
    uint32_t share; /* BALANCE_GIVE: of a CPU that the worker took in the last second */
    uint32_t gap;   /* BALANCE_GIVE: share minus that of the other one */
};

/* State that is kept from one second to the next. */
struct balance {
    uint32_t hot;     /* the worker that is hot, or BALANCE_NOBODY */
    uint32_t seconds; /* for which it has been */
    uint32_t paused;  /* the worker that had nothing to give, or BALANCE_NOBODY */
    uint32_t pause_s; /* for which it is still left alone */
};

void balance_init(struct balance *b);

/*
 * Called each second. share: the CPU share of each of `count` active workers in it. Fills
 * *order, which is for b->hot. Its act is never BALANCE_END: the caller ends the order of
 * another worker.
 */
void balance_look(struct balance *b, const uint32_t *share, uint32_t count,
                  struct balance_order *order);

/* The hot worker was ordered to move connections, but had none to move. */
void balance_gave_nothing(struct balance *b);

/* A connection of the hot worker. */
struct balance_weight {
    uint64_t units; /* of work, since the last order */
    bool stays;     /* must not move: it was moved here recently, or is closed */
    bool goes;      /* set by balance_choose() */
};

/*
 * Choose connections to move. Normally that is the one whose part of the worker's share is
 * nearest to half of order->gap. If it is less than the half, others are added until the half
 * is reached. None is chosen if a single connection is all of the load. A connection with more
 * than half of the load is not chosen: others are moved instead. total: units of all
 * connections and datagrams of the worker. Returns the number chosen.
 */
unsigned balance_choose(const struct balance_order *order, uint64_t total,
                        struct balance_weight *all, unsigned count);

#endif
