/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shards without slots: see shard.h.
 */
#include "lib/shard/shard.h"

#include <time.h>

#include "lib/base/context.h"
#include "lib/memory/memory.h"
#include "lib/memory/room.h"
#include "lib/shard/upkeep.h"

/* Grace periods that are waited for. What a reader has pinned is given back later. */
#define GIVE_TRIES 200
#define REST_NS    1000000L

/* Buckets of the index that are moved at once. */
#define RESIZE_BUCKETS 64

/* Segments given back at once. */
#define GIVE_SEGMENTS 16

/* What is left in segments is dead. False: there are items. */
static bool forget_blocks(struct shard *s)
{
    shard_enter(s);
    bool is_empty = s->table.count == 0;
    if (is_empty && s->memory.arena.held != 0) {
        memory_flush(&s->memory);
    }
    shard_leave(s);
    return is_empty;
}

/* Give back what is free by now. False: there is nothing left. */
static bool give_free(struct shard *s)
{
    bool has_more;
    uint32_t n;

    do {
        shard_enter(s);
        room_release(&s->memory);
        n = s->memory.arena.free_count;
        has_more = s->memory.arena.held > n;
        shard_leave(s);
    } while (n != 0 && room_give_back(&s->memory, n < GIVE_SEGMENTS ? n : GIVE_SEGMENTS) != 0);
    return has_more;
}

/* What an index that is made now has left; it may want another one after that. */
static bool resizes(struct shard *s)
{
    shard_enter(s);
    while (shard_resize_step(s, RESIZE_BUCKETS) && table_may_step(&s->table)) {
    }
    shard_note_work(s);
    bool goes_on = shard_resize_goes_on(s);
    shard_leave(s);
    return goes_on;
}

void shard_give_all_back(struct shard *s)
{
    const struct timespec rest = {0, REST_NS};

    must_not_be_reading();
    if (!forget_blocks(s)) {
        return;
    }
    shard_make_wanted(s);
    for (unsigned i = 0; (give_free(s) || resizes(s)) && i < GIVE_TRIES; i++) {
        grace_ask(s->memory.arena.grace, GRACE_HURRY);
        (void)nanosleep(&rest, NULL);
        shard_make_wanted(s);
    }
    shard_rest(s);
}
