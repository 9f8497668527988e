/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushes of a shard: see flush.h.
 */
#include "lib/shard/flush.h"

#include "lib/shard/keyspace.h"
#include "lib/shard/prefix.h"
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"

/*
 * An index and deadlines: empty ones for a future flush, or flushed ones that wait for their
 * grace period. The segments wait in the arena's queues.
 */
struct generation {
    struct retired retired;
    struct generation *next; /* the next in the list of spare ones */
    struct table table;
    struct wheel *wheel;
    struct budget *budget;
    int64_t bytes; /* counted as retired */
};

static void generation_destroy(struct generation *g)
{
    if (g != NULL) {
        table_fini(&g->table);
        wheel_destroy(&g->wheel);
        mem_free(g);
    }
}

static void release_generation(struct retired *r)
{
    struct generation *g = (struct generation *)(void *)r;

    budget_count(g->budget, BUDGET_RETIRED, -g->bytes);
    generation_destroy(g);
}

static struct generation *generation_create(struct shard *s)
{
    struct generation *g = mem_zalloc(sizeof(*g));

    if (g == NULL) {
        return NULL;
    }
    g->retired.fn = release_generation;
    g->budget = s->group->budget;
    g->wheel =
        wheel_create(s->memory.arena.base, g->budget, &s->lock, clock_now(s->group->clock));
    if (g->wheel != NULL) {
        wheel_tell(g->wheel, &s->wants_spare);
    }
    if (g->wheel == NULL ||
        !table_init(&g->table, s->items_at_start, s->seed, g->budget, &s->lock)) {
        wheel_destroy(&g->wheel);
        mem_free(g);
        return NULL;
    }
    return g;
}

/* ---- spare ones -------------------------------------------------------------------------- */

static bool is_scheduled(const struct shard *s)
{
    return atomic_load_explicit(&s->flush_at, memory_order_relaxed) != MSEC_NEVER;
}

static unsigned spare_count(const struct shard *s)
{
    unsigned n = 0;

    for (const struct generation *g = s->spare; g != NULL; g = g->next) {
        n++;
    }
    return n;
}

static struct generation *pop_spare(struct shard *s)
{
    struct generation *g = s->spare;

    must(g != NULL); /* the caller that scheduled the flush has prepared it */
    s->spare = g->next;
    return g;
}

bool shard_flush_prepare(struct shard *s)
{
    for (;;) {
        shard_enter(s);
        bool is_enough = spare_count(s) > is_scheduled(s);
        shard_leave(s);
        if (is_enough) {
            return true;
        }
        struct generation *g = generation_create(s);
        if (g == NULL) {
            return false;
        }
        shard_enter(s);
        g->next = s->spare;
        s->spare = g;
        shard_leave(s);
    }
}

void shard_flush_settle(struct shard *s)
{
    struct generation *g = NULL;

    if (shard_is_idle(s)) {
        shard_flush_forget(s);
        return;
    }
    shard_enter(s);
    if (spare_count(s) > 1) {
        g = pop_spare(s);
    }
    shard_leave(s);
    generation_destroy(g);
}

void shard_flush_forget(struct shard *s)
{
    struct generation *spare = NULL;

    shard_enter(s);
    if (!is_scheduled(s)) {
        spare = s->spare;
        s->spare = NULL;
    }
    shard_leave(s);
    while (spare != NULL) {
        struct generation *next = spare->next;

        generation_destroy(spare);
        spare = next;
    }
}

uint64_t shard_flushes_over(const struct shard *s)
{
    shard_must_be_entered(s);
    return is_scheduled(s) ? s->flush_id - 1 : s->flush_done;
}

void shard_flush_follow(struct shard *s, msec_t at, uint64_t id)
{
    must(at == MSEC_NEVER || s->spare != NULL);
    s->flush_id = id;
    s->flush_done = at == MSEC_NEVER ? id : id - 1;
    atomic_store_explicit(&s->flush_at, at, memory_order_relaxed);
    shard_set_gate(s);
}

/* Put g in the place of one with a larger index, which is returned; NULL: there is none. */
static struct generation *exchange_larger(struct shard *s, struct generation *g)
{
    shard_enter(s);
    struct generation **at = &s->spare;
    while (*at != NULL && table_bytes(&(*at)->table) <= table_bytes(&g->table)) {
        at = &(*at)->next;
    }
    struct generation *larger = *at;
    if (larger != NULL) {
        g->next = larger->next;
        *at = g;
    }
    shard_leave(s);
    return larger;
}

void shard_flush_fit(struct shard *s)
{
    shard_enter(s);
    bool has_spare = s->spare != NULL;
    shard_leave(s);
    struct generation *g = has_spare ? generation_create(s) : NULL;
    while (g != NULL) {
        struct generation *larger = exchange_larger(s, g);

        if (larger == NULL) {
            generation_destroy(g);
            return;
        }
        generation_destroy(larger);
        g = generation_create(s);
    }
}

