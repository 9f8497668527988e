/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Upkeep of a shard: see upkeep.h.
 */
#include "lib/shard/upkeep.h"

#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/memory/blocks.h"
#include "lib/memory/cursor.h"
#include "lib/memory/room.h"
#include "lib/memory/tidy.h"
#include "lib/shard/expire.h"
#include "lib/shard/flush.h"
#include "lib/shard/prefix.h"

/* After this pause the walk for flushed prefixes runs for a slice, whatever its CPU share. */
#define PREFIX_REST_MOST_US 1000000

/* ---- resizing the index ------------------------------------------------------------------ */

/*
 * A resize, and the memory that it will release. It is allocated before the resize begins, so
 * that ending the resize cannot fail. The reclaimer makes a large array resident, part by part,
 * before it is published. Otherwise the first thread to touch it would take the page faults, in
 * the shard.
 */
struct table_retiree {
    struct retired retired;
    struct table_waste waste;
    struct budget *budget;
    int64_t bytes;   /* counted as retired */
    int64_t leaving; /* and as leaving, until all items have moved */
    /* Valid until the table is published. While it is table_next, the reclaimer owns it. */
    struct table_grow grow;
    uint64_t want;
};

static void release_waste(struct retired *r)
{
    struct table_retiree *t = (struct table_retiree *)(void *)r;

    /* In this order: otherwise a store might evict because the memory seems not to be freed. */
    table_waste_release(&t->waste, t->budget);
    budget_count(t->budget, BUDGET_RETIRED, -t->bytes);
    mem_free(t);
}

static void count_leaving(struct table_retiree *t, uint64_t bytes)
{
    budget_count(t->budget, BUDGET_LEAVING, (int64_t)bytes - t->leaving);
    t->leaving = (int64_t)bytes;
}

static void count_retired(struct table_retiree *t, uint64_t bytes)
{
    count_leaving(t, 0);
    budget_count(t->budget, BUDGET_RETIRED, (int64_t)bytes - t->bytes);
    t->bytes = (int64_t)bytes;
}

void shard_resize_forget(struct table_retiree *t)
{
    if (t != NULL) {
        count_retired(t, 0);
        mem_free(t);
    }
}

static bool wants_resize(const struct shard *s)
{
    return s->table.phase == TABLE_STEADY && s->table_next == NULL &&
           table_wants(&s->table) != 0;
}

/* Not published, and not table_next of its shard. Accepts NULL. */
static void give_up(struct shard *s, struct table_retiree *t)
{
    if (t != NULL) {
        count_leaving(t, 0);
        table_prepare_undo(&s->table, &t->grow);
        mem_free(t);
    }
}

void shard_resize_fini(struct shard *s)
{
    shard_resize_forget(s->table_retiree);
    give_up(s, s->table_next);
    s->table_retiree = NULL;
    s->table_next = NULL;
}

static struct table_retiree *prepare(struct shard *s, uint64_t want)
{
    struct table_retiree *t = mem_zalloc(sizeof(*t));

    if (t == NULL) {
        return NULL;
    }
    t->budget = s->group->budget;
    t->want = want;
    if (!table_prepare(&s->table, want, &t->grow)) {
        mem_free(t);
        return NULL;
    }
    return t;
}

/* False when the table wants another size by now. Context: in shard. */
static bool publish(struct shard *s, struct table_retiree *t)
{
    shard_must_be_entered(s);
    if (table_wants(&s->table) != t->want || s->table_retiree != NULL) {
        return false;
    }
    table_publish(&s->table, &t->grow);
    s->table_stamp = grace_stamp(s->memory.arena.grace);
    s->table_retiree = t;
    grace_ask(s->memory.arena.grace, GRACE_SOON);
    return true;
}

static void begin_resize(struct shard *s)
{
    shard_enter(s);
    uint64_t want = wants_resize(s) ? table_wants(&s->table) : 0;
    bool rolls = table_rolls(&s->table, want);
    shard_leave(s);
    struct table_retiree *t = want != 0 ? prepare(s, want) : NULL;
    bool is_resident = t != NULL && (rolls || table_touch(&t->grow));
    shard_enter(s);
    s->table_refused = t == NULL && want != 0;
    if (t == NULL) {
        shard_leave(s);
        return;
    }
    if (wants_resize(s)) { /* otherwise a flush, say, was faster */
        uint64_t bytes = table_bytes(&s->table);

        t->grow.rolls = rolls && table_rolls(&s->table, want);
        is_resident = rolls ? t->grow.rolls : is_resident;
        /*
         * The old array of a shrinking table is counted as memory that will be free soon:
         * nothing is evicted for it. So is that of a resize to a requested size, because the
         * mover waits for its end. In a rolling resize the mover accounts for the overlap.
         */
        if (t->grow.rolls) {
            bytes = bytes > t->grow.bytes ? bytes - t->grow.bytes : 0;
        } else if (t->grow.bytes >= bytes && s->table.asked != want) {
            bytes = 0;
        }
        count_leaving(t, bytes);
        if (!is_resident) {
            s->table_next = t;
            t = NULL;
            grace_ask(s->memory.arena.grace, GRACE_HURRY); /* the table goes on filling */
        } else if (publish(s, t)) {
            t = NULL;
        }
    }
    shard_leave(s);
    give_up(s, t);
}

