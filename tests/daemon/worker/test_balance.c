/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * balance: which worker has to give connections away, after how long, and which of its
 * connections go. Shares and units of work are made up: no worker runs, and no time passes.
 */
#include "daemon/worker/balance.h"

#include "tests/common/unit.h"

#define N 4u

static struct balance b;
static struct balance_order order;
static struct balance_weight all[600];

static void setup(void)
{
    balance_init(&b);
    memset(all, 0, sizeof(all));
}

TEST_FIXTURE(setup, NULL)

/* A second with these shares; what is to be done. */
static enum balance_act look(uint32_t s0, uint32_t s1, uint32_t s2, uint32_t s3)
{
    const uint32_t share[N] = {s0, s1, s2, s3};

    balance_look(&b, share, N, &order);
    return order.act;
}

static unsigned choose(uint32_t share, uint32_t gap, unsigned count, uint64_t more)
{
    const struct balance_order o = {.act = BALANCE_GIVE, .to = 1, .share = share, .gap = gap};
    uint64_t total = more;

    for (unsigned i = 0; i < count; i++) {
        all[i].goes = false;
        total += all[i].units;
    }
    return balance_choose(&o, total, all, count);
}

TEST(the_hot_one_gives_after_three_seconds)
{
    ck_assert_int_eq(look(500, 950, 300, 100), BALANCE_NOTHING);
    ck_assert_int_eq(look(500, 950, 300, 100), BALANCE_WEIGH);
    ck_assert_uint_eq(b.hot, 1);
    ck_assert_int_eq(look(500, 950, 300, 100), BALANCE_GIVE);
    ck_assert_uint_eq(order.to, 3);
    ck_assert_uint_eq(order.share, 950);
    ck_assert_uint_eq(order.gap, 850);
    ck_assert_int_eq(look(500, 900, 300, 400),
                     BALANCE_GIVE); /* and in each second after that */
    ck_assert_uint_eq(order.to, 2);
    ck_assert_int_eq(look(500, 800, 300, 400), BALANCE_NOTHING);
    ck_assert_uint_eq(b.hot, BALANCE_NOBODY);
    ck_assert_int_eq(look(500, 950, 300, 400), BALANCE_NOTHING); /* from the beginning */
}

TEST(both_limits_count)
{
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(look(800, 0, 0, 0), BALANCE_NOTHING);       /* not above 80 per cent */
        ck_assert_int_eq(look(950, 700, 980, 730), BALANCE_NOTHING); /* another is hot */
        ck_assert_int_eq(look(950, 700, 940, 730), BALANCE_NOTHING);
        ck_assert_uint_eq(b.hot, BALANCE_NOBODY);
    }
    ck_assert_int_eq(look(951, 700, 900, 730), BALANCE_NOTHING);
    ck_assert_int_eq(look(951, 700, 900, 730), BALANCE_WEIGH);
    ck_assert_uint_eq(b.hot, 0);
}

TEST(of_two_that_are_hot_one_is_kept)
{
    ck_assert_int_eq(look(900, 950, 0, 0), BALANCE_NOTHING);
    ck_assert_int_eq(look(950, 900, 0, 0), BALANCE_WEIGH);
    ck_assert_uint_eq(b.hot, 1);
    ck_assert_int_eq(look(990, 850, 0, 0), BALANCE_GIVE);
    ck_assert_uint_eq(b.hot, 1);
    ck_assert_int_eq(look(990, 700, 0, 0), BALANCE_NOTHING);
    ck_assert_uint_eq(b.hot, 0);
}

TEST(one_that_has_gone_from_the_active_ones_is_not_hot)
{
    const uint32_t one[1] = {900};

    look(0, 950, 0, 0);
    look(0, 950, 0, 0);
    balance_look(&b, one, 1, &order);
    ck_assert_int_eq(order.act, BALANCE_NOTHING);
    ck_assert_uint_eq(b.hot, BALANCE_NOBODY);
}

