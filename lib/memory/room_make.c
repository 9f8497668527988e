/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making room for puts: see room_make.h. Work per put is bounded, so that a put of any size is
 * many small steps.
 */
#include "lib/memory/room_make.h"

#include "lib/base/budgets.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/memory/blocks.h"
#include "lib/memory/chains.h"
#include "lib/memory/cursor.h"

#define PRESS_TRIES 8 /* at a tenacity of 10 */

_Thread_local struct room_deferral room_deferral;

/* A store needs a grace period to go on. Context: in shard. */
static void ask_in_hurry(struct memory *m)
{
    struct room_deferral *d = &room_deferral;

    memory_must_be_entered(m);
    if (d->is_on && (d->owed == NULL || d->owed == m)) {
        d->owed = m;
    } else {
        grace_ask(m->arena.grace, GRACE_HURRY);
    }
}

bool room_settle_slowly(void)
{
    struct memory *m = room_deferral.owed;

    must_not_be_reading();
    room_deferral.owed = NULL;
    if (!grace_try(m->arena.grace)) {
        grace_ask(m->arena.grace, GRACE_HURRY);
        return false;
    }
    lock_take(m->lock);
    room_release(m);
    lock_give(m->lock);
    if (budget_part(m->arena.budget, BUDGET_RETIRED) > 0) {
        grace_ask(m->arena.grace, GRACE_HURRY); /* only the reclaimer frees an index, say */
    }
    return true;
}

/*
 * How many slices a store makes at most that finds nothing free. Up to 10 they grow evenly,
 * then by 15 % for each more, as the time of Redis does.
 */
static unsigned press_tries(const struct memory *m)
{
    uint32_t tenacity = engine_option(m->options, eviction_tenacity);
    double tries = tenacity < 10 ? PRESS_TRIES / 10.0 * tenacity : PRESS_TRIES;

    for (uint32_t t = 10; t < tenacity && tenacity < 100; t++) {
        tries *= 1.15;
    }
    return tenacity == 100 ? UINT32_MAX : (unsigned)tries;
}

void room_make_slowly(struct memory *m, uint64_t bytes, msec_t now)
{
    memory_must_be_entered(m);
    if (!room_is_short(m) && !room_is_pressed(m)) {
        if (arena_avail(&m->arena) <= ROOM_RESERVE) {
            ask_in_hurry(m);
        }
        return;
    }
    if (memory_is_in_place(m) && m->blocks.hole_bytes > bytes &&
        (!memory_evicts(m) || arena_avail(&m->arena) > ROOM_RESERVE)) {
        return; /* a hole may do; see room_pressed() */
    }
    cursor_slice(m, BUDGET_put_work + (int64_t)(bytes / ITEM_UNIT), now);
    room_release(m);

    /* Only when nothing at all is left, and nothing is on its way, one put does more. */
    unsigned tries = arena_avail(&m->arena) <= ROOM_RESERVE ? press_tries(m) : 0;

    for (unsigned i = 0; i < tries && arena_avail(&m->arena) <= ROOM_RESERVE &&
                         memory_waiting(m) < room_wanted(m);
         i++) {
        ctr_add(m->counters, CTR_direct_reclaims, 1);
        if (!cursor_slice(m, BUDGET_press_work, now)) {
            break;
        }
        room_release(m);
    }
}

enum outcome room_pressed(struct memory *m, msec_t now)
{
    uint64_t items = ctr_get(m->counters, CTR_curr_items);

    memory_must_be_entered(m);
    /*
     * Cleaning goes on if there was something dead enough. If not, the slice may have dropped
     * items, also the one that the put replaces: its writer has to find again.
     */
    if (memory_is_in_place(m) && (cursor_slice(m, BUDGET_press_work, now) ||
                                  ctr_get(m->counters, CTR_curr_items) != items)) {
        ask_in_hurry(m);
        return OUT_WAIT;
    }
    if (room_coming(m) == 0 && !blocks_has_deaths(m)) {
        /* Perhaps all that was looked at was worth keeping: then the cursor goes on. */
        return memory_evicts(m) && cursor_slice(m, BUDGET_press_work, now) ? OUT_WAIT
                                                                           : OUT_NO_MEMORY;
    }
    ask_in_hurry(m);
    /* The overdraft is for what is on its way out. */
    if (room_coming(m) > 0 &&
        -budget_left(m->arena.budget) + (int64_t)segment_bytes(&m->arena) <=
            memory_overdraw(m)) {
        return OUT_OK;
    }
    return OUT_WAIT;
}

