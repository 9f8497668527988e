/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room for what is carried over, and its pace: see carry.h. A part of carry.c.
 *
 * In a full cache each copy needs budget. So a segment of which only some items leave is
 * emptied like by the cleaner, free segments are returned to the budget at once, and this
 * thread runs a grace period itself when there is nothing else to wait for. Items are evicted,
 * in the shard that the items leave, only to make room for the items in transit: a few
 * segments.
 */
#include "lib/reshard/carry.h"

#include <sched.h>
#include <time.h>

#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/memory/cursor.h"
#include "lib/memory/room.h"
#include "lib/shard/upkeep.h"

/* Most slices and grace periods to make room for one batch. */
#define MAKE_TRIES 1000

/*
 * Segments released to the system at a time, and the number of them that the cursor may take
 * again in between.
 */
#define GIVE_SEGMENTS   16
#define MARGIN_SEGMENTS 2

/*
 * Items in transit between shards, which wait for a grace period, take this part (1/n) of the
 * limit, within a minimum and a maximum number of segments. That much is evicted at the start.
 */
#define HEADROOM_SHARE 512
#define HEADROOM_MIN   4
#define HEADROOM_MAX   64

/*
 * The move is given up after this number of tries that moved nothing. Each try waits for a
 * grace period, and so for all memory that is being freed; each but the first also waits
 * REST_NS.
 */
#define FRUITLESS_MAX 200
#define REST_NS       1000000L

/* The same limit for a large value after another large value has found no room. */
#define FRUITLESS_LATER 10

/* During a pause, the time between checks whether to stop, or to use more of a CPU. */
#define PAUSE_US 10000

static void rest(long ns)
{
    const struct timespec t = {ns / 1000000000L, ns % 1000000000L};

    (void)nanosleep(&t, NULL);
}

/* Length of the pause after `used` of CPU time, both in microseconds; 0: no pause. */
static usec_t pause_after(const struct carry *c, usec_t used)
{
    const uint32_t cpu_pct = atomic_load_explicit(c->cpu_pct, memory_order_relaxed);

    return cpu_pct >= 100 || atomic_load_explicit(c->stop, memory_order_relaxed)
               ? 0
               : used * (100 - cpu_pct) / cpu_pct;
}

void carry_pace(struct carry *c)
{
    usec_t used;
    usec_t rested = 0;
    usec_t pause;

    must_not_be_reading();
    /*
     * Without this a worker that wakes on the same CPU waits until the kernel's next tick, up
     * to 4 ms. This thread holds no lock here, so no thread waits for it meanwhile.
     */
    (void)sched_yield();
    if (pause_after(c, 100) == 0 || (used = clock_thread_us() - c->used) < BUDGET_run_us) {
        return;
    }
    usec_t began = clock_mono_us();
    while ((pause = pause_after(c, used)) > rested) {
        rest((long)(pause - rested < PAUSE_US ? pause - rested : PAUSE_US) * 1000);
        rested = clock_mono_us() - began;
    }
    c->used = clock_thread_us();
}

bool carry_turn(struct carry *c)
{
    must_not_be_reading();
    if (atomic_load_explicit(c->stop, memory_order_relaxed)) {
        c->state = CARRY_STOPPED;
        return false;
    }
    if (++c->turns % STEPS_A_LOOK == 0) {
        carry_pace(c);
    }
    return true;
}

void carry_end_period(const struct carry *c)
{
    struct grace *g = reclaim_grace(c->engine->reclaimer);
    uint32_t number = grace_begin(g);

    rcu_wait();
    grace_complete(g, number);
}

bool carry_has_room_in(const struct memory *m)
{
    return arena_avail(&m->arena) + memory_waiting(m) > room_wanted(m) + MARGIN_SEGMENTS;
}

bool carry_has_room(struct shard *s)
{
    shard_enter(s);
    room_release(&s->memory);
    bool has = carry_has_room_in(&s->memory);
    shard_leave(s);
    return has;
}

