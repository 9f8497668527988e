/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting and stopping the engine, and changes while it runs.
 */
#include "lib/engine/engine.h"

#include <string.h>

#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/engine/attach.h"
#include "lib/engine/prefix.h"
#include "lib/engine/share.h"
#include "lib/memory/blocks.h"
#include "lib/memory/chains.h"
#include "lib/memory/cursor.h"
#include "lib/memory/evict.h"
#include "lib/memory/room.h"
#include "lib/shard/expire.h"
#include "lib/shard/info.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"

#define MIB (1ull << 20)

/*
 * The mover and the feed enter shards, so they have the priority of the workers, which would
 * otherwise wait for them.
 */
static const struct thread_kind mover_kind = {.name = "mover", .run = standby_main};
static const struct thread_kind feeder_kind = {.name = "feed", .run = standby_main};

/* Bytes that memcached counts against -I in addition to key and value. */
#define ITEM_SIZE_EXTRA 59

void engine_config_init(struct engine_config *c)
{
    memset(c, 0, sizeof(*c));
    c->shards = 1;
    c->limit_bytes = 64 * MIB;
    c->item_size_max = MIB;
    c->options = &engine_options_default;
}

/*
 * Address space for the range of each shard. Where it is limited, half of what is left:
 * indexes, stacks and libraries need some as well.
 */
static uint64_t range_for(const struct engine_config *c)
{
    uint64_t left = mem_address_space_left();
    uint64_t range = arena_range_for(c->limit_bytes);

    return left == UINT64_MAX || range <= left / 2 / c->shards ? range : left / 2 / c->shards;
}

/*
 * While stores wait for room, two steps that lower the bound are at least STEP_PAUSE_MS apart,
 * so that the stores get some of the freed room. Where CPU time is short, a store may be
 * retried much later than it should be, but it waits at most STORE_WAITS_MS.
 */
#define STEP_PAUSE_MS  50
#define STORE_WAITS_MS 1000

static bool has_waiters(const struct engine *e)
{
    bool has_any = false;

    for (uint32_t i = 0; i < e->shard_count && !has_any; i++) {
        const struct memory *m = &e->shards[i]->memory;

        lock_take(m->lock);
        has_any = line_is_waited_in(m, STORE_WAITS_MS);
        lock_give(m->lock);
    }
    return has_any;
}

/*
 * A lowered limit: take the next step, unless the memory it releases is wanted by waiting
 * stores.
 */
static void lower_bound(struct engine *e)
{
    msec_t now = clock_now(&e->clock);

    if ((now - e->lowered_at >= STEP_PAUSE_MS || !has_waiters(e)) && budget_lower(&e->budget)) {
        e->lowered_at = now;
    }
}

/* Interval at which the reclaimer checks whether flushes of a prefix are complete. */
#define SETTLE_PAUSE_US 10000

static uint64_t reclaim_hook(void *arg)
{
    struct engine *e = arg;
    uint64_t again = RECLAIM_IDLE;

    if (budget_is_lowered(&e->budget)) {
        lower_bound(e);
    }
    for (uint32_t i = 0; i < e->shard_count; i++) {
        uint64_t want = trim_burst(&e->shards[i]->memory);

        usec_t used = clock_thread_us();

        /*
         * Not as slowly as the rest: the old index fills up meanwhile, and the budget counts
         * both.
         */
        if (shard_touch_burst(e->shards[i])) {
            uint64_t pause = (uint64_t)(clock_thread_us() - used);

            want = want < pause ? want : pause;
        }
        again = again < want ? again : want;
    }
    if (engine_prefix_settle(e) && again > SETTLE_PAUSE_US) {
        again = SETTLE_PAUSE_US;
    }
    return again;
}

/* Release everything that engine_start() made, in reverse order. What was not made is 0. */
static void release_all(struct engine *e)
{
    standby_stop(&e->feeder);
    standby_stop(&e->mover);
    if (e->reclaimer != NULL) {
        reclaim_stop(e->reclaimer);
    }
    if (atomic_load_explicit(&e->router.route, memory_order_relaxed) != NULL) {
        router_fini(&e->router);
    }
    for (uint32_t i = 0; e->shards != NULL && i < e->shard_capacity; i++) {
        shard_destroy(&e->shards[i]);
    }
    mem_free(e->shards);
    e->shards = NULL;
    atomic_store_explicit(&e->shard_count, 0, memory_order_relaxed);
    if (e->reclaimer != NULL) {
        reclaim_destroy(&e->reclaimer);
    }
}

