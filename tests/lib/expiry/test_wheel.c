/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timing wheel compared with a plain array: random operations at random times, jumps of the
 * clock, many keys with one deadline, a sampler that is late, and memory.
 */
#include "lib/expiry/wheel.h"

#include "lib/base/mem.h"
#include "lib/memory/item.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"
#include "tests/common/verify.h"
#include "tests/lib/expiry/fake.h"

#define SECOND ((msec_t)1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

#define LOOP_MAX 65u

/* The memory of each fake item. The size in its header is random. */

/* ---- a fake arena, and the model: one plain array ---------------------------------------- */

struct model_item {
    bool is_in;
    msec_t deadline;
    uint32_t bytes;
    handle_t handle;
};

struct world {
    char *base;
    struct budget budget;
    struct wheel *set;
    struct model_item *items;
    uint32_t items_len;
    uint64_t in;       /* items in the wheel */
    uint64_t retimed;  /* deadlines changed in place */
    uint64_t replaced; /* items replaced in place */
    msec_t now;
    struct rng rng;
};

static struct world w;

static handle_t handle_of(uint32_t block)
{
    return (handle_t)((block + 1) * (FAKE_BYTES / ITEM_UNIT));
}

static void world_stop(void)
{
    wheel_destroy(&w.set);
    ck_assert_ptr_null(w.set);
    ck_assert_int_eq(atomic_load(&w.budget.used_bytes), 0);
    free(w.base);
    free(w.items);
}

/* There are more blocks than items, so that items can be moved. */
static void world_start(uint32_t items, msec_t now)
{
    memset(&w, 0, sizeof(w));
    rng_init(&w.rng, rng_seed());
    w.items_len = items;
    w.base = calloc(items + 2, FAKE_BYTES);
    w.items = calloc(items, sizeof(*w.items));
    w.now = now;
    budget_set_limit(&w.budget, INT64_MAX);
    w.set = wheel_create(w.base, &w.budget, NULL, now);
    ck_assert(w.base && w.items && w.set);
    for (uint32_t i = 0; i < items; i++) {
        w.items[i].handle = handle_of(i);
    }
    unit_at_end(world_stop);
}

static void add(uint32_t i, msec_t deadline)
{
    struct model_item *m = &w.items[i];
    struct item *it = item_at(w.base, m->handle);
    uint32_t units = (uint32_t)rng_below(&w.rng, ITEM_SIZE_MAX - 6) + 6;

    ck_assert(!m->is_in);
    fake_item(it, units, deadline);
    ck_assert(wheel_reserve(w.set));
    wheel_add(w.set, m->handle);
    m->is_in = true;
    m->deadline = item_deadline(it);
    m->bytes = units * ITEM_UNIT;
    w.in++;
}

static void remove_item(uint32_t i)
{
    wheel_remove(w.set, w.items[i].handle);
    ck_assert_uint_eq(item_node(item_at(w.base, w.items[i].handle)), 0);
    w.in -= w.items[i].is_in;
    w.items[i].is_in = false;
}

static uint32_t index_of(handle_t handle)
{
    for (uint32_t i = 0; i < w.items_len; i++) {
        if (w.items[i].handle == handle) {
            return i;
        }
    }
    ck_abort_msg("no item has that handle");
    return 0;
}

/* As long as no item was moved, its handle gives its index. */
static uint32_t quick_index_of(handle_t handle)
{
    uint32_t i = handle / (FAKE_BYTES / ITEM_UNIT) - 1;

    return i < w.items_len && w.items[i].handle == handle ? i : index_of(handle);
}

/* One sampling loop: what it hands out must be due, and is removed. Returns *sampled. */
static unsigned sample(unsigned max, unsigned *due)
{
    handle_t out[LOOP_MAX];
    unsigned sampled = 0;
    unsigned n = wheel_sample(w.set, w.now, out, max, &sampled);

    ck_assert_uint_le(n, sampled);
    ck_assert_uint_le(sampled, max);
    for (unsigned i = 0; i < n; i++) {
        uint32_t index = quick_index_of(out[i]);

        ck_assert(w.items[index].is_in); /* also: handed out only once */
        ck_assert_int_le(w.items[index].deadline, w.now);
        remove_item(index);
    }
    if (due) {
        *due = n;
    }
    return sampled;
}

