/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine: long random runs of all operations compared with a plain model, in which every shard
 * is verified again and again; and the settings that engine_start() refuses.
 *
 * The model knows exactly which keys must be present. With evictions on, it demands a reason:
 * no more keys may be missing than evictions were counted, and none if there was room for all.
 */
#include "lib/engine/engine.h"

#include <ctype.h>

#include "lib/engine/flush.h"
#include "lib/engine/share.h"
#include "lib/shard/expire.h"
#include "lib/shard/info.h"
#include "lib/shard/upkeep.h"
#include "tests/common/verify.h"
#include "tests/lib/fixture.h"

#define KEYS_MAX 600

/* The number of cas values that one run can draw. */
#define CAS_MAX (64u << 16)

struct run {
    const char *name;
    uint32_t shards;
    size_t limit;
    bool evictions;
    bool has_room;  /* for everything: nothing may be evicted or refused */
    unsigned keys;  /* of KEYS_MAX */
    size_t len_max; /* longest value */
    unsigned ops;
    uint64_t kinds; /* what else happens in the run: see disturb() */
};

enum { KIND_FLUSH = 1, KIND_LIMIT = 2, KIND_LAZY = 4 };

static const struct run runs[] = {
    {"small values, room for all", 1, 16 * MIB, true, true, 600, 1500, 100000, 0},
    {"all sizes, room for all", 2, 64 * MIB, true, true, 150, 150000, 40000,
     KIND_FLUSH | KIND_LAZY},
    {"all sizes, evictions", 1, 4 * MIB, true, false, 300, 150000, 40000,
     KIND_FLUSH | KIND_LAZY},
    {"small values, evictions", 1, 4 * MIB, true, false, 600, 20000, 60000, KIND_LIMIT},
    {"all sizes, four shards, evictions", 4, 8 * MIB, true, false, 400, 120000, 40000,
     KIND_FLUSH | KIND_LIMIT | KIND_LAZY},
    {"no evictions", 1, 4 * MIB, false, false, 500, 30000, 50000, KIND_FLUSH | KIND_LAZY},
    {"no evictions, three shards", 3, 8 * MIB, false, false, 400, 100000, 40000, KIND_LIMIT},
};

#define RUNS (sizeof(runs) / sizeof(runs[0]))

struct entry {
    char key[32];
    bool is_present;
    char *value;
    size_t len;
    uint32_t flags;
    msec_t deadline;
    uint64_t cas;
};

struct model {
    struct fixture f;
    const struct run *run;
    struct rng rng;
    uint64_t seed;
    unsigned op;
    msec_t flush_at;
    uint64_t lost; /* keys found missing */
    uint64_t evictions_before;
    uint64_t *cas_seen; /* bit: drawn */
    char *scratch;
    struct entry entry[KEYS_MAX];
};

#define model_must(m, x, ...)                                                                  \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            model_failed((m), #x, __LINE__, __VA_ARGS__);                                      \
        }                                                                                      \
    } while (0)

static void model_failed(const struct model *m, const char *expr, int line, const char *what,
                         const struct entry *e)
{
    ck_abort_msg("%s: line %d: %s: %s, key %s (%zu bytes), operation %u; again with "
                 "MAYFLY_SEED=%" PRIu64,
                 m->run->name, line, expr, what, e != NULL ? e->key : "-",
                 e != NULL ? e->len : 0, m->op, m->seed);
}

static uint64_t evictions(const struct model *m)
{
    return fixture_counter(&m->f, CTR_evictions);
}

static void clear(struct entry *e)
{
    e->is_present = false;
    mem_free(e->value);
    e->value = NULL;
    e->len = 0;
}

static bool is_live(const struct model *m, const struct entry *e)
{
    return e->is_present && fixture_now(&m->f) < e->deadline;
}

/* The engine misses a live key: an eviction must account for it. */
static void lose(struct model *m, struct entry *e, const char *what)
{
    m->lost++;
    model_must(m, !m->run->has_room && m->run->evictions, what, e);
    model_must(m, m->lost <= evictions(m), what, e);
    clear(e);
}