TEST(one_that_had_nothing_to_give_is_left_alone_for_a_while)
{
    unsigned quiet = 0;

    look(950, 0, 0, 0);
    look(950, 0, 0, 0);
    ck_assert_int_eq(look(950, 0, 0, 0), BALANCE_GIVE);
    balance_gave_nothing(&b);
    ck_assert_int_eq(look(950, 900, 0, 0), BALANCE_NOTHING);
    ck_assert_uint_eq(b.hot, 1); /* others are not */
    while (look(950, 0, 0, 0) == BALANCE_NOTHING) {
        quiet++;
    }
    ck_assert_uint_eq(quiet, BALANCE_PAUSE_S - 1);
    ck_assert_uint_eq(b.hot, 0);
    ck_assert_int_eq(look(950, 0, 0, 0), BALANCE_GIVE);
}

TEST(the_connection_nearest_to_half_the_difference_goes)
{
    const uint64_t units[] = {100, 450, 200, 250};

    for (unsigned i = 0; i < 4; i++) {
        all[i].units = units[i];
    }
    ck_assert_uint_eq(choose(1000, 1000, 4, 0), 1); /* 500 of 1000 */
    ck_assert(all[1].goes);
    ck_assert_uint_eq(choose(1000, 500, 4, 0), 1);
    ck_assert(all[3].goes);
    ck_assert_uint_eq(choose(1000, 390, 4, 0), 1); /* the smaller of two may go as well */
    ck_assert(all[2].goes);
    ck_assert_uint_eq(choose(500, 195, 4, 0), 1); /* the share does not matter */
    ck_assert(all[2].goes);
}

TEST(small_ones_go_until_the_half_is_reached)
{
    uint64_t gone = 0;

    for (unsigned i = 0; i < 100; i++) {
        all[i].units = 90 + i % 20;
    }
    ck_assert_uint_ge(choose(1000, 1000, 100, 0), 45);
    for (unsigned i = 0; i < 100; i++) {
        gone += all[i].goes ? all[i].units : 0;
    }
    ck_assert_uint_ge(gone, 4850);
    ck_assert_uint_le(gone, 5050);
}

TEST(the_load_of_one_connection_stays)
{
    all[0].units = 100000;
    ck_assert_uint_eq(choose(1000, 1000, 1, 0), 0);
    for (unsigned i = 1; i < 100; i++) {
        all[i].units = 10;
    }
    ck_assert_uint_eq(choose(1000, 1000, 100, 0), 0);
    ck_assert_uint_eq(choose(900, 300, 100, 0), 0);
}

TEST(the_others_go_instead_of_one_that_has_most)
{
    all[0].units = 800;
    all[1].units = 100;
    all[2].units = 100;
    ck_assert_uint_eq(choose(1000, 950, 3, 0), 2);
    ck_assert(!all[0].goes && all[1].goes && all[2].goes);
}

TEST(none_goes_that_would_only_turn_the_difference_round)
{
    all[0].units = 450;
    all[1].units = 450;
    ck_assert_uint_eq(choose(900, 500, 2, 0), 0); /* 400 and 900 would become 850 and 450 */
    ck_assert_uint_eq(choose(900, 800, 2, 0), 1);
}

TEST(none_goes_that_has_to_stay)
{
    all[0] = (struct balance_weight){.units = 500, .stays = true};
    all[1].units = 300;
    all[2].units = 200;
    ck_assert_uint_eq(choose(1000, 1000, 3, 0), 2);
    ck_assert(!all[0].goes && all[1].goes && all[2].goes);
    all[1].stays = true;
    all[2].stays = true;
    ck_assert_uint_eq(choose(1000, 1000, 3, 0), 0);
}

TEST(datagrams_and_those_that_are_not_listed_count)
{
    all[0].units = 100;
    all[1].units = 100;
    ck_assert_uint_eq(choose(1000, 1000, 2, 800), 2); /* a tenth of the load each */
    ck_assert_uint_eq(choose(1000, 250, 2, 800), 1);
}

TEST(nothing_that_was_counted_is_nothing_to_give)
{
    ck_assert_uint_eq(choose(1000, 1000, 0, 0), 0);
    ck_assert_uint_eq(choose(1000, 1000, 10, 0), 0);
    ck_assert_uint_eq(choose(0, 0, 10, 100), 0);
}