/* Sample until there is nothing to do; then nothing may be due. Returns the number of calls. */
static uint64_t drain(unsigned max)
{
    uint64_t calls = 1;
    uint64_t idle = 0;

    /* Calls that only move nodes out of the way sample nothing: there are few in a row. */
    while (idle < 3) {
        idle = sample(max, NULL) == 0 ? idle + 1 : 0;
        calls++;
    }
    ck_assert_uint_eq(wheel_debt(w.set, w.now), 0);
    ck_assert_uint_eq(wheel_behind(w.set, w.now), 0);
    for (uint32_t i = 0; i < w.items_len; i++) {
        ck_assert(!w.items[i].is_in || w.items[i].deadline > w.now);
    }
    return calls;
}

/* Keys and bytes of the model with a deadline in (from, to]. */
static uint64_t model_between(msec_t from, msec_t to, uint64_t *bytes)
{
    uint64_t keys = 0;

    *bytes = 0;
    for (uint32_t i = 0; i < w.items_len; i++) {
        const struct model_item *m = &w.items[i];

        if (m->is_in && m->deadline > from && m->deadline <= to) {
            keys++;
            *bytes += m->bytes;
        }
    }
    return keys;
}

/* The debt, and the time to live of what is alive, are exactly those of the model. */
static void check_debt(struct wheel_info *info)
{
    const msec_t most = (msec_t)1 << 40;
    uint64_t bytes;
    uint64_t keys = model_between(INT64_MIN, w.now, &bytes);
    uint64_t ttl = 0;
    msec_t oldest = w.now;

    for (uint32_t i = 0; i < w.items_len; i++) {
        const struct model_item *m = &w.items[i];

        if (m->is_in && m->deadline > w.now) {
            ttl += (uint64_t)((m->deadline < most ? m->deadline : most) - w.now);
        } else if (m->is_in && m->deadline < oldest) {
            oldest = m->deadline;
        }
    }
    wheel_info(w.set, w.now, info);
    ck_assert_uint_eq(info->alive_keys, w.in - keys);
    ck_assert_uint_eq(info->ttl_sum_ms, ttl);
    ck_assert_uint_eq(info->keys, w.in);
    ck_assert_uint_eq(wheel_count(w.set), w.in);
    ck_assert_uint_eq(info->debt_keys, keys);
    ck_assert_uint_eq(info->debt_bytes, bytes);
    ck_assert_int_eq(info->debt_oldest_ms, keys ? w.now - oldest : 0);
    ck_assert_uint_le(wheel_debt(w.set, w.now), keys);
}

/*
 * The forecast is that of the model except for the bucket that straddles its end: half a second
 * up to a minute ahead, 66 s ten minutes ahead. This holds when the sampler has nothing to do.
 */
static void check_forecast(const struct wheel_info *info)
{
    static const msec_t ahead[4] = {SECOND, 10 * SECOND, MINUTE, 10 * MINUTE};
    static const msec_t grain[4] = {512, 512, 512, 65536};

    for (unsigned f = 0; f < 4; f++) {
        uint64_t least_bytes;
        uint64_t most_bytes;
        uint64_t least = model_between(w.now, w.now + ahead[f] - grain[f], &least_bytes);
        uint64_t most = model_between(w.now, w.now + ahead[f] + grain[f], &most_bytes);

        ck_assert_uint_ge(info->forecast_keys[f], least);
        ck_assert_uint_le(info->forecast_keys[f], most);
        ck_assert_uint_ge(info->forecast_bytes[f], least_bytes);
        ck_assert_uint_le(info->forecast_bytes[f], most_bytes);
    }
}

