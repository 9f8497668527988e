/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world of a stress test: threads, clock, flushes, limits, verification.
 */
#include "tests/stress/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/rcu.h"
#include "lib/engine/flush.h"
#include "lib/reshard/reshard.h"
#include "lib/shard/expire.h"
#include "lib/shard/flush.h"
#include "lib/shard/info.h"
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"
#include "tests/common/moves.h"
#include "tests/common/verify.h"
#include "tests/stress/follower.h"
#include "tests/stress/mirror.h"

/* A run consists of rounds with a full audit after each. */
#define ROUND_SECONDS 1.0

/* The promised bound: the limit, a twentieth of it, and this many bytes. */
#define OVER_SHARE 20
#define OVER_BYTES (16ULL << 20)

/*
 * Turns of worker 0 in a phase, in which the cache is filled several times. A wild one is
 * shorter: what it leaves dead has to be cleaned before anything is sifted. And the turns
 * between two flushes or changes of the limit.
 */
#define TURNS_CALM 3000
#define TURNS_WILD 1000
#define TURNS_REST 250

/* Pause between the mover's steps in calm phases. */
#define MOVER_DOZE_US 1000

/* Segments sifted before a run may end, where they are; and stores in which they must be. */
#define SIFTED_LEAST 20u
#define STORES_MOST  300000u

/* An engine that hangs must not make the tests hang. */
#define HANG_SECONDS 500u

void stress_fail(const struct world *w, uint32_t key, const char *fmt, ...)
{
    va_list ap;
    char name[KEY_BYTES];
    size_t len = content_key(key, name);

    flockfile(stderr);
    fprintf(stderr, "stress, %s: ", w->scenario->name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (key %.*s; again with MAYFLY_SEED=%" PRIu64 ")\n", (int)len, name,
            w->scenario->seed);
    funlockfile(stderr);
    abort();
}

double stress_seconds(void)
{
    const char *s = getenv("MAYFLY_STRESS_SECONDS");
    double v = s != NULL ? strtod(s, NULL) : 3;

    return v > 0 ? v : 3;
}

static void doze_us(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};

    (void)nanosleep(&t, NULL);
}

static double now_seconds(void)
{
    return (double)clock_mono_us() / 1e6;
}

/* ---- workers ----------------------------------------------------------------------------- */

void worker_duties(struct worker *w)
{
    if (w->turns % 16 == 0 && engine_try_grace(&w->world->engine)) {
        w->tally.graces++;
    }
    if (!w->is_home) {
        return;
    }
    struct engine *e = &w->world->engine;
    uint32_t shards = e->shard_count;
    msec_t now = clock_now(&e->clock);
    /* Further shards are visited in turns; their slices are shorter for it. */
    uint32_t visit =
        (uint32_t)(w->turns / 8 % ((shards - 1 - w->id) / w->world->worker_count + 1));
    struct shard *s = e->shards[w->id + visit * w->world->worker_count];

    if (shard_wants_work(s) || w->turns % 64 == 0) {
        for (int i = 0; i < 4 && shard_maintain(s, now, 250); i++) {
            now = clock_now(&e->clock);
        }
    }
    if (shard_wants_tidy(s) && w->turns % 16 == 0) {
        (void)shard_tidy(s, &w->expire, now);
    }
    if (w->is_cycling || now >= w->next_tick) {
        w->next_tick = now + 1000 / w->expire.hz;
        w->is_cycling = shard_expire_slice(s, CYCLE_SLOW, &w->expire);
        w->tally.slices++;
    } else if (shard_wants_fast(s, &w->expire, now)) {
        w->is_cycling = shard_expire_slice(s, CYCLE_FAST, &w->expire);
        w->tally.slices++;
    }
    if (w->turns % 256 == 0) {
        (void)shard_next_due(s);
        w->expire.effort = 1 + (uint32_t)rng_below(&w->rng, 10);
        w->expire.hz = rng_below(&w->rng, 2) != 0 ? 10 : 100;
    }
}

