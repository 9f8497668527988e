/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cron: how often a worker expires what is due, by its clients.
 */
#include "daemon/worker/cron.h"

#include <string.h>

#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
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
