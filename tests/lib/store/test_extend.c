/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extending large values: what is copied and what is not, readers of what was there before, and
 * random additions compared with a plain model.
 */
#include "lib/store/store_common.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include "lib/base/check.h"
#include "lib/memory/chunks.h"
#include "lib/shard/value.h"
#include "lib/store/body.h"
#include "tests/lib/fixture.h"

#define SEGMENT    (32 * KIB)
#define LEN        (WHOLE * SEGMENT + 5000) /* the rest is in pieces */
#define WHOLE      9
#define LONGER_MAX (2 * MIB)
#define FILL_KEYS  100000 /* more than the indexes have room for */

static struct fixture f;
static char input[LONGER_MAX];
static char model[2 * LONGER_MAX];
static size_t model_len;

static void start(void)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.limit_bytes = 15 * MIB;
    cfg.item_size_max = LONGER_MAX;
    fixture_start(&f, &cfg);
    ck_assert_uint_eq(segment_bytes(&f.shard->memory.arena), SEGMENT);
}

TEST_FIXTURE(start, NULL)

static uint64_t put_bytes(void)
{
    shard_enter(f.shard);
    uint64_t bytes = f.shard->memory.blocks.put_bytes;
    shard_leave(f.shard);
    return bytes;
}

static void check_model(void)
{
    struct got got = fixture_get(&f, "k");

    ck_assert(got.is_hit);
    ck_assert_uint_eq(got.len, model_len);
    ck_assert_int_eq(memcmp(got.value, model, model_len), 0);
}

static void set_model(size_t len, size_t portion)
{
    struct put p = {
        .mode = STORE_SET, .key = "k", .ptr = input, .len = len, .portion = portion};

    fixture_fill(input, len, len);
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    memcpy(model, input, len);
    model_len = len;
}

static void add_to_model(enum store_mode mode, size_t len, size_t portion)
{
    struct put p = {.mode = mode, .key = "k", .ptr = input, .len = len, .portion = portion};

    fixture_fill(input, len, model_len + len);
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    ck_assert_uint_eq(p.value_len, model_len + len);
    if (mode == STORE_APPEND) {
        memcpy(model + model_len, input, len);
    } else {
        memmove(model + len, model, model_len);
        memcpy(model, input, len);
    }
    model_len += len;
}

static const enum store_mode modes[] = {STORE_APPEND, STORE_PREPEND};

/* ---- what is copied ---------------------------------------------------------------------- */

/* The first addition fills a segment of its own, those after it only a block for the head. */
TEST_LOOP_ALONE(a_short_addition_costs_what_it_is_long, 2)
{
    set_model(LEN, 0);
    add_to_model(modes[_i], 100, 0);
    uint64_t before = put_bytes();
    for (unsigned i = 0; i < 50; i++) {
        add_to_model(modes[_i], 100, 0);
    }
    ck_assert_uint_le(put_bytes() - before, 50 * 200);
    ck_assert_uint_eq(fixture_counter(&f, CTR_values_extended), 51);
    check_model();
    fixture_settle(&f);
    check_model();
}

/* What came as a body stays where it is, but for its end and that of the value. */
TEST_LOOP_ALONE(a_long_addition_is_joined, 4)
{
    const enum store_mode mode = modes[_i % 2];

    set_model(_i / 2 == 0 ? LEN : 1000, 0);
    uint64_t before = put_bytes();
    add_to_model(mode, LEN, 9999);
    ck_assert_uint_le(put_bytes() - before, LEN + 2 * SEGMENT + 200);
    check_model();
    before = put_bytes();
    add_to_model(mode, LEN, 9999);
    ck_assert_uint_le(put_bytes() - before, LEN + 2 * SEGMENT + 200);
    check_model();
    fixture_settle(&f);
    check_model();
    ck_assert_uint_eq(fixture_counter(&f, CTR_values_extended), _i / 2 == 0 ? 2 : 1);
}

/* ---- readers ----------------------------------------------------------------------------- */

