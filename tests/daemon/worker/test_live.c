/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live: several options change together or not at all, and go back to what was given last.
 */
#include "daemon/worker/crew.h"

#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

static struct live_refusal refusal;

TEST_FIXTURE(solo_setup, solo_teardown)

static bool set_two(enum option_id id, const char *value, enum option_id id2,
                    const char *value2)
{
    const struct live_change changes[] = {{id, value}, {id2, value2}};

    return live_set(&solo.crew, changes, 2, &refusal);
}

static uint32_t hz(void)
{
    return setting_get(&solo.settings, hz);
}

static uint32_t idle_timeout(void)
{
    return setting_get(&solo.settings, idle_timeout_s);
}

TEST(all_are_changed_or_none)
{
    ck_assert(set_two(OPTION_hz, "20", OPTION_idle_timeout_s, "7"));
    ck_assert(hz() == 20 && idle_timeout() == 7);
    ck_assert(!set_two(OPTION_hz, "30", OPTION_idle_timeout_s, "x"));
    ck_assert_int_eq(refusal.id, OPTION_idle_timeout_s);
    ck_assert(!set_two(OPTION_hz, "30", OPTION_backlog, "2"));
    ck_assert_int_eq(refusal.id, OPTION_backlog);
    ck_assert_ptr_nonnull(strstr(refusal.why, "restart"));
    ck_assert(!set_two(OPTION_hz, "30", OPTION_memory_limit_bytes, "1000000000"));
    ck_assert_int_eq(refusal.id, OPTION_memory_limit_bytes);
    ck_assert(hz() == 20 && idle_timeout() == 7);
}

TEST(one_that_is_given_twice_is_refused)
{
    ck_assert(!set_two(OPTION_hz, "20", OPTION_hz, "30"));
    ck_assert_ptr_nonnull(strstr(refusal.why, "twice"));
    ck_assert_uint_eq(hz(), 10);
}

/* With -X no keys are shown. */
TEST(what_the_start_has_ruled_out_stays_out)
{
    ck_assert(set_two(OPTION_detail_enabled, "yes", OPTION_hz, "20"));
    ck_assert(set_two(OPTION_detail_enabled, "no", OPTION_hz, "20"));
    solo.settings.no_dump = true;
    ck_assert(!set_two(OPTION_hz, "30", OPTION_detail_enabled, "yes"));
    ck_assert_int_eq(refusal.id, OPTION_detail_enabled);
    ck_assert(set_two(OPTION_hz, "30", OPTION_detail_enabled, "no"));
    ck_assert(!set_two(OPTION_hz, "40", OPTION_appendonly, "keys")); /* no folder */
    ck_assert_int_eq(refusal.id, OPTION_appendonly);
    solo.settings.napi_ids = 4;
    ck_assert(!set_two(OPTION_hz, "40", OPTION_threads, "3"));
    ck_assert_int_eq(refusal.id, OPTION_threads);
    ck_assert_uint_eq(hz(), 30);
}

/* Files that are read again are what was given from then on. */
TEST(a_reset_goes_back_to_what_was_read_last)
{
    static const enum option_id both[] = {OPTION_hz, OPTION_idle_timeout_s};
    enum option_id ids[OPTION_COUNT];
    struct settings fresh;
    unsigned count;

    settings_init(&fresh);
    setting_set(&fresh, hz, 25);
    setting_set(&fresh, threads, setting_get(&solo.settings, threads));
    ck_assert(live_take(&solo.crew, &fresh, ids, &count, &refusal));
    ck_assert(count == 1 && ids[0] == OPTION_hz && hz() == 25);
    ck_assert(set_two(OPTION_hz, "99", OPTION_idle_timeout_s, "7"));
    /* What is in the files as it was does not undo a change. */
    ck_assert(live_take(&solo.crew, &fresh, ids, &count, &refusal));
    ck_assert(count == 0 && hz() == 99);
    ck_assert(live_reset(&solo.crew, both, 2, &refusal));
    ck_assert(hz() == 25 && idle_timeout() == 0);
    settings_fini(&fresh);
}
