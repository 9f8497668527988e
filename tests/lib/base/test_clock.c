/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock: its first value, that it moves by what tests add, that it stops when frozen,
 * that its milliseconds begin with those of the wall clock, and that a thread which loses the
 * CPU between two clocks does not shift deadlines.
 */
#include <sys/syscall.h>
#include <time.h>

#include "lib/base/clock.h"
#include "tests/common/unit.h"

/*
 * The clocks of the system, as the kernel has them or as the test sets them: each read takes
 * fake_read_ns, and after each of the next `losses` reads of the wall clock lost_ns pass.
 */
#define FAKE_WALL_NS (INT64_C(1700000000) * 1000000000)
#define NS_PER_MS    INT64_C(1000000)

static int64_t fake_boot_ns;  /* 0: the real clocks */
static int64_t fake_ahead_ns; /* how far the wall clock is ahead of it */
static int64_t fake_read_ns;
static int64_t lost_ns;
static unsigned losses;

int clock_gettime(clockid_t id, struct timespec *ts);
int clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t ns = fake_boot_ns + (id == CLOCK_REALTIME ? fake_ahead_ns : 0);

    if (fake_boot_ns == 0) {
        return (int)syscall(SYS_clock_gettime, id, ts);
    }
    *ts = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    fake_boot_ns += fake_read_ns;
    if (id == CLOCK_REALTIME && losses > 0) {
        losses--;
        fake_boot_ns += lost_ns;
    }
    return 0;
}

static void fake_clocks(unsigned count, int64_t ms)
{
    fake_boot_ns = INT64_C(1000000000000);
    fake_ahead_ns = FAKE_WALL_NS;
    fake_read_ns = 1000;
    losses = count;
    lost_ns = ms * NS_PER_MS;
}

TEST(losing_the_cpu_between_two_clocks_shifts_nothing)
{
    struct clock c;

    fake_clocks(0, 0);
    clock_init(&c);
    int64_t offset_ms = clock_unix_offset_ms(&c);
    fake_clocks(1, 400);
    ck_assert_int_eq(clock_unix_offset_ms(&c), offset_ms);
    fake_clocks(3, 400);
    ck_assert_int_eq(clock_to_unix_ms(&c, 0), offset_ms);
    /* Where it is lost each time the best try counts, and it comes to an end. */
    fake_clocks(UINT32_MAX, 2);
    ck_assert_int_le(llabs((long long)(offset_ms - clock_unix_offset_ms(&c))), 3);
    /* The start of a clock takes both, too. */
    fake_clocks(1, 400);
    clock_init(&c);
    clock_freeze(&c);
    ck_assert_int_le(llabs((long long)((fake_boot_ns + FAKE_WALL_NS) / 1000000 -
                                       clock_to_unix_ms(&c, clock_now(&c)))),
                     1);
    fake_boot_ns = 0;
}

/* ---- milliseconds begin together --------------------------------------------------------- */

/* The clock when the wall clock shows this. */
static msec_t at_wall_ns(const struct clock *c, int64_t wall_ns)
{
    fake_boot_ns = wall_ns - fake_ahead_ns;
    return clock_now(c);
}

/* Some of them are next to the end of a millisecond. */
static const int64_t phases_ns[] = {0,      1,      999,    1000,   25000,  333333,
                                    500000, 499999, 750001, 975000, 999000, 999999};

#define PHASES (int)(sizeof(phases_ns) / sizeof(phases_ns[0]))

static void assert_exact(const struct clock *c)
{
    int64_t unix_ms = (fake_boot_ns + fake_ahead_ns) / NS_PER_MS + 1000;
    msec_t t = unix_ms - clock_unix_offset_ms(c);

    ck_assert_int_eq(clock_to_unix_ms(c, t), unix_ms);
    ck_assert_int_eq(at_wall_ns(c, unix_ms * NS_PER_MS - 1), t - 1);
    ck_assert_int_eq(at_wall_ns(c, unix_ms * NS_PER_MS), t);
    ck_assert_int_eq(at_wall_ns(c, (unix_ms + 1) * NS_PER_MS - 1), t);
    ck_assert_int_eq(at_wall_ns(c, (unix_ms + 1) * NS_PER_MS), t + 1);
}