struct reader {
    struct value_walk walk;
    struct value_pin pin;
    char *copy;
    size_t len;
};

/* Context: read side. */
static void walk_begin(struct value_walk *w, const char *key)
{
    struct found found = engine_find(router_read(&f.engine.router), fixture_hash(&f, key), key,
                                     strlen(key), fixture_now(&f));

    value_walk_begin(w, found.shard, found.item);
}

static void read_begin(struct reader *r)
{
    r->len = model_len;
    r->copy = mem_alloc(r->len);
    must(r->copy != NULL);
    memcpy(r->copy, model, r->len);
    rcu_begin();
    walk_begin(&r->walk, "k");
    r->pin = value_pin(&r->walk);
    rcu_end();
}

static bool may_pin(const char *key)
{
    struct value_walk w;

    rcu_begin();
    walk_begin(&w, key);
    bool may = value_may_pin(&w);
    rcu_end();
    return may;
}

static void read_end(struct reader *r)
{
    size_t done = 0;

    while (value_walk_has_segments(&r->walk)) {
        struct span part;

        ck_assert(value_walk_next(&r->walk, &part));
        ck_assert_int_eq(memcmp(part.ptr, r->copy + done, part.len), 0);
        done += part.len;
    }
    ck_assert_uint_eq(done + value_walk_tail(&r->walk), r->len);
    value_unpin(&r->pin);
    mem_free(r->copy);
}

/* Slow readers see the value as it was when they began, and hold it when it dies. */
TEST_ALONE(a_reader_keeps_what_it_began_with)
{
    struct reader readers[12];

    set_model(LEN, 0);
    for (unsigned i = 0; i < 12; i++) {
        read_begin(&readers[i]);
        add_to_model(modes[i % 2], i % 3 == 0 ? 40000 : 3000, 0);
    }
    add_to_model(STORE_PREPEND, LEN, 7777);
    ck_assert_int_gt(readers[11].pin.bytes, (int64_t)(WHOLE * SEGMENT));
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_PINNED), readers[11].pin.bytes);
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_DELETED);
    fixture_grace(&f);
    ck_assert_uint_ge(fixture_counter(&f, CTR_pinned_dead_bytes), model_len);
    for (unsigned i = 0; i < 40; i++) {
        fixture_set(&f, fixture_key("x", i % 2), LEN + i * 1000);
        fixture_grace(&f);
    }
    for (unsigned i = 0; i < 12; i++) {
        read_end(&readers[i]);
    }
    fixture_settle(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_pinned_dead_bytes), 0);
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_PINNED), 0);
}

/* Growth of a pinned value counts for the next reader that pins it. */
TEST_LOOP_ALONE(growth_of_a_pinned_value_counts, 2)
{
    const int64_t most = 15 * MIB / 8 * 3;
    struct reader first, second, other;

    fixture_set(&f, "o", WHOLE * SEGMENT);
    set_model(LEN, 0);
    read_begin(&first);
    do {
        ck_assert(may_pin("k")); /* no other is pinned */
        add_to_model(modes[_i], LONGER_MAX / 4, 7777);
    } while (model_len < LONGER_MAX * 3 / 4);
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_PINNED), (int64_t)(WHOLE * SEGMENT));

    /* So much beside it that the three eighths hold what was pinned, and not what it is now. */
    budget_count(&f.engine.budget, BUDGET_PINNED, most - MIB);
    ck_assert(may_pin("o"));
    ck_assert(!may_pin("k"));
    budget_count(&f.engine.budget, BUDGET_PINNED, MIB - most);

    read_begin(&second);
    ck_assert_int_ge(second.pin.bytes, (int64_t)model_len);
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_PINNED), second.pin.bytes);
    budget_count(&f.engine.budget, BUDGET_PINNED, most);
    ck_assert(may_pin("k")); /* this length counts already */
    budget_count(&f.engine.budget, BUDGET_PINNED, -most);
    read_begin(&other);
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_PINNED), second.pin.bytes);
    read_end(&second);
    read_end(&other);
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_PINNED), second.pin.bytes);
    read_end(&first);
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_PINNED), 0);
    fixture_settle(&f);
}

