/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heat: the two forms of the byte, what a hit does to it under each policy, how counters grow
 * and decay beside what Redis says of its own, and that a fetch is always marked.
 */
#include "lib/memory/heat.h"

#include "lib/base/rcu.h"
#include "tests/common/unit.h"

static struct engine_options options;
static struct heat_rules rules;
static struct heat_user user;

static void set_up(enum evict_choice choice, uint32_t factor, uint32_t decay_min)
{
    static bool is_registered;

    memcpy(&options, &engine_options_default, sizeof(options));
    atomic_store(&options.maxmemory_policy, choice);
    atomic_store(&options.lfu_log_factor, factor);
    atomic_store(&options.lfu_decay_time, decay_min);
    heat_rules_init(&rules, &options);
    heat_user_init(&user, &rules, 1);
    if (!is_registered) {
        is_registered = true;
        rcu_register();
    }
}

static struct item item_with(uint8_t heat, uint32_t used_s)
{
    struct item it;

    memset(&it, 0, sizeof(it));
    atomic_store(&it.heat, heat);
    item_set_access(&it, used_s);
    return it;
}

static void hit(struct item *it, unsigned times, uint32_t now_s)
{
    rcu_begin();
    heat_rules_clock(&rules, now_s);
    for (unsigned i = 0; i < times; i++) {
        item_mark_used(it, now_s, &user);
    }
    rcu_end();
}

/* ---- forms ------------------------------------------------------------------------------- */

TEST(each_value_has_one_form)
{
    unsigned counters = 0;

    for (unsigned i = 0; i < 256; i++) {
        uint8_t heat = (uint8_t)i;

        if (heat_is_freq(heat)) {
            counters++;
            ck_assert_uint_eq(heat_with_freq(heat, heat_freq(heat)), heat);
            ck_assert(!heat_is_freq(heat_turns(heat)));
            ck_assert_uint_eq(heat_turns(heat) & HEAT_JUDGED, HEAT_JUDGED);
        } else {
            ck_assert_uint_eq(heat_turns(heat), heat);
            ck_assert_uint_ge(heat_freq(heat), FREQ_NEW);
            ck_assert_uint_le(heat_freq(heat), FREQ_MAX);
        }
        ck_assert_uint_eq(heat_turns(heat) & HEAT_FETCHED, heat & HEAT_FETCHED);
    }
    ck_assert_uint_eq(counters, 2 * (FREQ_MAX + 1));
}

/* What is more in one form is not less in the other. */
TEST(forms_have_the_same_order)
{
    ck_assert_uint_eq(heat_freq(0), FREQ_NEW);
    ck_assert_uint_eq(heat_turns(heat_with_freq(0, FREQ_NEW)), HEAT_JUDGED);
    for (unsigned freq = 1; freq <= FREQ_MAX; freq++) {
        ck_assert_uint_ge(heat_turns(heat_with_freq(0, freq)),
                          heat_turns(heat_with_freq(0, freq - 1)) & ~HEAT_COUNT);
        ck_assert_uint_ge(heat_turns(heat_with_freq(0, freq)) & HEAT_COUNT,
                          heat_turns(heat_with_freq(0, freq - 1)) & HEAT_COUNT);
    }
    for (unsigned hits = 1; hits <= HEAT_MAX; hits++) {
        ck_assert_uint_gt(heat_freq((uint8_t)hits), heat_freq((uint8_t)(hits - 1)));
    }
    ck_assert_uint_gt(heat_freq(HEAT_JUDGED | HEAT_CREDIT), heat_freq(HEAT_JUDGED));
}

/* ---- hits -------------------------------------------------------------------------------- */

TEST(others_than_lfu_count_to_three)
{
    struct item it = item_with(0, 7);

    set_up(CHOICE_DENSITY, 10, 1);
    for (unsigned i = 1; i <= 5; i++) {
        hit(&it, 1, 7);
        ck_assert_uint_eq(it.heat, HEAT_FETCHED | (i < 3 ? i : 3));
    }
    /* What the policy noted stays; that it was fetched is marked though the count is full. */
    it = item_with(HEAT_JUDGED | HEAT_CREDIT | HEAT_MAX, 7);
    hit(&it, 1, 9);
    ck_assert_uint_eq(it.heat, HEAT_FETCHED | HEAT_JUDGED | HEAT_CREDIT | HEAT_MAX);
    ck_assert_uint_eq(item_access_s(&it, 9), 9);
    /* A counter that lfu left goes on, and does not decay. */
    it = item_with(heat_with_freq(0, 20), 7);
    hit(&it, 1000, 100000);
    ck_assert_uint_gt(heat_freq(it.heat), 20);
    ck_assert_uint_lt(heat_freq(it.heat), 40);
}