/*
 * Fill in what the shards share. Ranges are committed in steps where committed memory counts,
 * and where core files would have all of it in them.
 */
static void fill_group(struct engine *e)
{
    const struct engine_config *c = &e->config;
    const struct attach *a = c->attach;
    const struct region *region = a != NULL ? a->region : NULL;
    const bool has_steps = c->is_in_cores || !mem_promises_freely();

    e->group = (struct shard_group){
        .shards = e->shards,
        .shape = arena_shape_for(c->limit_bytes / c->shards, region, has_steps),
        .seed = c->seed,
        .items_hint = c->items_hint,
        .range_bytes = a != NULL ? attach_range(a) : range_for(c),
        .regions = region,
        .is_in_cores = c->is_in_cores,
        .clock = &e->clock,
        .budget = &e->budget,
        .reclaimer = e->reclaimer,
        .options = c->options,
        .observer = c->observer,
        .observer_arg = c->observer_arg};
    atomic_init(&e->group.count, 0);
    atomic_init(&e->group.sharers, c->shards);
    atomic_init(&e->group.cas_next, 1);
    atomic_init(&e->group.due_limit, c->is_passive ? DUE_NOTHING : MSEC_NEVER);
}

static bool is_possible(const struct engine_config *c)
{
    return c->shards != 0 && c->item_size_max > ITEM_SIZE_EXTRA &&
           c->limit_bytes / c->shards >= SHARE_MIN_BYTES &&
           c->shards >= share_shards_least(c->limit_bytes);
}

/* A hold of an earlier process continues: items taken over are not dropped. */
static void hold_from_start(struct engine *e)
{
    int64_t left_ns;

    if (!__builtin_sub_overflow(e->config.hold_boot_ns, clock_boot_ns(), &left_ns) &&
        left_ns > 0) {
        engine_hold_expired(e, clock_now(&e->clock) + left_ns / 1000000);
    }
}

/* Start the shards with the items that an earlier process left, or empty. */
static enum mf_err start(struct engine *e, const struct engine_config *cfg, bool is_warm)
{
    enum mf_err err = MF_ENOMEM;

    memset(e, 0, sizeof(*e));
    memcpy(&e->config, cfg, sizeof(*cfg));
    if (is_warm) {
        clock_init_at(&e->clock, attach_clock_zero(cfg->attach));
        e->started = clock_now(&e->clock);
    } else {
        clock_init(&e->clock);
        e->started = CLOCK_FIRST_MS;
    }
    heat_rules_init(&e->heat, cfg->options);
    if (e->config.seed == 0) {
        e->config.seed = hash_random_seed();
    }
    e->item_bytes_max = cfg->item_size_max - ITEM_SIZE_EXTRA;
    pthread_mutex_init(&e->flush_lock, NULL);
    pthread_mutex_init(&e->streams_lock, NULL);
    moves_init(&e->moves);
    reshard_init(&e->reshard);
    budget_set_limit(&e->budget, (int64_t)cfg->limit_bytes);
    if (!is_warm && !is_possible(cfg)) { /* otherwise attach_plan() has checked it */
        return MF_EINVAL;
    }
    e->reclaimer = reclaim_create(reclaim_hook, e);
    e->shard_capacity = cfg->shards > ENGINE_SHARDS_MAX ? cfg->shards : ENGINE_SHARDS_MAX;
    e->shards = mem_zalloc(e->shard_capacity * sizeof(struct shard *));
    if (e->reclaimer == NULL || e->shards == NULL) {
        goto fail;
    }
    fill_group(e);
    if (cfg->has_past && !is_warm) {
        atomic_store_explicit(&e->group.cas_next, engine_cas_past(clock_unix_ms(&e->clock)),
                              memory_order_relaxed);
    }
    hold_from_start(e);
    for (uint32_t i = 0; i < cfg->shards; i++) {
        e->shards[i] = shard_create(&e->group, i);
        if (e->shards[i] == NULL) {
            goto fail;
        }
    }
    atomic_store_explicit(&e->group.count, cfg->shards, memory_order_release);
    atomic_store_explicit(&e->shard_count, cfg->shards, memory_order_release);
    if (is_warm && !attach_take_over(cfg->attach, e)) {
        goto fail;
    }
    e->plain_bytes_max = e->shards[0]->memory.fitting_units * ITEM_UNIT - sizeof(struct item) -
                         ITEM_TTL_BYTES - ITEM_WIDE_BYTES;
    if (e->plain_bytes_max > e->item_bytes_max) {
        e->plain_bytes_max = e->item_bytes_max;
    }
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_enter(e->shards[i]);
        room_grace_ended(
            &e->shards[i]->memory); /* what to keep free, until a period has ended */
        shard_leave(e->shards[i]);
    }
    err = router_init(&e->router, e->shards, e->shard_count, e->reclaimer);
    if (err == MF_OK) {
        err = reclaim_start(e->reclaimer);
    }
    if (err == MF_OK &&
        (!standby_start(&e->mover, &mover_kind) || !standby_start(&e->feeder, &feeder_kind))) {
        err = MF_ESYS;
    }
    if (err == MF_OK && is_warm) {
        err = attach_resume(cfg->attach, e);
    }
    if (err == MF_OK) {
        return MF_OK;
    }