static msec_t earliest_deadline(void)
{
    msec_t earliest = MSEC_NEVER;

    for (uint32_t i = 0; i < w.items_len; i++) {
        if (w.items[i].is_in && w.items[i].deadline < earliest) {
            earliest = w.items[i].deadline;
        }
    }
    return earliest;
}

/* A time to live of any magnitude; sometimes negative, sometimes shared with other items. */
static msec_t random_ttl(void)
{
    static const msec_t scale[] = {1,    20,        300,     1024,     5 * SECOND, MINUTE,
                                   HOUR, 12 * HOUR, 3 * DAY, 40 * DAY, 400 * DAY};
    uint64_t kind = rng_below(&w.rng, sizeof(scale) / sizeof(*scale) + 2);

    if (kind >= sizeof(scale) / sizeof(*scale)) {
        return kind % 2 ? -(msec_t)rng_below(&w.rng, 5000) : 777;
    }
    return (msec_t)rng_below(&w.rng, (uint64_t)scale[kind] * 2) + 1;
}

static msec_t random_step(void)
{
    switch (rng_below(&w.rng, 24)) {
    case 0:
        return (msec_t)rng_below(&w.rng, 2000);
    case 1:
        return (msec_t)rng_below(&w.rng, 100 * SECOND);
    case 2:
        return rng_below(&w.rng, 4) ? 0 : (msec_t)rng_below(&w.rng, (uint64_t)DAY);
    case 3:
        return rng_below(&w.rng, 16) ? 0 : (msec_t)rng_below(&w.rng, (uint64_t)(90 * DAY));
    default:
        return rng_below(&w.rng, 4) ? 0 : (msec_t)rng_below(&w.rng, 120);
    }
}

/* Move an item to the spare block; its old block becomes the spare one. */
static void move(uint32_t i, handle_t *spare)
{
    handle_t from = w.items[i].handle;

    memcpy(item_at(w.base, *spare), item_at(w.base, from), FAKE_BYTES);
    wheel_moved(w.set, from, *spare);
    item_set_node(item_at(w.base, from), 0xdeadu);
    w.items[i].handle = *spare;
    *spare = from;
}

/* Change a deadline, half of the time to one near the old one. */
static void touch(uint32_t i)
{
    struct model_item *m = &w.items[i];
    msec_t deadline = w.now + random_ttl();

    if (rng_below(&w.rng, 2) == 0) {
        deadline = m->deadline + (msec_t)rng_below(&w.rng, 200) - 100;
    }
    if (item_can_have(item_at(w.base, m->handle), deadline) &&
        wheel_retime(w.set, m->handle, deadline)) {
        m->deadline = deadline;
        w.retimed++;
        return;
    }
    ck_assert_int_eq(item_deadline(item_at(w.base, m->handle)), m->deadline);
    remove_item(i);
    add(i, deadline);
}

/* Replace an item by one of another size, with a new deadline as above. */
static void replace(uint32_t i, handle_t *spare)
{
    struct model_item *m = &w.items[i];
    struct item *is = item_at(w.base, *spare);
    uint32_t units = (uint32_t)rng_below(&w.rng, ITEM_SIZE_MAX - 6) + 6;
    msec_t deadline = w.now + random_ttl();
    handle_t old = m->handle;

    if (rng_below(&w.rng, 2) == 0) {
        deadline = m->deadline + (msec_t)rng_below(&w.rng, 200) - 100;
    }
    fake_item(is, units, deadline);
    if (!wheel_replace(w.set, old, *spare)) {
        ck_assert_uint_eq(item_node(is), 0);
        remove_item(i);
        m->handle = *spare;
        *spare = old;
        add(i, deadline);
        return;
    }
    ck_assert_uint_eq(item_node(item_at(w.base, old)), 0);
    m->handle = *spare;
    m->deadline = deadline;
    m->bytes = units * ITEM_UNIT;
    *spare = old;
    w.replaced++;
}