/* Counted in turns, so that as much is stored in a phase of a build that is much slower. */
static void set_phase(struct worker *w)
{
    if (w->id == 0 && w->world->scenario->value_bytes != 0) {
        atomic_store(&w->world->is_calm, w->turns % (TURNS_CALM + TURNS_WILD) < TURNS_CALM);
        if (w->turns % TURNS_REST == 0) {
            atomic_store(&w->world->has_rested, true);
        }
    }
}

static void worker_pause(struct worker *w)
{
    client_rest(w);
    (void)pthread_barrier_wait(&w->world->barrier);
    (void)pthread_barrier_wait(&w->world->barrier);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct world *world = w->world;

    rcu_register();
    while (!atomic_load(&world->is_stopping)) {
        if (atomic_load(&world->is_pausing)) {
            worker_pause(w);
        }
        if (w->is_home) {
            client_turn(w);
        } else {
            client_read_turn(w);
        }
        w->turns++;
        set_phase(w);
        worker_duties(w);
    }
    client_rest(w);
    rcu_unregister();
    return NULL;
}

/* A range of slots goes to one shard, or runs from all over go to several. */
static uint32_t draw_plan(struct world *world, struct rng *rng, struct move_plan *plan)
{
    uint32_t shards = world->engine.shard_count;
    uint32_t first = (uint32_t)rng_below(rng, ROUTE_SLOTS);
    uint32_t count = 1 + (uint32_t)rng_below(rng, rng_below(rng, 8) == 0 ? 1024 : 32);
    uint32_t run = 1 + (uint32_t)rng_below(rng, 64);
    uint32_t shift = (uint32_t)rng_below(rng, shards);
    uint32_t slots = 0;

    move_plan_init(plan);
    if (rng_below(rng, 16) == 0) {
        first = 0;
        count = ROUTE_SLOTS;
    }
    for (uint32_t i = first; i < ROUTE_SLOTS && i < first + count; i++) {
        plan->to[i] = (uint16_t)((count == ROUTE_SLOTS ? i / run + shift : shift) % shards);
        slots++;
    }
    return slots;
}

/* Begin to move, and cancel it somewhere. */
static void move_a_little(struct world *world, struct rng *rng, const struct move_config *cfg)
{
    struct move *m;
    enum mf_err err = move_start(&m, &world->engine, cfg);

    if (err == MF_OK) {
        doze_us((long)rng_below(rng, 3000));
        move_cancel(m);
        err = move_end(&m);
    }
    /* The mover may be busy with another number of shards. */
    if (err != MF_OK && err != MF_ENOMEM && err != MF_EBUSY) {
        stress_fail(world, 0, "move_start: %s", mf_strerror(err));
    }
}

/*
 * Carry out a plan; a move that was cancelled or found no room goes on, as nothing else can
 * move its slots meanwhile.
 */
static void move_by(struct world *world, struct rng *rng, const struct move_plan *plan)
{
    const struct move_config cfg = {.plan = plan, .cpu_pct = 10 + (uint32_t)rng_below(rng, 91)};
    enum mf_err err;

    if (rng_below(rng, 4) == 0) {
        move_a_little(world, rng, &cfg);
    }
    do {
        err = engine_move(&world->engine, &cfg, NULL);
    } while (err == MF_ENOMEM && !atomic_load(&world->is_stopping));
    if (err != MF_OK && err != MF_ENOMEM) {
        stress_fail(world, 0, "engine_move: %s", mf_strerror(err));
    }
}

/* Moves slots from shard to shard all the time. */
static void *mover_main(void *arg)
{
    struct world *world = arg;
    struct move_plan plan;
    struct rng rng;

    rng_init(&rng, world->scenario->seed ^ 0x510075);
    rcu_register();
    while (!atomic_load(&world->is_stopping)) {
        if (atomic_load(&world->mover_shall_pause)) {
            atomic_store(&world->mover_pauses, true);
            (void)pthread_barrier_wait(&world->barrier);
            (void)pthread_barrier_wait(&world->barrier);
        }
        if (world_spares(world, &rng)) {
            doze_us(MOVER_DOZE_US);
            continue;
        }
        uint32_t slots = draw_plan(world, &rng, &plan);
        move_by(world, &rng, &plan);
        atomic_fetch_add(&world->slots_moved, slots);
        if (world->scenario->mover_rest_us != 0) {
            doze_us((long)world->scenario->mover_rest_us);
        }
    }
    rcu_unregister();
    return NULL;
}

