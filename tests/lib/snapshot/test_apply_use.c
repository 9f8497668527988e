/* SPDX-License-Identifier: BSD-3-Clause */
/* What applying a state of a key does to how the key was used here. */
#include "lib/snapshot/apply.h"

#include "tests/lib/fixture.h"

enum { OWN_HEAT = HEAT_JUDGED | HEAT_FETCHED | 2, SENT_HEAT = 1, SENT_IDLE_S = 100 };

static struct fixture f;
static struct apply_counts counts;
static struct apply a;
static char value[300000];

static bool is_stopped(void *arg)
{
    return false;
}

/* Apply a state of the key: its value as a whole, or in parts. */
static void apply(const char *key, size_t len)
{
    struct scan_sink sink = apply_sink(&a);
    struct snap_item it = {.cas = 5,
                           .heat = SENT_HEAT,
                           .idle_s = SENT_IDLE_S,
                           .deadline = SNAP_DEADLINE_NEVER,
                           .key = span_str(key),
                           .value = span_of(value, len),
                           .value_len = (uint32_t)len};

    if (len <= 10) {
        ck_assert(sink.item(sink.arg, NULL, &it));
    } else {
        it.value.len = len / 2;
        ck_assert(sink.value_begin(sink.arg, NULL, &it));
        ck_assert(sink.value_part(sink.arg, span_of(value + len / 2, len - len / 2)));
        ck_assert(sink.value_end(sink.arg));
    }
    apply_rest(&a);
}

static void set_up(bool keeps_use, enum apply_mode mode)
{
    fixture_start(&f, NULL);
    clock_advance(&f.engine.clock, 1000000);
    a = (struct apply){.engine = &f.engine,
                       .counts = &counts,
                       .mode = mode,
                       .keeps_use = keeps_use,
                       .to_unix_ms = clock_unix_offset_ms(&f.engine.clock),
                       .is_stopped = is_stopped};
}

static void store_used(const char *key, size_t len, msec_t deadline, uint32_t access_s)
{
    fixture_set_until(&f, key, len, deadline);
    struct item *it = (struct item *)(uintptr_t)fixture_get(&f, key).item;
    atomic_store(&it->heat, (uint8_t)OWN_HEAT);
    item_set_access(it, access_s);
}

static void check_use(const char *key, uint8_t heat, uint32_t access_s)
{
    struct got got = fixture_get(&f, key);

    ck_assert(got.is_hit);
    ck_assert_uint_eq(got.cas, 5);
    ck_assert_uint_eq(atomic_load(&got.item->heat), heat);
    ck_assert_uint_eq(item_access_s(got.item, (uint32_t)(fixture_now(&f) / 1000)), access_s);
}

/* Old and new value: in a block, and large. */
TEST_LOOP(a_key_that_is_there_keeps_its_use_if_asked_to, 8)
{
    const size_t old_len = (_i & 1) != 0 ? 10 : 200000;
    const size_t len = (_i & 2) != 0 ? 10 : sizeof(value);
    const bool keeps_use = (_i & 4) != 0;

    set_up(keeps_use, APPLY_STATES);
    uint32_t sent_s = (uint32_t)(fixture_now(&f) / 1000) - SENT_IDLE_S;
    store_used("k", old_len, MSEC_NEVER, 700);
    apply("k", len);
    ck_assert_uint_eq(fixture_get(&f, "k").len, len);
    if (keeps_use) {
        check_use("k", OWN_HEAT, 700);
    } else {
        check_use("k", SENT_HEAT, sent_s);
    }
    /* One that is not there, or not any more, has that of the sender. */
    apply("new", len);
    check_use("new", SENT_HEAT, sent_s);
    engine_follow_due(&f.engine, DUE_NOTHING);
    store_used("masked", old_len, fixture_now(&f) + 1, 700);
    clock_advance(&f.engine.clock, 1);
    apply("masked", len);
    check_use("masked", SENT_HEAT, sent_s);
}
