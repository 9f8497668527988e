/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations with every option of each, compared with a plain model: a few keys, values
 * from empty to several segments, a moving clock, flushes of all and of prefixes, at once and
 * later, holds of what has expired, items that are cleaned or moved to another shard in
 * between, of which there are more or fewer, and walks over all of them. The model follows
 * memcached's answers.
 */

#include "lib/base/num.h"
#include "lib/engine/flush.h"
#include "lib/engine/prefix.h"
#include "lib/memory/blocks.h"
#include "lib/memory/tidy.h"
#include "lib/reshard/reshard.h"
#include "lib/shard/upkeep.h"
#include "lib/ship/walk.h"
#include "tests/lib/fixture.h"

#define KEYS      12
#define VALUE_MAX 120000
#define STEPS     8000

/* That may be flushed at a time. */
#define PREFIXES_MAX 4

/* Of 2 MiB each: two or more segments of the largest value, and room for its copy. */
#define SHARDS_MAX 8

static struct fixture f;
static struct rng rng;

static struct model {
    bool is_there;
    bool is_stale, is_won, was_fetched;
    bool may_lose_use; /* it was fetched while items moved: perhaps in the block that it left */
    uint32_t flags;
    uint64_t cas;
    msec_t deadline;
    size_t len;
    char value[VALUE_MAX];
} models[KEYS];

static char input[VALUE_MAX];
static unsigned flushes; /* of prefixes */

static bool flip(void)
{
    return rng_below(&rng, 2) != 0;
}

static msec_t pick_deadline(void)
{
    return flip()                     ? MSEC_NEVER
           : rng_below(&rng, 10) == 0 ? fixture_now(&f) - (msec_t)rng_below(&rng, 3)
                                      : fixture_now(&f) + 1 + (msec_t)rng_below(&rng, 200);
}

static size_t pick_len(void)
{
    static const size_t max[] = {4, 30, 200, 2000, 2100, 20000, 60000};

    return rng_below(&rng, max[rng_below(&rng, 7)] + 1);
}

static uint64_t pick_cas(const struct model *m)
{
    uint64_t near = m->is_there ? m->cas : 1000;

    return rng_below(&rng, 3) != 0 ? near : rng_below(&rng, 8) == 0 ? 0 : near + 1 - 2 * flip();
}

static uint64_t pick_cas_new(void)
{
    return rng_below(&rng, 6) != 0 ? 0 : 1 + rng_below(&rng, 1u << 20);
}

/* The engine reported a new cas: the one that was chosen, or one that it drew. */
static void take_cas(struct model *m, uint64_t cas, uint64_t chosen)
{
    ck_assert_uint_ne(cas, 0);
    if (chosen != 0) {
        ck_assert_uint_eq(cas, chosen);
    }
    m->cas = cas;
}

static void end_if_due(struct model *m)
{
    m->is_there = m->is_there && m->deadline > fixture_now(&f);
}

/* Key number k agrees with its model; a cas that no answer reported is taken from the item. */
static void compare(unsigned k, bool knows_cas)
{
    struct model *m = &models[k];
    char key[8];

    (void)snprintf(key, sizeof(key), "%u", k);
    end_if_due(m);
    struct got got = fixture_get(&f, key);
    ck_assert_int_eq(got.is_hit, m->is_there);
    if (!m->is_there) {
        return;
    }
    if (!knows_cas) {
        ck_assert_uint_ne(got.cas, m->cas);
        m->cas = got.cas;
    }
    ck_assert_uint_eq(got.cas, m->cas);
    ck_assert_uint_eq(got.flags, m->flags);
    ck_assert_int_eq(got.deadline, m->deadline);
    ck_assert_int_eq(got.is_stale, m->is_stale);
    ck_assert_int_eq(got.is_won, m->is_won);
    if (m->may_lose_use && !got.was_fetched) {
        m->was_fetched = false;
    }
    ck_assert_int_eq(got.was_fetched, m->was_fetched);
    ck_assert_uint_eq(got.len, m->len);
    ck_assert_mem_eq(got.value, m->value, m->len);
}