static void worker_init(struct world *world, struct worker *w, uint32_t id)
{
    const struct scenario *sc = world->scenario;

    *w = (struct worker){.world = world,
                         .id = id,
                         .is_home = id < world->worker_count,
                         .is_growing = true,
                         .expire = {.effort = 1, .hz = 10, .slice_us = 250}};
    rng_init(&w->rng, sc->seed * 31 + id + 1);
    heat_user_init(&w->heat, &world->engine.heat, id);
    w->scratch = mem_alloc(world->scratch_bytes);
    w->scratch2 = mem_alloc(world->scratch_bytes);
    for (int k = 0; k < KIND_COUNT; k++) {
        w->own[k] = mem_zalloc((sc->keys[k] + 1) * sizeof(struct own));
        w->seen[k] =
            mem_zalloc(((size_t)sc->keys[k] * world->worker_count + 1) * sizeof(uint64_t));
    }
    for (uint32_t i = 0; i < PINS_HELD; i++) {
        w->pins[i].copy = mem_alloc(sc->large_bytes_max);
    }
}

static void worker_fini(struct worker *w)
{
    mem_free(w->scratch);
    mem_free(w->scratch2);
    for (int k = 0; k < KIND_COUNT; k++) {
        mem_free(w->own[k]);
        mem_free(w->seen[k]);
    }
    for (uint32_t i = 0; i < PINS_HELD; i++) {
        mem_free(w->pins[i].copy);
    }
}

/* ---- checks ------------------------------------------------------------------------------ */

static void verify_shard(struct world *world, uint32_t i)
{
    char why[512] = "";

    if (!shard_verify(world->engine.shards[i], why, sizeof(why))) {
        stress_fail(world, 0, "shard %u does not verify: %s", i, why);
    }
}

/* The budget must be kept at every moment. */
static void check_budget(struct world *world)
{
    uint64_t limit = world->scenario->limit_bytes;
    uint64_t overdraw = limit / OVER_SHARE + OVER_BYTES;
    int64_t used = atomic_load(&world->engine.budget.used_bytes);

    if (used < 0 || (uint64_t)used > limit + overdraw) {
        stress_fail(world, 0, "%" PRId64 " bytes used, limit %" PRIu64 ", overdraw %" PRIu64,
                    used, limit, overdraw);
    }
}

static uint64_t sum_counter(const struct world *world, enum counter id)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < world->engine.shard_count; i++) {
        sum += ctr_get(shard_counters(world->engine.shards[i]), id);
    }
    return sum;
}

/* What all threads counted. They rest, or have ended. */
static struct tally sum_tallies(const struct world *world)
{
    struct tally sum = {0};

    for (uint32_t i = 0; i < world->thread_count; i++) {
        const uint64_t *from = (const uint64_t *)(const void *)&world->workers[i].tally;
        uint64_t *to = (uint64_t *)(void *)&sum;

        for (size_t k = 0; k < sizeof(sum) / sizeof(uint64_t); k++) {
            to[k] += from[k];
        }
    }
    return sum;
}

/* A slow machine takes longer, but not more stores. */
static bool has_sifted(const struct world *world)
{
    uint64_t sifted = sum_counter(world, CTR_cursor_sifted);
    uint64_t stores = sum_tallies(world).stores;

    if (world->scenario->value_bytes == 0 || sifted >= SIFTED_LEAST) {
        return true;
    }
    if (stores > STORES_MOST) {
        stress_fail(world, 0, "%" PRIu64 " stores, %" PRIu64 " segments sifted", stores,
                    sifted);
    }
    return false;
}

