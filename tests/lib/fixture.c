/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine for unit tests: see fixture.h.
 */
#include "tests/lib/fixture.h"

#include <sched.h>

#include "lib/engine/flush.h"
#include "lib/engine/prefix.h"
#include "lib/reshard/reshard.h"
#include "lib/shard/expire.h"
#include "lib/shard/info.h"
#include "lib/shard/upkeep.h"
#include "lib/shard/value.h"
#include "lib/store/body.h"
#include "lib/store/touch.h"
#include "tests/common/threads.h"
#include "tests/common/verify.h"

/* The most grace periods that a request waits for; the daemon gives up after a second. */
#define WAITS_MAX 250

/* The part of the limit that arrays of index and wheel may exceed it by while they grow. */
#define ARRAYS_SHARE 16

#define SEED 20240229

struct engine_options fixture_options;

static struct fixture *running; /* the last one first */

void fixture_config(struct engine_config *cfg)
{
    engine_config_init(cfg);
    memcpy(&fixture_options, &engine_options_default, sizeof(fixture_options));
    cfg->options = &fixture_options;
    cfg->limit_bytes = FIXTURE_LIMIT;
    cfg->item_size_max = MIB + 1024;
    cfg->seed = SEED;
}

void fixture_policy(enum evict_choice choice)
{
    atomic_store_explicit(&fixture_options.maxmemory_policy, choice, memory_order_relaxed);
}

static void stop_all(void)
{
    while (running != NULL) {
        fixture_stop(running);
    }
}

void fixture_start_threaded(struct fixture *f, const struct engine_config *cfg)
{
    struct engine_config plain;

    fixture_stop(f);
    if (cfg == NULL) {
        fixture_config(&plain);
        cfg = &plain;
    }
    memset(f, 0, sizeof(*f));
    ck_assert_int_eq(engine_start(&f->engine, cfg), MF_OK);
    heat_user_init(&f->heat, &f->engine.heat, SEED);
    clock_freeze(&f->engine.clock);
    f->shard = f->engine.shards[0];
    f->has_thread = true;
    if (running == NULL) {
        rcu_register();
    }
    f->next = running;
    running = f;
    unit_at_end(stop_all);
}

void fixture_start(struct fixture *f, const struct engine_config *cfg)
{
    unsigned threads = atomic_load(&threads_started);

    fixture_start_threaded(f, cfg);
    reclaim_stop(f->engine.reclaimer);
    f->has_thread = false;
    atomic_store(&threads_started, threads); /* nothing ran beside that thread */
}

static void config_sized(struct engine_config *cfg, uint32_t shards, uint64_t limit_bytes)
{
    fixture_config(cfg);
    cfg->shards = shards;
    cfg->limit_bytes = limit_bytes;
}

void fixture_start_sized(struct fixture *f, uint32_t shards, uint64_t limit_bytes)
{
    struct engine_config cfg;

    config_sized(&cfg, shards, limit_bytes);
    fixture_start(f, &cfg);
}

void fixture_start_sized_threaded(struct fixture *f, uint32_t shards, uint64_t limit_bytes)
{
    struct engine_config cfg;

    config_sized(&cfg, shards, limit_bytes);
    fixture_start_threaded(f, &cfg);
}

void fixture_stop(struct fixture *f)
{
    struct fixture **at = &running;

    while (*at != f) {
        if (*at == NULL) {
            return;
        }
        at = &(*at)->next;
    }
    fixture_verify(f);
    *at = f->next;
    rcu_unregister(); /* an engine that stops may register its caller meanwhile */
    reshard_stop(&f->engine);
    engine_stop(&f->engine);
    if (running != NULL) {
        rcu_register();
    }
    ck_assert_int_eq(fixture_used(f), 0);
    ck_assert_int_eq(budget_part(&f->engine.budget, BUDGET_RETIRED), 0);
    mem_free(f->value);
}

/* ---- time -------------------------------------------------------------------------------- */