TEST_LOOP(a_unix_time_comes_with_the_millisecond, PHASES)
{
    struct clock c;

    for (int i = 0; i < PHASES; i++) {
        fake_clocks(0, 0);
        fake_boot_ns += phases_ns[_i];
        fake_ahead_ns += phases_ns[i];
        clock_init(&c);
        assert_exact(&c);
        /* A leap second, and a wall clock that was set by whole milliseconds. */
        fake_ahead_ns -= 1000 * NS_PER_MS;
        assert_exact(&c);
        fake_ahead_ns += 7 * NS_PER_MS;
        assert_exact(&c);
    }
    fake_boot_ns = 0;
}

/* It is never late, and early by less than a millisecond. */
TEST_LOOP(a_wall_clock_that_was_set_makes_no_time_late, PHASES)
{
    static const int64_t same_ns = 20000; /* what counts as an error of measurement */
    struct clock c;

    for (int way = -1; way <= 1; way += 2) {
        fake_clocks(0, 0);
        fake_boot_ns += 123456;
        clock_init(&c);
        fake_ahead_ns += way * (INT64_C(5000) * NS_PER_MS + phases_ns[_i]);
        int64_t unix_ms = (fake_boot_ns + fake_ahead_ns) / NS_PER_MS + 1000;
        msec_t t = unix_ms - clock_unix_offset_ms(&c);
        ck_assert_int_eq(clock_to_unix_ms(&c, t), unix_ms);
        ck_assert_int_ge(at_wall_ns(&c, unix_ms * NS_PER_MS + same_ns), t);
        ck_assert_int_lt(at_wall_ns(&c, (unix_ms - 1) * NS_PER_MS), t);
        /* A later process continues this clock, and is exact again. */
        struct clock next;
        msec_t then = clock_now(&c);
        int64_t zero_ns = clock_zero_ns(&c);
        clock_init_at(&next, zero_ns);
        ck_assert_int_ge(clock_now(&next), then);
        ck_assert_int_le(llabs((long long)(clock_zero_ns(&next) - zero_ns)), NS_PER_MS);
        ck_assert_int_le(clock_zero_ns(&next), zero_ns);
        if (phases_ns[_i] > same_ns && phases_ns[_i] < NS_PER_MS - same_ns) {
            assert_exact(&next);
        } else {
            ck_assert_int_eq(clock_zero_ns(&next), zero_ns);
        }
    }
    fake_boot_ns = 0;
}

TEST(a_frozen_clock_is_continued_exactly)
{
    struct clock c;
    struct clock next;

    fake_clocks(0, 0);
    fake_boot_ns += 654321;
    clock_init(&c);
    fake_boot_ns += 55555555;
    clock_freeze(&c);
    fake_boot_ns += 44444444;
    clock_advance(&c, 777);
    clock_init_at(&next, clock_zero_ns(&c));
    ck_assert_int_eq(clock_now(&next), clock_now(&c));
    assert_exact(&next);
    fake_boot_ns = 0;
}

TEST(starts_at_its_first_value)
{
    struct clock c;

    clock_init(&c);
    msec_t t = clock_now(&c);
    ck_assert_int_ge(t, CLOCK_FIRST_MS);
    ck_assert_int_lt(t, CLOCK_FIRST_MS + 60000);
}

TEST(never_goes_back)
{
    struct clock c;

    clock_init(&c);
    msec_t last = clock_now(&c);
    for (int i = 0; i < 100000; i++) {
        msec_t t = clock_now(&c);
        ck_assert_int_ge(t, last);
        last = t;
    }
}