static void random_operation(handle_t *spare)
{
    uint32_t i = (uint32_t)rng_below(&w.rng, w.items_len);

    switch (rng_below(&w.rng, 13)) {
    case 0:
        if (w.items[i].is_in) {
            remove_item(i);
        }
        break;
    case 1:
        if (w.items[i].is_in) {
            touch(i);
        }
        break;
    case 2:
    case 3:
        sample(20 + 5 * (unsigned)rng_below(&w.rng, 10), NULL);
        break;
    case 4:
        move(i, spare);
        break;
    case 5:
        if (w.items[i].is_in) {
            replace(i, spare);
        }
        break;
    default:
        if (!w.items[i].is_in) {
            add(i, w.now + random_ttl());
        }
        break;
    }
}

TEST_LOOP(agrees_with_a_plain_array, 2)
{
    const uint32_t items = _i == 0 ? 60 : 3000;
    const uint32_t steps = _i == 0 ? 30000 : 60000;
    handle_t spare = handle_of(items);
    struct wheel_info info;

    world_start(items, CLOCK_FIRST_MS);
    for (uint32_t step = 0; step < steps; step++) {
        random_operation(&spare);
        w.now += random_step();
        if (step % 61 == 0) {
            check_debt(&info);
            ck_assert(wheel_verify(w.set));
        }
        if (step % 997 == 0) {
            drain(20);
            check_debt(&info);
            check_forecast(&info);
            ck_assert_int_le(wheel_next(w.set), earliest_deadline());
            ck_assert(wheel_verify(w.set));
        }
    }
    ck_assert_uint_gt(w.retimed, 0);
    ck_assert_uint_gt(w.replaced, 0);
    w.now += 1000 * DAY;
    drain(65);
    ck_assert_uint_eq(w.in, 0);
    ck_assert_int_eq(wheel_next(w.set), MSEC_NEVER);
    ck_assert(wheel_verify(w.set));
}

/* ---- leaps ------------------------------------------------------------------------------- */

static const msec_t leaps[] = {511,   512,      513,      1024,     65535,
                               65536, 70000,    HOUR,     5 * HOUR, 10 * HOUR,
                               DAY,   25 * DAY, 26 * DAY, 60 * DAY, 4000 * DAY};

TEST_LOOP(a_clock_that_jumps_loses_nothing, sizeof(leaps) / sizeof(*leaps))
{
    struct wheel_info info;

    world_start(4000, CLOCK_FIRST_MS + 123);
    for (uint32_t i = 0; i < w.items_len; i++) {
        add(i, w.now + random_ttl());
    }
    w.now += leaps[_i];
    check_debt(&info);
    uint64_t calls = drain(20);
    /* Each item is read only a few times on its way to its millisecond. */
    ck_assert_uint_le(calls, w.items_len * 5 / 20 + 100);
    ck_assert(wheel_verify(w.set));
    w.now += 4000 * DAY;
    drain(20);
    ck_assert_uint_eq(w.in, 0);
}

/* The item was stored with a time from before a jump that another thread has seen already. */
TEST(a_deadline_in_the_past_is_due_at_once)
{
    struct wheel_info info;

    world_start(3, 5 * DAY);
    add(0, 5 * DAY);
    add(1, 4);
    add(2, -77);
    check_debt(&info);
    ck_assert_uint_eq(info.debt_keys, 3);
    ck_assert_int_le(wheel_next(w.set), w.now);
    ck_assert_uint_eq(sample(20, NULL), 3);
    ck_assert_uint_eq(w.in, 0);
    ck_assert(wheel_verify(w.set));
}

/* So many are due that the age of the debt is an estimate: it forgets those that are gone. */
TEST(the_oldest_of_many_that_are_due_is_one_of_them)
{
    struct wheel_info info;

    world_start(6000, 5 * DAY);
    add(0, w.now - 5000);
    wheel_info(w.set, w.now, &info);
    ck_assert_int_eq(info.debt_oldest_ms, 5000);
    remove_item(0);
    wheel_info(w.set, w.now, &info);
    ck_assert_int_eq(info.debt_oldest_ms, 0);
    for (uint32_t i = 1; i < 6000; i++) {
        add(i, w.now - 10 - (i == 3000));
    }
    wheel_info(w.set, w.now, &info);
    ck_assert_uint_eq(info.debt_keys, 5999);
    ck_assert_int_eq(info.debt_oldest_ms, 11);
}

