/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The line of a shard: see line.h.
 */
#include "lib/memory/line.h"

#include "lib/base/check.h"
#include "lib/memory/state.h"

/* A block that waits is tried again within this time, or it does not wait any more. */
#define BLOCKS_MS 20

static bool is_called(const struct waiter *w)
{
    return atomic_load_explicit(&w->is_called, memory_order_relaxed);
}

static bool blocks_wait(const struct memory *m, msec_t within)
{
    return MF_UNLIKELY(m->line.blocks_at != 0) &&
           clock_now(m->clock) - m->line.blocks_at <= within;
}

bool line_has_blocks(const struct memory *m)
{
    memory_must_be_entered(m);
    return blocks_wait(m, BLOCKS_MS);
}

bool line_is_waited_in(const struct memory *m, msec_t within)
{
    memory_must_be_entered(m);
    return m->line.first != NULL || blocks_wait(m, within);
}

/* Free segments beyond the cursor's reserve, less one while blocks wait. */
static uint32_t free_for_line(const struct memory *m)
{
    uint32_t avail = arena_avail(&m->arena);
    uint32_t kept = ROOM_RESERVE + line_has_blocks(m);

    return avail > kept ? avail - kept : 0;
}

bool line_is_provided(const struct memory *m)
{
    uint32_t wanted = m->line.wanted < LINE_MOST ? m->line.wanted : LINE_MOST;

    memory_must_be_entered(m);
    return arena_avail(&m->arena) + memory_waiting(m) > ROOM_RESERVE + wanted;
}

uint32_t line_ahead(const struct memory *m, const struct waiter *w)
{
    const struct room_line *l = &m->line;
    bool is_in = w != NULL && w->memory == m;

    memory_must_be_entered(m);
    if (is_in && is_called(w)) {
        return l->promised - w->want;
    }
    return l->wanted - (is_in ? w->want : 0);
}

bool line_is_behind(const struct memory *m, const struct waiter *w)
{
    uint32_t ahead = line_ahead(m, w);

    memory_must_be_entered(m);
    if (ahead == 0 || (w->memory == m && is_called(w))) {
        return false;
    }
    return arena_avail(&m->arena) <= ROOM_RESERVE + ahead;
}

void line_call(struct memory *m, struct waiter *w)
{
    memory_must_be_entered(m);
    if (!is_called(w)) {
        atomic_store_explicit(&w->is_called, true, memory_order_relaxed);
        m->line.promised += w->want;
        w->wake(w);
    }
}

void line_uncall(struct memory *m, struct waiter *w)
{
    memory_must_be_entered(m);
    if (is_called(w)) {
        atomic_store_explicit(&w->is_called, false, memory_order_relaxed);
        m->line.promised -= w->want;
    }
}

void line_join(struct memory *m, struct waiter *w, uint32_t want)
{
    struct room_line *l = &m->line;

    memory_must_be_entered(m);
    if (w->memory == NULL) {
        w->memory = m;
        w->want = 0;
        w->next = NULL;
        w->prev = l->last;
        if (l->last != NULL) {
            l->last->next = w;
        } else {
            l->first = w;
        }
        l->last = w;
    }
    must(w->memory == m);
    l->wanted += want - w->want;
    if (is_called(w)) {
        l->promised += want - w->want;
    }
    w->want = want;
}

static void take_out(struct memory *m, struct waiter *w)
{
    struct room_line *l = &m->line;

    line_uncall(m, w);
    l->wanted -= w->want;
    if (w->prev != NULL) {
        w->prev->next = w->next;
    } else {
        l->first = w->next;
    }
    if (w->next != NULL) {
        w->next->prev = w->prev;
    } else {
        l->last = w->prev;
    }
    w->memory = NULL;
}

void line_took(struct memory *m, struct waiter *w)
{
    memory_must_be_entered(m);
    if (w->want == 1) {
        take_out(m, w);
        line_settle(m);
        return;
    }
    w->want--;
    m->line.wanted--;
    if (is_called(w)) {
        m->line.promised--;
    }
}

void line_leave(struct waiter *w)
{
    struct memory *m = w->memory;

    if (m != NULL) {
        lock_take(m->lock);
        take_out(m, w);
        line_settle(m);
        lock_give(m->lock);
    }
}

void line_settle(struct memory *m)
{
    struct room_line *l = &m->line;

    memory_must_be_entered(m);
    if (MF_LIKELY(l->first == NULL)) {
        return;
    }
    uint32_t free = free_for_line(m);
    for (struct waiter *w = l->first; w != NULL && l->promised < free; w = w->next) {
        if (!is_called(w)) {
            if (w->want > free - l->promised) {
                break;
            }
            line_call(m, w);
        }
    }
    if (l->promised == 0 && !line_is_provided(m)) {
        line_call(m, l->first);
    }
}

void line_nudge(struct memory *m)
{
    memory_must_be_entered(m);
    line_settle(m);
    if (m->line.first != NULL && m->line.promised == 0) {
        line_call(m, m->line.first);
    }
}

void line_note_blocks(struct memory *m, bool has_room)
{
    memory_must_be_entered(m);
    m->line.blocks_at = has_room ? 0 : clock_now(m->clock);
}