/* ---- conditions and room ----------------------------------------------------------------- */

TEST_LOOP_ALONE(an_addition_that_compares_is_refused_if_the_item_changed, 4)
{
    struct put p = {.mode = modes[_i % 2],
                    .key = "k",
                    .ptr = input,
                    .len = _i / 2 == 0 ? 100 : 300 * KIB,
                    .portion = _i / 2 == 0 ? 0 : 5000,
                    .compares_cas = true};
    uint64_t cas;

    set_model(LEN, 0);
    cas = fixture_get(&f, "k").cas;
    p.cas = cas + 1;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_EXISTS);
    check_model();
    p.cas = cas;
    ck_assert_int_eq(fixture_store(&f, &p, &cas), OUT_STORED);
    ck_assert_uint_eq(fixture_get(&f, "k").cas, cas);
    ck_assert_uint_eq(fixture_get(&f, "k").len, LEN + p.len);
    fixture_settle(&f);
}

TEST_LOOP_ALONE(the_longest_value_is_that_of_a_set, 4)
{
    const size_t lens[] = {50, 300 * KIB};
    const size_t len = lens[_i / 2];
    struct put p = {.mode = modes[_i % 2],
                    .key = "k",
                    .ptr = input,
                    .len = len + 1,
                    .portion = _i / 2 == 0 ? 0 : 5000};

    set_model(f.engine.item_bytes_max - 1 - len, 0);
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_TOO_LARGE);
    check_model();
    add_to_model(modes[_i % 2], len, p.portion);
    check_model();
    fixture_settle(&f);
}

/* Where nothing may be evicted, a value for which there is no room stays what it was. */
TEST_LOOP_ALONE(a_value_stays_when_there_is_no_room_for_more, 2)
{
    struct engine_config cfg;
    struct put p = {.mode = modes[_i], .key = "k", .ptr = input, .len = 100 * KIB};
    unsigned n = 0;

    fixture_config(&cfg);
    fixture_policy(CHOICE_NOEVICTION);
    fixture_start(&f, &cfg);
    set_model(LEN, 0);
    while (fixture_try(&f, fixture_key("x", n), 100 * KIB, 0) == OUT_STORED) {
        n++;
    }
    ck_assert_uint_gt(n, 10);
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NO_MEMORY);
    check_model();
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("x", i)), OUT_DELETED);
    }
    fixture_settle(&f);
    add_to_model(modes[_i], 100 * KIB, 0);
    check_model();
    fixture_settle(&f);
}

static enum outcome store_once(struct store *st)
{
    st->hash = engine_hash(&f.engine, st->key.ptr, st->key.len);
    rcu_begin();
    enum outcome out = engine_store(&f.engine, st, fixture_now(&f));
    rcu_end();
    return out;
}

/* The slot of "k" is on its way to the other of two shards, which is returned. */
static uint16_t begin_move(void)
{
    const uint64_t hash = fixture_hash(&f, "k");
    const uint32_t slot = route_slot_number(hash);

    rcu_begin();
    const uint16_t from = route_slot(router_read(&f.engine.router), hash)->put;
    rcu_end();
    const uint16_t to = 1 - from;
    ck_assert_int_eq(router_publish(&f.engine.router, slot, 1, route_prepared(from, to)),
                     MF_OK);
    ck_assert_int_eq(router_publish(&f.engine.router, slot, 1, route_moving(from, to)), MF_OK);
    return to;
}

/* Nothing maintains the indexes here: in the end none has room for a further key. */
static void fill_indexes(void)
{
    struct store st = {.mode = STORE_SET, .deadline = MSEC_NEVER, .may_wait = true};

    st.value = span_of(input, 1);
    for (unsigned n = 0; n < FILL_KEYS; n++) {
        st.key = span_str(fixture_key("x", n));
        (void)store_once(&st);
    }
    ck_assert_int_eq(store_once(&st), OUT_WAIT);
}