fail:
    release_all(e);
    return err;
}

enum mf_err engine_start(struct engine *e, const struct engine_config *cfg)
{
    struct engine_config c = *cfg;

    must_be_main();
    if (c.attach == NULL || !is_possible(&c)) {
        c.attach = NULL;
        return start(e, &c, false);
    }
    if (attach_plan(c.attach, &c)) {
        if (start(e, &c, true) == MF_OK) {
            return MF_OK;
        }
        c = *cfg;
    }
    if (!attach_make(c.attach, &c, range_for(&c))) {
        return MF_ESYS;
    }
    enum mf_err err = start(e, &c, false);
    if (err != MF_OK) {
        c.attach->why[0] = '\0'; /* it says why the file is used empty, not why this failed */
    }
    return err;
}

void engine_stop(struct engine *e)
{
    must_be_main();
    engine_prefix_finish(e);
    if (e->config.attach != NULL) {
        reclaim_stop(e->reclaimer);
        attach_leave(e->config.attach, e);
    }
    release_all(e);
    pthread_mutex_destroy(&e->flush_lock);
    pthread_mutex_destroy(&e->streams_lock);
    reshard_fini(&e->reshard);
    moves_fini(&e->moves);
}

void engine_observe(struct engine *e, uint32_t kinds)
{
    atomic_store_explicit(&e->group.observed, e->config.observer != NULL ? kinds : 0,
                          memory_order_release);
}

void engine_wake_homes(struct engine *e, shard_wake_fn wake, void *arg)
{
    must_be_main();
    if (wake != NULL) {
        e->group.wake_arg = arg;
    }
    atomic_store_explicit(&e->group.wake_home, wake, memory_order_release);
    /*
     * It is called in the shard: threads that read the old value have left when this loop ends.
     */
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_enter(e->shards[i]);
        shard_leave(e->shards[i]);
    }
}

bool engine_try_grace(struct engine *e)
{
    struct grace *g = reclaim_grace(e->reclaimer);

    must_be_a_worker();
    must_not_be_reading();
    /* Memory that waits for a period has raised `need`, and only the reclaimer lowers it. */
    if (atomic_load_explicit(&g->need, memory_order_relaxed) == GRACE_IDLE) {
        return true;
    }
    return grace_try(g);
}

uint64_t engine_items_hint(const struct engine *e)
{
    uint64_t each = shard_items_hint(&e->group, e->config.limit_bytes);

    return each < e->config.items_hint / e->shard_count ? each * e->shard_count
                                                        : e->config.items_hint;
}

static uint32_t shards_to_be(const struct engine *e)
{
    return reshard_to_be(&e->reshard,
                         atomic_load_explicit(&e->group.sharers, memory_order_relaxed));
}

uint64_t engine_range(const struct engine *e)
{
    return shards_to_be(e) * e->shards[0]->memory.arena.map_bytes;
}

struct share_size engine_size(const struct engine *e)
{
    return (struct share_size){.shards = shards_to_be(e),
                               .shift = e->group.shape.shift,
                               .range_bytes = e->group.range_bytes};
}