static void see_cas(struct model *m, const struct entry *e, uint64_t cas)
{
    model_must(m, cas > 0 && cas < CAS_MAX, "cas in range", e);
    model_must(m, (m->cas_seen[cas / 64] >> (cas % 64) & 1) == 0, "cas is unique", e);
    model_must(m, cas > e->cas, "cas grows", e);
    m->cas_seen[cas / 64] |= 1ull << (cas % 64);
}

/* Compare one key; afterwards the model agrees with the engine. */
static struct got compare(struct model *m, struct entry *e)
{
    struct got got = fixture_use(&m->f, e->key, (unsigned)rng_below(&m->rng, 3));

    if (!is_live(m, e)) {
        model_must(m, !got.is_hit, "a key that must be gone", e);
        clear(e);
        return got;
    }
    if (!got.is_hit) {
        lose(m, e, "a key is missing");
        return got;
    }
    model_must(m, got.len == e->len, "length", e);
    model_must(m, memcmp(got.value, e->value, e->len) == 0, "value", e);
    model_must(m, got.flags == e->flags, "flags", e);
    model_must(m, got.cas == e->cas, "cas", e);
    model_must(m, got.deadline == e->deadline, "deadline", e);
    return got;
}

/* ---- operations -------------------------------------------------------------------------- */

static size_t pick_len(struct model *m)
{
    size_t small = ENGINE_SMALL_MAX;
    size_t max = m->run->len_max;

    switch (rng_below(&m->rng, 8)) {
    case 0:
        return rng_below(&m->rng, 4);
    case 1:
    case 2:
    case 3:
        return rng_below(&m->rng, max < 300 ? max : 300);
    case 4:
        return rng_below(&m->rng, max < small ? max : small);
    case 5:
        /* Around the largest block. */
        return max < small + 400 ? max : small - 100 + rng_below(&m->rng, 400);
    default:
        return rng_below(&m->rng, rng_below(&m->rng, 2) != 0 ? max : max / 8 + 1);
    }
}

static msec_t pick_deadline(struct model *m)
{
    msec_t now = fixture_now(&m->f);

    switch (rng_below(&m->rng, 8)) {
    case 0:
        return now + (msec_t)rng_below(&m->rng, 20) - 2;
    case 1:
        return now + 1 + (msec_t)rng_below(&m->rng, 2000);
    case 2:
        return now + 1000 * (msec_t)rng_below(&m->rng, 100000);
    default:
        return MSEC_NEVER;
    }
}

static enum outcome expected(const struct model *m, const struct entry *e, const struct put *p)
{
    bool live = is_live(m, e);

    switch (p->mode) {
    case STORE_SET:
        return OUT_STORED;
    case STORE_ADD:
        return live ? OUT_NOT_STORED : OUT_STORED;
    case STORE_CAS:
        return !live ? OUT_NOT_FOUND : p->cas == e->cas ? OUT_STORED : OUT_EXISTS;
    default:
        return live ? OUT_STORED : OUT_NOT_STORED;
    }
}

static void model_store(struct model *m, struct entry *e, const struct put *p, uint64_t cas)
{
    bool appends = p->mode == STORE_APPEND;
    bool joins = appends || p->mode == STORE_PREPEND;
    size_t old = joins ? e->len : 0;
    char *value = mem_alloc(old + p->len + 1);

    ck_assert_ptr_nonnull(value);
    if (old != 0) {
        memcpy(value + (appends ? 0 : p->len), e->value, old);
    }
    memcpy(value + (appends ? old : 0), p->ptr, p->len);
    mem_free(e->value);
    e->value = value;
    e->len = old + p->len;
    if (!joins) {
        e->flags = p->flags;
        e->deadline = p->deadline;
    }
    e->is_present = true;
    see_cas(m, e, cas);
    e->cas = cas;
}