/* While keys are due half of what is sampled is refined, or all would be late in the end. */
TEST(debt_does_not_stop_refinement)
{
    handle_t out[20];
    unsigned sampled;

    world_start(1500, 10 * HOUR);
    for (uint32_t i = 0; i < 1000; i++) {
        add(i, w.now + 40000);
    }
    w.now += 39800;
    ck_assert_uint_eq(wheel_debt(w.set, w.now), 0);
    for (uint32_t i = 1000; i < 1500; i++) {
        add(i, w.now - 1);
    }
    ck_assert_uint_gt(wheel_behind(w.set, w.now), 20);
    unsigned due = wheel_sample(w.set, w.now, out, 20, &sampled);
    ck_assert_uint_eq(sampled, 20);
    ck_assert_uint_eq(due, 10);
}

TEST(a_deadline_put_off_stays_in_its_bucket_or_moves)
{
    world_start(2, CLOCK_FIRST_MS);
    add(0, w.now + 30 * DAY);
    remove_item(0);
    ck_assert(!wheel_retime(w.set, w.items[0].handle, w.now + 30 * DAY));
    add(0, w.now + 30 * DAY);
    add(1, w.now + 30 * DAY);
    ck_assert(wheel_retime(w.set, w.items[0].handle, w.now + 30 * DAY + 1));
    ck_assert(!wheel_retime(w.set, w.items[0].handle, w.now + 20 * DAY));
    ck_assert(!wheel_retime(w.set, w.items[0].handle, w.now - 1));
    ck_assert(wheel_verify(w.set));
    w.items[0].deadline = w.now + 30 * DAY + 1;
    w.now += 30 * DAY;
    drain(20);
    ck_assert_uint_eq(w.in, 1);
    w.now += 1;
    drain(20);
    ck_assert_uint_eq(w.in, 0);
}

TEST(a_clock_that_is_behind_is_ignored)
{
    handle_t out[20];
    unsigned sampled;

    world_start(2, 10000);
    add(0, 10050);
    add(1, 10060);
    ck_assert_uint_eq(wheel_debt(w.set, 10055), 1);
    ck_assert_uint_eq(wheel_sample(w.set, 10001, out, 20, &sampled), 1);
    ck_assert_uint_eq(out[0], w.items[0].handle);
    remove_item(0);
    ck_assert_uint_eq(wheel_debt(w.set, 10002), 0);
    ck_assert(wheel_verify(w.set));
}

/* Deadlines of thousands of years do not decide the average. */
TEST(the_far_future_is_counted_as_34_years)
{
    struct wheel_info info;

    world_start(40, CLOCK_FIRST_MS);
    for (uint32_t i = 0; i < 40; i++) {
        add(i, i % 2 ? MSEC_NEVER - 1 : w.now + 10 * SECOND);
    }
    check_debt(&info);
    ck_assert_uint_gt(info.ttl_sum_ms / info.alive_keys, (uint64_t)16 * 365 * DAY);
    w.now += 11 * SECOND;
    drain(20);
    check_debt(&info);
    ck_assert_uint_eq(info.alive_keys, 20);
}

/* ---- crowds ------------------------------------------------------------------------------ */

TEST(many_keys_share_one_deadline)
{
    const uint32_t n = 100000;
    struct wheel_info info;
    unsigned due = 0;

    world_start(n, CLOCK_FIRST_MS);
    for (uint32_t i = 0; i < n; i++) {
        add(i, w.now + 300);
    }
    w.now += 299;
    check_debt(&info);
    ck_assert_uint_eq(info.debt_keys, 0);
    ck_assert_uint_eq(info.forecast_keys[0], n);
    ck_assert_uint_eq(sample(20, &due), 0);
    ck_assert_int_eq(wheel_next(w.set), w.now + 1);
    w.now += 1;
    check_debt(&info);
    ck_assert_uint_eq(info.debt_keys, n);
    ck_assert_int_eq(info.debt_oldest_ms, 0);
    for (uint32_t calls = 0; calls < n / 20; calls++) {
        ck_assert_uint_eq(sample(20, &due), 20);
        ck_assert_uint_eq(due, 20);
    }
    ck_assert_uint_eq(w.in, 0);
    ck_assert(wheel_verify(w.set));
    wheel_info(w.set, w.now, &info);
    ck_assert_uint_lt(info.bytes, 128 * 1024);
}

