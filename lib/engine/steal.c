/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room from other shards: see steal.h.
 */
#include "lib/engine/steal.h"

#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/memory/cursor.h"
#include "lib/memory/room.h"
#include "lib/shard/shard.h"

/* Segments taken from another shard at once. */
#define STEAL_SEGMENTS 4

/* Work of the cursor there for it. */
#define STEAL_WORK 512

/* What a shard has that it could lose, in segments. Context: in shard. */
static uint32_t spare_segments(const struct shard *s)
{
    return s->memory.blocks.chain[CHAIN_SMALL].count +
           s->memory.blocks.chain[CHAIN_MAIN].count + s->memory.arena.values.segments +
           s->memory.arena.free_count + arena_waiting(&s->memory.arena);
}

/* The shard with the most to give, if it has clearly more than the needy one. */
static struct shard *fullest(struct engine *e, const struct shard *needy)
{
    struct shard *best = NULL;
    uint32_t most = 0;
    uint32_t own = 0;

    for (uint32_t i = 0; i < e->shard_count; i++) {
        struct shard *s = e->shards[i];
        uint32_t spare;

        shard_enter(s);
        spare = spare_segments(s);
        shard_leave(s);
        if (s == needy) {
            own = spare;
        } else if (spare > most) {
            most = spare;
            best = s;
        }
    }
    return most > own + own / 4 + STEAL_SEGMENTS ? best : NULL;
}

enum steal engine_steal(struct engine *e, struct shard *needy)
{
    struct shard *s = e->shard_count > 1 ? fullest(e, needy) : NULL;
    uint32_t spare;
    bool waits;

    shard_must_not_be_entered(needy);
    if (s == NULL) {
        return STEAL_NOTHING;
    }
    if (budget_retired(&e->budget) >> s->memory.arena.shift >= STEAL_SEGMENTS) {
        grace_ask(reclaim_grace(e->reclaimer), GRACE_HURRY);
        return STEAL_LATER; /* what nobody needs any more will do */
    }
    shard_enter(s);
    room_release(&s->memory);
    if (s->memory.arena.free_count + arena_waiting(&s->memory.arena) <=
        room_wanted(&s->memory) + STEAL_SEGMENTS) {
        cursor_slice_beyond(&s->memory, STEAL_WORK, clock_now(&e->clock), STEAL_SEGMENTS);
        room_release(&s->memory);
    }
    spare = s->memory.arena.free_count > room_wanted(&s->memory)
                ? s->memory.arena.free_count - room_wanted(&s->memory)
                : 0;
    waits = arena_waiting(&s->memory.arena) != 0;
    shard_leave(s);
    if (spare != 0 &&
        room_give_back(&s->memory, spare < STEAL_SEGMENTS ? spare : STEAL_SEGMENTS) != 0) {
        return STEAL_DONE;
    }
    if (waits) {
        grace_ask(reclaim_grace(e->reclaimer), GRACE_HURRY);
        return STEAL_LATER;
    }
    return STEAL_NOTHING;
}