static void fill_value(struct model *m, struct put *p)
{
    p->len = pick_len(m);
    p->ptr = m->scratch;
    fixture_fill(m->scratch, p->len, rng_next(&m->rng));
    if (rng_below(&m->rng, 4) == 0) {
        p->len = (size_t)snprintf(m->scratch, 64, "%s%" PRIu64,
                                  rng_below(&m->rng, 8) == 0 ? " " : "",
                                  rng_next(&m->rng) >> rng_below(&m->rng, 64));
    }
    if (p->len > ENGINE_SMALL_MAX && rng_below(&m->rng, 2) == 0) {
        p->portion = 1 + rng_below(&m->rng, 20000);
    }
}

static void do_store(struct model *m, struct entry *e)
{
    static const enum store_mode modes[] = {STORE_SET, STORE_SET,    STORE_SET,
                                            STORE_SET, STORE_ADD,    STORE_REPLACE,
                                            STORE_CAS, STORE_APPEND, STORE_PREPEND};
    struct put p = {.key = e->key};
    uint64_t cas = 0;

    p.mode = modes[rng_below(&m->rng, sizeof(modes) / sizeof(modes[0]))];
    p.flags = (uint32_t)rng_next(&m->rng);
    p.deadline = pick_deadline(m);
    p.cas = rng_below(&m->rng, 4) == 0 ? e->cas + 1 : e->cas;
    (void)compare(m, e);
    fill_value(m, &p);
    if ((p.mode == STORE_APPEND || p.mode == STORE_PREPEND) &&
        e->len + p.len > m->run->len_max) {
        p.mode = STORE_SET;
    }
    enum outcome want = expected(m, e, &p);
    enum outcome out = fixture_store(&m->f, &p, &cas);
    if (out == OUT_NO_MEMORY) {
        model_must(m, !m->run->has_room, "no memory", e);
        if (p.mode == STORE_SET) {
            (void)fixture_delete(&m->f, e->key); /* as the daemon does when a body found none */
            clear(e);
        } else if (is_live(m, e) && !fixture_has(&m->f, e->key)) {
            lose(m, e, "a store that failed");
        }
        return;
    }
    if (out != want) {
        lose(m, e, "outcome of a store");
        model_must(m, out == expected(m, e, &p), "outcome of a store to an evicted key", e);
    }
    if (out == OUT_STORED) {
        model_store(m, e, &p, cas);
    }
}

static void do_delete(struct model *m, struct entry *e)
{
    (void)compare(m, e);
    enum outcome want = is_live(m, e) ? OUT_DELETED : OUT_NOT_FOUND;
    model_must(m, fixture_delete(&m->f, e->key) == want, "delete", e);
    clear(e);
}

static void do_touch(struct model *m, struct entry *e)
{
    msec_t deadline = pick_deadline(m);

    (void)compare(m, e);
    enum outcome out = fixture_touch(&m->f, e->key, deadline);
    if (out == OUT_NO_MEMORY) {
        model_must(m, !m->run->has_room, "no memory", e);
        if (is_live(m, e) && !fixture_has(&m->f, e->key)) {
            lose(m, e, "a touch that failed");
        }
    } else if (is_live(m, e) && out == OUT_NOT_FOUND) {
        lose(m, e, "touch");
    } else {
        model_must(m, out == (is_live(m, e) ? OUT_TOUCHED : OUT_NOT_FOUND), "touch", e);
        e->deadline = deadline;
    }
}

/* A number by the rules of strtoull(), which memcached uses. */
static bool is_number(const struct entry *e, uint64_t *v)
{
    char text[64];
    char *end;
    const char *sign;

    if (e->len >= sizeof(text)) {
        /* The engine reads up to the first blank, so this must too. */
        size_t i = 0;

        while (i < sizeof(text) - 1 && !(i > 0 && isspace((unsigned char)e->value[i]))) {
            i++;
        }
        if (i == sizeof(text) - 1) {
            return false;
        }
    }
    memset(text, 0, sizeof(text));
    memcpy(text, e->value, e->len < sizeof(text) - 1 ? e->len : sizeof(text) - 1);
    errno = 0;
    *v = strtoull(text, &end, 10);
    for (sign = text; isspace((unsigned char)*sign); sign++) {
    }
    return end != text && errno == 0 && !(*sign == '-' && *v != 0) &&
           ((size_t)(end - text) == e->len || isspace((unsigned char)*end));
}