/*
 * A long addition that is joined cannot be linked at the last moment, as the shard that the key
 * moves to has no room in its index; it comes again.
 */
TEST_LOOP_ALONE(a_joint_that_has_to_wait_is_undone, 2)
{
    struct store st = {.mode = modes[_i], .deadline = MSEC_NEVER, .may_wait = true};

    fixture_start_sized(&f, 2, 30 * MIB);
    set_model(1000, 0);
    (void)begin_move();
    fill_indexes();
    fixture_fill(input, LEN, 1);
    rcu_begin();
    struct body *body = body_begin(&f.engine, fixture_hash(&f, "k"), LEN);
    ck_assert_int_eq(body_append(body, span_of(input, LEN), true), OUT_OK);
    rcu_end();
    st.key = span_of("k", 1);
    st.body = &body;
    ck_assert_int_eq(store_once(&st), OUT_WAIT);
    fixture_verify(&f);
    check_model();
    fixture_settle(&f);
    ck_assert_int_eq(store_once(&st), OUT_STORED);
    ck_assert_ptr_null(body);
    memmove(model + (_i == 0 ? 0 : LEN), model, 1000);
    memcpy(model + (_i == 0 ? 1000 : 0), input, LEN);
    model_len += LEN;
    check_model();
    fixture_settle(&f);
}

/* ---- claims ------------------------------------------------------------------------------ */

static void set_claimed(struct segment *anchor, bool is_claimed)
{
    shard_enter(f.shard);
    anchor->busy = is_claimed;
    shard_leave(f.shard);
}

static void *end_claim(void *anchor)
{
    rcu_register();
    usleep(1000);
    set_claimed(anchor, false);
    rcu_unregister();
    return NULL;
}

/* The value is being extended by another thread, whose section ends soon. */
TEST(who_may_not_wait_meets_a_claim)
{
    struct store st = {.mode = STORE_APPEND, .deadline = MSEC_NEVER, .key = span_of("k", 1)};
    enum outcome out = OUT_NO_MEMORY;
    pthread_t other;

    set_model(3 * LEN, 0);
    struct got got = fixture_get(&f, "k");
    ck_assert(got.is_large);
    struct segment *anchor = &f.shard->memory.arena.segments[f.shard->memory.arena.values.head];
    st.value = span_of(input, 1000);
    for (unsigned i = 0; i < 100 && out != OUT_STORED; i++) { /* again if that thread is late */
        set_claimed(anchor, true);
        ck_assert_int_eq(pthread_create(&other, NULL, end_claim, anchor), 0);
        out = store_once(&st);
        ck_assert_int_eq(pthread_join(other, NULL), 0);
    }
    ck_assert_int_eq(out, OUT_STORED);
    memcpy(model + model_len, input, 1000);
    model_len += 1000;
    check_model();
    /* One that does not end holds nobody up for long. */
    set_claimed(anchor, true);
    ck_assert_int_eq(store_once(&st), OUT_NO_MEMORY);
    st.may_wait = true;
    ck_assert_int_eq(store_once(&st), OUT_WAIT);
    set_claimed(anchor, false);
    check_model();
}

/* A value that is still in the shard which its slot leaves moves, however long it is. */
TEST_LOOP(a_long_addition_to_a_value_that_moves_is_copied, 4)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = 2;
    cfg.limit_bytes = 30 * MIB;
    cfg.item_size_max = LONGER_MAX;
    fixture_start_threaded(&f, &cfg);
    set_model(_i / 2 == 0 ? 3 * LEN : 1000, 0);
    const uint32_t slot = route_slot_number(fixture_hash(&f, "k"));
    const uint16_t to = begin_move();
    add_to_model(modes[_i % 2], LEN, 9999);
    check_model();
    ck_assert_ptr_eq(fixture_get(&f, "k").shard, f.engine.shards[to]);
    add_to_model(modes[_i % 2], LEN, 9999);
    check_model();
    ck_assert_int_eq(engine_move_slots(&f.engine, slot, 1, to), MF_OK);
    fixture_settle(&f);
    check_model();
}