TEST(frozen_clock_moves_only_by_advance)
{
    struct clock c;

    clock_init(&c);
    clock_freeze(&c);
    msec_t t = clock_now(&c);
    int64_t unix_ms = clock_unix_ms(&c);

    /* Let three milliseconds pass. */
    usec_t begin = clock_mono_us();
    while (clock_mono_us() - begin < 3000) {
    }
    ck_assert_int_eq(clock_now(&c), t);
    ck_assert_int_eq(clock_unix_ms(&c), unix_ms);

    clock_advance(&c, 1500);
    ck_assert_int_eq(clock_now(&c), t + 1500);
    ck_assert_int_eq(clock_unix_ms(&c), unix_ms + 1500);

    clock_freeze(&c);
    ck_assert_int_eq(clock_now(&c), t + 1500);
}

TEST(advance_moves_a_running_clock_too)
{
    struct clock c;

    clock_init(&c);
    msec_t t = clock_now(&c);
    int64_t unix_ms = clock_unix_ms(&c);
    clock_advance(&c, 3600 * 1000);
    ck_assert_int_ge(clock_now(&c), t + 3600 * 1000);
    ck_assert_int_ge(clock_unix_ms(&c), unix_ms + 3600 * 1000 - 1000);
}

TEST(unix_time_of_a_moment)
{
    struct clock c;

    clock_init(&c);
    ck_assert_int_le(llabs((long long)time(NULL) - clock_unix_ms(&c) / 1000), 5);

    clock_freeze(&c);
    msec_t t = clock_now(&c);
    ck_assert_int_eq(clock_to_unix_ms(&c, t), clock_unix_ms(&c));
    ck_assert_int_eq(clock_to_unix_ms(&c, t + 250), clock_unix_ms(&c) + 250);
    ck_assert_int_eq(clock_to_unix_ms(&c, t - 250), clock_unix_ms(&c) - 250);
    ck_assert(clock_to_unix_ms(&c, MSEC_NEVER) == MSEC_NEVER);
    clock_step_wall(&c, -5000);
    ck_assert_int_eq(clock_unix_offset_ms(&c), clock_unix_ms(&c) - clock_now(&c));
    /* A deadline may be any number. */
    ck_assert(clock_to_unix_ms(&c, MSEC_NEVER - 1) == MSEC_NEVER);
}

TEST(sums_of_times_stay_in_range)
{
    ck_assert_int_eq(clock_add_ms(5, -7), -2);
    ck_assert(clock_add_ms(INT64_MAX - 1, 1) == INT64_MAX);
    ck_assert(clock_add_ms(INT64_MAX - 1, 2) == INT64_MAX);
    ck_assert(clock_add_ms(INT64_MIN + 1, -2) == INT64_MIN);
}

TEST(the_measuring_clock_moves)
{
    usec_t begin = clock_mono_us();

    while (clock_mono_us() == begin) {
    }
    ck_assert_int_gt(clock_mono_us(), begin);
}

TEST(a_clock_goes_on_with_the_time_of_another)
{
    struct clock first;
    struct clock next;

    clock_init(&first);
    clock_advance(&first, 3600000);
    msec_t then = clock_now(&first);
    clock_init_at(&next, clock_zero_ns(&first));
    ck_assert_int_ge(clock_now(&next), then);
    ck_assert_int_le(clock_now(&first), clock_now(&next));
    ck_assert_int_eq(clock_zero_ns(&next), clock_zero_ns(&first));
    clock_freeze(&next);
    ck_assert_int_ge(clock_unix_ms(&next), clock_unix_ms(&first) - 3600000 - 1000);
    /* One that has run for longer than this machine. */
    clock_init_at(&next, clock_boot_ns() - INT64_C(1000000) * (INT64_C(1) << 40));
    ck_assert_int_ge(clock_now(&next), INT64_C(1) << 40);
    ck_assert_int_lt(clock_now(&next), (INT64_C(1) << 40) + 60000);
}