static void do_arith(struct model *m, struct entry *e)
{
    bool is_decr = rng_below(&m->rng, 2) != 0;
    uint64_t delta = rng_next(&m->rng) >> rng_below(&m->rng, 64);
    struct got got = compare(m, e);
    uint64_t number = 0;
    uint64_t v = 0;
    bool numeric = is_live(m, e) && !got.is_large && is_number(e, &v);
    enum outcome out = fixture_arith(&m->f, e->key, is_decr, delta, &number);

    if (out == OUT_NO_MEMORY) {
        model_must(m, !m->run->has_room, "no memory", e);
        if (!fixture_has(&m->f, e->key)) {
            lose(m, e, "an incr that failed");
        }
        return;
    }
    if (is_live(m, e) && out == OUT_NOT_FOUND) {
        lose(m, e, "incr");
        return;
    }
    model_must(m,
               out == (!is_live(m, e) ? OUT_NOT_FOUND
                       : numeric      ? OUT_NUMBER
                                      : OUT_NON_NUMERIC),
               "incr", e);
    if (out == OUT_NUMBER) {
        char digits[24];
        size_t len;

        v = !is_decr ? v + delta : delta > v ? 0 : v - delta;
        model_must(m, number == v, "the number", e);
        size_t n = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, v);
        len = n > e->len ? n : e->len;
        char *value = mem_alloc(len + 1);
        ck_assert_ptr_nonnull(value);
        memset(value, ' ', len);
        memcpy(value, digits, n);
        mem_free(e->value);
        e->value = value;
        e->len = len;
        got = fixture_get(&m->f, e->key);
        model_must(m, got.is_hit, "what was counted is there", e);
        see_cas(m, e, got.cas);
        e->cas = got.cas;
    }
}

/* ---- events ------------------------------------------------------------------------------ */

static void flush(struct model *m)
{
    for (unsigned i = 0; i < m->run->keys; i++) {
        clear(&m->entry[i]);
    }
    m->flush_at = MSEC_NEVER;
}

static void advance(struct model *m, msec_t ms)
{
    clock_advance(&m->f.engine.clock, ms);
    if (fixture_now(&m->f) >= m->flush_at) {
        flush(m);
    }
}

static void do_flush(struct model *m)
{
    msec_t now = fixture_now(&m->f);
    msec_t at = rng_below(&m->rng, 2) != 0 ? now : now + (msec_t)rng_below(&m->rng, 200);

    fixture_flush(&m->f, at);
    if (at <= now) {
        flush(m);
    } else {
        m->flush_at = at;
    }
}