static void audit(struct world *world)
{
    msec_t now = clock_now(&world->engine.clock);
    uint64_t items = 0;

    /* The first thread that finds a due flush would carry it out while items are counted. */
    for (uint32_t i = 0; i < world->engine.shard_count; i++) {
        shard_flush(world->engine.shards[i], now);
    }
    if (world->mirror != NULL) {
        mirror_wait(world->mirror);
    }
    for (uint32_t i = 0; i < world->engine.shard_count; i++) {
        struct shard_info info;

        verify_shard(world, i);
        shard_info(world->engine.shards[i], now, &info);
        items += info.items;
    }
    if (items != sum_counter(world, CTR_curr_items)) {
        stress_fail(world, 0, "%" PRIu64 " items, curr_items %" PRIu64, items,
                    sum_counter(world, CTR_curr_items));
    }
    if (!world->scenario->evicts && sum_counter(world, CTR_evictions) != 0) {
        stress_fail(world, 0, "%" PRIu64 " evictions with room for everything",
                    sum_counter(world, CTR_evictions));
    }
    check_budget(world);
    if (world->mirror != NULL) {
        mirror_audit(world->mirror, now);
    }
    if (world->follower != NULL) {
        follower_audit(world->follower);
    }
    client_audit(world);
}

/* ---- the main thread --------------------------------------------------------------------- */

static void flush_now(struct world *world)
{
    atomic_fetch_add(&world->flush_begun, 1);
    msec_t now = clock_now(&world->engine.clock);
    engine_flush(&world->engine, now, now, false);
    atomic_fetch_add(&world->flush_done, 1);
}

static void flush_later(struct world *world, struct rng *rng)
{
    msec_t now = clock_now(&world->engine.clock);
    msec_t at = now + 1 + (msec_t)rng_below(rng, 500);

    atomic_store(&world->delayed.past_at, atomic_load(&world->delayed.maybe_at));
    atomic_store(&world->delayed.maybe_at, at);
    engine_flush(&world->engine, at, now, false);
    atomic_store(&world->delayed.sure_at, at);
}

/* Another number of shards, or no more moves for the last one. */
static void change_shards(struct world *world, struct rng *rng)
{
    uint32_t shards = 1 + (uint32_t)rng_below(rng, world->scenario->shards_max);
    enum mf_err err = MF_OK;

    if (rng_below(rng, 8) == 0) {
        engine_cancel_shards(&world->engine);
    } else if (rng_below(rng, 8) == 0) {
        engine_set_move_cpu_pct(&world->engine, 1 + (uint32_t)rng_below(rng, 100));
    } else {
        err = engine_set_shards(&world->engine, shards, 20 + (uint32_t)rng_below(rng, 81));
    }
    /* The limit may not bear that many, and the mover may have another plan. */
    if (err != MF_OK && err != MF_EINVAL && err != MF_EBUSY) {
        stress_fail(world, 0, "engine_set_shards: %s", mf_strerror(err));
    }
}

/* So that nothing moves while what there is is counted. */
static void rest_mover(struct world *world)
{
    struct reshard_info info;

    engine_cancel_shards(&world->engine);
    do {
        doze_us(500);
        engine_reshard_info(&world->engine, &info);
    } while (info.state != RESHARD_IDLE && info.state != RESHARD_CANCELLED);
    atomic_fetch_add(&world->slots_moved, info.slots_done);
}

static bool may_disturb(struct world *world, struct rng *rng)
{
    return world->scenario->value_bytes == 0 ||
           (!world_spares(world, rng) && atomic_exchange(&world->has_rested, false));
}

static void disturb(struct world *world, struct rng *rng)
{
    const struct scenario *sc = world->scenario;
    uint64_t dice = rng_below(rng, 400);

    clock_advance(&world->engine.clock, 1 + (msec_t)rng_below(rng, 8));
    if (dice == 0) {
        clock_advance(&world->engine.clock, 1000 * (msec_t)(1 + rng_below(rng, 600)));
    } else if (dice < 20) {
        verify_shard(world, (uint32_t)rng_below(rng, world->engine.shard_count));
    } else if (dice < 24) {
        engine_hold_sampler(&world->engine, dice % 2 == 0);
    } else if (dice < 28 && sc->flushes && may_disturb(world, rng)) {
        /*
         * A new flush replaces one that is still to come, so wait until that one is carried
         * out.
         */
        if (clock_now(&world->engine.clock) >= atomic_load(&world->delayed.maybe_at)) {
            if (dice < 26) {
                flush_now(world);
            } else {
                flush_later(world, rng);
            }
        }
    } else if (dice < 32 && sc->changes_limit && may_disturb(world, rng)) {
        uint64_t cut = rng_below(rng, 2) != 0 ? sc->limit_bytes : sc->limit_bytes / 4 * 3;
        (void)engine_set_limit(&world->engine, cut);
    }
    if (sc->shards_max != 0 && rng_below(rng, 50) == 0) {
        change_shards(world, rng);
    }
    check_budget(world);
}