void shard_fit_index(struct shard *s, uint64_t items, bool is_least, bool rolls)
{
    shard_enter(s);
    table_set_least(&s->table,
                    is_least && items > s->items_at_start ? items : s->items_at_start);
    table_ask(&s->table, items > s->items_at_start ? items : s->items_at_start, rolls);
    shard_note_work(s);
    shard_leave(s);
    shard_make_wanted(s);
}

void shard_roll_index(struct shard *s)
{
    struct table_part part;

    must_not_be_reading();
    rcu_begin();
    shard_enter(s);
    bool has_any = table_next_part(&s->table, &part);
    shard_leave(s);
    if (has_any) {
        table_touch_part(&part);
        shard_enter(s);
        table_part_done(&s->table, &part);
        shard_leave(s);
    }
    shard_enter(s);
    has_any = table_drained(&s->table, &part);
    shard_leave(s);
    if (has_any) {
        table_drop_part(&part);
    }
    rcu_end();
}

void shard_unroll_index(struct shard *s)
{
    shard_enter(s);
    table_unroll(&s->table);
    shard_note_work(s);
    shard_leave(s);
}

bool shard_resize_goes_on(const struct shard *s)
{
    shard_must_be_entered(s);
    return s->table.phase != TABLE_STEADY || s->table_next != NULL || wants_resize(s);
}

bool shard_touch_burst(struct shard *s)
{
    must_be_reclaimer();
    shard_enter(s);
    struct table_retiree *t = s->table_next;
    /* After a flush, say: as long as it is on its way, no other can be made. */
    bool is_wanted = t != NULL && table_wants(&s->table) == t->want;
    if (t != NULL && !is_wanted) {
        s->table_next = NULL;
        shard_note_work(s);
    }
    shard_leave(s);
    if (!is_wanted) {
        give_up(s, t);
        return false;
    }
    if (!table_touch(&t->grow)) {
        return true;
    }
    shard_enter(s);
    s->table_next = NULL;
    if (publish(s, t)) {
        t = NULL;
    }
    shard_note_work(s);
    shard_leave(s);
    give_up(s, t);
    return false;
}

bool shard_resize_step(struct shard *s, uint64_t buckets)
{
    shard_must_be_entered(s);
    if (s->table.phase == TABLE_STEADY) {
        return false;
    }
    if (s->table.phase == TABLE_PUBLISHED) {
        if (!grace_is_over(s->memory.arena.grace, s->table_stamp)) {
            return true;
        }
        table_begin_move(&s->table);
    }
    if (table_step(&s->table, s->memory.arena.base, buckets)) {
        struct table_retiree *t = s->table_retiree;

        s->table_retiree = NULL;
        table_retire(&s->table, &t->waste);
        count_retired(t, t->waste.array_bytes);
        t->retired.fn = release_waste;
        reclaim_push(s->group->reclaimer, &t->retired);
        return false;
    }
    return true;
}

/* ---- work of writers and the home worker ------------------------------------------------- */

bool shard_wants_work(const struct shard *s)
{
    return atomic_load_explicit(&s->wants_work, memory_order_relaxed);
}

void shard_wake_home(struct shard *s)
{
    struct shard_group *g = s->group;
    shard_wake_fn wake = atomic_load_explicit(&g->wake_home, memory_order_acquire);

    shard_must_be_entered(s);
    if (wake != NULL) {
        wake(g->wake_arg, s->id);
    }
}

void shard_want_work(struct shard *s)
{
    shard_must_be_entered(s);
    if (!shard_wants_work(s)) {
        atomic_store_explicit(&s->wants_work, true, memory_order_relaxed);
        shard_wake_home(s);
    }
}

/*
 * Not while slots move: the numbers of items change all the time then, and a full cache has no
 * memory to spare. Items would have to be evicted for each new record of evicted keys.
 */
