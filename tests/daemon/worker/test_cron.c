/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cron: how often a worker expires what is due, by its clients, and with which effort.
 */
#include "daemon/worker/worker.h"

#include "daemon/options/options_live.h"
#include "daemon/options/options_value.h"
#include "daemon/options/settings.h"
#include "tests/common/unit.h"

static struct settings settings;
static struct worker worker;

static void setup(void)
{
    settings_init(&settings);
    memset(&worker, 0, sizeof(worker));
    worker.settings = &settings;
}

static void teardown(void)
{
    settings_fini(&settings);
}

TEST_FIXTURE(setup, teardown)

/* hz is doubled until there are 200 clients a cycle, or it is 500. */
TEST(hz_follows_the_clients)
{
    static const struct {
        bool is_dynamic;
        uint32_t hz;
        uint64_t clients;
        uint32_t want;
    } rows[] = {
        {true, 10, 0, 10},       {true, 10, 2000, 10},    {true, 10, 2010, 20},
        {true, 10, 8040, 80},    {true, 10, 900000, 500}, {true, 1, 500, 4},
        {false, 10, 900000, 10}, {false, 500, 0, 500},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setting_set(&settings, dynamic_hz, rows[i].is_dynamic);
        setting_set(&settings, hz, rows[i].hz);
        ctr_set(&worker.counters, CTR_curr_connections, rows[i].clients);
        ck_assert_uint_eq(cron_hz(&worker), rows[i].want);
    }
}

/* What a cycle of a worker asks of its shard: here nothing is ever there. */
static unsigned asked;

static usec_t no_time(void *arg)
{
    return 0;
}

static void note_asked(void *arg, unsigned max, struct cycle_loop *out)
{
    asked = max;
}

/* Keys that the next cycle looks at in a loop, after config set. */
static unsigned keys_with(const char *effort)
{
    const struct cycle_ops ops = {no_time, note_asked, NULL};
    char why[OPTION_TEXT_BYTES];
    struct cycle_config cfg;
    struct cycle_result res;
    struct cycle cycle;

    ck_assert(option_change(&settings, OPTION_expire_effort, effort, why));
    cron_expire_config(&worker, &cfg);
    cycle_init(&cycle);
    cycle_slice(&cycle, CYCLE_SLOW, &cfg, &ops, &res);
    return asked;
}

TEST(the_next_cycle_has_the_effort_that_was_set)
{
    ck_assert_uint_eq(keys_with("1"), 20);
    ck_assert_uint_eq(keys_with("10"), 65);
    ck_assert_uint_eq(keys_with("5"), 40);
}