TEST(a_first_hit_is_always_marked)
{
    const enum evict_choice choices[] = {CHOICE_DENSITY, CHOICE_ALLKEYS_LFU};

    for (unsigned i = 0; i < 2 * 256; i++) {
        struct item it = item_with((uint8_t)(i & ~HEAT_FETCHED), 7);

        set_up(choices[i / 256], 1000000, 1);
        hit(&it, 1, 7);
        ck_assert_msg((it.heat & HEAT_FETCHED) != 0, "heat %x", i % 256);
    }
}

/*
 * Counters after numbers of hits, from the documentation of Redis; ours end at 59. The
 * mean of many items is within one and a half of it.
 */
TEST(counters_grow_as_those_of_redis)
{
    static const struct {
        uint32_t factor, hits;
        double counter;
    } rows[] = {{0, 40, 45},    {0, 100, 59},     {1, 100, 18},  {1, 1000, 49},  {10, 100, 10},
                {10, 1000, 18}, {10, 100000, 59}, {100, 100, 8}, {100, 1000, 11}};

    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct item items[64];
        double sum = 0;

        set_up(CHOICE_ALLKEYS_LFU, rows[r].factor, 1);
        for (unsigned i = 0; i < 64; i++) {
            items[i] = item_with(0, 7);
        }
        for (unsigned n = 0; n < rows[r].hits; n++) {
            for (unsigned i = 0; i < 64; i++) {
                hit(&items[i], 1, 7);
            }
        }
        for (unsigned i = 0; i < 64; i++) {
            sum += heat_freq(items[i].heat);
        }
        ck_assert_msg(sum / 64 > rows[r].counter - 1.5 && sum / 64 < rows[r].counter + 1.5,
                      "factor %u, %u hits: %f", rows[r].factor, rows[r].hits, sum / 64);
    }
}

/* Under lfu the other form goes on as a counter. */
TEST(lfu_counts_on_from_what_was_counted)
{
    struct item it = item_with(HEAT_FETCHED | 2, 7);

    set_up(CHOICE_VOLATILE_LFU, 0, 1);
    hit(&it, 1, 7);
    ck_assert(heat_is_freq(it.heat));
    ck_assert_uint_eq(heat_freq(it.heat), FREQ_NEW + 3);
}

TEST(rules_follow_the_options)
{
    struct item it = item_with(0, 7);

    set_up(CHOICE_ALLKEYS_LRU, 0, 1);
    hit(&it, 10, 7);
    ck_assert_uint_eq(it.heat, HEAT_FETCHED | HEAT_MAX);
    atomic_store(&options.maxmemory_policy, CHOICE_ALLKEYS_LFU);
    heat_rules_fit(&rules);
    hit(&it, 10, 7);
    ck_assert_uint_eq(heat_freq(it.heat), FREQ_NEW + HEAT_MAX + 10);
    atomic_store(&options.lfu_log_factor, 2147483647);
    heat_rules_fit(&rules);
    hit(&it, 1000, 7);
    ck_assert_uint_eq(heat_freq(it.heat), FREQ_NEW + HEAT_MAX + 10);
    /* Decay begins at once, not with the next minute. */
    atomic_store(&options.lfu_decay_time, 0);
    heat_rules_fit(&rules);
    hit(&it, 1, 130);
    ck_assert_uint_eq(heat_freq(it.heat), FREQ_NEW + HEAT_MAX + 10);
    it = item_with(HEAT_FETCHED | heat_with_freq(0, 40), 59);
    atomic_store(&options.lfu_decay_time, 1);
    heat_rules_fit(&rules);
    hit(&it, 1, 131);
    ck_assert_uint_eq(heat_freq(it.heat), 38);
}

/* ---- decay ------------------------------------------------------------------------------- */

TEST(counters_decay_by_minutes_as_those_of_redis)
{
    ck_assert_uint_eq(heat_decayed(20, 119, 120, 1), 19); /* a minute ended */
    ck_assert_uint_eq(heat_decayed(20, 120, 179, 1), 20);
    ck_assert_uint_eq(heat_decayed(20, 60, 660, 1), 10);
    ck_assert_uint_eq(heat_decayed(20, 60, 660, 3), 17);
    ck_assert_uint_eq(heat_decayed(20, 60, 660, 11), 20);
    ck_assert_uint_eq(heat_decayed(20, 60, 6000, 1), 0);
    ck_assert_uint_eq(heat_decayed(20, 60, 6000, 0), 20);
    ck_assert_uint_eq(heat_decayed(20, 61, 60, 1), 20); /* another thread was ahead */
}

