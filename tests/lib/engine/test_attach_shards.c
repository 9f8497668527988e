/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach, grow, reshard: an engine whose items are in a file has other shards than it began
 * with, and so has the next one.
 */
#include <sys/resource.h>

#include "lib/engine/attach.h"
#include "lib/engine/grow.h"
#include "lib/reshard/migrate.h"
#include "lib/reshard/reshard.h"
#include "tests/lib/engine/attached.h"

TEST_FIXTURE(make_file, remove_file)

TEST(further_shards_are_there_after_a_restart)
{
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan};

    shards = 1;
    start();
    for (unsigned i = 0; i < 100; i++) {
        fixture_set(&f, fixture_key("k", i), 100 + i * 400);
    }
    for (uint32_t count = 2; count <= 6; count++) {
        ck_assert_int_eq(engine_add_shards(&f.engine, f.engine.shard_count + 1), MF_OK);
        move_plan_even(&plan, &f.engine, count);
        ck_assert_int_eq(engine_move(&f.engine, &cfg, NULL), MF_OK);
        if (count % 2 == 0) {
            stop();
            start_warm();
        }
        ck_assert_uint_eq(f.engine.shard_count, count);
        for (unsigned i = 0; i < 100; i++) {
            fixture_check(&f, fixture_key("k", i), 100 + i * 400);
        }
        for (uint32_t i = 0; i < count; i++) {
            ck_assert_uint_gt(ctr_get(&f.engine.shards[i]->counters, CTR_curr_items), 0);
        }
    }
}

/* Wherever the mover is, the next engine goes on from there. */
TEST(a_number_of_shards_that_was_not_reached_is_reached_later)
{
    static const uint32_t wanted[] = {5, 1, 3};
    struct reshard_info info;

    start();
    for (unsigned i = 0; i < 2000; i++) {
        fixture_set(&f, fixture_key("k", i), 100 + i % 500);
    }
    for (unsigned n = 0; n < 3; n++) {
        ck_assert_int_eq(engine_set_shards(&f.engine, wanted[n], 1), MF_OK);
        do {
            engine_reshard_info(&f.engine, &info);
        } while (info.items < 100 && info.state != RESHARD_IDLE);
        stop();
        start_warm();
        /* Those that were emptied are not left. */
        ck_assert_uint_ge(f.engine.shard_count, wanted[n]);
        ck_assert_uint_le(f.engine.shard_count, 5);
        ck_assert_uint_eq(a.items, 2000);
        ck_assert_int_eq(engine_set_shards(&f.engine, wanted[n], 0), MF_OK);
        do {
            engine_reshard_info(&f.engine, &info);
        } while (info.state != RESHARD_IDLE);
        for (uint32_t i = 0; i < f.engine.shard_count; i++) {
            uint64_t items = ctr_get(&f.engine.shards[i]->counters, CTR_curr_items);

            ck_assert(i < wanted[n] ? items > 1000 / wanted[n] : items == 0);
        }
        for (unsigned i = 0; i < 2000; i++) {
            fixture_check(&f, fixture_key("k", i), 100 + i % 500);
        }
    }
    stop();
    start_warm();
    ck_assert_uint_eq(a.items, 2000);
}

/* The file is not emptied for an engine that is not made. */
TEST(a_start_that_is_refused_keeps_the_file)
{
    struct rlimit had, now;
    struct engine_config cfg;
    struct engine e;

    start();
    fixture_set(&f, "a", 100);
    stop();
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &had), 0);
    now = (struct rlimit){.rlim_cur = MIB, .rlim_max = had.rlim_max};
    fixture_config(&cfg);
    cfg.limit_bytes = limit;
    cfg.attach = &a;
    memset(&a, 0, sizeof(a));
    ck_assert_msg(attach_open_fd(&a, dup(file)), "%s", a.why);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &now), 0);
    ck_assert_int_eq(engine_start(&e, &cfg), MF_ESYS);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &had), 0);
    ck_assert(strstr(a.why, "ulimit -f") != NULL);
    attach_close(&a);
    start_warm();
    fixture_check(&f, "a", 100);
}

/* Nothing has changed, and the file is good. */
TEST(a_file_that_must_not_be_longer_gets_no_further_shard)
{
    struct rlimit had, now;

    start();
    fixture_set(&f, "a", 100);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &had), 0);
    now = (struct rlimit){.rlim_cur = a.region[1].at + a.region[1].bytes,
                          .rlim_max = had.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &now), 0);
    ck_assert_int_eq(engine_add_shards(&f.engine, f.engine.shard_count + 1), MF_ESYS);
    ck_assert(strstr(a.why, "ulimit -f") != NULL);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &had), 0);
    ck_assert_uint_eq(f.engine.shard_count, 2);
    ck_assert_uint_eq(memory_sharers(&f.engine.shards[0]->memory), 2);
    stop();
    start_warm();
    ck_assert_uint_eq(f.engine.shard_count, 2);
    fixture_check(&f, "a", 100);
}