msec_t fixture_now(const struct fixture *f)
{
    return clock_now(&f->engine.clock);
}

/* Retired like any object, so that its release says that all before it were released. */
struct turn {
    struct retired retired;
    atomic_bool is_over;
};

static void end_turn(struct retired *r)
{
    struct turn *t = (struct turn *)r; /* its first member */

    atomic_store(&t->is_over, true);
}

void fixture_grace(struct fixture *f)
{
    struct turn turn = {.retired.fn = end_turn};

    if (!f->has_thread) {
        reclaim_run_once(f->engine.reclaimer);
        return;
    }
    reclaim_push(f->engine.reclaimer, &turn.retired);
    while (!atomic_load(&turn.is_over)) {
        grace_ask(reclaim_grace(f->engine.reclaimer), GRACE_HURRY);
        (void)sched_yield();
    }
}

/* What the daemon does while a connection waits for room. */
static void wait_for_room(struct fixture *f)
{
    fixture_grace(f);
    for (uint32_t i = 0; i < f->engine.shard_count; i++) {
        (void)shard_maintain(f->engine.shards[i], fixture_now(f), 0);
    }
}

/* Must the request be made again? Waits for room first; NO_MEMORY if there was none. */
static bool has_to_wait(struct fixture *f, enum outcome *out, unsigned *waits)
{
    if (*out != OUT_WAIT) {
        return false;
    }
    if ((*waits)++ == WAITS_MAX) {
        *out = OUT_NO_MEMORY;
        return false;
    }
    wait_for_room(f);
    return true;
}

static bool is_waiting(struct fixture *f)
{
    for (uint32_t i = 0; i < f->engine.shard_count; i++) {
        struct shard *s = f->engine.shards[i];

        shard_enter(s);
        bool waits = arena_waiting(&s->memory.arena) != 0 ||
                     s->memory.blocks.ring_head != s->memory.blocks.ring_tail ||
                     s->table_next != NULL || s->table.phase != TABLE_STEADY;
        shard_leave(s);
        if (waits) {
            return true;
        }
    }
    return false;
}

void fixture_settle(struct fixture *f)
{
    unsigned turns = 0;

    do {
        ck_assert_msg(turns++ < 10000, "something waits and waits");
        wait_for_room(f);
    } while (is_waiting(f));
}

void fixture_expire(struct fixture *f)
{
    const struct cycle_config cfg = {.effort = 10, .hz = 10, .slice_us = 1000000};

    for (uint32_t i = 0; i < f->engine.shard_count; i++) {
        struct shard *s = f->engine.shards[i];
        struct shard_info info;
        unsigned turns = 0;

        do {
            ck_assert_msg(turns++ < 1000000, "what is due does not go");
            (void)shard_expire_slice(s, CYCLE_SLOW, &cfg);
            shard_info(s, fixture_now(f), &info);
        } while (info.debt_keys != 0);
    }
}

/* ---- requests ---------------------------------------------------------------------------- */

static struct span key_of(const char *key)
{
    return span_str(key);
}

uint64_t fixture_hash(const struct fixture *f, const char *key)
{
    return engine_hash(&f->engine, key, strlen(key));
}

const char *fixture_key(const char *prefix, unsigned number)
{
    static char key[64];

    (void)snprintf(key, sizeof(key), "%s%u", prefix, number);
    return key;
}

/* Receive a value in portions; OUT_OK when it is whole. */
static enum outcome receive(struct fixture *f, const struct put *p, struct body **body)
{
    const char *from = p->ptr;
    unsigned waits = 0;

    rcu_begin();
    *body = body_begin(&f->engine, fixture_hash(f, p->key), p->len);
    rcu_end();
    ck_assert_ptr_nonnull(*body);
    while (body_missing(*body) > 0) {
        char *to;
        size_t n = 0;
        enum outcome out = body_room(*body, true, &to, &n);

        if (out == OUT_WAIT && waits++ < WAITS_MAX) {
            wait_for_room(f);
            continue;
        }
        if (out != OUT_OK) {
            body_abort(body);
            return OUT_NO_MEMORY;
        }
        ck_assert_uint_gt(n, 0);
        n = n < p->portion ? n : p->portion;
        memcpy(to, from, n);
        body_filled(*body, n);
        from += n;
        waits = 0;
    }
    return OUT_OK;
}