/* ---- the order of link and death --------------------------------------------------------- */

/* The page of the index that names the key is only read until the link, which stops there. */
static struct {
    char *page;
    size_t bytes;
    uint64_t deaths; /* dated by then */
    unsigned times;
} link_at;

static void on_link(int number, siginfo_t *info, void *context)
{
    if ((char *)info->si_addr < link_at.page ||
        (char *)info->si_addr >= link_at.page + link_at.bytes) {
        signal(number, SIG_DFL); /* another fault: let it kill the test */
        return;
    }
    link_at.times++;
    link_at.deaths = f.shard->memory.blocks.ring_tail;
    (void)mprotect(link_at.page, link_at.bytes, PROT_READ | PROT_WRITE);
}

/*
 * A reader may find the old item until the new one is linked, so what dies with the old one
 * must be dated after that: its pieces too.
 */
TEST_LOOP_ALONE(what_an_extension_leaves_dies_after_the_link, 2)
{
    struct sigaction sa = {.sa_sigaction = on_link, .sa_flags = SA_SIGINFO};
    struct sigaction before;

    set_model(LEN, 0);
    shard_enter(f.shard);
    const char *slot = (const char *)table_slot(&f.shard->table, f.shard->memory.arena.base,
                                                fixture_hash(&f, "k"), "k", 1);
    uint64_t deaths = f.shard->memory.blocks.ring_tail;
    shard_leave(f.shard);
    link_at.bytes = (size_t)sysconf(_SC_PAGESIZE);
    link_at.page = (char *)((uintptr_t)slot & ~(link_at.bytes - 1));
    link_at.times = 0;
    sigemptyset(&sa.sa_mask);
    ck_assert_int_eq(sigaction(SIGSEGV, &sa, &before), 0);
    ck_assert_int_eq(mprotect(link_at.page, link_at.bytes, PROT_READ), 0);
    add_to_model(modes[_i], 100, 0);
    ck_assert_int_eq(sigaction(SIGSEGV, &before, NULL), 0);
    ck_assert_uint_eq(link_at.times, 1);
    ck_assert_uint_eq(link_at.deaths, deaths);
    ck_assert_uint_gt(f.shard->memory.blocks.ring_tail, deaths + 1);
    check_model();
    fixture_settle(&f);
}

/* ---- random additions -------------------------------------------------------------------- */

TEST_LOOP_ALONE(random_additions_are_what_a_model_says, 8)
{
    struct rng rng;

    rng_init(&rng, rng_seed() + (uint64_t)_i);
    set_model(1 + rng_below(&rng, LEN), rng_below(&rng, 2) * 9999);
    for (unsigned i = 0; i < 120; i++) {
        static const size_t max[] = {10, 1000, 2100, 40000, 300000, 700000};
        size_t len = 1 + rng_below(&rng, max[rng_below(&rng, 6)]);

        if (model_len + len + 1 > f.engine.item_bytes_max) {
            set_model(1 + rng_below(&rng, LEN), rng_below(&rng, 2) * 9999);
        } else {
            size_t portion = len > ENGINE_SMALL_MAX ? rng_below(&rng, 2) * 9999 : 0;

            add_to_model(modes[rng_below(&rng, 2)], len, portion);
        }
        check_model();
        if (rng_below(&rng, 10) == 0) {
            fixture_verify(&f);
            fixture_settle(&f);
        }
    }
    fixture_settle(&f);
}

/* ---- several threads --------------------------------------------------------------------- */

/* Two threads add records to one value, at an end each or at the same one; a third reads it. */
#define RECORDS 80u
#define BASE    (WHOLE * SEGMENT)

struct record {
    uint32_t thread;
    uint32_t number;
    uint32_t len; /* of the whole record; its other bytes are `number` */
};