/* A new item without marks. */
static void begin(struct model *m, const void *value, size_t len, uint32_t flags,
                  msec_t deadline)
{
    m->is_there = true;
    m->is_stale = m->is_won = m->was_fetched = false;
    m->flags = flags;
    m->deadline = deadline;
    m->len = len;
    memcpy(m->value, value, len);
}

/* ---- one operation each ------------------------------------------------------------------ */

static enum outcome judge(const struct model *m, const struct put *p)
{
    bool differs = m->is_there && m->cas != p->cas;

    switch (p->mode) {
    case STORE_SET:
        return OUT_STORED;
    case STORE_ADD:
        return m->is_there ? OUT_NOT_STORED : OUT_STORED;
    case STORE_REPLACE:
        return m->is_there ? OUT_STORED : OUT_NOT_STORED;
    case STORE_CAS:
        if (!m->is_there) {
            return OUT_NOT_FOUND;
        }
        return differs && !(p->takes_older && p->cas != 0 && p->cas < m->cas) ? OUT_EXISTS
                                                                              : OUT_STORED;
    default:
        if (!m->is_there) {
            return p->vivifies ? OUT_STORED : OUT_NOT_STORED;
        }
        return p->compares_cas && differs ? OUT_EXISTS : OUT_STORED;
    }
}

static void model_store(struct model *m, const struct put *p)
{
    bool is_concat = p->mode == STORE_APPEND || p->mode == STORE_PREPEND;

    if (is_concat && m->is_there) {
        if (p->mode == STORE_APPEND) {
            memcpy(m->value + m->len, p->ptr, p->len);
        } else {
            memmove(m->value + p->len, m->value, m->len);
            memcpy(m->value, p->ptr, p->len);
        }
        m->len += p->len;
        m->is_stale = m->is_won = m->was_fetched = false;
    } else if (p->mode == STORE_CAS && m->cas != p->cas) {
        bool was_won = m->is_won;

        begin(m, p->ptr, p->len, p->flags, m->deadline);
        m->is_stale = true;
        m->is_won = was_won;
    } else {
        begin(m, p->ptr, p->len, p->flags, p->deadline);
    }
}

static void do_store(struct model *m, const char *key)
{
    struct put p = {.mode = (enum store_mode)rng_below(&rng, 6),
                    .key = key,
                    .ptr = input,
                    .len = pick_len(),
                    .flags = (uint32_t)rng_next(&rng),
                    .deadline = pick_deadline(),
                    .cas = pick_cas(m),
                    .compares_cas = flip(),
                    .takes_older = flip(),
                    .vivifies = flip(),
                    .cas_new = pick_cas_new()};
    uint64_t cas = 0;

    if (rng_below(&rng, 4) == 0) {
        p.len = num_put_u64(input, rng_next(&rng) >> rng_below(&rng, 64));
    } else {
        fixture_fill(input, p.len, rng_next(&rng));
    }
    if (m->len + p.len > VALUE_MAX && p.mode >= STORE_APPEND) {
        p.mode = STORE_SET;
    }
    if (p.len > ENGINE_SMALL_MAX && flip()) {
        p.portion = 1 + rng_below(&rng, p.len);
    }
    enum outcome want = judge(m, &p);
    ck_assert_int_eq(fixture_store(&f, &p, &cas), want);
    if (want == OUT_STORED) {
        model_store(m, &p);
        take_cas(m, cas, p.cas_new);
        ck_assert(m->deadline <= fixture_now(&f) || p.value_len == m->len);
    }
}

/* Returns whether the cas of the item is known. */
static bool do_erase(struct model *m, const char *key)
{
    struct erase d = {.compares_cas = flip(),
                      .marks_stale = flip(),
                      .drops_value = flip(),
                      .touches = flip(),
                      .flags = (uint32_t)rng_below(&rng, 3),
                      .cas_expected = pick_cas(m),
                      .cas_new = pick_cas_new(),
                      .deadline = pick_deadline()};
    enum outcome want = !m->is_there                                 ? OUT_NOT_FOUND
                        : d.compares_cas && m->cas != d.cas_expected ? OUT_EXISTS
                                                                     : OUT_DELETED;

    ck_assert_int_eq(fixture_erase(&f, key, &d), want);
    if (want != OUT_DELETED) {
        return true;
    }
    if (!d.marks_stale && !d.drops_value) {
        m->is_there = false;
        return true;
    }
    if (d.drops_value) {
        begin(m, "", 0, d.flags, MSEC_NEVER);
    }
    if (d.touches) {
        m->deadline = d.deadline;
    }
    m->is_stale = d.marks_stale;
    m->is_won = false;
    if (d.cas_new != 0) {
        m->cas = d.cas_new;
    }
    return d.cas_new != 0 || !d.marks_stale;
}