void engine_shard_bounds(const struct engine *e, uint64_t limit_bytes, uint32_t *least,
                         uint32_t *most)
{
    const uint64_t range = e->shards[0]->memory.arena.map_bytes;
    const uint64_t needed = limit_bytes / range + (limit_bytes % range != 0);
    const uint32_t borne = share_shards_most(limit_bytes, e->group.shape.shift);

    *least = needed < UINT32_MAX ? (uint32_t)needed : UINT32_MAX;
    *most = borne < e->shard_capacity ? borne : e->shard_capacity;
}

bool engine_bears(const struct engine *e, uint32_t shards, uint64_t limit_bytes)
{
    uint32_t least;
    uint32_t most;

    engine_shard_bounds(e, limit_bytes, &least, &most);
    return shards >= least && shards <= most;
}

bool engine_set_limit(struct engine *e, uint64_t limit_bytes)
{
    pthread_mutex_lock(&e->flush_lock);
    bool is_borne = engine_bears(e, shards_to_be(e), limit_bytes);
    if (is_borne) {
        budget_set_limit(&e->budget, (int64_t)limit_bytes);
        for (uint32_t i = 0; i < e->shard_count; i++) {
            shard_fit_limit(e->shards[i]);
        }
    }
    pthread_mutex_unlock(&e->flush_lock);
    if (is_borne) {
        grace_ask(reclaim_grace(e->reclaimer), GRACE_SOON);
    }
    return is_borne;
}

void engine_options_changed(struct engine *e)
{
    heat_rules_fit(&e->heat);
    grace_ask(reclaim_grace(e->reclaimer), GRACE_HURRY); /* after a period the hook checks
                                                            everything */
}

/* Wake the home worker if it sleeps although memory can be freed. Context: outside a shard. */
static void wake_for_due(struct shard *s, msec_t due)
{
    shard_enter(s);
    if (atomic_load_explicit(&s->next_due, memory_order_relaxed) <= due) {
        shard_wake_home(s);
    }
    shard_leave(s);
}

void engine_follow_due(struct engine *e, msec_t due)
{
    struct shard_group *g = &e->group;
    msec_t was = atomic_load_explicit(&g->due_limit, memory_order_relaxed);

    if (due == was || (was != MSEC_NEVER && due < was && due != DUE_NOTHING)) {
        return;
    }
    atomic_store_explicit(&g->due_since, clock_now(&e->clock), memory_order_relaxed);
    atomic_store_explicit(&g->due_limit, due, memory_order_relaxed);
    for (uint32_t i = 0; i < e->shard_count; i++) {
        wake_for_due(e->shards[i], due);
    }
}

void engine_raise_cas(struct engine *e, uint64_t past)
{
    uint64_t drawn = engine_cas_past(clock_unix_ms(&e->clock));
    uint64_t next = atomic_load_explicit(&e->group.cas_next, memory_order_relaxed);

    past = past > drawn ? past : drawn;
    past = past < ITEM_CAS_DRAWN_MAX ? past : ITEM_CAS_DRAWN_MAX;
    while (next <= past &&
           !atomic_compare_exchange_weak_explicit(&e->group.cas_next, &next, past + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_enter(e->shards[i]);
        keyspace_draw_cas(e->shards[i]);
        shard_leave(e->shards[i]);
    }
}

void engine_hold_expired(struct engine *e, msec_t until)
{
    atomic_store_explicit(&e->group.hold_until, until, memory_order_relaxed);
}

msec_t engine_hold_left(const struct engine *e, msec_t now)
{
    msec_t until = atomic_load_explicit(&e->group.hold_until, memory_order_relaxed);

    return until > now ? until - now : 0;
}

void engine_hold_sampler(struct engine *e, bool held)
{
    pthread_mutex_lock(&e->flush_lock); /* a new shard copies it from another shard */
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_hold_sampler(e->shards[i], held);
    }
    pthread_mutex_unlock(&e->flush_lock);
}

/* ---- room from other shards -------------------------------------------------------------- */

/* Segments taken from another shard at once. */
#define STEAL_SEGMENTS 4

/*
 * Number of shards examined in one search for the fullest; the next search continues with those
 * after them. A store that finds none retries a millisecond later, so all shards have their
 * turn.
 */
#define STEAL_LOOKS 8u

/* How many segments a shard could lose. Context: in shard. */
static uint32_t spare_segments(const struct shard *s)
{
    shard_must_be_entered(s);
    return chains_segments(&s->memory) + s->memory.arena.values.segments +
           s->memory.arena.free_count + arena_waiting(&s->memory.arena);
}

