/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making room for puts, with the cursor, and the outcomes if there is none.
 */
#ifndef MAYFLY_LIB_MEMORY_ROOM_MAKE_H
#define MAYFLY_LIB_MEMORY_ROOM_MAKE_H

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/memory/room.h"

/* The rest of room_make(): bounded work of the cursor. Context: in shard. */
void room_make_slowly(struct memory *m, uint64_t bytes, msec_t now);

/*
 * Before a put of `bytes`: release what can be released, and run the cursor while room is
 * short. Bounded work; a few loads when there is plenty of room. Context: in shard.
 */
static inline void room_make(struct memory *m, uint64_t bytes, msec_t now)
{
    const struct arena *a = &m->arena;
    uint32_t completed = atomic_load_explicit(&a->grace->completed, memory_order_acquire);
    int64_t left = arena_allowed(a);

    memory_must_be_entered(m);
    if (MF_UNLIKELY(completed != m->blocks.put_completed)) {
        room_grace_ended(m);
    }
    if (MF_UNLIKELY(left < 0 || (int64_t)a->free_count + left <= (int64_t)m->blocks.want)) {
        room_make_slowly(m, bytes, now);
    }
}

/*
 * Grace periods that are requested for room are deferred to the end of a section. A reclaimer
 * that is woken from a section has to wait for that section: it would wake, sleep, and wake
 * again at its end. So a thread calls room_defer() before its section and room_settle() after
 * it, and room_make() does not wake the reclaimer meanwhile. room_settle() completes a period
 * itself if no other thread is in a section, and releases the memory that has become free;
 * otherwise it wakes the reclaimer. Only one shard's request is deferred: requests of other
 * shards in the same section wake the reclaimer at once.
 */
struct room_deferral {
    bool is_on;
    struct memory *owed; /* [borrowed] the memory that waits for a period; NULL: none */
};
extern _Thread_local struct room_deferral room_deferral;

/* Context: any thread, outside a section. room_settle() follows after the section. */
static inline void room_defer(void)
{
    room_deferral.is_on = true;
}

/* The rest of room_settle(). Context: registered thread, outside a section and a shard. */
bool room_settle_slowly(void);

/*
 * End the deferral. True: a period was requested, and has been completed here. Context:
 * registered thread, outside a section and a shard.
 */
static inline bool room_settle(void)
{
    room_deferral.is_on = false;
    return MF_UNLIKELY(room_deferral.owed != NULL) && room_settle_slowly();
}

/*
 * A put found no room. OUT_OK: retry with DRAW_PRESSED. OUT_WAIT: wait for the end of a grace
 * period, which this call has requested. OUT_NO_MEMORY: room cannot be made. Context: in shard.
 */
enum outcome room_pressed(struct memory *m, msec_t now);

/*
 * Take a whole segment for a large value, with one bounded slice of the cursor. OUT_OK;
 * OUT_MISS: none yet, call again after leaving the shard; OUT_WAIT, OUT_NO_MEMORY as above. The
 * waiter, which wants `want` segments, joins the queue if none is free for it at once. If
 * OUT_MISS is returned, it has been called. w NULL: the caller does not queue. Context: in
 * shard, the waiter's thread.
 */
enum outcome room_take_whole(struct memory *m, struct waiter *w, uint32_t want, msec_t now,
                             segment_t *out);

#endif