enum outcome fixture_store(struct fixture *f, struct put *p, uint64_t *cas)
{
    struct body *body = NULL;
    struct store st = {.mode = p->mode,
                       .hash = fixture_hash(f, p->key),
                       .key = key_of(p->key),
                       .flags = p->flags,
                       .deadline = p->deadline != 0 ? p->deadline : MSEC_NEVER,
                       .cas_expected = p->cas,
                       .compares_cas = p->compares_cas,
                       .takes_older = p->takes_older,
                       .vivifies = p->vivifies,
                       .cas_new = p->cas_new,
                       .may_wait = !p->is_hasty};
    enum outcome out;
    unsigned waits = 0;

    if (p->portion != 0) {
        out = receive(f, p, &body);
        if (out != OUT_OK) {
            return out;
        }
        st.body = &body;
    } else {
        st.value = span_of(p->ptr, p->len);
    }
    do {
        rcu_begin();
        out = engine_store(&f->engine, &st, fixture_now(f));
        rcu_end();
    } while (has_to_wait(f, &out, &waits));
    ck_assert(out == OUT_NO_MEMORY || body == NULL);
    body_abort(&body);
    if (cas != NULL) {
        *cas = st.cas;
    }
    p->value_len = st.value_len;
    return out;
}

void fixture_fill(char *out, size_t len, uint64_t seed)
{
    struct rng rng;

    rng_init(&rng, seed + 1);
    for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
        uint64_t r = rng_next(&rng);

        memcpy(out + i, &r, len - i < sizeof(r) ? len - i : sizeof(r));
    }
}

static uint64_t seed_of(const char *key, size_t len)
{
    return hash_key(SEED, key, strlen(key)) ^ len;
}

enum outcome fixture_try(struct fixture *f, const char *key, size_t len, msec_t deadline)
{
    char *value = mem_alloc(len + 1);
    struct put p = {.key = key, .ptr = value, .len = len, .deadline = deadline};

    ck_assert(value != NULL);
    fixture_fill(value, len, seed_of(key, len));
    /* A value this large is never received in one span. */
    p.portion = len > MIB ? MIB : 0;
    enum outcome out = fixture_store(f, &p, NULL);
    mem_free(value);
    if (out != OUT_STORED && out != OUT_NO_MEMORY) {
        ck_abort_msg("set says %d", (int)out);
    }
    return out;
}

void fixture_set_until(struct fixture *f, const char *key, size_t len, msec_t deadline)
{
    if (fixture_try(f, key, len, deadline) != OUT_STORED) {
        ck_abort_msg("no room for %s of %zu bytes", key, len);
    }
}

void fixture_set(struct fixture *f, const char *key, size_t len)
{
    fixture_set_until(f, key, len, MSEC_NEVER);
}

unsigned fixture_fill_up(struct fixture *f, const char *prefix, size_t len)
{
    unsigned holes = 0;
    unsigned n = 0;

    while (fixture_try(f, fixture_key(prefix, n), len, 0) == OUT_STORED) {
        n++;
        if (n % 4 == 0 && fixture_try(f, fixture_key("hole-", holes), len, 0) == OUT_STORED) {
            holes++;
        }
    }
    while (holes > 0) {
        ck_assert_int_eq(fixture_delete(f, fixture_key("hole-", --holes)), OUT_DELETED);
    }
    fixture_settle(f);
    return n;
}

void fixture_flush(struct fixture *f, msec_t at)
{
    ck_assert_int_eq(engine_flush(&f->engine, at, fixture_now(f), false), OUT_OK);
}