/* Everything that does not come from a request. */
static void disturb(struct model *m)
{
    struct engine *e = &m->f.engine;
    struct shard *s = e->shards[rng_below(&m->rng, e->shard_count)];
    const struct cycle_config cfg = {
        .effort = 1 + (uint32_t)rng_below(&m->rng, 10), .hz = 10, .slice_us = 250};

    switch (rng_below(&m->rng, 10)) {
    case 0:
    case 1:
    case 2:
        fixture_grace(&m->f);
        break;
    case 3:
        (void)shard_maintain(s, fixture_now(&m->f), 100);
        break;
    case 4:
        (void)shard_expire_slice(s, rng_below(&m->rng, 2) != 0 ? CYCLE_SLOW : CYCLE_FAST, &cfg);
        break;
    case 5:
    case 6:
        advance(m, 1 + (msec_t)rng_below(&m->rng, 30));
        break;
    case 7:
        if (rng_below(&m->rng, 10) == 0) {
            advance(m, 1000 * (msec_t)rng_below(&m->rng, 5000));
        }
        break;
    case 8:
        if ((m->run->kinds & KIND_FLUSH) != 0 && rng_below(&m->rng, 12) == 0) {
            do_flush(m);
        } else if ((m->run->kinds & KIND_LIMIT) != 0 && rng_below(&m->rng, 4) == 0) {
            bool is_cut = rng_below(&m->rng, 3) == 0;

            /*
             * The limit is never lowered for long, because the budget is compared with the full
             * one.
             */
            ck_assert(engine_set_limit(e, is_cut ? m->run->limit / 4 * 3 : m->run->limit));
        }
        break;
    default:
        if ((m->run->kinds & KIND_LAZY) != 0) {
            bool lazy = rng_below(&m->rng, 2) != 0;

            atomic_store(&fixture_options.lazyfree_overwrite, lazy);
            atomic_store(&fixture_options.lazyfree_delete, lazy);
            atomic_store(&fixture_options.lazyfree_flush, lazy);
            atomic_store(&fixture_options.lazyfree_evict, lazy);
            atomic_store(&fixture_options.lazyfree_expire, lazy);
            atomic_store(&fixture_options.lazyfree_backlog_bytes, rng_below(&m->rng, 2) * MIB);
        }
        break;
    }
}

static void verify_all(struct model *m)
{
    char why[256] = "";
    uint64_t present = 0;
    struct shard_info info;
    uint64_t items = 0;

    for (uint32_t i = 0; i < m->f.engine.shard_count; i++) {
        /* The home worker or the next writer carries out a flush that is due. */
        (void)shard_maintain(m->f.engine.shards[i], fixture_now(&m->f), 0);
        model_must(m, shard_verify(m->f.engine.shards[i], why, sizeof(why)), why, NULL);
    }
    for (unsigned i = 0; i < m->run->keys; i++) {
        (void)compare(m, &m->entry[i]);
        present += m->entry[i].is_present;
    }
    for (uint32_t i = 0; i < m->f.engine.shard_count; i++) {
        shard_info(m->f.engine.shards[i], fixture_now(&m->f), &info);
        items += info.items;
    }
    /* A get removes a due item, and every key was read. */
    model_must(m, items == present || m->flush_at != MSEC_NEVER, "count of items", NULL);
}

static void check_room(struct model *m)
{
    int64_t limit = (int64_t)m->run->limit;

    model_must(m, fixture_used(&m->f) >= 0, "budget below nothing", NULL);
    model_must(m,
               fixture_used(&m->f) <= limit + limit / 16 + memory_overdraw(&m->f.shard->memory),
               "budget", NULL);
}

static void step(struct model *m)
{
    struct entry *e = &m->entry[rng_below(&m->rng, m->run->keys)];

    switch (rng_below(&m->rng, 16)) {
    case 0:
        do_delete(m, e);
        break;
    case 1:
    case 2:
        do_touch(m, e);
        break;
    case 3:
    case 4:
        do_arith(m, e);
        break;
    case 5:
    case 6:
    case 7:
        (void)compare(m, e);
        break;
    case 8:
    case 9:
    case 10:
        disturb(m);
        break;
    default:
        do_store(m, e);
        break;
    }
    check_room(m);
}

static struct model *model_start(const struct run *run)
{
    struct model *m = mem_zalloc(sizeof(*m));
    struct engine_config cfg;

    ck_assert_ptr_nonnull(m);
    fixture_config(&cfg);
    cfg.shards = run->shards;
    cfg.limit_bytes = run->limit;
    if (!run->evictions) {
        fixture_policy(CHOICE_NOEVICTION);
    }
    atomic_store(&fixture_options.idle_trim_ms, 50);
    m->run = run;
    m->seed = rng_seed();
    m->flush_at = MSEC_NEVER;
    rng_init(&m->rng, m->seed);
    m->scratch = mem_alloc(run->len_max + 64);
    m->cas_seen = mem_zalloc(CAS_MAX / 8);
    ck_assert(m->scratch != NULL && m->cas_seen != NULL);
    for (unsigned i = 0; i < run->keys; i++) {
        (void)snprintf(m->entry[i].key, sizeof(m->entry[i].key), "key-%u-%.*s", i,
                       (int)(i % 12), "xxxxxxxxxxxx");
    }
    fixture_start(&m->f, &cfg);
    return m;
}

