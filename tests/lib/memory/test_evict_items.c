/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policies of Redis: what each evicts and what it never does, in a shard at its limit; the
 * number of samples; and a change of the policy while the shard is full.
 */
#include "lib/memory/evict.h"

#include "lib/memory/chains.h"
#include "tests/lib/fixture.h"

#define LEN   500
#define NEVER ((msec_t)0)

static struct fixture f;

static void start(enum evict_choice choice)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    fixture_policy(choice);
    fixture_start(&f, &cfg);
}

/* Store count items; those with a deadline have it `ms` ahead (0: none). */
static void store(const char *prefix, unsigned count, msec_t ms)
{
    for (unsigned i = 0; i < count; i++) {
        if (ms == 0) {
            fixture_set(&f, fixture_key(prefix, i), LEN);
        } else {
            fixture_set_until(&f, fixture_key(prefix, i), LEN, fixture_now(&f) + ms);
        }
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
}

static unsigned present(const char *prefix, unsigned from, unsigned to)
{
    unsigned n = 0;

    for (unsigned i = from; i < to; i++) {
        n += fixture_has(&f, fixture_key(prefix, i));
    }
    return n;
}

static uint64_t evictions(void)
{
    return fixture_counter(&f, CTR_evictions);
}

/* ---- the table --------------------------------------------------------------------------- */

TEST(every_choice_has_a_policy_that_can_do_what_it_says)
{
    for (unsigned i = 0; i < EVICT_CHOICES; i++) {
        const struct evict_policy *p = evict_policies[i];

        ck_assert_ptr_nonnull(p);
        ck_assert((p->pick != NULL && p->judge != NULL) == (p->way == EVICT_SEGMENTS));
        ck_assert((p->past_create == NULL) == (p->past_chain == NULL));
        ck_assert(p->score == NULL || p->way == EVICT_ITEMS);
        for (unsigned j = 0; j < i; j++) {
            ck_assert_str_ne(p->name, evict_policies[j]->name);
        }
    }
}

/* ---- promises ---------------------------------------------------------------------------- */

TEST(noeviction_refuses)
{
    unsigned n = 0;

    start(CHOICE_NOEVICTION);
    while (fixture_try(&f, fixture_key("k", n), LEN, MSEC_NEVER) == OUT_STORED) {
        n++;
    }
    ck_assert_uint_gt(n, 10000);
    ck_assert_uint_eq(present("k", 0, n), n);
    ck_assert_uint_eq(evictions(), 0);
}

static const enum evict_choice volatile_choices[] = {
    CHOICE_VOLATILE_LRU, CHOICE_VOLATILE_LFU, CHOICE_VOLATILE_RANDOM, CHOICE_VOLATILE_TTL};

/*
 * What has no deadline stays, and is not copied round and round. When nothing else is left,
 * stores are refused.
 */
TEST_LOOP(volatile_ones_never_evict_a_key_without_deadline, 4)
{
    static const struct item *place[5000];
    unsigned n = 0;
    unsigned moved = 0;

    start(volatile_choices[_i]);
    store("stays-", 5000, NEVER);
    store("goes-", 30000, 100000);
    ck_assert_uint_ge(evictions(), 12000); /* what waits for a grace period may be beside it */
    ck_assert_uint_eq(present("stays-", 0, 5000), 5000);
    for (unsigned i = 0; i < 5000; i++) {
        struct got got = fixture_get(&f, fixture_key("stays-", i));

        ck_assert_int_eq(got.chain, CHAIN_MAIN);
        place[i] = got.item;
    }
    while (fixture_try(&f, fixture_key("more-", n), LEN, MSEC_NEVER) == OUT_STORED) {
        n++;
    }
    ck_assert_uint_gt(n, 5000);
    ck_assert_uint_eq(present("stays-", 0, 5000), 5000);
    ck_assert_uint_eq(present("more-", 0, n), n);
    ck_assert_uint_le(present("goes-", 0, 30000), 100);
    for (unsigned i = 0; i < 5000; i++) {
        moved += fixture_get(&f, fixture_key("stays-", i)).item != place[i];
    }
    ck_assert_uint_le(moved, 100);
}

/* Fill the shard with items of the deadlines given, in no order; returns how many. */
static unsigned fill_by_deadline(msec_t first, msec_t apart)
{
    unsigned n = 0;

    for (; fixture_avail(&f) > 8; n++) {
        msec_t ms = first + (msec_t)(n * 7919u % 30000) * apart;

        fixture_set_until(&f, fixture_key("k", n), LEN, fixture_now(&f) + ms);
    }
    ck_assert_uint_eq(evictions(), 0);
    ck_assert_uint_gt(n, 10000);
    return n;
}

/*
 * The earliest deadline goes, exactly, where some hundred fall into a minute, or fewer: what
 * has gone was earlier than all that is there.
 */
TEST(volatile_ttl_takes_the_earliest)
{
    unsigned last_gone = 0;
    unsigned first_left = UINT32_MAX;

    start(CHOICE_VOLATILE_TTL);
    unsigned n = fill_by_deadline(600000, 400);
    store("later-", 5000, 20000000);
    for (unsigned i = 0; i < n; i++) {
        unsigned place = i * 7919u % 30000;

        if (!fixture_has(&f, fixture_key("k", i))) {
            last_gone = place > last_gone ? place : last_gone;
        } else {
            first_left = place < first_left ? place : first_left;
        }
    }
    ck_assert_uint_gt(evictions(), 1000);
    ck_assert_uint_lt(last_gone, first_left);
    /* Those that come and are earlier are the next. */
    n = present("later-", 0, 5000) + present("k", 0, n);
    store("sooner-", 5000, 300000);
    ck_assert_uint_ge(present("later-", 0, 5000) + present("k", 0, 30000) + 100, n);
}

/* One that is put off after the policy has looked at it is not the next any more. */
TEST(volatile_ttl_spares_what_was_put_off)
{
    start(CHOICE_VOLATILE_TTL);
    (void)fill_by_deadline(600000, 400);
    store("soon-", 64, 1000);
    uint64_t before = evictions();
    for (unsigned i = 0; evictions() == before; i++) {
        fixture_set_until(&f, fixture_key("later-", i), LEN, fixture_now(&f) + 20000000);
    }
    for (unsigned i = 0; i < 64; i++) {
        (void)fixture_touch(&f, fixture_key("soon-", i), fixture_now(&f) + 20000000);
    }
    before = 64 - present("soon-", 0, 64);
    ck_assert_uint_lt(before, 64);
    store("more-", 1000, 20000000);
    ck_assert_uint_eq(present("soon-", 0, 64), 64 - before);
}

/* Of thousands in one bucket of the wheel the early ones go, though not in order. */
TEST(volatile_ttl_takes_early_ones_of_many)
{
    uint64_t sum = 0;
    unsigned gone = 0;

    start(CHOICE_VOLATILE_TTL);
    unsigned n = fill_by_deadline(600000, 1); /* all within half a minute */
    store("later-", 5000, 20000000);
    for (unsigned i = 0; i < n; i++) {
        if (!fixture_has(&f, fixture_key("k", i))) {
            sum += i * 7919u % 30000;
            gone++;
        }
    }
    ck_assert_uint_gt(gone, 1000);
    /* In order, the mean of their places would be half of the share that went, of 30000. */
    ck_assert_uint_lt(sum / gone, gone * UINT64_C(15000) / n * 5 / 4);
}

/* Of a full shard one half is used again later. How much of that half does the policy evict? */
static unsigned lost_of_used(enum evict_choice choice, uint32_t samples)
{
    start(choice);
    atomic_store(&fixture_options.maxmemory_samples, samples);
    for (unsigned i = 0; evictions() == 0; i++) {
        fixture_set_until(&f, fixture_key("k", i), LEN, fixture_now(&f) + 1000000);
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
    clock_advance(&f.engine.clock, 60000);
    for (unsigned i = 0; i < 10000; i += 2) {
        (void)fixture_use(&f, fixture_key("k", i), 1);
    }
    clock_advance(&f.engine.clock, 60000);
    unsigned lost = present("k", 0, 10000);
    store("new-", 4000, 1000000);
    lost -= present("k", 0, 10000);
    ck_assert_uint_gt(lost, 1000);
    lost = 0;
    for (unsigned i = 0; i < 10000; i += 2) {
        lost += !fixture_has(&f, fixture_key("k", i));
    }
    fixture_stop(&f);
    return lost;
}

TEST(lru_spares_what_was_used_lately)
{
    const enum evict_choice choices[] = {CHOICE_ALLKEYS_LRU, CHOICE_VOLATILE_LRU};

    for (int i = 0; i < 2; i++) {
        unsigned by_many = lost_of_used(choices[i], 64);
        unsigned by_five = lost_of_used(choices[i], 5);

        ck_assert_uint_le(by_many, 20);
        ck_assert_uint_le(by_five, 600);
        ck_assert_uint_gt(lost_of_used(choices[i], 1), by_many);
    }
    ck_assert_uint_gt(lost_of_used(CHOICE_ALLKEYS_RANDOM, 5), 700);
}

/* ---- lfu --------------------------------------------------------------------------------- */

#define GROUP 3000u

static void use(const char *prefix, unsigned count, unsigned times)
{
    for (unsigned i = 0; i < count; i++) {
        (void)fixture_use(&f, fixture_key(prefix, i), times);
    }
}

static unsigned lost(const char *prefix)
{
    return GROUP - present(prefix, 0, GROUP);
}

/* Store new keys until this number of items was evicted. */
static void push_out(unsigned count)
{
    static unsigned n;
    uint64_t until = evictions() + count;

    while (evictions() < until) {
        fixture_set_until(&f, fixture_key("new-", n), LEN, fixture_now(&f) + 100000000);
        (void)fixture_use(&f, fixture_key("new-", n), 1);
        if (n++ % 16 == 0) {
            fixture_grace(&f);
        }
    }
}

static void start_lfu(enum evict_choice choice, uint32_t factor, uint32_t decay_min)
{
    start(choice);
    atomic_store(&fixture_options.lfu_log_factor, factor);
    atomic_store(&fixture_options.lfu_decay_time, decay_min);
}

/* Three equal parts, used 1, 10 and 100 times: the less, the more of it goes. */
TEST_LOOP(lfu_spares_what_was_used_often, 2)
{
    start_lfu(_i == 0 ? CHOICE_ALLKEYS_LFU : CHOICE_VOLATILE_LFU, 10, 1);
    store("once-", GROUP, 100000000);
    store("often-", GROUP, 100000000);
    store("most-", GROUP, 100000000);
    use("most-", GROUP, 100);
    use("often-", GROUP, 10);
    use("once-", GROUP, 1);
    push_out(6000);
    ck_assert_uint_gt(lost("once-"), 600);
    ck_assert_uint_lt(lost("often-"), lost("once-") / 2);
    ck_assert_uint_le(lost("most-"), lost("often-") / 4);
    ck_assert_uint_le(lost("most-"), 10);
}

/* Of what is lost of two groups, used 40 and 10 times: how much is of the second? */
static unsigned lost_by_factor(uint32_t factor)
{
    start_lfu(CHOICE_ALLKEYS_LFU, factor, 0);
    atomic_store(&fixture_options.maxmemory_samples, 32);
    store("40-", GROUP, 100000000);
    store("10-", GROUP, 100000000);
    use("10-", GROUP, 10);
    use("40-", GROUP, 40);
    /* All others have the highest counter. */
    for (unsigned i = 0; evictions() < 2000; i++) {
        fixture_set(&f, fixture_key("new-", i), LEN);
        (void)fixture_use(&f, fixture_key("new-", i), 400);
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
    unsigned pct = 100 * lost("10-") / (lost("40-") + lost("10-"));
    fixture_stop(&f);
    return pct;
}

/* A high factor tells only what differs by much. */
TEST(lfu_log_factor_says_what_differs)
{
    ck_assert_uint_ge(lost_by_factor(0), 95);
    ck_assert_uint_le(lost_by_factor(1000), 75);
}

/* Of what was used often long ago, and a little now: how much of what goes is of the former? */
static unsigned lost_of_old(uint32_t decay_min)
{
    start_lfu(CHOICE_ALLKEYS_LFU, 1, decay_min);
    store("old-", GROUP, 100000000);
    use("old-", GROUP, 100);
    clock_advance(&f.engine.clock, 20 * 60000);
    store("now-", GROUP, 100000000);
    use("now-", GROUP, 10);
    push_out(6000);
    unsigned pct = 100 * lost("old-") / (lost("old-") + lost("now-"));
    fixture_stop(&f);
    return pct;
}

TEST(lfu_decay_time_says_when_the_past_is_forgotten)
{
    ck_assert_uint_ge(lost_of_old(1), 90);
    ck_assert_uint_le(lost_of_old(0), 10);
    ck_assert_uint_le(lost_of_old(1000), 10);
}

/* What is due dies before anything alive is evicted. */
TEST_LOOP(expired_first, EVICT_CHOICES)
{
    unsigned filled;

    start((enum evict_choice)_i);
    for (filled = 0; fixture_avail(&f) > 8; filled++) {
        msec_t ms = filled % 2 == 0 ? 1000 : 1000000;

        fixture_set_until(&f, fixture_key("k", filled), LEN, fixture_now(&f) + ms);
    }
    clock_advance(&f.engine.clock, 2000);
    ck_assert_uint_eq(evictions(), 0);
    store("new-", filled / 4, 1000000);
    ck_assert_uint_gt(fixture_counter(&f, CTR_reclaimed), 1000);
    ck_assert_uint_eq(evictions(), 0);
    ck_assert_uint_eq(present("new-", 0, filled / 4), filled / 4);
}

/* ---- a change at work -------------------------------------------------------------------- */

/* What was counted for another policy counts for lfu, and the other way round. */
TEST_LOOP(what_is_known_survives_a_change_of_policy, 3)
{
    static const enum evict_choice changes[3][2] = {
        {CHOICE_DENSITY, CHOICE_ALLKEYS_LFU},
        {CHOICE_ALLKEYS_LFU, CHOICE_DENSITY},
        {CHOICE_ALLKEYS_LRU, CHOICE_VOLATILE_LFU},
    };

    start(changes[_i][0]);
    store("hot-", GROUP, 100000000);
    store("cold-", GROUP, 100000000);
    use("hot-", GROUP, 20);
    ck_assert_uint_eq(evictions(), 0);
    fixture_policy(changes[_i][1]);
    store("new-", 20000, 100000000);
    ck_assert_uint_gt(lost("cold-"), 400);
    ck_assert_uint_le(lost("hot-"), lost("cold-") / 4);
}

/*
 * From any policy to any other, in a full shard with items of many sizes: each goes on at once
 * with what is there.
 */
TEST(policies_are_changed_at_work)
{
    static const size_t lens[] = {100, 500, 3000, 20000, 100000};

    start(CHOICE_DENSITY);
    store("stays-", 1000, NEVER);
    for (unsigned round = 0; round < 3 * EVICT_CHOICES; round++) {
        enum evict_choice choice = (enum evict_choice)(round * 4 % EVICT_CHOICES);
        uint64_t before = evictions();
        unsigned stored = 0;

        fixture_policy(choice);
        unsigned had = present("stays-", 0, 1000);
        for (unsigned i = 0; i < 600; i++) {
            msec_t deadline = i % 3 == 0 ? MSEC_NEVER : fixture_now(&f) + 1000000;

            if (evict_sorts(evict_policies[choice])) {
                deadline = fixture_now(&f) + 1000000 + (msec_t)i;
            }
            stored += fixture_try(&f, fixture_key("k", round * 1000 + i), lens[i % 5],
                                  deadline) == OUT_STORED;
            if (i % 16 == 0) {
                fixture_grace(&f);
            }
        }
        if (evict_policies[choice]->way == EVICT_NOTHING) {
            ck_assert_uint_eq(evictions(), before);
        } else if (!evict_sorts(evict_policies[choice])) {
            ck_assert_uint_eq(stored, 600);
            ck_assert_uint_gt(evictions(), before);
        }
        if (evict_sorts(evict_policies[choice])) {
            ck_assert_uint_eq(present("stays-", 0, 1000), had);
        }
        fixture_verify(&f);
    }
}
