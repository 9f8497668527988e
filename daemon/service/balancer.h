/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timer of the balance between workers (daemon/worker/balance.h). Main reads the CPU clocks
 * of the workers each second, and gives orders to a hot one. While none is hot, no worker is
 * woken.
 */
#ifndef MAYFLY_DAEMON_SERVICE_BALANCER_H
#define MAYFLY_DAEMON_SERVICE_BALANCER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/worker/balance.h"
#include "daemon/worker/roster.h"

struct server;

struct balancer {
    /* [main] */
    uv_timer_t timer;
    bool is_open;
    struct balance state;
    uint32_t weighing;     /* the worker that measures its connections by order, or none */
    bool was_told_to_give; /* that one, a second ago */
    uint64_t given;        /* connections that it had given away by then */
    uint64_t looked_ns;    /* when the clocks were read */
    uint32_t count;        /* of how many workers; 0: of none */
    uint64_t cpu_ns[WORKERS_MAX];
};

/* Begin, now that clients are served. Returns 0 or a libuv error. Context: main. */
int balancer_begin(struct server *s);

/* Close the timer, if there is one; main's loop runs once more after that. Context: main. */
void balancer_end(struct server *s);

#endif
