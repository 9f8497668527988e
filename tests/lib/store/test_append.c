/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * append and prepend: how long a result may be, and what another thread may do to the item
 * while a large value is copied. For that, the added bytes are on a page that cannot be read:
 * the copy stops there, the other thread acts, and the copy continues.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>

#include "tests/lib/fixture.h"

#define LARGE (200 * KIB)

/* So long that it is extended, and an addition that needs a segment for that. */
#define LONG     (600 * KIB)
#define ADDITION (20 * KIB)

static struct fixture f;

static enum outcome add_in(size_t portion, enum store_mode mode, const char *key,
                           const void *ptr, size_t len)
{
    struct put p = {.mode = mode, .key = key, .ptr = ptr, .len = len, .portion = portion};

    return fixture_store(&f, &p, NULL);
}

static enum outcome add(enum store_mode mode, const char *key, const void *ptr, size_t len)
{
    return add_in(0, mode, key, ptr, len);
}

/* The same for a key that is not there, which becomes an item. */
static enum outcome add_absent(size_t portion, enum store_mode mode, const char *key,
                               const void *ptr, size_t len)
{
    struct put p = {
        .mode = mode, .key = key, .ptr = ptr, .len = len, .portion = portion, .vivifies = true};

    (void)fixture_delete(&f, key);
    return fixture_store(&f, &p, NULL);
}

/* ---- limits ------------------------------------------------------------------------------ */

static const enum store_mode modes[] = {STORE_APPEND, STORE_PREPEND};

static const struct {
    size_t item_size_max;
    size_t portion; /* of the addition; not 0: it comes as a body */
    size_t first, step;
} results[] = {
    {1500, 0, 1, 333},        /* of one block */
    {60000, 0, 1, 333},       /* large */
    {60000, 5000, 3000, 9000} /* large, and so is the addition */
};

/* Key and value together count, however the value got its length. */
TEST_LOOP(the_longest_result_is_that_of_a_set, 6)
{
    static const char key[] = "a-key-of-some-length";
    static char value[60000];
    const enum store_mode mode = modes[_i / 3];
    const size_t portion = results[_i % 3].portion;
    const size_t first = results[_i % 3].first;
    const size_t step = results[_i % 3].step;
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.item_size_max = results[_i % 3].item_size_max;
    fixture_start(&f, &cfg);
    size_t most = f.engine.item_bytes_max - strlen(key);
    ck_assert((ENGINE_SMALL_MAX > most) == (_i % 3 == 0));
    fixture_set(&f, key, most);
    ck_assert_int_eq(add(STORE_SET, key, value, most + 1), OUT_TOO_LARGE);
    fixture_check(&f, key, most);
    for (size_t len = first; len <= first + 3 * step; len += step) {
        fixture_set(&f, key, most - len);
        ck_assert_int_eq(add_in(portion, mode, key, value, len + 1), OUT_TOO_LARGE);
        fixture_check(&f, key, most - len);
        ck_assert_int_eq(add_in(portion, mode, key, value, len), OUT_STORED);
        ck_assert_uint_eq(fixture_get(&f, key).len, most);
        ck_assert_int_eq(add(mode, key, value, 1), OUT_TOO_LARGE);
    }
    ck_assert_int_eq(add_absent(portion, mode, key, value, most + 1), OUT_TOO_LARGE);
    ck_assert(!fixture_has(&f, key));
    ck_assert_int_eq(add_absent(portion, mode, key, value, most), OUT_STORED);
    ck_assert_uint_eq(fixture_get(&f, key).len, most);
}

/* ---- amid the copy ----------------------------------------------------------------------- */

static struct {
    char *page; /* the added bytes */
    size_t bytes;
    void (*fn)(void); /* what the other thread does */
    sem_t is_reached;
    sem_t is_done;
    unsigned times;
} amid;

