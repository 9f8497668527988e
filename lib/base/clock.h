/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time. msec_t counts milliseconds since the clock was made, on
 * CLOCK_BOOTTIME: it never steps, and it counts while the machine sleeps. Callers
 * read it once per batch of requests and once per background slice. Tests move
 * it with clock_advance(); a frozen clock stands still but for that.
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
    int64_t start_ns;      /* CLOCK_BOOTTIME at clock_init() */
    int64_t start_unix_ms; /* wall clock at clock_init(): a frozen clock counts from it */
    /* [atomic] */
    _Atomic int64_t offset_ms; /* what tests added */
    _Atomic int64_t step_ms;   /* how far tests set the wall clock */
    _Atomic bool is_frozen;    /* tests: only clock_advance() moves it */
};

/* Start a clock; its first milliseconds value is CLOCK_FIRST_MS. Context: before start. */
void clock_init(struct clock *c);

/* Offset of the first value, so that "two seconds ago" is never negative. */
#define CLOCK_FIRST_MS 2000

/* Milliseconds now. Context: any thread. */
msec_t clock_now(const struct clock *c);

/* Wall clock now, unix milliseconds, moved by the same test offset. Context: any thread. */
int64_t clock_unix_ms(const struct clock *c);

/* Unix milliseconds of a moment, by the wall clock as it stands now. Context: any thread. */
int64_t clock_to_unix_ms(const struct clock *c, msec_t t);

/* Tests: move the clock ahead. Context: any thread. */
void clock_advance(struct clock *c, msec_t ms);

/* Tests: set the wall clock, and nothing else, ahead or back. Context: any thread. */
void clock_step_wall(struct clock *c, msec_t ms);

/*
 * Tests: let only clock_advance() move the clock from now on, the wall clock included.
 * Context: any thread, while no other thread reads or moves this clock.
 */
void clock_freeze(struct clock *c);

/*
 * Microseconds of CLOCK_MONOTONIC, for measuring how long something took. Context: any thread.
 */
usec_t clock_mono_us(void);

/* CPU microseconds of the calling thread. Context: any thread. */
usec_t clock_thread_cpu_us(void);

#endif
