/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clocks. Deadlines use CLOCK_BOOTTIME, so neither a step of the wall clock nor a suspended
 * machine changes how long an item lives. The kernel provides these clocks without a system
 * call.
 */
#include "lib/base/clock.h"

#include <time.h>

#include "lib/base/check.h"

#define NS_PER_SEC 1000000000LL
#define NS_PER_MS  1000000LL
#define NS_PER_US  1000LL

static int64_t read_ns(clockid_t id)
{
    struct timespec ts = {0};

    if (MF_UNLIKELY(clock_gettime(id, &ts) != 0) && id == CLOCK_BOOTTIME) {
        /* Some sandboxes refuse it; this one differs only while the machine is suspended. */
        clock_gettime(CLOCK_MONOTONIC, &ts);
    }
    return (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

static int64_t offset_ms(const struct clock *c)
{
    return atomic_load_explicit(&c->offset_ms, memory_order_relaxed);
}

static bool is_frozen(const struct clock *c)
{
    return atomic_load_explicit(&c->is_frozen, memory_order_acquire);
}

/* Milliseconds since the clock was made, without the offset of tests. */
static int64_t elapsed_ms(const struct clock *c)
{
    /* Unsigned, which takes half the instructions to divide: this clock never goes back. */
    return (int64_t)((uint64_t)(read_ns(CLOCK_BOOTTIME) - c->start_ns) / NS_PER_MS);
}

/* Both clocks at one moment, in nanoseconds. */
struct pair {
    int64_t boot_ns;
    int64_t wall_ns;
};

/* The two reads around a pair are at most this far apart, unless each try loses the CPU. */
#define PAIR_NS    (10 * NS_PER_US)
#define PAIR_TRIES 20

/*
 * Two pairs that differ by no more than this tell the same time: the difference of the clocks
 * changes only when the wall clock is set, so less is an error of measurement.
 */
#define SAME_NS (2 * PAIR_NS)

/*
 * The wall clock is read between two reads of the other one, and paired with the middle of
 * these: it is wrong by at most half of their difference.
 */
static struct pair read_pair(void)
{
    struct pair best = {0};
    int64_t best_ns = INT64_MAX;

    for (int i = 0; i < PAIR_TRIES && best_ns > PAIR_NS; i++) {
        int64_t before_ns = read_ns(CLOCK_BOOTTIME);
        int64_t wall_ns = read_ns(CLOCK_REALTIME);
        int64_t after_ns = read_ns(CLOCK_BOOTTIME);

        if (after_ns - before_ns < best_ns) {
            best_ns = after_ns - before_ns;
            best = (struct pair){.boot_ns = before_ns + best_ns / 2, .wall_ns = wall_ns};
        }
    }
    return best;
}

void clock_init(struct clock *c)
{
    struct pair start = read_pair();

    /* Milliseconds of this clock begin with those of the wall clock. */
    c->start_ns = start.boot_ns - start.wall_ns % NS_PER_MS;
    c->start_unix_ms = start.wall_ns / NS_PER_MS;
    atomic_init(&c->offset_ms, 0);
    atomic_init(&c->step_ms, 0);
    atomic_init(&c->is_frozen, false);
}

void clock_init_at(struct clock *c, int64_t zero_ns)
{
    clock_init(c);
    int64_t since_ns = c->start_ns - zero_ns - CLOCK_FIRST_MS * NS_PER_MS;
    int64_t since_ms = since_ns / NS_PER_MS - (since_ns % NS_PER_MS < 0);
    int64_t early_ns = since_ns - since_ms * NS_PER_MS;
    if (early_ns > SAME_NS) {
        since_ms++; /* the wall clock was set: go ahead to its next millisecond */
    }
    if (early_ns > SAME_NS && early_ns < NS_PER_MS - SAME_NS) {
        since_ns = since_ms * NS_PER_MS;
    }
    c->start_ns -= since_ns;
    c->start_unix_ms -= since_ms;
}

int64_t clock_zero_ns(const struct clock *c)
{
    int64_t start_ns = c->start_ns;

    if (is_frozen(c)) {
        start_ns += elapsed_ms(c) * NS_PER_MS;
    }
    return start_ns - (CLOCK_FIRST_MS + offset_ms(c)) * NS_PER_MS;
}

int64_t clock_real_ns(void)
{
    return read_ns(CLOCK_REALTIME);
}

int64_t clock_boot_ns(void)
{
    return read_ns(CLOCK_BOOTTIME);
}

msec_t clock_now(const struct clock *c)
{
    int64_t now = CLOCK_FIRST_MS + offset_ms(c);

    return MF_UNLIKELY(is_frozen(c)) ? now : now + elapsed_ms(c);
}

int64_t clock_unix_ms(const struct clock *c)
{
    int64_t real = is_frozen(c) ? c->start_unix_ms : read_ns(CLOCK_REALTIME) / NS_PER_MS;

    return real + offset_ms(c) + atomic_load_explicit(&c->step_ms, memory_order_relaxed);
}

int64_t clock_unix_offset_ms(const struct clock *c)
{
    int64_t start_unix_ms = c->start_unix_ms;

    if (MF_LIKELY(!is_frozen(c))) {
        struct pair now = read_pair();
        int64_t start_wall_ns = now.wall_ns - (now.boot_ns - c->start_ns);

        start_unix_ms = (start_wall_ns - SAME_NS + NS_PER_MS - 1) / NS_PER_MS;
    }
    return start_unix_ms + atomic_load_explicit(&c->step_ms, memory_order_relaxed) -
           CLOCK_FIRST_MS;
}

int64_t clock_to_unix_ms(const struct clock *c, msec_t t)
{
    return t == MSEC_NEVER ? MSEC_NEVER : clock_add_ms(t, clock_unix_offset_ms(c));
}

void clock_advance(struct clock *c, msec_t ms)
{
    must(ms >= 0);
    atomic_fetch_add_explicit(&c->offset_ms, ms, memory_order_relaxed);
}

void clock_step_wall(struct clock *c, msec_t ms)
{
    atomic_fetch_add_explicit(&c->step_ms, ms, memory_order_relaxed);
}

void clock_freeze(struct clock *c)
{
    if (is_frozen(c)) {
        return;
    }
    /* From here on the offset has all time that has passed. */
    clock_advance(c, elapsed_ms(c));
    atomic_store_explicit(&c->is_frozen, true, memory_order_release);
}

usec_t clock_mono_us(void)
{
    return read_ns(CLOCK_MONOTONIC) / NS_PER_US;
}

uint64_t clock_mono_ns(void)
{
    return (uint64_t)read_ns(CLOCK_MONOTONIC) + 1;
}

usec_t clock_thread_us(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID) / NS_PER_US;
}