void shard_flush_fini(struct shard *s)
{
    prefix_marks_destroy(prefix_marks_of(s));
    atomic_store_explicit(&s->prefix_marks, NULL, memory_order_relaxed);
    while (s->spare != NULL) {
        generation_destroy(pop_spare(s));
    }
}

/* ---- carrying it out --------------------------------------------------------------------- */

/* Exchange everything that a new generation starts without. Context: in shard. */
static void swap_generation(struct shard *s, struct generation *g)
{
    struct wheel *wheel = s->wheel;

    shard_must_be_entered(s);
    table_swap(&s->table, &g->table);
    s->wheel = g->wheel;
    g->wheel = wheel;
    memory_flush(&s->memory);
    ctr_add(&s->counters, CTR_reclaimed, ctr_get(&s->counters, CTR_curr_items));
    ctr_add(&s->counters, CTR_flushed_items, ctr_get(&s->counters, CTR_curr_items));
    ctr_add(&s->counters, CTR_flushed_bytes, ctr_get(&s->counters, CTR_item_bytes));
    ctr_set(&s->counters, CTR_curr_items, 0);
    ctr_set(&s->counters, CTR_item_bytes, 0);
}

/* What was flushed, if anything, goes to *out. Context: in shard. */
static void carry_out(struct shard *s, msec_t now, struct generation **out,
                      struct table_retiree **unused)
{
    shard_must_be_entered(s);
    s->flush_done = s->flush_id;
    if (s->table.count != 0) {
        struct generation *g = pop_spare(s);

        wheel_start(g->wheel, now); /* it may have been made long ago */
        swap_generation(s, g);
        g->bytes = (int64_t)(table_bytes(&g->table) + wheel_bytes(g->wheel));
        budget_count(g->budget, BUDGET_RETIRED, g->bytes);
        *out = g;
        *unused = s->table_retiree; /* belongs to a resize that ends here */
        s->table_retiree = NULL;
        shard_note_work(s); /* the past is too large for what is left */
    } /* otherwise keep it: a burst of flushes must not cost a generation each */
    atomic_fetch_add_explicit(&s->flushes, 1, memory_order_release);
    shard_prefix_forget(s);
    atomic_store_explicit(&s->flush_at, MSEC_NEVER, memory_order_release);
    shard_set_gate(s);
    if (s->changes != NULL) {
        changes_put_flush(s->changes, CHANGE_FLUSH, s->flush_done, 0);
    }
    if (s->guard != NULL) {
        atomic_store_explicit(&s->guard->is_void, true, memory_order_release);
    }
}

void shard_flush(struct shard *s, msec_t now)
{
    struct generation *flushed = NULL;
    struct table_retiree *unused = NULL;

    shard_enter(s);
    if (now >= atomic_load_explicit(&s->flush_at, memory_order_relaxed)) {
        carry_out(s, now, &flushed, &unused);
    } /* otherwise another thread was faster: what is here now is newer than the flush */
    shard_leave(s);
    if (flushed != NULL) {
        shard_resize_forget(unused);
        reclaim_push(s->group->reclaimer, &flushed->retired);
        grace_ask(s->memory.arena.grace, GRACE_HURRY);
        if (shard_is_idle(s)) {
            shard_rest(s);
        }
    }
}

/*
 * A flush whose instant has come must be carried out first, or its items would come back. A
 * writer may have carried out ours already.
 */
void shard_flush_schedule(struct shard *s, msec_t at, uint64_t id)
{
    bool is_set = false;

    while (!is_set) {
        msec_t now = clock_now(s->group->clock);

        if (now >= atomic_load_explicit(&s->flush_at, memory_order_relaxed)) {
            shard_flush(s, now);
        }
        shard_enter(s);
        is_set = s->flush_done == id;
        if (!is_set &&
            (at <= now || now < atomic_load_explicit(&s->flush_at, memory_order_relaxed))) {
            s->flush_id = id;
            atomic_store_explicit(&s->flush_at, at <= now ? now : at, memory_order_release);
            shard_set_gate(s);
            is_set = true;
            if (at > now && s->changes != NULL) {
                changes_put_flush(s->changes, CHANGE_LATER, id, at);
            }
            shard_wake_home(s); /* it carries out what no writer does */
        }
        shard_leave(s);
    }
}

/* ---- of a prefix ------------------------------------------------------------------------- */