void fixture_flush_prefix(struct fixture *f, const char *prefix)
{
    ck_assert_int_eq(engine_flush_prefix(&f->engine, span_str(prefix)), OUT_OK);
}

enum outcome fixture_delete(struct fixture *f, const char *key)
{
    rcu_begin();
    enum outcome out =
        engine_delete(&f->engine, fixture_hash(f, key), key_of(key), 0, fixture_now(f));
    rcu_end();
    return out;
}

enum outcome fixture_arith(struct fixture *f, const char *key, bool is_decr, uint64_t delta,
                           uint64_t *number)
{
    struct arith a = {.delta = delta, .is_decr = is_decr};
    enum outcome out = fixture_arith_as(f, key, &a);

    if (number != NULL) {
        *number = a.number;
    }
    return out;
}

enum outcome fixture_arith_as(struct fixture *f, const char *key, struct arith *a)
{
    enum outcome out;
    unsigned waits = 0;

    a->hash = fixture_hash(f, key);
    a->key = key_of(key);
    a->may_wait = true;
    do {
        rcu_begin();
        out = engine_arith(&f->engine, a, fixture_now(f));
        rcu_end();
    } while (has_to_wait(f, &out, &waits));
    return out;
}

enum outcome fixture_erase(struct fixture *f, const char *key, const struct erase *d)
{
    struct erase e = *d;
    enum outcome out;
    unsigned waits = 0;

    e.hash = fixture_hash(f, key);
    e.key = key_of(key);
    e.may_wait = true;
    do {
        rcu_begin();
        out = engine_erase(&f->engine, &e, fixture_now(f));
        rcu_end();
    } while (has_to_wait(f, &out, &waits));
    return out;
}

enum outcome fixture_fetch(struct fixture *f, const char *key, struct fetch *get)
{
    enum outcome out;
    unsigned waits = 0;

    get->hash = fixture_hash(f, key);
    get->key = key_of(key);
    get->may_wait = true;
    do {
        rcu_begin();
        out = engine_fetch(&f->engine, get, fixture_now(f));
        if (out == OUT_HIT) {
            ck_assert_uint_eq(get->found.item->key_len, strlen(key));
            ck_assert_mem_eq(item_key(get->found.item), key, strlen(key));
            ck_assert(!get->is_created || item_len(get->found.item) == 0);
        } else {
            ck_assert_ptr_null(get->found.item);
        }
        rcu_end();
    } while (has_to_wait(f, &out, &waits));
    return out;
}

enum outcome fixture_touch(struct fixture *f, const char *key, msec_t deadline)
{
    struct found found;
    enum outcome out;
    unsigned waits = 0;

    do {
        rcu_begin();
        out = engine_touch(&f->engine, fixture_hash(f, key), key_of(key), deadline,
                           fixture_now(f), true, &found);
        rcu_end();
        ck_assert((found.item != NULL) == (out == OUT_TOUCHED));
    } while (has_to_wait(f, &out, &waits));
    return out;
}

struct got fixture_use(struct fixture *f, const char *key, unsigned times)
{
    struct got got = {0};

    rcu_begin();
    struct found found = engine_find(router_read(&f->engine.router), fixture_hash(f, key), key,
                                     strlen(key), fixture_now(f));
    got.is_hit = found.item != NULL;
    got.miss = found.miss;
    got.shard = found.shard;
    got.item = found.item;
    if (got.is_hit) {
        const struct item *it = found.item;
        handle_t h =
            (handle_t)(((uintptr_t)it - (uintptr_t)found.shard->memory.arena.base) / ITEM_UNIT);

        got.len = item_len(it);
        got.flags = item_flags(it);
        got.cas = item_cas(it);
        got.deadline = item_deadline(it);
        got.units = item_units(it);
        got.is_large = item_is_large(it);
        got.is_stale = item_is_stale(it);
        got.is_won = item_is_won(it);
        got.was_fetched = item_was_fetched(it);
        got.chain = (enum chain_id)found.shard->memory.arena
                        .segments[segment_of(&found.shard->memory.arena, h)]
                        .chain;
        if (f->value_room <= got.len) {
            mem_free(f->value);
            f->value_room = got.len + 1;
            f->value = mem_alloc(f->value_room);
            must(f->value != NULL);
        }
        value_copy(found.shard, it, f->value);
        got.value = f->value;
        if (times > 0) {
            heat_rules_fit(&f->engine.heat);
            heat_rules_clock(&f->engine.heat, (uint32_t)(fixture_now(f) / 1000));
        }
        for (unsigned i = 0; i < times; i++) {
            item_mark_used(it, (uint32_t)(fixture_now(f) / 1000), &f->heat);
        }
    }
    rcu_end();
    return got;
}