static void do_arith(struct model *m, const char *key)
{
    struct arith a = {.delta = rng_next(&rng) >> rng_below(&rng, 64),
                      .is_decr = flip(),
                      .compares_cas = rng_below(&rng, 4) == 0,
                      .vivifies = flip(),
                      .touches = flip(),
                      .cas_expected = pick_cas(m),
                      .initial = rng_next(&rng) >> rng_below(&rng, 64),
                      .cas_new = pick_cas_new(),
                      .vivify_deadline = pick_deadline(),
                      .deadline = pick_deadline()};
    enum outcome out = fixture_arith_as(&f, key, &a);
    uint64_t number = 0;
    size_t digits = 0;

    if (!m->is_there) {
        ck_assert_int_eq(out, a.vivifies ? OUT_NUMBER : OUT_NOT_FOUND);
        if (a.vivifies) {
            ck_assert(a.is_created && a.number == a.initial);
            begin(m, input, num_put_u64(input, a.initial), 0, a.vivify_deadline);
            ck_assert_int_eq(a.deadline_now, m->deadline);
            take_cas(m, a.cas, a.cas_new);
        }
        return;
    }
    while (digits < m->len && m->value[digits] >= '0' && m->value[digits] <= '9') {
        digits++;
    }
    if (a.compares_cas && a.cas_expected != m->cas && m->len != 0 &&
        m->len <= ENGINE_SMALL_MAX) {
        ck_assert_int_eq(out, OUT_EXISTS);
        return;
    }
    if (out == OUT_EXISTS) {
        ck_assert(a.compares_cas && a.cas_expected != m->cas); /* of a size that may be both */
        return;
    }
    if (out == OUT_NON_NUMERIC) {
        /*
         * Odd values are read leniently, which the model does not repeat; plain numbers must be
         * accepted.
         */
        ck_assert(m->len > ENGINE_SMALL_MAX || digits != m->len ||
                  num_u64(span_of(m->value, digits), &number) != MF_OK);
        return;
    }
    ck_assert_int_eq(out, OUT_NUMBER);
    ck_assert(!a.is_created);
    if (num_u64(span_of(m->value, digits), &number) == MF_OK) {
        number = !a.is_decr ? number + a.delta : a.delta > number ? 0 : number - a.delta;
        ck_assert_uint_eq(a.number, number);
    }
    digits = num_put_u64(input, a.number);
    if (digits > m->len) {
        begin(m, input, digits, m->flags, m->deadline);
    }
    memcpy(m->value, input, digits);
    memset(m->value + digits, ' ', m->len - digits);
    if (a.touches) {
        m->deadline = a.deadline;
    }
    ck_assert_int_eq(a.deadline_now, m->deadline);
    take_cas(m, a.cas, a.cas_new);
}

/* Returns whether the cas of the item is known. */
static bool do_fetch(struct model *m, const char *key)
{
    msec_t now = fixture_now(&f);
    struct fetch get = {.vivifies = flip(),
                        .recaches = flip(),
                        .touches = flip(),
                        .touches_first = flip(),
                        .vivify_deadline = pick_deadline(),
                        .recache_before = now + (msec_t)rng_below(&rng, 200),
                        .touch_deadline = pick_deadline(),
                        .cas_new = pick_cas_new()};
    msec_t seen = get.touches && get.touches_first ? get.touch_deadline : m->deadline;
    enum outcome out = fixture_fetch(&f, key, &get);

    if (!m->is_there) {
        ck_assert_int_eq(out, get.vivifies ? OUT_HIT : OUT_MISS);
        if (get.vivifies) {
            ck_assert(get.is_created && get.is_won && !get.was_won && !get.is_stale);
            begin(m, "", 0, 0, get.vivify_deadline);
            m->is_won = true;
            m->cas = get.cas_new;
        }
        return get.cas_new != 0 || !get.vivifies;
    }
    bool wins =
        !m->is_won &&
        (m->is_stale || (get.recaches && seen != MSEC_NEVER && seen < get.recache_before));
    ck_assert_int_eq(out, OUT_HIT);
    ck_assert(!get.is_created);
    ck_assert_int_eq(get.is_won, wins);
    ck_assert_int_eq(get.was_won, m->is_won);
    ck_assert_int_eq(get.is_stale, m->is_stale);
    ck_assert_int_eq(get.deadline_before, m->deadline);
    m->is_won = m->is_won || wins;
    if (get.touches) {
        m->deadline = get.touch_deadline;
    }
    return true;
}

