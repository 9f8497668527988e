/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slow uploads of large values: their memory, which are shed, and the fate of the old value.
 * The clock is frozen unless the test moves it.
 */
#include "daemon/access/gate.h"
#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

#define LIMIT (64 * (uint64_t)MIB)

/* What uploads may hold in all, a segment, and the value that may go on beyond that. */
#define HELD_MAX (LIMIT / 4 + (64u << 10) + SOLO_LEN)

TEST_FIXTURE(solo_setup_frozen, solo_teardown_frozen)

/* Announce a value under a key of its own, and send the beginning. */
static int begin_upload(unsigned i, size_t n)
{
    char line[64];
    int fd = wire_dial(0);

    wire_put(fd, line,
             (size_t)snprintf(line, sizeof(line), "set slow%u 0 0 %d\r\n", i, SOLO_LEN));
    wire_put(fd, solo_value, n);
    return fd;
}

/* Until the worker has read what these sent. */
static void wait_until_held(uint64_t bytes)
{
    WAIT_UNTIL(solo_counter(CTR_body_pending_bytes) >= bytes);
}

/* Time passes in steps of the checks. */
static void pass(unsigned ms)
{
    for (unsigned i = 0; i < ms; i += 100) {
        clock_advance(&solo.crew.engine.clock, 100);
        solo_check_pace();
    }
}

TEST(few_that_drip_hold_nobody_up)
{
    enum { DRIPPING = 9, BEGUN = 70000 };
    int other = wire_dial(0);
    int fd[DRIPPING];

    for (unsigned i = 0; i < DRIPPING; i++) {
        fd[i] = begin_upload(i, BEGUN);
    }
    wait_until_held(DRIPPING * (128u << 10));
    for (unsigned sent = 0; sent < 20; sent++) {
        wire_store(other, "k", solo_value, 400000);
        for (unsigned i = 0; i < DRIPPING; i++) {
            wire_put(fd[i], solo_value + BEGUN + sent, 1);
        }
        pass(300);
    }
    ck_assert_uint_eq(solo_counter(CTR_room_waits), 0);
    ck_assert_uint_eq(solo_counter(CTR_bodies_shed), 0); /* they hold little */
    for (unsigned i = 0; i < DRIPPING; i++) {
        wire_put(fd[i], solo_value + BEGUN + 20, SOLO_LEN - BEGUN - 20);
        wire_say(fd[i], "\r\n");
        wire_expect(fd[i], "STORED\r\n");
        close(fd[i]);
    }
}

TEST(the_slowest_give_way_when_they_hold_too_much)
{
    /*
     * What the first one sends is too little even if the worker gets it after the line, so that
     * it counts as progress.
     */
    enum { SLOW = 70, BEGUN_FIRST = 50000, BEGUN = 100000, STEP = 100000 };
    int quick = begin_upload(SLOW, BEGUN);
    int other = wire_dial(0);
    int fd[SLOW];

    wire_store(other, "slow0", "old", 3);
    fd[0] = begin_upload(0, BEGUN_FIRST);
    wait_until_held(BEGUN + BEGUN_FIRST);
    for (unsigned i = 1; i < SLOW; i++) {
        fd[i] = begin_upload(i, BEGUN);
    }
    wait_until_held(SLOW * (128u << 10) + (64u << 10));
    pass(200); /* the first check of all */
    for (size_t at = BEGUN; at < SOLO_LEN; at += STEP) {
        wire_put(quick, solo_value + at, STEP);
        wire_store(other, "k", "v", 1); /* by then the step was read */
        pass(600);
    }
    wire_say(quick, "\r\n");
    wire_expect(quick, "STORED\r\n");
    uint64_t shed = solo_counter(CTR_bodies_shed);
    ck_assert_uint_ge(shed, 6);
    ck_assert_uint_lt(shed, SLOW / 2); /* no more than it takes */
    ck_assert_uint_le(solo_counter(CTR_body_pending_bytes), LIMIT / 8);
    /* The one that began first. Its old value stays, and its stream is in step. */
    wire_expect(fd[0], "SERVER_ERROR Out of memory during read\r\n");
    wire_put(fd[0], solo_value + BEGUN_FIRST, SOLO_LEN - BEGUN_FIRST);
    wire_say(fd[0], "\r\nget slow0\r\n");
    wire_expect_value(fd[0], "slow0", "old", 3);
    wire_expect(fd[0], "END\r\n");
}

/* Of a small value that is little; it began first, and so is looked at first. */
TEST(a_sixteenth_in_a_second_is_enough)
{
    enum { SLOW = 70, SMALL = 300000, BEGUN = 100000, STEP = 25000 };
    int small = wire_dial(0);
    int other = wire_dial(0);

    wire_say(small, "set small 0 0 300000\r\n");
    wire_put(small, solo_value, BEGUN);
    wait_until_held(BEGUN);
    for (unsigned i = 0; i < SLOW; i++) {
        (void)begin_upload(i, BEGUN);
    }
    wait_until_held(SLOW * (128u << 10) + (64u << 10));
    pass(200); /* the first check of all */
    for (size_t at = BEGUN; at < SMALL; at += STEP) {
        wire_put(small, solo_value + at, STEP);
        wire_store(other, "k", "v", 1); /* by then the step was read */
        pass(900);
    }
    ck_assert_uint_gt(solo_counter(CTR_bodies_shed), 0);
    wire_say(small, "\r\n");
    wire_expect(small, "STORED\r\n");
}

