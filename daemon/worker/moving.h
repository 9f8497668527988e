/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything that moves while the server serves: workers whose number changes (roster.h), their
 * connections, and items that go to other shards (lib/reshard/reshard.h); and the log lines
 * about the last.
 */
#ifndef MAYFLY_DAEMON_WORKER_MOVING_H
#define MAYFLY_DAEMON_WORKER_MOVING_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/engine/reshard_state.h"

struct crew;

struct moving_info {
    uint32_t threads_created, threads_active, threads_wanted, threads_leaving;
    uint32_t conns_moving;
    uint64_t conns_moved;
    struct reshard_info shards;
    const char *state;     /* idle, moving, waiting, cancelled */
    const char *waits_for; /* walk, room, none */
    bool is_under_way;     /* a move of items is not complete */
    int64_t left_ms;       /* about; 0: nothing is under way; -1: not known */
};

/* What was logged; under the mutex of struct reshard. */
struct moving {
    bool has_told_full;   /* that there was no room */
    uint32_t full_slots;  /* how many slots were moved by then */
    uint32_t full_wanted; /* to how many shards */
};

/*
 * Log each change of the state of a move from now on; or stop that. Context: main, while the
 * engine runs.
 */
void moving_log(struct crew *crew);
void moving_log_end(struct crew *crew);

/* Context: any thread, outside a section. */
void moving_look(struct crew *crew, struct moving_info *info);

#endif
