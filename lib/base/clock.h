/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time. msec_t counts milliseconds since the clock was made, by CLOCK_BOOTTIME, which never
 * steps and goes on while the machine is suspended. Milliseconds of this clock and of the wall
 * clock begin together, so a Unix time in milliseconds has an exact equivalent. Callers read
 * the clock once per batch of requests and once per background slice. Tests move it by
 * clock_advance(); a frozen clock moves only by that.
 *
 * After the wall clock was set, milliseconds no longer begin together: the equivalent of a Unix
 * time is then the millisecond of this clock in which it begins, so it is up to a millisecond
 * early and never late. The next clock_init() or clock_init_at() aligns them again.
 */
#ifndef MAYFLY_LIB_BASE_CLOCK_H
#define MAYFLY_LIB_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef int64_t msec_t;
typedef int64_t usec_t;

/* A deadline that never comes. */
#define MSEC_NEVER INT64_MAX

struct clock {
    /* [const] */
    int64_t start_ns;      /* CLOCK_BOOTTIME when CLOCK_FIRST_MS began */
    int64_t start_unix_ms; /* the wall clock then: a frozen clock counts from it */
    /* [atomic] */
    _Atomic int64_t offset_ms; /* how far tests moved the clock */
    _Atomic int64_t step_ms;   /* how far tests stepped the wall clock */
    _Atomic bool is_frozen;    /* tests: only clock_advance() moves it */
};

/* Start a clock; its first value is CLOCK_FIRST_MS. Context: before start. */
void clock_init(struct clock *c);

/*
 * Start a clock that continues the time of a clock of an earlier process. zero_ns is the value
 * of CLOCK_BOOTTIME, in nanoseconds, at which both read 0: clock_zero_ns() returns it for the
 * earlier clock. It may be negative. If the wall clock was set since, the new clock is ahead of
 * the earlier one by less than a millisecond. Context: before start; clock_zero_ns(): any
 * thread.
 */
void clock_init_at(struct clock *c, int64_t zero_ns);
int64_t clock_zero_ns(const struct clock *c);

/* CLOCK_BOOTTIME and CLOCK_REALTIME in nanoseconds. Context: any thread. */
int64_t clock_boot_ns(void);
int64_t clock_real_ns(void);

/* The first value is not 0, so that "two seconds ago" is never negative. */
#define CLOCK_FIRST_MS 2000

/* Now, in milliseconds. Context: any thread. */
msec_t clock_now(const struct clock *c);

/* The wall clock in Unix milliseconds; tests move it likewise. Context: any thread. */
int64_t clock_unix_ms(const struct clock *c);

/* t + ms, limited to INT64_MIN and MSEC_NEVER: a client may have chosen t. */
static inline int64_t clock_add_ms(int64_t t, int64_t ms)
{
    int64_t sum;

    return !__builtin_add_overflow(t, ms, &sum) ? sum : ms > 0 ? MSEC_NEVER : INT64_MIN;
}

/*
 * The number to add to a time of this clock to convert it to Unix milliseconds, by the wall
 * clock as it is now. A Unix time minus this number is the time at which that millisecond of
 * the wall clock begins, or up to a millisecond earlier if the wall clock was set since the
 * start. Context: any thread.
 */
int64_t clock_unix_offset_ms(const struct clock *c);

/* A time in Unix milliseconds, by the wall clock as it is now. Context: any thread. */
int64_t clock_to_unix_ms(const struct clock *c, msec_t t);

/* For tests: move the clock ahead. Context: any thread. */
void clock_advance(struct clock *c, msec_t ms);

/* For tests: set only the wall clock ahead or back. Context: any thread. */
void clock_step_wall(struct clock *c, msec_t ms);

/*
 * For tests: from now on only clock_advance() moves the clock, the wall clock included.
 * Context: any thread, while no other thread reads or moves this clock.
 */
void clock_freeze(struct clock *c);

/*
 * Microseconds of CLOCK_MONOTONIC, to measure how long something takes. Context: any thread.
 */
usec_t clock_mono_us(void);

/* The same in milliseconds. */
static inline msec_t clock_mono_ms(void)
{
    return clock_mono_us() / 1000;
}

/* The same in nanoseconds; never 0. Context: any thread. */
uint64_t clock_mono_ns(void);

/*
 * Microseconds of CPU that the calling thread has used: a system call. Context: any thread.
 */
usec_t clock_thread_us(void);

#endif
