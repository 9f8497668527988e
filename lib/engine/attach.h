/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Item memory that outlives the process. The ranges of the shards are parts of a file. A
 * stopping engine writes to the file what the next one needs. The next engine takes the items
 * over in place: it rebuilds indexes and deadlines from the blocks, and checks each block. If
 * any check fails, the engine starts empty.
 *
 *     0            head: identification, whether it was closed cleanly, figures of the shards
 *     64 KiB       the lists of segments (lib/memory/keep.h): one for each possible shard, with
 *                  room for its range
 *     then         the ranges, sparse
 *
 * Not in the file: index, deadlines, ghost lists of the eviction policy, counters. Numbers have
 * this machine's byte order; a file from a different kind of machine is rejected.
 */
#ifndef MAYFLY_LIB_ENGINE_ATTACH_H
#define MAYFLY_LIB_ENGINE_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/memory/region.h"

struct engine;
struct engine_config;
struct attach_head;

enum attach_state {
    ATTACH_OFF,  /* there is no file */
    ATTACH_COLD, /* the file was new, or its items are not used */
    ATTACH_WARM, /* its items were taken over */
};

#define ATTACH_WHY_BYTES 160

#define ATTACH_EXTRA_BYTES 128u

/* Longer than any number of shards. */
#define ATTACH_SHARDS_MAX 512u

struct attach {
    /* set by the caller before engine_start() */
    uint32_t max_age_s; /* items left longer ago are not used; 0: any age */
    bool marks_stale;   /* items taken over are stale: the first client that gets one may renew
                           it */
    /* and before engine_stop() */
    bool leaves_nothing; /* the next start is to be a cold one */
    /*
     * Identifies data that was saved elsewhere together with this file (a snapshot and its
     * log); 0: none. Also an output of engine_start(), if the start is warm.
     */
    uint32_t companion;
    /* The same: the caller's bytes, which are zero if nothing was saved. */
    uint8_t extra[ATTACH_EXTRA_BYTES];
    /* of attach_open() */
    int fd;                   /* -1: not open */
    bool is_new;              /* nothing was there */
    bool is_in_memory;        /* it is on no disk, as far as the engine can tell */
    uint64_t room_bytes;      /* room found by attach_make() if below the limit; 0: enough */
    struct attach_head *head; /* as it was read, then as it is to be written */
    struct region region[ATTACH_SHARDS_MAX]; /* those of the engine's shards */
    msec_t taken_at;                         /* of attach_take_over() */
    /* [const] once the engine runs: the result of the start */
    enum attach_state state;
    uint64_t items, expired, flushed; /* taken over, expired by now, flushed since */
    uint32_t moving;                  /* slots that are on their way to another shard */
    uint64_t over_bytes;              /* to be evicted; 0: less than a 64th of the limit */
    uint64_t us;                      /* duration of the take-over in microseconds */
    uint64_t away_ms;                 /* time between the two processes */
    char why[ATTACH_WHY_BYTES];       /* reason of a failure or of a cold start; "": none */
};

/*
 * Open the file at path, creating it if needed, and lock it against other processes; or take
 * over the ownership of a descriptor, for example one that the service manager has kept. False,
 * with the reason in a->why: the file cannot be used, or must not be overwritten. The caller
 * has zeroed all other fields of the struct. Context: before start.
 */
bool attach_open(struct attach *a, const char *path);
bool attach_open_fd(struct attach *a, int fd);

/* A number that is equal in programs that can read each other's blocks. Context: any thread. */
uint64_t attach_abi(void);

/* off, cold or warm. Context: any thread. */
static inline const char *attach_state_text(const struct attach *a)
{
    return a->state == ATTACH_WARM ? "warm" : a->state == ATTACH_COLD ? "cold" : "off";
}

/*
 * Is this address in a mapped part of the engine's file? Calls nothing, so signal handlers may
 * use it. Context: any thread, while the engine runs.
 */
bool attach_is_in_range(const struct engine *e, const void *at);

/* Close the file, unchanged. Does nothing if it is not open. Context: after stop. */
void attach_close(struct attach *a);

/*
 * The steps of engine_start() and engine_stop().
 *
 *     plan       may the file's content be used by an engine with this config? Then the config
 *                gets the values that it must share with the earlier engine.
 *     make       create the file, empty
 *     take_over  take the items over, into shards that are not in use yet
 *     extend     make a place for a further shard
 *     resume     restore numbers, routes and a pending flush
 *     leave      write what the next engine needs
 *
 * Each returns false and sets a->why on failure. After a failure of plan or take_over the
 * engine must be started empty. After a failure of make it cannot be started. If other files
 * use some of the file system's room, make succeeds, and the engine works with less
 * (room_bytes). After plan or make, attach_range() is the range of a shard. After plan,
 * attach_clock_zero() is the argument of clock_init_at(). After a failure of extend the file
 * has as many places as before. Context: main, while no other thread uses the engine. But
 * extend may be called while the engine runs, by one thread at a time.
 */
bool attach_plan(struct attach *a, struct engine_config *cfg);
bool attach_make(struct attach *a, const struct engine_config *cfg, uint64_t range_bytes);
int64_t attach_clock_zero(const struct attach *a);
uint64_t attach_range(const struct attach *a);
bool attach_take_over(struct attach *a, struct engine *e);
bool attach_extend(struct attach *a, uint32_t shard);
enum mf_err attach_resume(struct attach *a, struct engine *e);
void attach_leave(struct attach *a, struct engine *e);

#endif