static void do_touch(struct model *m, const char *key)
{
    msec_t deadline = pick_deadline();

    ck_assert_int_eq(fixture_touch(&f, key, deadline),
                     m->is_there ? OUT_TOUCHED : OUT_NOT_FOUND);
    m->deadline = deadline;
}

static void do_use(struct model *m, const char *key)
{
    struct reshard_info info;

    engine_reshard_info(&f.engine, &info);
    if (fixture_use(&f, key, 1).is_hit) {
        m->may_lose_use = info.state != RESHARD_IDLE && info.state != RESHARD_CANCELLED;
        m->was_fetched = true;
    }
}

static msec_t flush_at; /* of the model: MSEC_NEVER: none is to come */

static void flush_models(void)
{
    for (unsigned k = 0; k < KEYS; k++) {
        models[k].is_there = false;
    }
    flush_at = MSEC_NEVER;
}

static void advance(void)
{
    clock_advance(&f.engine.clock, (msec_t)rng_below(&rng, 40));
    if (fixture_now(&f) >= flush_at) {
        flush_models();
    }
}

/* At once, or later instead of at an earlier instant. */
static void flush(void)
{
    const msec_t at = fixture_now(&f) + (msec_t)(flip() ? 0 : rng_below(&rng, 100));
    enum outcome out;

    do {
        out = engine_flush(&f.engine, at, fixture_now(&f), true);
    } while (out == OUT_WAIT);
    ck_assert_int_eq(out, OUT_OK);
    if (at <= fixture_now(&f)) {
        flush_models();
    } else {
        flush_at = at;
    }
}

/* What has expired is kept for a while, or no longer; nobody finds it. */
static void hold(void)
{
    engine_hold_expired(&f.engine, flip() ? 0 : fixture_now(&f) + (msec_t)rng_below(&rng, 200));
}

/* ---- walks ------------------------------------------------------------------------------- */

static unsigned seen[KEYS];

static void on_item(void *arg, const struct ship_item *it)
{
    uint64_t k;

    ck_assert_int_eq(num_u64(it->key, &k), MF_OK);
    ck_assert_uint_lt(k, KEYS);
    seen[k]++;
    ck_assert(models[k].is_there);
    ck_assert_uint_eq(it->value_len, models[k].len);
    ck_assert_uint_eq(it->cas, models[k].cas);
    ck_assert_mem_eq(it->value.ptr, models[k].value, it->value.len);
}

static void on_part(void *arg, struct span part)
{
}

static void on_cut(void *arg)
{
}

static bool on_rest(void *arg)
{
    return true;
}

/* Every item is met, wherever it goes meanwhile. */
static void walk(void)
{
    static const struct ship_ops ops = {
        .item = on_item, .part = on_part, .cut = on_cut, .rest = on_rest};
    struct walk w;

    memset(seen, 0, sizeof(seen));
    ck_assert(walk_begin(&w, &f.engine, &ops, NULL, NULL));
    while (walk_slice(&w)) {
    }
    ck_assert_int_eq(w.state, WALK_DONE);
    walk_end(&w);
    for (unsigned k = 0; k < KEYS; k++) {
        end_if_due(&models[k]);
        ck_assert(seen[k] != 0 || !models[k].is_there);
    }
}

/* ---- what moves items -------------------------------------------------------------------- */