struct adder {
    uint32_t number;
    enum store_mode mode;
    pthread_t thread;
};

static _Atomic unsigned adders_left;

static void add_record(const struct adder *a, uint32_t number)
{
    static _Thread_local char bytes[9000];
    const uint32_t lens[] = {20, 500, 3000, 9000};
    struct record r = {a->number, number, lens[number % 4]};
    struct store st = {.mode = a->mode, .deadline = MSEC_NEVER, .may_wait = true};
    enum outcome out;

    memset(bytes, (int)(number & 0xff), r.len);
    memcpy(bytes, &r, sizeof(r));
    st.key = span_of("k", 1);
    st.hash = fixture_hash(&f, "k");
    st.value = span_of(bytes, r.len);
    do {
        rcu_begin();
        out = engine_store(&f.engine, &st, fixture_now(&f));
        rcu_end();
        if (out == OUT_WAIT) {
            (void)sched_yield();
        }
    } while (out == OUT_WAIT);
    must(out == OUT_STORED);
}

static void *add_records(void *arg)
{
    const struct adder *a = arg;

    rcu_register();
    for (uint32_t i = 0; i < RECORDS; i++) {
        add_record(a, i);
    }
    adders_left--;
    rcu_unregister();
    return NULL;
}

/* The records from p to end: those of each thread in their order, up or down. */
static void check_records(const char *p, const char *end, bool is_down, uint32_t count[2])
{
    uint32_t seen[2] = {0, 0};
    uint32_t before[2] = {0, 0};
    bool is_torn = false;

    while (p < end) {
        struct record r;

        memcpy(&r, p, sizeof(r));
        ck_assert_uint_lt(r.thread, 2);
        ck_assert_uint_le(r.len, (size_t)(end - p));
        for (uint32_t i = sizeof(r); i < r.len; i++) {
            is_torn |= (unsigned char)p[i] != (r.number & 0xff);
        }
        if (seen[r.thread]++ != 0) {
            ck_assert_uint_eq(r.number, is_down ? before[r.thread] - 1 : before[r.thread] + 1);
        } else if (!is_down) {
            ck_assert_uint_eq(r.number, 0);
        }
        before[r.thread] = r.number;
        p += r.len;
    }
    ck_assert(!is_torn);
    for (int i = 0; i < 2; i++) {
        ck_assert(!is_down || seen[i] == 0 || before[i] == 0);
        count[i] += seen[i];
    }
}

static void check_added(uint32_t count[2])
{
    struct got got = fixture_get(&f, "k");
    static const char base[] = "the base begins here";
    const char *at = memmem(got.value, got.len, base, sizeof(base));

    ck_assert(got.is_hit && at != NULL);
    ck_assert_uint_ge((size_t)(got.value + got.len - at), BASE);
    count[0] = count[1] = 0;
    check_records(got.value, at, true, count);
    check_records(at + BASE, got.value + got.len, false, count);
}

TEST_LOOP(additions_of_several_threads_are_whole_and_in_order, 3)
{
    struct adder adders[2] = {{0, modes[_i / 2], 0}, {1, modes[(_i + 1) / 2], 0}};
    struct engine_config cfg;
    struct put p = {.mode = STORE_SET, .key = "k", .ptr = input, .len = BASE};
    uint32_t count[2];

    fixture_config(&cfg);
    cfg.limit_bytes = 15 * MIB;
    cfg.item_size_max = LONGER_MAX;
    fixture_start_threaded(&f, &cfg);
    memset(input, 0xff, BASE);
    memcpy(input, "the base begins here", 21);
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    adders_left = 2;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&adders[i].thread, NULL, add_records, &adders[i]), 0);
    }
    while (adders_left > 0) {
        check_added(count);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(adders[i].thread, NULL);
    }
    check_added(count);
    ck_assert_uint_eq(count[0], RECORDS);
    ck_assert_uint_eq(count[1], RECORDS);
    fixture_settle(&f);
}
