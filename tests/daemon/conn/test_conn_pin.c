/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slow readers of large values that are overwritten: which are closed, and when. The clock is
 * frozen unless the test moves it.
 */
#include <sys/socket.h>

#include "lib/shard/shard.h"
#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

#define WHOLE MIB /* the segments of a value */
#define LIMIT (64u * MIB)

/* So many dead values are pinned before it is too much. */
#define ENOUGH (LIMIT / 8 / WHOLE)

TEST_FIXTURE(solo_setup_frozen, solo_teardown_frozen)

/* Ask for a value, and read no more than the line before it. */
static int begin_reading(const char *ask, const char *first)
{
    int fd = wire_dial(SMALL_SOCKET);

    wire_say(fd, ask);
    wire_expect(fd, first);
    return fd;
}

/* Values count as dead and pinned from the end of their grace period to the last reader's. */
static void wait_for_dead(unsigned values)
{
    const struct counters *c = &solo.crew.engine.shards[0]->counters;

    WAIT_UNTIL(ctr_get(c, CTR_pinned_dead_bytes) == (uint64_t)values * WHOLE);
}

static void begin_reading_k(int fd[], unsigned n, int other)
{
    for (unsigned i = 0; i < n; i++) {
        fd[i] = begin_reading("get k\r\n", "VALUE k 0 1000000\r\n");
        wire_store(other, "k", solo_value, SOLO_LEN);
    }
    wait_for_dead(n);
}

/* The rest of a value comes whole, except the bytes before `at`. */
static void finish_reading(int fd, size_t at)
{
    wire_expect_bytes(fd, solo_value + at, SOLO_LEN - at);
    wire_expect(fd, "\r\nEND\r\n");
    close(fd);
}

/* It was closed before all came. */
static void expect_cut(int fd)
{
    char *rest = malloc(SOLO_LEN);
    size_t n = 0;
    ssize_t got;

    do {
        got = recv(fd, rest + n, SOLO_LEN - n, 0);
        n += got > 0 ? (size_t)got : 0;
    } while (got > 0 && n < SOLO_LEN);
    ck_assert_int_eq(got, 0);
    ck_assert_mem_eq(rest, solo_value, n);
    free(rest);
    close(fd);
}

static void pass(msec_t ms)
{
    clock_advance(&solo.crew.engine.clock, ms);
    solo_check_pace();
}

TEST(an_eighth_may_be_dead_and_pinned_for_ever)
{
    int other = wire_dial(0);
    int fd[ENOUGH];

    wire_store(other, "k", solo_value, SOLO_LEN);
    begin_reading_k(fd, ENOUGH, other);
    for (int i = 0; i < 10; i++) {
        pass(3600 * 1000);
    }
    ck_assert_uint_eq(solo_counter(CTR_slow_drops), 0);
    for (unsigned i = 0; i < ENOUGH; i++) {
        finish_reading(fd[i], 0);
    }
}

TEST(who_stands_still_is_cut_when_too_much_is_dead)
{
    int other = wire_dial(0);
    int fd[ENOUGH + 1];
    char *some = malloc(SOLO_LEN / 2);

    wire_store(other, "k", solo_value, SOLO_LEN);
    wire_store(other, "alive", solo_value, SOLO_LEN);
    int alive = begin_reading("get alive\r\n", "VALUE alive 0 1000000\r\n");
    begin_reading_k(fd, ENOUGH + 1, other);
    pass(500); /* sees how far they are */
    pass(4999);
    ck_assert_uint_eq(solo_counter(CTR_slow_drops), 0);
    wire_get(fd[0], some, SOLO_LEN / 2);
    ck_assert_mem_eq(some, solo_value, SOLO_LEN / 2);
    pass(501); /* more than five seconds later */
    ck_assert_uint_eq(solo_counter(CTR_slow_drops), 1);
    /* Not the one that progresses, nor the one whose value costs nothing. */
    expect_cut(fd[1]);
    wait_for_dead(ENOUGH);
    pass(3600 * 1000); /* what is left may stay */
    pass(3600 * 1000);
    ck_assert_uint_eq(solo_counter(CTR_slow_drops), 1);
    finish_reading(alive, 0);
    finish_reading(fd[0], SOLO_LEN / 2);
    for (unsigned i = 2; i < ENOUGH + 1; i++) {
        finish_reading(fd[i], 0);
    }
    free(some);
}

TEST(who_progresses_is_not_cut_however_much_is_dead)
{
    enum { READERS = ENOUGH + 4, STEP = SOLO_LEN / 10 };
    int other = wire_dial(0);
    int fd[READERS];

    wire_store(other, "k", solo_value, SOLO_LEN);
    begin_reading_k(fd, READERS, other);
    for (size_t at = 0; at < SOLO_LEN - STEP; at += STEP) {
        for (unsigned i = 0; i < READERS; i++) {
            wire_expect_bytes(fd[i], solo_value + at, STEP);
        }
        pass(5000);
    }
    ck_assert_uint_eq(solo_counter(CTR_slow_drops), 0);
    for (unsigned i = 0; i < READERS; i++) {
        finish_reading(fd[i], SOLO_LEN - STEP);
    }
}

/* A few bytes are progress as well, for those whose sockets take few at a time. */
TEST(who_takes_any_byte_is_not_cut)
{
    enum { READERS = ENOUGH + 4, ROUNDS = 6, LITTLE = 4096 };
    int other = wire_dial(0);
    int server[READERS];
    size_t at[READERS] = {0};
    int fd[READERS];

    wire_store(other, "k", solo_value, SOLO_LEN);
    for (unsigned i = 0; i < READERS; i++) {
        fd[i] = wire_dial_tcp(&server[i]);
        wire_say(fd[i], "get k\r\n");
        wire_expect(fd[i], "VALUE k 0 1000000\r\n");
        wire_store(other, "k", solo_value, SOLO_LEN);
    }
    wait_for_dead(READERS);
    pass(500);
    for (unsigned n = 0; n < ROUNDS; n++) {
        for (unsigned i = 0; i < READERS; i++) {
            size_t took = wire_take_little(fd[i], server[i], solo_value + at[i]);

            ck_assert_uint_lt(took, LITTLE);
            at[i] += took;
        }
        pass(5000);
    }
    ck_assert_uint_eq(solo_counter(CTR_slow_drops), 0);
    for (unsigned i = 0; i < READERS; i++) {
        finish_reading(fd[i], at[i]);
    }
}

/* All are stalled: the reader that took least is the slowest, whichever stalled first. */
TEST(the_slowest_of_those_that_stand_still_goes)
{
    int other = wire_dial(0);
    int fd[ENOUGH + 1];
    char *some = malloc(SOLO_LEN / 2);
    size_t at[ENOUGH + 1];

    wire_store(other, "k", solo_value, SOLO_LEN);
    begin_reading_k(fd, ENOUGH + 1, other);
    pass(500); /* sees how far they are */
    for (unsigned i = 0; i < ENOUGH + 1; i++) {
        at[i] = i == 0 ? SOLO_LEN / 2 : i == 2 ? SOLO_LEN / 10 : SOLO_LEN / 5;
        wire_get(fd[i], some, at[i]);
    }
    pass(5000); /* and that they came further */
    ck_assert_uint_eq(solo_counter(CTR_slow_drops), 0);
    pass(5000);
    ck_assert_uint_eq(solo_counter(CTR_slow_drops), 1);
    wait_for_dead(ENOUGH);
    for (unsigned i = 0; i < ENOUGH + 1; i++) {
        if (i != 2) {
            finish_reading(fd[i], at[i]);
        }
    }
    close(fd[2]);
    free(some);
}