/* What comes back after a pause has what is left of its counter, and what it counts. */
TEST(a_hit_after_a_pause_counts_on_from_what_is_left)
{
    static const struct {
        uint32_t decay_min, pause_min;
        unsigned left;
    } rows[] = {{1, 0, 40},  {1, 1, 39},   {1, 10, 30}, {3, 10, 37},
                {0, 10, 40}, {11, 10, 40}, {10, 10, 39}};

    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct item it = item_with(HEAT_FETCHED | heat_with_freq(0, 40), 6000);

        set_up(CHOICE_ALLKEYS_LFU, 2147483647, rows[r].decay_min);
        hit(&it, 1, 6000 + rows[r].pause_min * 60);
        ck_assert_uint_eq(heat_freq(it.heat), rows[r].left);
        ck_assert_uint_eq(item_idle_s(&it, 6000 + rows[r].pause_min * 60), 0);
        ck_assert_uint_eq(it.heat & HEAT_FETCHED, HEAT_FETCHED);
        hit(&it, 100, 6059 + rows[r].pause_min * 60); /* within the minute nothing decays */
        ck_assert_uint_eq(heat_freq(it.heat), rows[r].left);
    }
}

/* A minute begins with its first second: then counters of the one before have decayed. */
TEST(counters_decay_at_the_first_second_of_a_minute)
{
    struct item it = item_with(HEAT_FETCHED | heat_with_freq(0, 40), 6059);

    set_up(CHOICE_ALLKEYS_LFU, 2147483647, 1);
    hit(&it, 1, 6059); /* the rules know the minute */
    ck_assert_uint_eq(heat_freq(it.heat), 40);
    hit(&it, 1, 6060);
    ck_assert_uint_eq(heat_freq(it.heat), 39);
}

TEST(what_another_policy_counted_decays_in_a_pause)
{
    struct item it = item_with(HEAT_FETCHED | HEAT_JUDGED | HEAT_CREDIT | HEAT_MAX, 6000);
    unsigned worth = heat_freq(it.heat);

    set_up(CHOICE_ALLKEYS_LFU, 2147483647, 1);
    hit(&it, 1, 6000 + 2 * 60);
    ck_assert(heat_is_freq(it.heat));
    ck_assert_uint_eq(heat_freq(it.heat), worth - 2);
    it = item_with(HEAT_FETCHED, 6000);
    hit(&it, 1, 6000 + 100 * 60);
    ck_assert_uint_eq(heat_freq(it.heat), 1); /* nothing is left, and the hit counts */
}

/* A new value of an item has the counter of the old one, as of now. */
TEST(what_is_overwritten_has_decayed)
{
    uint8_t heat = heat_with_freq(HEAT_FETCHED, 40);

    set_up(CHOICE_ALLKEYS_LFU, 10, 1);
    ck_assert_uint_eq(heat_inherited(heat, 6000, 6600, &options),
                      heat_with_freq(HEAT_FETCHED, 30));
    /* Turns are worth a counter of 8: it decays under lfu, and nowhere else. */
    ck_assert_uint_eq(heat_inherited(HEAT_JUDGED | 3, 6000, 6059, &options), HEAT_JUDGED | 3);
    ck_assert_uint_eq(heat_inherited(HEAT_JUDGED | 3, 6000, 6120, &options),
                      heat_with_freq(0, 6));
    set_up(CHOICE_DENSITY, 10, 1);
    ck_assert_uint_eq(heat_inherited(HEAT_JUDGED | 3, 6000, 6600, &options), HEAT_JUDGED | 3);
}

/* ---- the second of the last use ---------------------------------------------------------- */

/* It has 22 bits, and another thread may be ahead. The bits beside it stay. */
TEST(the_second_of_the_last_use_is_known_for_weeks)
{
    const uint32_t starts_s[] = {ACCESS_IDLE_MAX_S, ACCESS_MASK, ACCESS_MASK + 1, 1u << 30,
                                 UINT32_MAX - 100};
    const uint32_t idles_s[] = {0, 1, 60, ACCESS_AHEAD_S, ACCESS_IDLE_MAX_S};
    struct item it;

    memset(&it, 0, sizeof(it));
    atomic_store(&it.used, USED_CONST);
    for (size_t i = 0; i < sizeof(starts_s) / sizeof(starts_s[0]); i++) {
        for (size_t k = 0; k < sizeof(idles_s) / sizeof(idles_s[0]); k++) {
            item_set_access(&it, starts_s[i] - idles_s[k]);
            ck_assert_uint_eq(item_access_s(&it, starts_s[i]), starts_s[i] - idles_s[k]);
            ck_assert_uint_eq(item_idle_s(&it, starts_s[i]), idles_s[k]);
        }
        item_set_access(&it, starts_s[i] + 2);
        ck_assert_uint_eq(item_access_s(&it, starts_s[i]), starts_s[i] + 2);
        ck_assert_uint_eq(item_used(&it) & USED_CONST, USED_CONST);
    }
    item_set_access(&it, 1);
    ck_assert_uint_eq(item_access_s(&it, 3), 1);
}