static void on_fault(int number, siginfo_t *info, void *context)
{
    if ((char *)info->si_addr < amid.page || (char *)info->si_addr >= amid.page + amid.bytes) {
        signal(number, SIG_DFL); /* another fault: let it kill the test */
        return;
    }
    amid.times++;
    sem_post(&amid.is_reached);
    while (sem_wait(&amid.is_done) != 0) {
    }
    (void)mprotect(amid.page, amid.bytes, PROT_READ);
}

static void *act(void *arg)
{
    rcu_register();
    while (sem_wait(&amid.is_reached) != 0) {
    }
    amid.fn();
    sem_post(&amid.is_done);
    rcu_unregister();
    return arg;
}

/* Add `len` bytes 'x'; fn runs on another thread after the old value was copied. */
static enum outcome add_amid(enum store_mode mode, size_t len, void (*fn)(void))
{
    struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    struct sigaction before;
    pthread_t other;

    amid.bytes = (size_t)sysconf(_SC_PAGESIZE);
    amid.bytes *= 1 + (len - 1) / amid.bytes;
    amid.page =
        mmap(NULL, amid.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(amid.page, MAP_FAILED);
    memset(amid.page, 'x', len);
    ck_assert_int_eq(mprotect(amid.page, amid.bytes, PROT_NONE), 0);
    amid.fn = fn;
    amid.times = 0;
    sem_init(&amid.is_reached, 0, 0);
    sem_init(&amid.is_done, 0, 0);
    sigemptyset(&sa.sa_mask);
    ck_assert_int_eq(sigaction(SIGSEGV, &sa, &before), 0);
    ck_assert_int_eq(pthread_create(&other, NULL, act, NULL), 0);
    enum outcome out = add(mode, "k", amid.page, len);
    ck_assert_uint_eq(amid.times, 1);
    pthread_join(other, NULL);
    ck_assert_int_eq(sigaction(SIGSEGV, &before, NULL), 0);
    ck_assert_int_eq(munmap(amid.page, amid.bytes), 0);
    return out;
}

/* What the other thread sets. */
static char fresh[LONG];
static size_t fresh_len;

static void replace(void)
{
    struct store st = {.mode = STORE_SET, .flags = 7, .deadline = MSEC_NEVER};

    st.key = span_of("k", 1);
    st.hash = fixture_hash(&f, "k");
    st.value = span_of(fresh, fresh_len);
    rcu_begin();
    enum outcome out = engine_store(&f.engine, &st, fixture_now(&f));
    rcu_end();
    must(out == OUT_STORED);
}

static void erase(void)
{
    rcu_begin();
    enum outcome out =
        engine_delete(&f.engine, fixture_hash(&f, "k"), span_of("k", 1), 0, fixture_now(&f));
    rcu_end();
    must(out == OUT_DELETED);
}

static const size_t fresh_lens[] = {LARGE, 100, 20 * KIB};

/* Nothing of the replaced value comes back; the bytes are added to the present value. */
TEST_LOOP(a_value_that_is_replaced_meanwhile_is_added_to, 6)
{
    const enum store_mode mode = modes[_i / 3];

    fresh_len = fresh_lens[_i % 3];
    fixture_fill(fresh, fresh_len, 99);
    fixture_start(&f, NULL);
    fixture_set(&f, "k", LARGE);
    ck_assert_int_eq(add_amid(mode, 50, replace), OUT_STORED);
    struct got got = fixture_get(&f, "k");
    ck_assert(got.is_hit);
    ck_assert_uint_eq(got.len, fresh_len + 50);
    ck_assert_uint_eq(got.flags, 7);
    ck_assert_int_eq(memcmp(got.value + (mode == STORE_PREPEND ? 50 : 0), fresh, fresh_len), 0);
    ck_assert_int_eq(got.value[mode == STORE_PREPEND ? 0 : fresh_len], 'x');
    fixture_settle(&f);
}

TEST_LOOP(a_value_that_is_deleted_meanwhile_stays_away, 2)
{
    fixture_start(&f, NULL);
    fixture_set(&f, "k", LARGE);
    ck_assert_int_eq(add_amid(modes[_i], 50, erase), OUT_NOT_STORED);
    ck_assert(!fixture_has(&f, "k"));
    fixture_settle(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

/* ---- amid an extension ------------------------------------------------------------------- */

/* Check that the key has `len` bytes of `fresh`, and the addition at its end. */
static void check_longer(enum store_mode mode, size_t len, size_t added)
{
    struct got got = fixture_get(&f, "k");
    const char *x = got.value + (mode == STORE_PREPEND ? 0 : len);

    ck_assert(got.is_hit);
    ck_assert_uint_eq(got.len, len + added);
    ck_assert_int_eq(memcmp(got.value + (mode == STORE_PREPEND ? added : 0), fresh, len), 0);
    for (size_t i = 0; i < added; i++) {
        ck_assert_int_eq(x[i], 'x');
    }
}

static void start_long(void)
{
    fixture_fill(fresh, LONG, 99);
    fixture_start(&f, NULL);
    ck_assert_int_eq(add(STORE_SET, "k", fresh, LONG), OUT_STORED);
}

static const size_t longer_lens[] = {LONG, LONG - 1, LARGE, 100};

TEST_LOOP(a_long_value_that_is_replaced_meanwhile_is_added_to, 8)
{
    const enum store_mode mode = modes[_i / 4];

    start_long();
    fresh_len = longer_lens[_i % 4];
    ck_assert_int_eq(add_amid(mode, ADDITION, replace), OUT_STORED);
    check_longer(mode, fresh_len, ADDITION);
    ck_assert_uint_eq(fixture_get(&f, "k").flags, 7);
    fixture_settle(&f);
}

static void flush(void)
{
    fixture_flush(&f, fixture_now(&f));
}

static void expire(void)
{
    clock_advance(&f.engine.clock, 1000);
    fixture_expire(&f);
}

TEST_LOOP(a_long_value_that_goes_meanwhile_stays_away, 6)
{
    void (*const ways[])(void) = {erase, flush, expire};
    struct put p = {.mode = STORE_SET, .key = "k", .ptr = fresh, .len = LONG};

    start_long();
    p.deadline = fixture_now(&f) + 1000;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    ck_assert_int_eq(add_amid(modes[_i % 2], ADDITION, ways[_i / 2]), OUT_NOT_STORED);
    ck_assert(!fixture_has(&f, "k"));
    fixture_settle(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

static void put_off(void)
{
    ck_assert_int_eq(fixture_touch(&f, "k", fixture_now(&f) + 5000), OUT_TOUCHED);
}

/* The head gets another block, the value stays. */
TEST_LOOP(a_long_value_that_is_touched_meanwhile_is_extended, 2)
{
    start_long();
    ck_assert_int_eq(add_amid(modes[_i], ADDITION, put_off), OUT_STORED);
    check_longer(modes[_i], LONG, ADDITION);
    ck_assert_int_eq(fixture_get(&f, "k").deadline, fixture_now(&f) + 5000);
    fixture_settle(&f);
}

static void add_too(void)
{
    struct store st = {.mode = STORE_APPEND, .deadline = MSEC_NEVER, .may_wait = true};

    st.key = span_of("k", 1);
    st.hash = fixture_hash(&f, "k");
    st.value = span_of("torn", 4);
    rcu_begin();
    enum outcome out = engine_store(&f.engine, &st, fixture_now(&f));
    must(out == OUT_WAIT);
    st.may_wait = false;
    out = engine_store(&f.engine, &st, fixture_now(&f));
    rcu_end();
    must(out == OUT_NO_MEMORY);
}

/* Two extensions do not get into each other: the second has to come again. */
TEST_LOOP(a_long_value_is_extended_by_one_at_a_time, 2)
{
    start_long();
    ck_assert_int_eq(add_amid(modes[_i], ADDITION, add_too), OUT_STORED);
    check_longer(modes[_i], LONG, ADDITION);
    ck_assert_int_eq(add(STORE_APPEND, "k", "torn", 4), OUT_STORED);
    ck_assert_uint_eq(fixture_get(&f, "k").len, LONG + ADDITION + 4);
    fixture_settle(&f);
}
