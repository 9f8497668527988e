/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the engine reports to its observer: the items that go without a command asking for it,
 * why, each once, and before they are gone.
 */
#include "lib/shard/shard.h"

#include "tests/lib/fixture.h"

#define KEYS_MAX 100000
#define KINDS    4

static struct fixture f;

/* What was reported. Keys are decimal numbers, so that they can be counted. */
static struct {
    unsigned count[KINDS];
    uint64_t bytes[KINDS];         /* of blocks and large values */
    unsigned fetched[KINDS];       /* how many were ever fetched */
    unsigned volatile_ones[KINDS]; /* how many have a deadline */
    uint8_t times[KEYS_MAX];       /* by key */
    unsigned last_key;
    msec_t last_now;
    const char *wrong; /* with an event that is reported after the shard was left */
} told;

static const char *look_at(void *arg, const struct shard_event *ev)
{
    char key[16];

    if (arg != &told || (unsigned)ev->kind >= KINDS) {
        return "it is none of ours";
    }
    if (!item_is_live(ev->item)) {
        return "its item is gone already";
    }
    if ((ev->kind != SHARD_EVICTED) != item_is_due(ev->item, ev->now)) {
        return "its item is due or is not, but not as it says";
    }
    (void)snprintf(key, sizeof(key), "%.*s", (int)ev->item->key_len, item_key(ev->item));
    unsigned long n = strtoul(key, NULL, 10);
    if (n >= KEYS_MAX) {
        return "its key is none";
    }
    told.count[ev->kind]++;
    told.bytes[ev->kind] += item_all_bytes(ev->item);
    told.fetched[ev->kind] += item_was_fetched(ev->item);
    told.volatile_ones[ev->kind] += item_deadline(ev->item) != MSEC_NEVER;
    told.times[n]++;
    told.last_key = (unsigned)n;
    told.last_now = ev->now;
    return NULL;
}

static void on_event(void *arg, const struct shard_event *ev)
{
    const char *wrong = look_at(arg, ev);

    if (wrong != NULL) {
        told.wrong = wrong;
    }
}

static void stop(void)
{
    ck_assert_msg(told.wrong == NULL, "an event: %s", told.wrong);
}

static void start(uint32_t kinds)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.observer = on_event;
    cfg.observer_arg = &told;
    fixture_start(&f, &cfg);
    engine_observe(&f.engine, kinds);
    memset(&told, 0, sizeof(told));
    unit_at_end(stop);
}

static unsigned told_in_all(void)
{
    unsigned sum = 0;

    for (int i = 0; i < KINDS; i++) {
        sum += told.count[i];
    }
    return sum;
}

/* The counters say the same as the events, which were all asked for from the start. */
static void check_counters(void)
{
    static const enum counter ids[KINDS][2] = {
        [SHARD_EVICTED] = {CTR_evictions, CTR_evicted_bytes},
        [SHARD_EXPIRED_LAZY] = {CTR_expired_lazy, CTR_expired_lazy_bytes},
        [SHARD_EXPIRED_ACTIVE] = {CTR_expired_active, CTR_expired_active_bytes},
        [SHARD_EXPIRED_RECLAIM] = {CTR_expired_reclaim, CTR_expired_reclaim_bytes},
    };
    unsigned expired = 0;
    unsigned fetched = 0;

    for (int i = 0; i < KINDS; i++) {
        ck_assert_uint_eq(fixture_counter(&f, ids[i][0]), told.count[i]);
        ck_assert_uint_eq(fixture_counter(&f, ids[i][1]), told.bytes[i]);
        expired += i != SHARD_EVICTED ? told.count[i] : 0;
        fetched += i != SHARD_EVICTED ? told.fetched[i] : 0;
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_reclaimed), expired);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_unfetched), expired - fetched);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evicted_active), told.fetched[SHARD_EVICTED]);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evicted_unfetched),
                      told.count[SHARD_EVICTED] - told.fetched[SHARD_EVICTED]);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evicted_ttl), told.volatile_ones[SHARD_EVICTED]);
}

/* All events were of this kind, and there were `count` of them. */
static void check_only(enum shard_event_kind kind, unsigned count)
{
    ck_assert_uint_eq(told.count[kind], count);
    ck_assert_uint_eq(told_in_all(), count);
}

#define ALL (SHARD_EXPIRED_KINDS | 1u << SHARD_EVICTED)

/* ---- expired, met by a command ----------------------------------------------------------- */

enum { BY_GET, BY_DELETE, BY_TOUCH, BY_SET, BY_ADD, BY_APPEND, BY_INCR, BY_FETCH, WAYS };

