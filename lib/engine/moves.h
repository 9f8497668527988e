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
    uint32_t walks;         /* that run */
    uint32_t walks_waiting; /* to begin or to continue */
    uint32_t admitted;      /* of those that wait: before the next move or its next step */
    uint32_t moves_waiting; /* to begin or to continue */
    bool has_move;          /* one has begun, and not ended */
    bool is_paused;         /* and gives way to walks */
};

/* Numbers of running and waiting walks and moves. */
struct moves_info {
    uint32_t walks, walks_waiting, moves, moves_waiting;
};

/* Context: before start; after stop. */
void moves_init(struct moves *m);
void moves_fini(struct moves *m);

/*
 * Begin a walk, or a move: wait for the turn. Returns false if *stop was set meanwhile, and
 * nothing has begun; it is checked 50 times a second. stop NULL: it cannot be stopped. Context:
 * any thread, outside a section and a shard.
 */
bool moves_begin_walk(struct moves *m, const _Atomic bool *stop);
bool moves_begin_move(struct moves *m, const _Atomic bool *stop);

/* The end of it. Context: the thread that began it. */
void moves_end_walk(struct moves *m);
void moves_end_move(struct moves *m);

/*
 * Between two shards of a walk: does a move wait? Then the move has its turn from now on, and
 * the walk continues with moves_resume_walk(). Slots may have moved by then. Context: as above.
 */
bool moves_pause_walk(struct moves *m);

/* Wait for the turn, at most 20 ms. Returns false if it has not come. Context: as above. */
bool moves_resume_walk(struct moves *m);

/*
 * Between two shards of a move: let the walks that wait have their turn. False: *stop was set
 * meanwhile, and walks may run; the move does nothing but end. Context: as above.
 */
bool moves_give_way(struct moves *m, const _Atomic bool *stop);

/* Context: any thread. */
void moves_info(struct moves *m, struct moves_info *info);

#endif