bool carry_give_back(struct carry *c)
{
    struct shard *s = c->from;
    uint32_t spare;
    bool waits;

    do {
        shard_enter(s);
        room_release(&s->memory);
        uint32_t wanted = c->leaving == c->owned ? 0 : room_wanted(&s->memory);
        spare = s->memory.arena.free_count;
        spare = spare > wanted ? spare - wanted : 0;
        spare = spare < GIVE_SEGMENTS ? spare : GIVE_SEGMENTS;
        waits = arena_waiting(&s->memory.arena) != 0;
        shard_leave(s);
    } while (spare != 0 && room_give_back(&s->memory, spare) == GIVE_SEGMENTS);
    return waits;
}

/* Number of segments for items in transit between shards. */
static uint32_t headroom(const struct carry *c)
{
    int64_t limit = budget_limit(&c->engine->budget);
    int64_t n = limit / HEADROOM_SHARE >> c->from->memory.arena.shift;

    return n < HEADROOM_MIN ? HEADROOM_MIN : n > HEADROOM_MAX ? HEADROOM_MAX : (uint32_t)n;
}

/*
 * Evict items of the shard that the items leave, the least valuable ones, to make some room at
 * the start. False when there is nothing to evict, or no need to.
 */
static bool begin_room(struct carry *c)
{
    struct shard *s = c->from;

    shard_enter(s);
    uint64_t before = ctr_get(&s->counters, CTR_evictions);
    bool goes_on = cursor_slice_beyond(&s->memory, BUDGET_press_work,
                                       clock_now(&c->engine->clock), headroom(c)) &&
                   arena_waiting(&s->memory.arena) < headroom(c);
    uint64_t after = ctr_get(&s->counters, CTR_evictions);
    shard_leave(s);
    carry_count_add(&c->count->evicted, after - before);
    return goes_on;
}

/* Is retired memory, for example an old index, waiting for the reclaimer to release it? */
static bool waits_for_reclaimer(const struct carry *c)
{
    if (budget_part(&c->engine->budget, BUDGET_RETIRED) <
        (int64_t)segment_bytes(&c->from->memory.arena)) {
        return false;
    }
    grace_ask(reclaim_grace(c->engine->reclaimer), GRACE_HURRY);
    rest(REST_NS);
    return true;
}

/* Has the shard used all its address space? Then evictions in other shards do not help. */
static bool is_at_its_end(struct shard *s)
{
    shard_enter(s);
    bool is = arena_unheld(&s->memory.arena) == 0;
    shard_leave(s);
    return is;
}

void carry_make_room(struct carry *c, struct shard *to)
{
    bool can_go_on = true;

    must_not_be_reading();
    if (is_at_its_end(to)) {
        return;
    }
    for (unsigned i = 0; i < MAKE_TRIES && can_go_on && carry_turn(c); i++) {
        bool waits = carry_give_back(c);

        if (carry_has_room(to)) {
            return;
        }
        if (!c->has_begun && !waits_for_reclaimer(c)) {
            c->has_begun = !begin_room(c);
        } else if (c->has_begun && waits) {
            carry_end_period(c);
        } else if (c->has_begun && !waits_for_reclaimer(c)) {
            c->has_begun = false;
            can_go_on = begin_room(c);
        }
    }
    c->may_evict = true;
}

/* Finish a resize of the index, unless it must wait for other threads. */
static void end_resize(struct carry *c, struct shard *s)
{
    bool goes_on;

    do {
        shard_enter(s);
        goes_on = shard_resize_step(s, CARRY_BUCKETS) && table_may_step(&s->table);
        shard_note_work(s);
        shard_leave(s);
    } while (goes_on && carry_turn(c));
}

bool carry_wait_for(struct carry *c, struct shard *to)
{
    if (!carry_turn(c)) {
        return false;
    }
    if (c->fruitless++ >=
        (c->large.key_len != 0 && c->waiting != 0 ? FRUITLESS_LATER : FRUITLESS_MAX)) {
        c->state = CARRY_NO_ROOM;
        return false;
    }
    if (!carry_has_room(to)) {
        carry_make_room(c, to);
    }
    shard_make_wanted(to);
    grace_ask(reclaim_grace(c->engine->reclaimer), GRACE_HURRY);
    carry_end_period(c);
    end_resize(c, to);
    if (c->fruitless > 1) {
        rest(REST_NS);
    }
    return c->state == CARRY_GOES_ON;
}

void carry_count_add(_Atomic uint64_t *n, uint64_t by)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + by,
                          memory_order_relaxed);
}