static bool wants_past(const struct shard *s)
{
    return !atomic_load_explicit(&s->group->has_move, memory_order_relaxed) &&
           evict_wants_past(&s->memory.evict, ctr_get(&s->counters, CTR_curr_items));
}

static bool wants_any(const struct shard *s)
{
    return wants_resize(s) || wants_past(s) || s->wants_spare || s->memory.blocks.ring_misfits;
}

/* The buckets of a rolling resize are moved by the thread that asked for it. */
static bool resizes_at_home(const struct shard *s)
{
    return s->table.phase != TABLE_STEADY && s->table.ready == TABLE_ALL;
}

void shard_note_work(struct shard *s)
{
    bool making = (wants_any(s) && !s->is_making) || s->memory.arena.wants_range ||
                  s->memory.arena.wants_stock_now;
    bool work = making || s->table_next != NULL || resizes_at_home(s) ||
                shard_prefix_goes_on(s) || budget_is_over(s->group->budget);

    shard_must_be_entered(s);
    if (MF_UNLIKELY(work != shard_wants_work(s))) {
        if (work) {
            shard_want_work(s);
        } else {
            atomic_store_explicit(&s->wants_work, false, memory_order_relaxed);
        }
    }
    if (MF_UNLIKELY(making != atomic_load_explicit(&s->wants_making, memory_order_relaxed))) {
        atomic_store_explicit(&s->wants_making, making, memory_order_relaxed);
    }
}

/* Allocate the memory by which the wheel grows next, and pass it to the wheel. */
static void make_spare(struct shard *s, uint32_t capacity)
{
    struct wheel_spare spare;

    (void)wheel_spare_make(&spare, capacity); /* what failed is allocated when it is needed */
    shard_enter(s);
    s->wants_spare = false;
    wheel_take_spare(s->wheel, &spare);
    shard_leave(s);
    wheel_spare_release(&spare);
}

/*
 * Allocate what is wanted. Only the thread that has set is_making does so: two threads that
 * allocate the same would overdraw the budget for a moment, and items would be evicted for
 * that.
 */
static void make_all(struct shard *s)
{
    shard_enter(s);
    bool resize = wants_resize(s);
    bool past = wants_past(s);
    bool ring = s->memory.blocks.ring_misfits;
    bool spare = s->wants_spare;
    uint32_t spare_capacity = wheel_spare_capacity(s->wheel);
    shard_leave(s);
    if (spare) {
        make_spare(s, spare_capacity);
    }
    if (resize) {
        begin_resize(s);
    }
    if (ring) {
        blocks_fit_ring(&s->memory);
    }
    if (past) {
        evict_make_past(&s->memory, ctr_get(&s->counters, CTR_curr_items));
    }
}

void shard_make_wanted(struct shard *s)
{
    shard_enter(s);
    bool makes = wants_any(s) && !s->is_making;
    s->is_making = s->is_making || makes;
    shard_leave(s);
    memory_grow(&s->memory);
    if (makes) {
        make_all(s);
    }
    shard_enter(s);
    if (makes) {
        s->is_making = false;
    }
    shard_note_work(s);
    shard_leave(s);
}

/*
 * After the limit was lowered, the index gets the size for the present items as soon as a
 * smaller index has room for them, else the size for the items that will stay: a shard may keep
 * more than its share if others have less. The index would shrink by itself only when it is a
 * seventh full, and until then items would be evicted instead. Context: in shard.
 */
static void fit_lowered(struct shard *s)
{
    const struct budget *b = s->group->budget;
    uint64_t items = ctr_get(&s->counters, CTR_curr_items);
    double limit = (double)budget_limit(b);
    double used = (double)atomic_load_explicit(&b->used_bytes, memory_order_relaxed);

    if (!budget_is_lowered(b) || s->table.phase != TABLE_STEADY) {
        return;
    }
    if (used > limit && table_bytes_for(items) >= table_bytes(&s->table)) {
        items = (uint64_t)((double)items * limit / used);
    }
    if (table_bytes_for(items) < table_bytes(&s->table)) {
        table_ask(&s->table, items > s->items_at_start ? items : s->items_at_start, false);
    }
}

/* One round. True when another should follow at once. */
static bool maintain_once(struct shard *s, uint64_t buckets, msec_t now)
{
    shard_enter(s);
    bool more =
        resizes_at_home(s) && shard_resize_step(s, buckets) && table_may_step(&s->table);
    room_release(&s->memory);
    blocks_ripen(&s->memory, 64);
    if (room_is_short(&s->memory) && room_may_evict(&s->memory)) {
        more = cursor_slice(&s->memory, BUDGET_home_work, now) || more;
        room_release(&s->memory);
    }
    fit_lowered(s);
    shard_note_work(s);
    shard_leave(s);
    shard_after_leave(s);
    return more;
}