struct got fixture_get(struct fixture *f, const char *key)
{
    return fixture_use(f, key, 0);
}

bool fixture_has(struct fixture *f, const char *key)
{
    return fixture_get(f, key).is_hit;
}

void fixture_check(struct fixture *f, const char *key, size_t len)
{
    struct got got = fixture_get(f, key);
    char *want = mem_alloc(len + 1);

    ck_assert_msg(got.is_hit, "%s of %zu bytes is not there", key, len);
    ck_assert_uint_eq(got.len, len);
    ck_assert_ptr_nonnull(want);
    fixture_fill(want, len, seed_of(key, len));
    ck_assert_msg(memcmp(got.value, want, len) == 0, "%s of %zu bytes has others", key, len);
    mem_free(want);
}

/* ---- the whole --------------------------------------------------------------------------- */

int64_t fixture_used(const struct fixture *f)
{
    return atomic_load(&f->engine.budget.used_bytes);
}

uint32_t fixture_avail(struct fixture *f)
{
    shard_enter(f->shard);
    uint32_t n = arena_avail(&f->shard->memory.arena);
    shard_leave(f->shard);
    return n;
}

uint64_t fixture_counter(const struct fixture *f, enum counter id)
{
    uint64_t sum[CTR_COUNT] = {0};

    for (uint32_t i = 0; i < f->engine.shard_count; i++) {
        counters_sum(sum, shard_counters(f->engine.shards[i]));
    }
    counters_derive(sum);
    return sum[id];
}

void fixture_verify(struct fixture *f)
{
    int64_t limit = atomic_load(&f->engine.budget.limit_bytes);
    char why[256] = "";

    for (uint32_t i = 0; i < f->engine.shard_count; i++) {
        ck_assert_msg(shard_verify(f->engine.shards[i], why, sizeof(why)),
                      "shard %" PRIu32 ": %s", i, why);
    }
    ck_assert_int_ge(fixture_used(f), 0);
    ck_assert_msg(fixture_used(f) <=
                      limit + memory_overdraw(&f->shard->memory) + limit / ARRAYS_SHARE,
                  "%" PRId64 " bytes used of %" PRId64, fixture_used(f), limit);
}

void fixture_begin_move(struct fixture *f)
{
    ck_assert_int_eq(
        router_publish(&f->engine.router, 0, ROUTE_SLOTS / 2, route_prepared(0, 1)), MF_OK);
    rcu_wait();
    ck_assert_int_eq(router_publish(&f->engine.router, 0, ROUTE_SLOTS / 2, route_moving(0, 1)),
                     MF_OK);
    rcu_wait();
}

void fixture_cancel_move(struct fixture *f, const struct move_plan *plan, uint64_t items)
{
    const struct move_config cfg = {.plan = plan, .cpu_pct = 20};
    struct move_info info;
    struct move *m;

    ck_assert_int_eq(move_start(&m, &f->engine, &cfg), MF_OK);
    do {
        move_info(m, &info);
    } while (info.items < items && info.state <= MOVE_RUNS);
    move_cancel(m);
    ck_assert_int_eq(move_end(&m), MF_OK);
    ck_assert_ptr_null(m);
}