static void model_stop(struct model *m)
{
    flush(m);
    fixture_flush(&m->f, fixture_now(&m->f));
    fixture_settle(&m->f);
    verify_all(m);
    model_must(m, fixture_counter(&m->f, CTR_lazyfree_pending_bytes) == 0, "backlog", NULL);
    model_must(m, fixture_counter(&m->f, CTR_lazyfree_pending_objects) == 0, "backlog", NULL);
    model_must(m, fixture_counter(&m->f, CTR_pinned_dead_bytes) == 0, "pins", NULL);
    fixture_stop(&m->f);
    mem_free(m->scratch);
    mem_free(m->cas_seen);
    mem_free(m);
}

TEST_LOOP_ALONE(it_does_as_the_model_does, RUNS)
{
    struct model *m = model_start(&runs[_i]);

    for (m->op = 0; m->op < m->run->ops; m->op++) {
        step(m);
        if (m->op % 1000 == 999) {
            verify_all(m);
        }
    }
    if (m->run->has_room) {
        ck_assert_uint_eq(evictions(m), 0);
    }
    ck_assert(m->run->evictions || evictions(m) == 0);
    model_stop(m);
}

/* ---- start and limits -------------------------------------------------------------------- */

TEST_ALONE(too_little_is_refused)
{
    struct engine_config cfg;
    struct engine e;

    fixture_config(&cfg);
    cfg.shards = 4;
    cfg.limit_bytes = 4 * MIB - 1;
    ck_assert_int_eq(engine_start(&e, &cfg), MF_EINVAL);
    cfg.shards = 0;
    ck_assert_int_eq(engine_start(&e, &cfg), MF_EINVAL);
}

#define GIB (1024 * (uint64_t)MIB)

TEST_ALONE(shards_suit_threads_and_limit)
{
    static const struct {
        uint32_t threads;
        uint64_t limit;
        uint32_t shards;
    } rows[] = {{1, MIB, 1},          {4, 2 * MIB, 1},   {4, 3 * MIB, 1},      {4, 8 * MIB, 2},
                {64, 8 * MIB, 2},     {64, 16 * MIB, 4}, {64, 32 * MIB, 8},    {4, 64 * MIB, 4},
                {65, 64 * MIB, 16},   {4, 16 * MIB, 4},  {4, 16 * MIB - 1, 3}, {1, 32 * GIB, 1},
                {1, 32 * GIB + 1, 2}, {4, 256 * GIB, 8}, {64, 256 * GIB, 64}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_uint_eq(share_shards_for(rows[i].threads, rows[i].limit), rows[i].shards);
    }
}

TEST_ALONE(what_the_ranges_cannot_hold_needs_more_shards)
{
    struct engine_config cfg;
    struct engine e;

    ck_assert_uint_eq(share_shards_least(MIB), 1);
    ck_assert_uint_eq(share_shards_least(32768 * MIB), 1);
    ck_assert_uint_eq(share_shards_least(32768 * MIB + 1), 2);
    ck_assert_uint_eq(share_shards_least(1048576 * MIB), 32);
    fixture_config(&cfg);
    cfg.shards = 2;
    cfg.limit_bytes = 65537 * MIB;
    ck_assert_int_eq(engine_start(&e, &cfg), MF_EINVAL);
}

TEST_ALONE(the_limit_rises_as_far_as_the_ranges)
{
    static struct fixture f;

    fixture_start_sized(&f, 2, FIXTURE_LIMIT);
    ck_assert_uint_eq(engine_range(&f.engine), 2 * 4096 * MIB);
    ck_assert(engine_set_limit(&f.engine, engine_range(&f.engine)));
    ck_assert(!engine_set_limit(&f.engine, engine_range(&f.engine) + 1));
    ck_assert(engine_set_limit(&f.engine, 8 * MIB));
}