/* Many keys of a coarse bucket reach their millisecond step by step before they are due. */
TEST(many_keys_are_refined_in_time)
{
    const uint32_t n = 100000;
    const unsigned ticks_per_second = 10;
    msec_t deadline = CLOCK_FIRST_MS + 10 * HOUR;
    uint64_t most = 0;
    unsigned due;

    world_start(n, CLOCK_FIRST_MS);
    for (uint32_t i = 0; i < n; i++) {
        add(i, deadline + (msec_t)rng_below(&w.rng, 2000));
    }
    while (w.now < deadline - 2 * HOUR) {
        w.now += 7 * MINUTE; /* far ahead: seldom is enough */
        while (wheel_behind(w.set, w.now)) {
            sample(65, NULL);
        }
    }
    for (; w.now < deadline; w.now += 1000 / ticks_per_second) {
        uint64_t loops = 0;

        for (; wheel_behind(w.set, w.now); loops++) {
            ck_assert_uint_ne(sample(20, &due), 0);
            ck_assert_uint_eq(due, 0);
        }
        most = loops > most ? loops : most;
    }
    /* A bucket of 0.5 s has a quarter of them, and most of that time: four ticks. */
    ck_assert_uint_le(most, n / 4 / 20 / 3 + 10);
    for (; w.now < deadline + 2000; w.now++) {
        uint64_t bytes;
        uint64_t debt = model_between(INT64_MIN, w.now, &bytes);
        uint64_t known = wheel_debt(w.set, w.now);

        ck_assert_uint_eq(known, debt); /* nothing is partly due */
        while (wheel_debt(w.set, w.now) || wheel_behind(w.set, w.now)) {
            sample(20, NULL);
        }
    }
    ck_assert_uint_eq(w.in, 0);
}

/* With too few loops, debt grows and due buckets are in the way, but nothing is lost. */
TEST(a_sampler_that_is_too_slow_loses_nothing)
{
    const uint32_t n = 60000;
    struct wheel_info info;
    uint32_t next = 0;

    world_start(n, CLOCK_FIRST_MS);
    for (unsigned ms = 0; ms < 20000; ms++, w.now++) {
        for (unsigned i = 0; i < 3; i++, next++) {
            add(next, w.now + 1 + (msec_t)rng_below(&w.rng, 3000));
        }
        if (ms % 25 == 0) {
            sample(20, NULL);
        }
        if (ms % 1999 == 0) {
            ck_assert(wheel_verify(w.set));
        }
    }
    w.now += 3000;
    wheel_info(w.set, w.now, &info);
    ck_assert_uint_eq(info.keys, w.in);
    ck_assert_uint_ge(info.debt_keys + 4096,
                      w.in); /* a share of the last bucket is estimated */
    ck_assert_uint_le(drain(20), w.in / 20 + w.in / 14 / 32 * 2 + n / 20 + 100);
    ck_assert_uint_eq(w.in, 0);
    ck_assert(wheel_verify(w.set));
}

/* ---- when to wake ------------------------------------------------------------------------ */