TEST(what_they_hold_has_a_bound)
{
    enum { SLOW = 200, BEGUN = 100000 };

    for (unsigned i = 0; i < SLOW; i++) {
        (void)begin_upload(i, BEGUN);
    }
    wait_until_held(LIMIT / 4);
    ck_assert_uint_le(solo_counter(CTR_body_pending_bytes), HELD_MAX);
    ck_assert_uint_eq(solo_counter(CTR_bodies_shed), 0);
    pass(700); /* when there is no room left they give way sooner */
    ck_assert_uint_gt(solo_counter(CTR_bodies_shed), 0);
    ck_assert_uint_le(solo_counter(CTR_body_pending_bytes), HELD_MAX);
}

TEST(a_client_that_goes_away_leaves_the_old_value)
{
    int other = wire_dial(0);

    wire_store(other, "slow0", "old", 3);
    int fd = begin_upload(0, SOLO_LEN / 2);
    wait_until_held(SOLO_LEN / 2);
    close(fd);
    WAIT_UNTIL(solo_counter(CTR_body_pending_bytes) == 0);
    wire_say(other, "get slow0\r\n");
    wire_expect_value(other, "slow0", "old", 3);
    wire_expect(other, "END\r\n");
}

/*
 * An upload that waits at that bound is not retried before its client takes the replies to
 * earlier requests. Until then no upload that comes later waits for it.
 */
TEST(a_client_that_does_not_read_delays_no_upload)
{
    enum { SLOW = 140, BEGUN = 100000, FIRST = 66000 };
    static const char asks[] = "get first\r\nset slow 0 0 1000000\r\n";
    int other = wire_dial(0);
    int slow = wire_dial(SMALL_SOCKET);
    char *bytes = wire_value(BEGUN, 1);
    int fd[SLOW];

    memcpy(bytes, asks, sizeof(asks) - 1);
    wire_store(other, "first", solo_value, FIRST);
    for (unsigned i = 0; i < SLOW; i++) {
        fd[i] = begin_upload(i, BEGUN);
    }
    wait_until_held(LIMIT / 4);
    wire_put(slow, bytes, BEGUN);
    WAIT_UNTIL(solo_counter(CTR_out_pending_bytes) > 0);
    for (unsigned i = 0; i < SLOW; i++) {
        close(fd[i]);
    }
    WAIT_UNTIL(solo_counter(CTR_curr_connections) == 2);
    wire_store(other, "k", solo_value, SOLO_LEN);
    free(bytes);
}

/* It waits for room, but its client does not take replies: that is no reason to spare it. */
TEST(a_client_that_does_not_read_is_shed)
{
    enum { OTHERS = 140, QUICK = 100, BEGUN = 100000, STEP = 20000, FIRST = 66000 };
    static const char asks[] = "get first\r\nset slow 0 0 1000000\r\n";
    int slow = wire_dial(SMALL_SOCKET);
    char *bytes = wire_value(BEGUN, 1);
    int other = wire_dial(0);
    int fd[OTHERS];

    memcpy(bytes, asks, sizeof(asks) - 1);
    wire_store(other, "first", solo_value, FIRST);
    for (unsigned i = 0; i < OTHERS; i++) {
        fd[i] = begin_upload(i, BEGUN);
    }
    wait_until_held(LIMIT / 4);
    wire_put(slow, bytes, BEGUN);
    WAIT_UNTIL(solo_counter(CTR_out_pending_bytes) > 0);
    pass(100); /* the first check of all */
    uint64_t before = solo_counter(CTR_bytes_read);
    for (unsigned i = 0; i < OTHERS; i++) {
        wire_put(fd[i], solo_value + BEGUN, STEP);
    }
    /* Some wait for room, and are not read. */
    WAIT_UNTIL(solo_counter(CTR_bytes_read) >= before + QUICK * STEP);
    pass(400); /* a check looks at 64 */
    ck_assert_uint_eq(solo_counter(CTR_out_pending_bytes), 0);
    free(bytes);
}

/* The worker finds all of it when it reads the line. */
static void put_whole(int fd, const char *set, size_t n)
{
    struct solo_errand e;

    solo_pause(&e);
    wire_put(fd, set, n);
    solo_resume(&e);
}

/*
 * A value that is read into the blocks of its item is stored in the same section. During a
 * failover it waits in memory of its own, as these blocks would be reused after a flush.
 */
TEST(no_value_is_placed_while_a_failover_lasts)
{
    enum { PLACED = 100000, SETS = 50 };
    int fd = wire_dial(0);
    char *set = malloc(PLACED + 40);
    size_t n = (size_t)sprintf(set, "set k 0 0 %d\r\n", PLACED);

    memcpy(set + n, solo_value, PLACED);
    memcpy(set + n + PLACED, "\r\n", 2);
    n += PLACED + 2;
    for (int i = 0; i < SETS && solo_counter(CTR_bodies_placed) == 0; i++) {
        put_whole(fd, set, n);
        wire_expect(fd, "STORED\r\n");
    }
    ck_assert_uint_eq(solo_counter(CTR_bodies_placed), 1);
    gate_set(&solo.crew.gate, GATE_PAUSED, GATE_PAUSED);
    put_whole(fd, set, n);
    WAIT_UNTIL(solo_counter(CTR_room_waits) == 1);
    ck_assert_uint_eq(solo_counter(CTR_bodies_placed), 1);
    gate_set(&solo.crew.gate, GATE_PAUSED, 0);
    wire_expect(fd, "STORED\r\n");
    wire_say(fd, "get k\r\n");
    wire_expect_value(fd, "k", solo_value, PLACED);
    wire_expect(fd, "END\r\n");
    free(set);
}