/* For about max_us, unlink what flushes of a prefix hide. True: there is more. */
static bool clean_prefixes(struct shard *s, usec_t start, usec_t max_us)
{
    bool more;

    do {
        rcu_begin();
        shard_enter(s);
        more = shard_prefix_slice(s);
        shard_leave(s);
        rcu_end();
    } while (more && clock_mono_us() - start < max_us);
    return more;
}

static void flush_if_due(struct shard *s, msec_t now)
{
    if (now >= atomic_load_explicit(&s->flush_at, memory_order_relaxed)) {
        shard_flush(s, now);
    }
}

static bool maintain_rest(struct shard *s, msec_t now, usec_t start, usec_t max_us)
{
    bool more;

    do {
        more = maintain_once(s, COST_HOME_BUCKETS, now);
    } while (more && clock_mono_us() - start < max_us);
    return more;
}

bool shard_maintain(struct shard *s, msec_t now, usec_t max_us)
{
    const usec_t start = clock_mono_us();

    must_be_home(s);
    must_not_be_reading();
    flush_if_due(s, now);
    bool cleans = shard_has_prefixes(s) && clean_prefixes(s, start, max_us);
    return maintain_rest(s, now, start, max_us) || cleans;
}

/* How long the walk for flushed prefixes may run after its pause; 0: the pause continues. */
static usec_t clean_us(const struct shard *s, const struct cycle_config *cfg, usec_t now_us,
                       usec_t max_us)
{
    if (shard_prefixes_are_full(s)) {
        return max_us; /* commands wait for it */
    }
    if (now_us - s->prefix_rests_us >= PREFIX_REST_MOST_US) {
        return BUDGET_slice_us; /* with many shards a second may not earn a slice */
    }
    usec_t earned = cycle_earned(cfg, now_us - s->prefix_rests_us);
    return earned < BUDGET_slice_us ? 0 : earned < max_us ? earned : max_us;
}

bool shard_maintain_beside(struct shard *s, const struct cycle_config *cfg, msec_t now,
                           usec_t max_us)
{
    const usec_t start = clock_mono_us();

    must_be_home(s);
    must_not_be_reading();
    flush_if_due(s, now);
    if (shard_has_prefixes(s) && shard_prefix_goes_on(s)) {
        const usec_t us = clean_us(s, cfg, start, max_us);

        if (us > 0) {
            (void)clean_prefixes(s, start, us);
            s->prefix_rests_us = clock_mono_us();
        }
    }
    return maintain_rest(s, now, start, max_us);
}

/* ---- memory follows the data ------------------------------------------------------------- */

bool shard_wants_tidy(const struct shard *s)
{
    return atomic_load_explicit(&s->wants_tidy, memory_order_relaxed);
}

uint32_t shard_tidy(struct shard *s, const struct cycle_config *cfg, msec_t now)
{
    struct memory *m = &s->memory;
    usec_t start = clock_mono_us();
    bool more;

    must_be_home(s);
    must_not_be_reading();
    shard_enter(s);
    enum tidy_next next = tidy_look(m, now);
    bool fit_ring = tidy_wants_ring(m);
    if (next == TIDY_DONE) {
        atomic_store_explicit(&s->wants_tidy, false, memory_order_relaxed);
    }
    shard_leave(s);
    if (fit_ring) {
        blocks_fit_ring(m);
    }
    if (next != TIDY_NOW || !cycle_has_time(&s->cycle, cfg, start)) {
        return next == TIDY_DONE ? SHARD_TIDY : TIDY_LOOK_MS;
    }
    do {
        shard_enter(s);
        /* Due items that must stay are moved like live ones. */
        more = tidy_slice(m, BUDGET_home_work, shard_due_now(s, now));
        room_release(m);
        shard_leave(s);
    } while (more && clock_mono_us() - start < (usec_t)cfg->slice_us);

    usec_t took = clock_mono_us() - start;
    cycle_spend(&s->cycle, took, start);
    shard_enter(s);
    ctr_add(&s->counters, CTR_tidy_us, (uint64_t)(took > 0 ? took : 0));
    shard_note_work(s);
    shard_leave(s);
    shard_after_leave(s);
    return more ? 0 : TIDY_LOOK_MS;
}