/* How many segments a shard could give away without evicting anything. Context: in shard. */
static uint32_t unused_segments(const struct shard *s)
{
    uint32_t unused = s->memory.arena.free_count + arena_waiting(&s->memory.arena);
    uint32_t wanted = room_wanted(&s->memory);

    return unused > wanted ? unused - wanted : 0;
}

/*
 * Choose, among some sampled shards, the one with the most unused segments. If none has enough,
 * choose the one that could lose the most segments, if it has clearly more than the shard in
 * need; only then items are evicted. A shard whose lock is taken is skipped, so that this does
 * not wait for a lock.
 */
static struct shard *donor_for(struct engine *e, struct shard *needy, bool *may_evict)
{
    const uint32_t count = e->shard_count;
    uint32_t looks = count < STEAL_LOOKS ? count : STEAL_LOOKS;
    uint32_t next = atomic_fetch_add_explicit(&e->steal_next, looks, memory_order_relaxed);
    struct shard *donor = NULL;
    struct shard *best = NULL;
    uint32_t most_unused = STEAL_SEGMENTS;
    uint32_t most = 0;

    shard_enter(needy);
    uint32_t own = spare_segments(needy);
    shard_leave(needy);
    for (uint32_t i = 0; i < looks; i++) {
        struct shard *s = e->shards[(next + i) % count];

        if (s != needy && shard_try_enter(s)) {
            uint32_t spare = spare_segments(s);
            uint32_t unused = unused_segments(s);

            shard_leave(s);
            if (spare > most) {
                most = spare;
                best = s;
            }
            if (unused > most_unused) {
                most_unused = unused;
                donor = s;
            }
        }
    }
    *may_evict = donor == NULL;
    if (donor != NULL) {
        return donor;
    }
    return most > own + own / 4 + STEAL_SEGMENTS ? best : NULL;
}

/* Does a shard lack room in the budget, rather than in its range of addresses? */
static bool lacks_budget(struct shard *needy)
{
    shard_enter(needy);
    bool lacks = arena_unheld(&needy->memory.arena) != 0;
    shard_leave(needy);
    return lacks;
}

enum steal engine_steal(struct engine *e, struct shard *needy)
{
    bool may_evict = false;
    struct shard *s = e->shard_count > 1 ? donor_for(e, needy, &may_evict) : NULL;

    shard_must_not_be_entered(needy);
    if (s == NULL || !lacks_budget(needy)) {
        return STEAL_NOTHING;
    }
    if (budget_part(&e->budget, BUDGET_RETIRED) >> s->memory.arena.shift >= STEAL_SEGMENTS) {
        grace_ask(reclaim_grace(e->reclaimer), GRACE_HURRY);
        return STEAL_LATER; /* retired memory will be enough */
    }
    shard_enter(s);
    room_release(&s->memory);
    if (may_evict && unused_segments(s) <= STEAL_SEGMENTS) {
        cursor_slice_beyond(&s->memory, BUDGET_press_work, clock_now(&e->clock),
                            STEAL_SEGMENTS);
        room_release(&s->memory);
    }
    uint32_t spare = s->memory.arena.free_count > room_wanted(&s->memory)
                         ? s->memory.arena.free_count - room_wanted(&s->memory)
                         : 0;
    bool waits = arena_waiting(&s->memory.arena) != 0;
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

uint64_t engine_counter(const struct engine *e, enum counter id)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < e->shard_count; i++) {
        sum += ctr_get(shard_counters(e->shards[i]), id);
    }
    return sum;
}

uint64_t engine_changes(const struct engine *e)
{
    return engine_counter(e, CTR_total_items) + engine_counter(e, CTR_deleted_items);
}

/* Has the shard nothing to drop, and nothing dead? Context: in shard. */
static bool is_barren(const struct shard *s)
{
    return wheel_count(s->wheel) == 0 && room_coming(&s->memory) == 0 &&
           !blocks_has_deaths(&s->memory);
}

bool engine_is_barren(struct engine *e)
{
    bool is = evict_sorts_now(&e->shards[0]->memory.evict);

    for (uint32_t i = 0; is && i < e->shard_count; i++) {
        struct shard *s = e->shards[i];

        is = shard_try_enter(s);
        if (is) {
            is = is_barren(s);
            shard_leave(s);
        }
    }
    return is;
}
