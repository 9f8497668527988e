/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks over all items and moves of slots between shards exclude each other. Any number of
 * walks run together; one move runs alone. Both may take minutes, so each yields between two
 * shards if the other side waits. A waiting move is admitted before walks that come later. When
 * the move yields, the walks that wait by then are admitted once.
 */
#ifndef MAYFLY_LIB_ENGINE_MOVES_H
#define MAYFLY_LIB_ENGINE_MOVES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct moves {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* [mutex] */
    uint32_t walks;         /* running */
    uint32_t walks_waiting; /* to begin or to continue */
    uint32_t admitted;      /* waiting walks that run before the next move or its next step */
    uint32_t moves_waiting; /* to begin or to continue */
    bool has_move;          /* a move has begun and not ended */
    bool is_paused;         /* that move is yielding to walks */
};

/* Numbers of running and waiting walks and moves. */
struct moves_info {
    uint32_t walks, walks_waiting, moves, moves_waiting;
};

/* Context: before start; after stop. */
void moves_init(struct moves *m);
void moves_fini(struct moves *m);

/*
 * Wait until a walk, or a move, may begin. Returns false, and nothing has begun, if *stop was
 * set meanwhile, which is checked 50 times a second. stop NULL: the wait cannot be cancelled.
 * Context: any thread, outside a section and a shard.
 */
bool moves_begin_walk(struct moves *m, const _Atomic bool *stop);
bool moves_begin_move(struct moves *m, const _Atomic bool *stop);

/* The walk, or the move, has ended. Context: the thread that began it. */
void moves_end_walk(struct moves *m);
void moves_end_move(struct moves *m);

/*
 * Call between two shards of a walk. True if a move waits: the walk has yielded to it, and must
 * call moves_resume_walk() before it continues. Slots may have moved by then. Context: as
 * above.
 */
bool moves_pause_walk(struct moves *m);

/* Wait up to 20 ms until the walk may continue. False: not yet, retry. Context: as above. */
bool moves_resume_walk(struct moves *m);

/*
 * Call between two shards of a move: yields to the walks that wait. False: *stop was set
 * meanwhile; walks may run, so the move must do nothing more but moves_end_move(). Context: as
 * above.
 */
bool moves_give_way(struct moves *m, const _Atomic bool *stop);

/* Context: any thread. */
void moves_info(struct moves *m, struct moves_info *info);

#endif