/*
 * The cursor's part of room_take_whole(). Returns false if it could do nothing. The waiter then
 * waits until there is a segment: an index that shrinks, which counts as coming room, may take
 * long.
 */
static bool make_whole(struct memory *m, msec_t now)
{
    bool can_go_on = true;

    if (arena_avail(&m->arena) + room_coming(m) <= room_wanted(m) || room_is_pressed(m) ||
        !line_is_provided(m)) {
        can_go_on = cursor_slice(m, BUDGET_press_work, now);
        room_release(m);
    }
    return can_go_on;
}

/*
 * How far large values may overdraw the budget, in bytes: half of the overdraft, as blocks need
 * some too, and at most a sixteenth of the limit.
 */
static int64_t values_overdraw(const struct memory *m)
{
    int64_t half = memory_overdraw(m) / 2;
    int64_t most = budget_limit(m->arena.budget) / 16;

    return half < most ? half : most;
}

/*
 * How many segments a large value may draw beyond the limit: as many of the shard's as wait for
 * a grace period. Without them each large value would wait for a period where stores come
 * faster than periods end.
 */
static uint32_t lent_to_values(const struct memory *m)
{
    int64_t left = budget_left(m->arena.budget);
    int64_t lent = (values_overdraw(m) + (left < 0 ? left : 0)) >> m->arena.shift;
    uint32_t waiting = arena_waiting(&m->arena);

    return lent <= 0 ? 0 : lent < waiting ? (uint32_t)lent : waiting;
}

/* OUT_MISS: there was none. */
static enum outcome take_whole(struct memory *m, struct waiter *w, segment_t *out)
{
    uint32_t kept = ROOM_RESERVE + line_ahead(m, w) + line_has_blocks(m);
    bool is_lent = arena_avail(&m->arena) <= kept;

    if (is_lent && arena_avail(&m->arena) + lent_to_values(m) <= kept) {
        return OUT_MISS;
    }
    *out = arena_take(&m->arena, SEG_WHOLE, is_lent ? values_overdraw(m) : 0);
    if (m->arena.wants_range) {
        m->ops->wants_range(m->owner);
    }
    if (*out == 0) {
        return OUT_MISS;
    }
    m->blocks.put_bytes += segment_bytes(&m->arena);
    if (w != NULL && w->memory == m) {
        line_took(m, w);
    }
    return OUT_OK;
}

enum outcome room_take_whole(struct memory *m, struct waiter *w, uint32_t want, msec_t now,
                             segment_t *out)
{
    memory_must_be_entered(m);
    room_release(m);
    if (w != NULL && w->memory == m) {
        line_join(m, w, want); /* it may have given back what it had taken */
    }
    if (w != NULL && line_is_behind(m, w)) {
        line_join(m, w, want);
        line_settle(m); /* more is wanted now */
        return OUT_WAIT;
    }
    bool can_go_on = make_whole(m, now);
    if (take_whole(m, w, out) == OUT_OK) {
        return OUT_OK;
    }
    if (w != NULL) {
        line_join(m, w, want);
        line_call(m, w);
    }
    if (arena_needs_range(&m->arena)) {
        return OUT_MISS;
    }
    /*
     * What waits will do: evicting more meanwhile would only empty the cache. Or nothing can be
     * moved, but can with little more than there is.
     */
    if ((memory_waiting(m) > ROOM_RESERVE && line_is_provided(m)) ||
        (!can_go_on && memory_evicts(m) && (room_coming(m) > 0 || blocks_has_deaths(m)))) {
        ask_in_hurry(m);
        if (w != NULL) {
            line_uncall(m, w);
        }
        return OUT_WAIT;
    }
    return can_go_on ? OUT_MISS : OUT_NO_MEMORY;
}