static void meet(unsigned key, int how)
{
    struct put p = {.key = fixture_key("", key), .ptr = "1", .len = 1};
    struct fetch get = {0};

    switch (how) {
    case BY_GET:
        ck_assert(!fixture_has(&f, p.key));
        break;
    case BY_DELETE:
        ck_assert_int_eq(fixture_delete(&f, p.key), OUT_NOT_FOUND);
        break;
    case BY_TOUCH:
        ck_assert_int_eq(fixture_touch(&f, p.key, MSEC_NEVER), OUT_NOT_FOUND);
        break;
    case BY_SET:
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
        break;
    case BY_ADD:
        p.mode = STORE_ADD;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
        break;
    case BY_APPEND:
        p.mode = STORE_APPEND;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NOT_STORED);
        break;
    case BY_INCR:
        ck_assert_int_eq(fixture_arith(&f, p.key, false, 1, NULL), OUT_NOT_FOUND);
        break;
    case BY_FETCH:
        ck_assert_int_eq(fixture_fetch(&f, p.key, &get), OUT_MISS);
        break;
    default:
        ck_abort();
    }
}

TEST_LOOP(who_meets_an_expired_item_tells_of_it_once, 2 * WAYS)
{
    const size_t len = _i / WAYS != 0 ? 100000 : 10;
    const int how = _i % WAYS;

    start(ALL);
    fixture_set_until(&f, fixture_key("", 7), len, fixture_now(&f) + 5);
    clock_advance(&f.engine.clock, 4);
    fixture_check(&f, fixture_key("", 7), len);
    check_only(SHARD_EXPIRED_LAZY, 0);
    clock_advance(&f.engine.clock, 1);
    meet(7, how);
    check_only(SHARD_EXPIRED_LAZY, 1);
    ck_assert_uint_eq(told.last_key, 7);
    ck_assert_int_eq(told.last_now, fixture_now(&f));
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_lazy), 1);
    meet(8, how);
    fixture_expire(&f);
    check_only(SHARD_EXPIRED_LAZY, 1);
    check_counters();
}

/* ---- expired, met by the sampler --------------------------------------------------------- */

TEST(the_sampler_tells_of_each_that_is_due)
{
    start(ALL);
    const msec_t now = fixture_now(&f);

    for (unsigned i = 0; i < 1000; i++) {
        fixture_set_until(&f, fixture_key("", i), i % 10 != 0 ? 10 : 40000,
                          now + 1 + i % 2 * 1000);
    }
    for (unsigned i = 0; i < 1000; i += 20) {
        (void)fixture_use(&f, fixture_key("", i), 1);
    }
    clock_advance(&f.engine.clock, 500);
    fixture_expire(&f);
    check_only(SHARD_EXPIRED_ACTIVE, 500);
    ck_assert_uint_eq(told.fetched[SHARD_EXPIRED_ACTIVE], 50);
    check_counters();
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert_uint_eq(told.times[i], i % 2 == 0);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), 500);
    clock_advance(&f.engine.clock, 501);
    fixture_expire(&f);
    check_only(SHARD_EXPIRED_ACTIVE, 1000);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

/* ---- gone to make room ------------------------------------------------------------------- */

TEST(every_eviction_is_told_and_what_was_told_is_gone)
{
    const unsigned n = 30000;
    unsigned gone = 0;

    start(ALL);
    for (unsigned i = 0; i < n; i++) {
        fixture_set(&f, fixture_key("", i), 500);
    }
    for (unsigned i = 0; i < n; i++) {
        ck_assert_uint_le(told.times[i], 1);
        ck_assert_msg(fixture_has(&f, fixture_key("", i)) == (told.times[i] == 0), "key %u", i);
        gone += told.times[i];
    }
    ck_assert_uint_gt(gone, n / 3);
    check_only(SHARD_EVICTED, gone);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), gone);
    check_counters();
}

/* An item has a deadline, or had one, or was fetched; whatever it was, the counters say so. */
TEST(evictions_are_counted_by_what_they_take)
{
    start(ALL);
    fixture_policy(CHOICE_ALLKEYS_RANDOM);
    for (unsigned i = 0; i < 30000; i++) {
        if (i % 3 == 0) {
            fixture_set(&f, fixture_key("", i), 500);
        } else {
            fixture_set_until(&f, fixture_key("", i), 500, fixture_now(&f) + 100000);
        }
        if (i % 3 == 2) {
            (void)fixture_touch(&f, fixture_key("", i), MSEC_NEVER);
        }
        if (i % 5 == 0) {
            (void)fixture_use(&f, fixture_key("", i), 1);
        }
    }
    ck_assert_uint_gt(told.volatile_ones[SHARD_EVICTED], 1000);
    ck_assert_uint_lt(told.volatile_ones[SHARD_EVICTED], told.count[SHARD_EVICTED] / 2);
    ck_assert_uint_gt(told.fetched[SHARD_EVICTED], 500);
    check_counters();
}

TEST(large_values_are_told_too)
{
    start(ALL);
    for (unsigned i = 0; i < 200; i++) {
        fixture_set(&f, fixture_key("", i), 200000);
    }
    ck_assert_uint_gt(told.count[SHARD_EVICTED], 100);
    check_only(SHARD_EVICTED, (unsigned)fixture_counter(&f, CTR_evictions));
    for (unsigned i = 0; i < 200; i++) {
        ck_assert(fixture_has(&f, fixture_key("", i)) == (told.times[i] == 0));
    }
    check_counters();
}