/*
 * The mover first: its move may need room that only the workers can make, each in the shard
 * where it is at home.
 */
static void pause_all(struct world *world)
{
    atomic_store(&world->mover_shall_pause, true);
    while (world->scenario->moves_slots && !atomic_load(&world->mover_pauses)) {
        doze_us(500);
    }
    atomic_store(&world->is_pausing, true);
    (void)pthread_barrier_wait(&world->barrier);
    atomic_store(&world->is_pausing, false);
    atomic_store(&world->mover_shall_pause, false);
    atomic_store(&world->mover_pauses, false);
}

static void resume_all(struct world *world)
{
    (void)pthread_barrier_wait(&world->barrier);
}

static void run_rounds(struct world *world)
{
    const struct scenario *sc = world->scenario;
    double end = now_seconds() + sc->seconds;
    struct rng rng;

    rng_init(&rng, sc->seed ^ 0xd157);
    do {
        double round = sc->seconds < 2 * ROUND_SECONDS ? sc->seconds / 2 : ROUND_SECONDS;
        double round_end = now_seconds() + round;

        while (now_seconds() < round_end) {
            disturb(world, &rng);
            doze_us(500);
        }
        rest_mover(world);
        pause_all(world);
        audit(world);
        if (now_seconds() >= end && has_sifted(world)) {
            atomic_store(&world->is_stopping, true);
        }
        resume_all(world);
    } while (!atomic_load(&world->is_stopping));
}

/* After a last flush nothing may be left: no item, no debt, no byte waiting to be released. */
static void check_empty(struct world *world)
{
    struct engine *e = &world->engine;
    struct shard_info info;
    char why[256] = "";

    (void)engine_set_limit(e, world->scenario->limit_bytes);
    flush_now(world);
    for (int turn = 0; turn < 20000; turn++) {
        uint64_t left = 0;

        clock_advance(&e->clock, 10);
        for (uint32_t i = 0; i < e->shard_count; i++) {
            (void)shard_maintain(e->shards[i], clock_now(&e->clock), 250);
            shard_info(e->shards[i], clock_now(&e->clock), &info);
            left += info.items + info.item_bytes + info.volatile_keys + info.debt_keys +
                    info.large_segments +
                    ctr_get(shard_counters(e->shards[i]), CTR_lazyfree_pending_bytes);
            (void)snprintf(why, sizeof(why),
                           "shard %u: %" PRIu64 " items, %" PRIu64 " bytes, %" PRIu64
                           " volatile, %" PRIu64 " due, %" PRIu64 " large segments, %" PRIu64
                           " pending bytes",
                           i, info.items, info.item_bytes, info.volatile_keys, info.debt_keys,
                           info.large_segments,
                           ctr_get(shard_counters(e->shards[i]), CTR_lazyfree_pending_bytes));
            if (left != 0) {
                break;
            }
        }
        if (left == 0) {
            for (uint32_t i = 0; i < e->shard_count; i++) {
                verify_shard(world, i);
            }
            return;
        }
        doze_us(1000);
    }
    stress_fail(world, 0, "not empty long after a flush: %s", why);
}

