/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work of connections is added up while that is asked for, and for those that are open.
 */
#include "daemon/conn/conn_weigh.h"

#include "daemon/conn/conn_steps.h"
#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

TEST_FIXTURE(solo_setup, solo_teardown)

static void obey(struct worker *w, enum balance_act act)
{
    const struct balance_order order = {.act = act, .to = 1, .share = 1000, .gap = 1000};

    conn_balance_obey(w, &order);
}

static void weigh(struct worker *w)
{
    obey(w, BALANCE_WEIGH);
}

static void give(struct worker *w)
{
    obey(w, BALANCE_GIVE);
}

static void end(struct worker *w)
{
    obey(w, BALANCE_END);
}

/* What was added up, once each entry has been looked at. */
static struct {
    bool is_on;
    unsigned entries; /* of connections that are open */
    uint64_t total, least, most;
} seen;

static bool is_open(const struct worker *w, const struct conn *wanted)
{
    for (const struct conn *c = w->conns->first; c != NULL; c = c->next) {
        if (c == wanted) {
            return true;
        }
    }
    return false;
}

static void look(struct worker *w)
{
    const struct weights *all = w->conns->weights;

    memset(&seen, 0, sizeof(seen));
    seen.is_on = all != NULL;
    seen.least = UINT64_MAX;
    for (unsigned i = 0; all != NULL && i < all->count; i++) {
        const uint64_t units = all->of[i].units;

        if (all->conn[i] != NULL) {
            ck_assert(is_open(w, all->conn[i]) && all->conn[i]->weight_slot == i + 1);
            seen.entries++;
            seen.least = units < seen.least ? units : seen.least;
            seen.most = units > seen.most ? units : seen.most;
        }
    }
    seen.total = all != NULL ? all->total : 0;
}

static void check_no_slots(struct worker *w)
{
    for (const struct conn *c = w->conns->first; c != NULL; c = c->next) {
        ck_assert_uint_eq(c->weight_slot, 0);
    }
}

static void ask(int fd, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        wire_say(fd, "mn\r\n");
        wire_expect(fd, "MN\r\n");
    }
}

TEST(only_what_was_asked_for_is_added_up)
{
    int one = wire_dial(0);
    int other = wire_dial(0);

    ask(one, 3);
    solo_run(look);
    ck_assert(!seen.is_on);
    solo_run(check_no_slots);

    solo_run(weigh);
    ask(one, 30);
    ask(other, 3);
    solo_run(look);
    ck_assert_uint_eq(seen.entries, 2);
    ck_assert_uint_eq(seen.most, 10 * seen.least);
    ck_assert_uint_eq(seen.total, seen.most + seen.least);

    solo_run(weigh); /* from nothing */
    ask(other, 1);
    solo_run(look);
    ck_assert_uint_eq(seen.entries, 1);
    ck_assert_uint_eq(seen.total, seen.most);

    solo_run(end);
    ask(one, 3);
    solo_run(look);
    ck_assert(!seen.is_on);
    solo_run(check_no_slots);
}

/* The work of a read that finds the end is counted when that has closed the connection. */
static void close_first(struct worker *w)
{
    struct conn *c = w->conns->first;

    conn_close(c);
    conn_weigh(c, 4);
    ck_assert_uint_eq(c->weight_slot, 0);
}

TEST(those_that_close_are_forgotten)
{
    int stays = wire_dial(0);
    int closes = wire_dial(0);

    solo_run(weigh);
    ask(stays, 1);
    ask(closes, 1);
    solo_run(close_first);
    wire_expect_end(closes);
    close(closes);
    ask(stays, 1);
    solo_run(look);
    ck_assert_uint_eq(seen.entries, 1);
    solo_run(weigh);
    solo_run(look);
    ck_assert_uint_eq(seen.entries + seen.total, 0);
}

/* There is one worker: the one that is to get them does not serve. */
TEST(none_goes_to_a_worker_that_does_not_serve)
{
    int one = wire_dial(0);
    int other = wire_dial(0);

    solo_run(give); /* nothing was added up: it begins to */
    ask(one, 5);
    ask(other, 5);
    solo_run(look);
    ck_assert_uint_eq(seen.entries, 2);
    solo_run(give);
    ask(one, 1);
    ask(other, 1);
    ck_assert_uint_eq(solo_counter(CTR_conns_balanced), 0);
    ck_assert_uint_eq(solo_counter(CTR_curr_connections), 2);
}