/* Of prefixes of one or two digits. As many as may be are in force when it has to wait. */
static void do_flush_prefix(void)
{
    char prefix[8];
    int len = snprintf(prefix, sizeof(prefix), "%u", (unsigned)rng_below(&rng, KEYS));

    if (engine_flush_prefix(&f.engine, span_of(prefix, (size_t)len)) == OUT_WAIT) {
        ck_assert_uint_ge(engine_prefixes(&f.engine), PREFIXES_MAX);
        return;
    }
    flushes++;
    for (unsigned k = 0; k < KEYS; k++) {
        char key[8];

        (void)snprintf(key, sizeof(key), "%u", k);
        models[k].is_there = models[k].is_there && strncmp(key, prefix, (size_t)len) != 0;
    }
}

/* Another number of shards; slots move while other operations go on. */
static void change_shards(void)
{
    const enum mf_err err = engine_set_shards(
        &f.engine, 1 + (uint32_t)rng_below(&rng, SHARDS_MAX), (uint32_t)rng_below(&rng, 101));

    ck_assert_int_eq(err, MF_OK);
    if (rng_below(&rng, 4) == 0) {
        engine_cancel_shards(&f.engine);
    }
}

/* Whatever moves items, or drops them. */
static void stir(void)
{
    switch (rng_below(&rng, 15)) {
    case 0:
        if (rng_below(&rng, 2) == 0) {
            change_shards();
            break;
        }
        ck_assert_int_eq(
            engine_move_slots(&f.engine, (uint32_t)rng_below(&rng, ROUTE_SLOTS / 2),
                              ROUTE_SLOTS / 2, (uint16_t)rng_below(&rng, f.engine.shard_count)),
            MF_OK);
        break;
    case 1:
        for (uint32_t i = 0; i < f.engine.shard_count; i++) {
            shard_enter(f.engine.shards[i]);
            blocks_ripen(&f.engine.shards[i]->memory, 1 << 20);
            (void)tidy_slice(&f.engine.shards[i]->memory, 1 << 20, fixture_now(&f));
            shard_leave(f.engine.shards[i]);
        }
        break;
    case 2:
        if (engine_hold_left(&f.engine, fixture_now(&f)) == 0) {
            fixture_expire(&f);
        }
        break;
    case 3:
        fixture_verify(&f);
        break;
    case 4:
        hold();
        break;
    case 5:
        if (rng_below(&rng, 3) == 0) {
            flush();
        }
        break;
    case 6:
        walk();
        break;
    case 7:
    case 8:
        do_flush_prefix();
        break;
    case 9:
    case 10:
        for (uint32_t i = 0; i < f.engine.shard_count; i++) {
            if (rng_below(&rng, 4) != 0) {
                (void)shard_maintain(f.engine.shards[i], fixture_now(&f), 0);
            }
        }
        break;
    default:
        advance();
        break;
    }
}

TEST_LOOP(the_engine_does_what_the_model_does, 8)
{
    struct engine_config cfg;
    char key[8];

    rng_init(&rng, rng_seed() + (uint64_t)_i);
    memset(models, 0, sizeof(models));
    flush_at = MSEC_NEVER;
    fixture_config(&cfg);
    cfg.shards = 2;
    cfg.limit_bytes = 16 * MIB;
    atomic_store(&fixture_options.flush_prefix_max, PREFIXES_MAX);
    flushes = 0;
    fixture_start_threaded(&f, &cfg);
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned k = (unsigned)rng_below(&rng, KEYS);
        struct model *m = &models[k];
        uint64_t dice = rng_below(&rng, 100);
        bool knows_cas = true;

        (void)snprintf(key, sizeof(key), "%u", k);
        end_if_due(m);
        if (dice < 35) {
            do_store(m, key);
        } else if (dice < 50) {
            knows_cas = do_erase(m, key);
        } else if (dice < 65) {
            do_arith(m, key);
        } else if (dice < 80) {
            knows_cas = do_fetch(m, key);
        } else if (dice < 87) {
            do_touch(m, key);
        } else if (dice < 95) {
            do_use(m, key);
        } else {
            stir();
        }
        compare(k, knows_cas);
    }
    for (unsigned k = 0; k < KEYS; k++) {
        compare(k, true);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    ck_assert_uint_gt(flushes, 10);
}