static void report(const struct world *world)
{
    struct tally sum = sum_tallies(world);

    printf("# gets %" PRIu64 " (hits %" PRIu64 "), stores %" PRIu64 " (bodies %" PRIu64
           ", placed %" PRIu64 ", aborted %" PRIu64 ", waits %" PRIu64 ", no memory %" PRIu64
           "), deletes %" PRIu64 ", ariths %" PRIu64 ", touches %" PRIu64 ", erases %" PRIu64
           ", pins %" PRIu64 "; flushes %" PRIu64 ", of prefixes %" PRIu64 " with %" PRIu64
           " items, slots moved %" PRIu64 ", evictions %" PRIu64 ", segments cleaned %" PRIu64
           ", evicted %" PRIu64 ", sifted %" PRIu64 ", shards %" PRIu32 ", expired %" PRIu64
           " actively and %" PRIu64 " lazily, grace periods tried with success %" PRIu64
           "\nok - %s\n",
           sum.gets, sum.hits, sum.stores, sum.bodies, sum.placed, sum.aborts, sum.waits,
           sum.no_memory, sum.deletes, sum.ariths, sum.touches, sum.erases, sum.pins,
           atomic_load(&world->flush_done), atomic_load(&world->prefixes_flushed),
           sum_counter(world, CTR_flush_prefix_items), atomic_load(&world->slots_moved),
           sum_counter(world, CTR_evictions), sum_counter(world, CTR_cursor_cleaned),
           sum_counter(world, CTR_cursor_evicted), sum_counter(world, CTR_cursor_sifted),
           world->engine.shard_count, sum_counter(world, CTR_expired_active),
           sum_counter(world, CTR_expired_lazy), sum.graces, world->scenario->name);
}

static void start_threads(struct world *world)
{
    bool moves = world->scenario->moves_slots;

    if (pthread_barrier_init(&world->barrier, NULL,
                             world->thread_count + 1 + (moves ? 1 : 0)) != 0) {
        stress_fail(world, 0, "no barrier");
    }
    for (uint32_t i = 0; i < world->thread_count; i++) {
        if (pthread_create(&world->workers[i].thread, NULL, worker_main, &world->workers[i]) !=
            0) {
            stress_fail(world, 0, "no thread");
        }
    }
    if (moves && pthread_create(&world->mover, NULL, mover_main, world) != 0) {
        stress_fail(world, 0, "no thread");
    }
}

static void join_threads(struct world *world)
{
    for (uint32_t i = 0; i < world->thread_count; i++) {
        (void)pthread_join(world->workers[i].thread, NULL);
    }
    if (world->scenario->moves_slots) {
        (void)pthread_join(world->mover, NULL);
    }
    (void)pthread_barrier_destroy(&world->barrier);
}

static void world_start(struct world *world, const struct scenario *sc)
{
    struct engine_config cfg;

    engine_config_init(&cfg);
    cfg.ring_bytes = sc->ring_bytes;
    cfg.shards = sc->shards;
    cfg.limit_bytes = sc->limit_bytes;
    cfg.item_size_max = sc->item_size_max;
    cfg.items_hint = 0;
    cfg.seed = sc->seed;
    memcpy(&world->options, &engine_options_default, sizeof(world->options));
    atomic_store(&world->options.idle_trim_ms, 50);
    cfg.options = &world->options;
    world->scenario = sc;
    world->worker_count = sc->shards;
    world->thread_count = sc->shards + sc->readers;
    world->scratch_bytes = sc->item_size_max + 4096;
    enum mf_err err = engine_start(&world->engine, &cfg);
    if (err != MF_OK) {
        stress_fail(world, 0, "engine_start: %s", mf_strerror(err));
    }
    clock_freeze(&world->engine.clock);
    world->workers = mem_zalloc(world->thread_count * sizeof(*world->workers));
    for (uint32_t i = 0; i < world->thread_count; i++) {
        worker_init(world, &world->workers[i], i);
    }
}

void world_run(const struct scenario *sc)
{
    struct world *world = mem_zalloc(sizeof(*world));

    (void)alarm(HANG_SECONDS + (unsigned)(sc->seconds * 4));
    world_start(world, sc);
    rcu_register();
    client_setup(&world->workers[0]);
    if (sc->ring_bytes != 0) {
        world->mirror = mirror_start(world);
    }
    if (sc->follows) {
        world->follower = follower_start(world);
    }
    start_threads(world);
    run_rounds(world);
    join_threads(world);
    follower_stop(&world->follower);
    mirror_stop(&world->mirror);
    report(world);
    check_empty(world);
    rcu_unregister();
    for (uint32_t i = 0; i < world->thread_count; i++) {
        worker_fini(&world->workers[i]);
    }
    mem_free(world->workers);
    reshard_stop(&world->engine);
    engine_stop(&world->engine);
    mem_free(world);
    (void)alarm(0);
}