TEST(what_is_due_when_room_is_made_expired)
{
    start(ALL);
    for (unsigned i = 0; i < 30000; i++) {
        fixture_set_until(&f, fixture_key("", i), 500, fixture_now(&f) + 10);
    }
    unsigned before = told.count[SHARD_EVICTED];
    ck_assert_uint_eq(told_in_all(), before);
    clock_advance(&f.engine.clock, 10);
    for (unsigned i = 30000; i < 36000; i++) {
        fixture_set(&f, fixture_key("", i), 500);
    }
    ck_assert_uint_eq(told.count[SHARD_EVICTED], before);
    ck_assert_uint_gt(told.count[SHARD_EXPIRED_RECLAIM], 1000);
    ck_assert_uint_eq(told.count[SHARD_EXPIRED_RECLAIM],
                      fixture_counter(&f, CTR_expired_reclaim));
    ck_assert_uint_eq(told_in_all(), before + told.count[SHARD_EXPIRED_RECLAIM]);
    for (unsigned i = 0; i < 36000; i++) {
        ck_assert_uint_le(told.times[i], i < 30000 ? 1 : 0);
    }
    check_counters();
}

TEST(large_values_that_are_due_when_room_is_made_expire)
{
    start(ALL);
    for (unsigned i = 0; i < 30; i++) {
        fixture_set_until(&f, fixture_key("", i), 200000, fixture_now(&f) + 10);
    }
    clock_advance(&f.engine.clock, 10);
    for (unsigned i = 100; i < 130; i++) {
        fixture_set(&f, fixture_key("", i), 200000);
    }
    ck_assert_uint_gt(told.count[SHARD_EXPIRED_RECLAIM], 10);
    ck_assert_uint_eq(told.count[SHARD_EVICTED], 0);
    check_counters();
}

/* ---- which observer is called ------------------------------------------------------------ */

/* Events of every kind, for keys from this one on. */
static void let_items_go(unsigned key)
{
    msec_t due = fixture_now(&f) + 5;

    for (unsigned i = 0; i < 2; i++) {
        fixture_set_until(&f, fixture_key("", key++), 10, due);
    }
    clock_advance(&f.engine.clock, 5);
    meet(key - 1, BY_GET);
    fixture_expire(&f);
    for (unsigned i = 0; i < 15000; i++) {
        fixture_set_until(&f, fixture_key("", key++), 1000, due + 1000);
    }
    clock_advance(&f.engine.clock, 1000);
    for (unsigned i = 0; i < 1000; i++) {
        fixture_set(&f, fixture_key("", key++), 1000);
    }
    fixture_expire(&f);
}

TEST_LOOP(only_kinds_that_were_asked_for_are_told, KINDS)
{
    start(1u << _i);
    let_items_go(0);
    ck_assert_uint_gt(fixture_counter(&f, CTR_evictions), 0);
    ck_assert_uint_gt(fixture_counter(&f, CTR_expired_lazy), 0);
    ck_assert_uint_gt(fixture_counter(&f, CTR_expired_active), 0);
    ck_assert_uint_gt(fixture_counter(&f, CTR_expired_reclaim), 0);
    ck_assert_uint_gt(told.count[_i], 0);
    check_only((enum shard_event_kind)_i, told.count[_i]);
    ck_assert_msg(told.wrong == NULL, "an event: %s", told.wrong);
    /* Until no kind is asked for any more. */
    memset(&told, 0, sizeof(told));
    engine_observe(&f.engine, 0);
    let_items_go(KEYS_MAX / 2);
    ck_assert_uint_eq(told_in_all(), 0);
}

TEST(without_an_observer_asking_is_in_vain)
{
    fixture_start(&f, NULL);
    engine_observe(&f.engine, ALL);
    let_items_go(0);
    ck_assert_uint_gt(fixture_counter(&f, CTR_evictions), 0);
}

TEST(what_a_command_asked_for_is_no_event)
{
    start(ALL);
    const msec_t now = fixture_now(&f);

    for (unsigned i = 0; i < 100; i++) {
        fixture_set_until(&f, fixture_key("", i), 10, now + 1000);
    }
    for (unsigned i = 0; i < 100; i++) {
        switch (i % 4) {
        case 0:
            ck_assert_int_eq(fixture_delete(&f, fixture_key("", i)), OUT_DELETED);
            break;
        case 1:
            fixture_set(&f, fixture_key("", i), 3000);
            break;
        case 2:
            /* Gone because a command asked for it. */
            ck_assert_int_eq(fixture_touch(&f, fixture_key("", i), now), OUT_TOUCHED);
            break;
        default:
            fixture_set_until(&f, fixture_key("", i), 10, now);
            break;
        }
    }
    fixture_flush(&f, now);
    fixture_settle(&f);
    fixture_expire(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
    ck_assert_uint_eq(told_in_all(), 0);
}