/* Sleeping until wheel_next() is punctual, and few wake-ups find nothing due. */
TEST(sleeping_until_next_is_punctual_and_quiet)
{
    const uint32_t n = 300;
    uint64_t wakes = 0;

    world_start(n, CLOCK_FIRST_MS);
    for (uint32_t i = 0; i < n; i++) {
        msec_t ttl = random_ttl();

        add(i, w.now + (ttl > 0 ? ttl : 1));
    }
    while (w.in) {
        msec_t next = wheel_next(w.set);

        ck_assert_int_le(next, earliest_deadline());
        ck_assert(next != MSEC_NEVER);
        w.now = next > w.now ? next : w.now;
        while (wheel_debt(w.set, w.now) || wheel_behind(w.set, w.now)) {
            unsigned due;

            ck_assert_uint_ne(sample(20, &due), 0);
        }
        ck_assert_int_gt(earliest_deadline(), w.now);
        ck_assert_uint_lt(++wakes, n * 8);
    }
    ck_assert_int_eq(wheel_next(w.set), MSEC_NEVER);
}

/* ---- memory ------------------------------------------------------------------------------ */

TEST(a_million_keys_take_five_bytes_each)
{
    const uint32_t n = 1000000;
    struct wheel_info info;

    world_start(n, CLOCK_FIRST_MS);
    wheel_info(w.set, w.now, &info);
    ck_assert_uint_le(info.bytes, 40 * 1024);
    for (uint32_t i = 0; i < n; i++) {
        add(i, w.now + 1 + (msec_t)rng_below(&w.rng, (uint64_t)HOUR));
    }
    wheel_info(w.set, w.now, &info);
    uint64_t used = (uint64_t)atomic_load(&w.budget.used_bytes);
    ck_assert_uint_eq(info.bytes, used);
    ck_assert_uint_le(info.bytes, 5 * (uint64_t)n);
    /* Most items go, in random order: memory shrinks, and the others stay where they belong. */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t victim = (uint32_t)((uint64_t)i * 7919 % n);

        if (victim % 10 != 0) {
            remove_item(victim);
        }
    }
    ck_assert(wheel_verify(w.set));
    for (unsigned i = 0; i < 5000; i++) {
        sample(20, NULL);
    }
    wheel_info(w.set, w.now, &info);
    ck_assert_uint_le(info.bytes, 8 * (uint64_t)n / 10);
    w.now += HOUR;
    drain(65);
    ck_assert_uint_eq(w.in, 0);
    wheel_info(w.set, w.now, &info);
    ck_assert_uint_le(info.bytes, 128 * 1024);
}

TEST(few_keys_take_little)
{
    struct wheel_info info;

    world_start(200, CLOCK_FIRST_MS);
    for (uint32_t i = 0; i < 200; i++) {
        add(i, w.now + random_ttl());
    }
    wheel_info(w.set, w.now, &info);
    ck_assert_uint_le(info.bytes, 64 * 1024);
}

/* ---- the spare --------------------------------------------------------------------------- */

/* With a spare each time it is wanted, only the first slab is allocated by a reserve. */
TEST(a_wheel_with_a_spare_allocates_nothing)
{
    const uint32_t count = 40000;
    bool wants = false;
    unsigned spares = 0;

    world_start(count, 1000);
    wheel_tell(w.set, &wants);
    add(0, 2000);
    for (uint32_t i = 1; i < count; i++) {
        int64_t before = atomic_load(&w.budget.used_bytes);

        add(i, 2000 + (msec_t)rng_below(&w.rng, 100000000));
        ck_assert_int_eq(atomic_load(&w.budget.used_bytes), before);
        if (wants) {
            struct wheel_spare spare;

            wants = false;
            ck_assert(wheel_spare_make(&spare, wheel_spare_capacity(w.set)));
            wheel_take_spare(w.set, &spare);
            wheel_spare_release(&spare);
            spares++;
        }
    }
    ck_assert_uint_gt(spares, 10); /* the directory became longer, too */
    ck_assert(wheel_verify(w.set));
}

/* A spare that is not needed is left to the caller, or released with the wheel. */
TEST(a_second_spare_is_left)
{
    struct wheel_spare spare;

    world_start(1, 1000);
    for (int i = 0; i < 2; i++) {
        ck_assert(wheel_spare_make(&spare, 0));
        wheel_take_spare(w.set, &spare);
        ck_assert((spare.slab == NULL) == (i == 0));
        wheel_spare_release(&spare);
    }
    add(0, 2000);
    ck_assert(wheel_verify(w.set));
}