TEST_ALONE(the_least_works)
{
    static struct fixture f;
    char key[16];

    fixture_start_sized(&f, 4, 4 * MIB);
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(key, sizeof(key), "%d", i);
        fixture_set(&f, key, (size_t)i * 3);
        fixture_check(&f, key, (size_t)i * 3);
        fixture_verify(&f);
    }
}

/*
 * A deadline is brought nearer within its bucket, which is `width` milliseconds wide: from
 * after the time at which the sampler would wake, to before it. The sampler would wake at the
 * next bucket, a quarter of a bucket early.
 */
static void bring_nearer(msec_t width, bool by_touch)
{
    struct fixture f;

    fixture_start(&f, NULL);
    msec_t begin = (fixture_now(&f) / width + 2) * width;
    fixture_set_until(&f, "next", 10, begin + width + width / 8);
    fixture_set_until(&f, "late", 10, begin + width - width / 16);
    ck_assert_int_le(shard_next_due(f.shard), begin + width - width / 16);
    if (by_touch) {
        ck_assert_int_eq(fixture_touch(&f, "late", begin + width / 16), OUT_TOUCHED);
    } else {
        fixture_set_until(&f, "late", 10, begin + width / 16);
    }
    ck_assert_int_le(shard_next_due(f.shard), begin + width / 16);
    fixture_verify(&f);
    fixture_stop(&f);
}

/* A thread that sleeps until the next deadline does not sleep longer. */
TEST_ALONE(a_deadline_that_comes_nearer_is_waited_for)
{
    for (unsigned bits = 0; bits < 30; bits++) {
        bring_nearer((msec_t)1 << bits, true);
        bring_nearer((msec_t)1 << bits, false);
    }
}

/* A flush of an earlier process that has come takes the items, and not a newer flush. */
TEST_ALONE(an_old_flush_leaves_a_newer_one_to_come)
{
    static struct fixture f;

    fixture_start_sized(&f, 2, FIXTURE_LIMIT);
    msec_t newer = fixture_now(&f) + 1000;
    fixture_set(&f, "a", 10);
    fixture_flush(&f, newer);
    ck_assert_int_eq(engine_flush_old(&f.engine, fixture_now(&f), MSEC_NEVER, fixture_now(&f)),
                     OUT_OK);
    ck_assert(!fixture_has(&f, "a"));
    ck_assert_int_eq(engine_flush_to_come(&f.engine), newer);
    /* One that is to come does not replace it. */
    ck_assert_int_eq(engine_flush_old(&f.engine, newer - 500, MSEC_NEVER, fixture_now(&f)),
                     OUT_OK);
    ck_assert_int_eq(engine_flush_to_come(&f.engine), newer);
}

/* What was stored after it must stay, and the shards are prepared for it once only. */
TEST(a_newer_flush_that_has_come_by_then_is_not_repeated)
{
    static struct fixture f;

    fixture_start(&f, NULL);
    fixture_set(&f, "a", 10);
    fixture_flush(&f, fixture_now(&f) + 1000);
    clock_advance(&f.engine.clock, 1000);
    ck_assert_int_eq(engine_flush_old(&f.engine, fixture_now(&f), MSEC_NEVER, fixture_now(&f)),
                     OUT_OK);
    ck_assert(!fixture_has(&f, "a"));
    ck_assert_uint_eq(atomic_load(&f.shard->flushes), 2);
    ck_assert_int_eq(engine_flush_to_come(&f.engine), MSEC_NEVER);
}

TEST(nothing_is_left_when_it_stops_with_work_to_do)
{
    static struct fixture f;
    char key[16];

    fixture_start_sized_threaded(&f, 2, FIXTURE_LIMIT);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(key, sizeof(key), "%d", i % 100);
        fixture_set(&f, key, (size_t)(i % 7) * 20000);
    }
    fixture_flush(&f, fixture_now(&f));
    fixture_set(&f, "after", 100000);
}