bool shard_prefix_prepare(struct shard *s)
{
    must_not_be_reading();
    shard_enter(s);
    struct prefix_marks *old = prefix_marks_of(s);
    uint64_t ranges = prefix_ranges(old, table_buckets(&s->table));
    shard_leave(s);
    if (ranges == 0) {
        return true;
    }
    struct prefix_marks *m = prefix_marks_create(s->group->budget, ranges);
    if (m == NULL) {
        return false;
    }
    shard_enter(s);
    if (old != NULL) {
        prefix_marks_copy(m, old);
    }
    /* The walk goes on where it is: what comes before it in the order still does. */
    atomic_store_explicit(&s->prefix_marks, m, memory_order_release);
    shard_leave(s);
    if (old != NULL) {
        reclaim_push(s->group->reclaimer, &old->retired);
    }
    return true;
}

void shard_prefix_begin(struct shard *s, uint64_t id)
{
    const struct prefixes *all = prefixes_of(s->group);
    uint64_t newest = shard_prefix_newest(s);

    shard_must_be_entered(s);
    if (newest >= id) {
        return;
    }
    for (uint32_t i = 0; i < all->count && s->changes != NULL; i++) {
        const struct prefix *p = &all->at[i];

        if (p->id > newest && p->id <= id) {
            changes_put_prefix(s->changes, p->id, span_of(p->text, p->len));
        }
    }
    must(prefix_marks_of(s) != NULL);
    atomic_store_explicit(&s->prefix_id, id, memory_order_release);
    if (s->table.count == 0) {
        shard_prefix_forget(s);
    }
    shard_set_gate(s);
}

void shard_prefix_end(struct shard *s)
{
    shard_enter(s);
    struct prefix_marks *m = prefix_marks_of(s);
    atomic_store_explicit(&s->prefix_marks, NULL, memory_order_release);
    shard_set_gate(s);
    shard_leave(s);
    if (m != NULL) {
        reclaim_push(s->group->reclaimer, &m->retired);
    }
}

/* Buckets that a slice looks at. */
#define SLICE_BUCKETS 64u

struct sweep {
    struct shard *shard;
    msec_t now;
};

/* In a small index a bucket has several ranges, and others than this may be clean. */
static void sweep_item(void *arg, handle_t h, uint64_t hash)
{
    const struct sweep *w = arg;
    const struct item *it = shard_item(w->shard, h);

    if (shard_hides_slowly(w->shard, hash, item_key(it), it->key_len)) {
        _Atomic handle_t *slot = table_slot_of(&w->shard->table, hash, h);

        must(slot != NULL);
        keyspace_flush(w->shard, hash, slot, w->now);
    }
}

/* Unlink what commands have flushed of this range. Returns the number of buckets. */
static unsigned clean_range(struct shard *s, struct prefix_marks *m, uint64_t range)
{
    struct sweep w = {s, clock_now(s->group->clock)};
    uint64_t cursor = range;
    uint64_t positions;
    unsigned buckets = 0;

    shard_must_be_entered(s);
    do {
        cursor = table_walk_ahead(&s->table, s->memory.arena.base, cursor, sweep_item, &w,
                                  &positions);
        buckets++;
    } while (cursor != 0 && (cursor & m->mask) == range);
    atomic_store_explicit(&m->range[range], shard_prefix_newest(s), memory_order_release);
    return buckets;
}

void shard_clean_for(struct shard *s, uint64_t hash, const char *key, size_t key_len)
{
    struct prefix_marks *m = prefix_marks_of(s);

    shard_must_be_entered(s);
    if (m != NULL && shard_hides_slowly(s, hash, key, key_len)) {
        (void)clean_range(s, m, prefix_range_of(m, hash));
    }
}

/* The next one in the order of table_walk(); 0: that was the last. */
static uint64_t range_after(uint64_t range, uint64_t mask)
{
    uint64_t bit = (mask + 1) >> 1;

    while ((range & bit) != 0) {
        range ^= bit;
        bit >>= 1;
    }
    return range | bit;
}

bool shard_prefix_slice(struct shard *s)
{
    struct prefix_marks *m = prefix_marks_of(s);
    unsigned buckets = 0;

    shard_must_be_entered(s);
    if (!shard_prefix_goes_on(s)) {
        return false;
    }
    if (s->prefix_goal == 0) {
        s->prefix_goal = shard_prefix_newest(s);
        s->prefix_next = 0;
    }
    while (buckets < SLICE_BUCKETS) {
        if (prefix_range_clean(s, m, s->prefix_next) < s->prefix_goal) {
            buckets += clean_range(s, m, s->prefix_next);
        } else {
            buckets++;
        }
        s->prefix_next = range_after(s->prefix_next, m->mask);
        if (s->prefix_next == 0) {
            atomic_store_explicit(&s->prefix_clean, s->prefix_goal, memory_order_release);
            s->prefix_goal = 0;
            /* The reclaimer's hook ends the flush, when no other shard has to be cleaned. */
            grace_ask(s->memory.arena.grace, GRACE_SOON);
            return shard_prefix_goes_on(s);
        }
    }
    return true;
}
