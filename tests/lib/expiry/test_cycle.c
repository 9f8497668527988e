/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policy of active expiry, with a simulated clock and keyspace: the limits of every effort,
 * loops, stops and cap hits as the table of efforts has them, slices, and the CPU cap.
 */
#include "lib/expiry/cycle.h"

#include "tests/common/unit.h"

/*
 * What the loops find: the number of due keys, and their share of the sampled keys in percent.
 */
struct sim {
    usec_t now_us;
    usec_t loop_us;    /* how long a loop takes */
    usec_t between_us; /* how long the worker serves its sockets between slices */
    uint64_t debt;     /* keys due */
    unsigned due_pct;  /* share of the sampled keys */
    uint64_t behind;   /* keys to refine */
    uint64_t loops;
    unsigned max_seen;
};

static usec_t sim_now(void *arg)
{
    return ((struct sim *)arg)->now_us;
}

static void sim_loop(void *arg, unsigned max, struct cycle_loop *out)
{
    struct sim *s = arg;
    uint64_t due = (uint64_t)max * s->due_pct / 100;

    s->loops++;
    s->max_seen = max;
    s->now_us += s->loop_us;
    due = due < s->debt ? due : s->debt;
    s->debt -= due;
    out->expired = (unsigned)due;
    out->sampled = due || s->due_pct < 100 ? max : 0;
    if (s->behind) {
        unsigned refined = s->behind < max ? (unsigned)s->behind : max;

        s->behind -= refined;
        out->sampled = refined;
        out->expired = 0;
    }
    out->debt_keys = s->debt;
    out->behind_keys = s->behind;
}

static struct cycle_ops ops_of(struct sim *s)
{
    return (struct cycle_ops){.now_us = sim_now, .loop = sim_loop, .arg = s};
}

/* Runs a whole cycle, slice by slice. Returns the last result, with sums over all slices. */
static struct cycle_result run_cycle(struct cycle *c, enum cycle_kind kind,
                                     const struct cycle_config *cfg, struct sim *s,
                                     unsigned *slices)
{
    struct cycle_ops ops = ops_of(s);
    struct cycle_result sum = {0};
    struct cycle_result res;

    *slices = 0;
    do {
        cycle_slice(c, kind, cfg, &ops, &res);
        ck_assert_int_eq(res.is_begun, *slices == 0);
        ++*slices;
        sum.loops += res.loops;
        sum.sampled += res.sampled;
        sum.expired += res.expired;
        sum.time_us += res.time_us;
        sum.hit_time_limit = res.hit_time_limit;
        if (!res.is_ended) {
            ck_assert_uint_ge(res.time_us, cfg->slice_us);
            s->now_us += s->between_us;
        }
        ck_assert_int_lt((int64_t)res.time_us - s->loop_us, cfg->slice_us);
    } while (!res.is_ended);
    ck_assert(!c->is_running);
    return sum;
}

static struct cycle_config config(uint32_t effort, uint32_t hz)
{
    return (struct cycle_config){.effort = effort, .hz = hz, .slice_us = 250, .cpu_pct = 100};
}

/* ---- budgets ----------------------------------------------------------------------------- */

struct row {
    uint32_t effort, keys, fast_us, slow_pct, stop_pct, slow_us_hz10, slow_us_hz100;
};

/* The published table of efforts 1, 2, 5, 10. */
static const struct row rows[] = {
    {1, 20, 1000, 25, 10, 25000, 2500},
    {2, 25, 1250, 27, 9, 27000, 2700},
    {5, 40, 2000, 33, 6, 33000, 3300},
    {10, 65, 3250, 43, 1, 43000, 4300},
};
#define ROWS (sizeof(rows) / sizeof(*rows))

TEST(limits_are_those_of_the_table)
{
    for (unsigned i = 0; i < ROWS; i++) {
        struct cycle_config cfg = config(rows[i].effort, 10);
        struct cycle_limits b;

        cycle_limits(&cfg, &b);
        ck_assert_uint_eq(b.keys_per_loop, rows[i].keys);
        ck_assert_uint_eq(b.fast_us, rows[i].fast_us);
        ck_assert_uint_eq(b.slow_pct, rows[i].slow_pct);
        ck_assert_uint_eq(b.stop_pct, rows[i].stop_pct);
        ck_assert_uint_eq(b.slow_us, rows[i].slow_us_hz10);
        cfg.hz = 100;
        cycle_limits(&cfg, &b);
        ck_assert_uint_eq(b.slow_us, rows[i].slow_us_hz100);
    }
}

TEST(values_out_of_range_count_as_the_nearest)
{
    struct cycle_config cfg = config(0, 0);
    struct cycle_limits b;

    cycle_limits(&cfg, &b);
    ck_assert_uint_eq(b.keys_per_loop, 20);
    ck_assert_uint_eq(b.slow_us, 250000);
    cfg = config(99, 100000);
    cycle_limits(&cfg, &b);
    ck_assert_uint_eq(b.keys_per_loop, 65);
    ck_assert_uint_eq(b.slow_us, 860);
}

/* ---- loops, stops, cap hits -------------------------------------------------------------- */

/* What one cycle must do, computed only from the table. */
struct expected {
    uint64_t loops;
    bool hit;
};

static struct expected from_table(const struct row *r, uint32_t limit_us, uint64_t debt,
                                  unsigned due_pct, usec_t loop_us)
{
    struct expected x = {0};
    usec_t spent = 0;

    for (;;) {
        uint64_t due = (uint64_t)r->keys * due_pct / 100;

        due = due < debt ? due : debt;
        debt -= due;
        uint64_t sampled = due || due_pct < 100 ? r->keys : 0;
        x.loops++;
        spent += loop_us;
        if (sampled ? due * 100 / sampled <= r->stop_pct : debt == 0) {
            return x;
        }
        if (spent >= (usec_t)limit_us) {
            x.hit = true;
            return x;
        }
    }
}

TEST(cycles_follow_the_table)
{
    static const unsigned densities[] = {0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 15, 25, 50, 100};
    static const uint64_t debts[] = {0, 1, 19, 20, 21, 64, 65, 1000, 100000};
    static const usec_t costs[] = {1, 7, 40, 249, 250, 251, 2000};
    unsigned hits = 0;
    unsigned stops = 0;

    for (unsigned n = 0; n < ROWS * 15 * 9 * 7 * 2; n++) {
        const struct row *r = &rows[n % ROWS];
        enum cycle_kind kind = n / ROWS % 2 ? CYCLE_FAST : CYCLE_SLOW;
        unsigned pct = densities[n / ROWS / 2 % 15];
        struct sim s = {.now_us = 1,
                        .loop_us = costs[n / ROWS / 2 / 15 % 7],
                        .between_us = 90,
                        .debt = debts[n / ROWS / 2 / 15 / 7],
                        .due_pct = pct};
        uint32_t limit = kind == CYCLE_FAST ? r->fast_us : r->slow_us_hz10;
        struct expected x = from_table(r, limit, s.debt, pct, s.loop_us);
        struct cycle_config cfg = config(r->effort, 10);
        struct cycle c;
        unsigned slices;

        cycle_init(&c);
        struct cycle_result res = run_cycle(&c, kind, &cfg, &s, &slices);
        ck_assert_uint_eq(res.loops, x.loops);
        ck_assert_int_eq(res.hit_time_limit, x.hit);
        ck_assert_uint_eq(s.max_seen, r->keys);
        ck_assert_uint_eq(res.time_us, x.loops * (uint64_t)s.loop_us);
        ck_assert_uint_le(res.time_us, (uint64_t)limit + (uint64_t)s.loop_us);
        hits += x.hit;
        stops += !x.hit;
    }
    ck_assert_uint_gt(hits, 100);
    ck_assert_uint_gt(stops, 100);
}

TEST(slices_cut_a_cycle_but_do_not_change_it)
{
    struct sim s = {
        .now_us = 5, .loop_us = 10, .between_us = 300, .debt = 1000000, .due_pct = 100};
    struct cycle_config cfg = config(1, 10);
    struct cycle c;
    unsigned slices;

    cycle_init(&c);
    struct cycle_result res = run_cycle(&c, CYCLE_SLOW, &cfg, &s, &slices);
    ck_assert_uint_eq(slices, 100); /* 25 ms in pieces of 250 us */
    ck_assert_uint_eq(res.loops, 2500);
    ck_assert(res.hit_time_limit);
    /* The time between slices does not count as the cycle's. */
    ck_assert_uint_eq(res.time_us, 25000);
}

TEST(sampling_nothing_while_there_is_debt_does_not_end_a_cycle)
{
    /* The loops never get to the due keys: the time limit ends the cycle. */
    struct sim s = {.now_us = 5, .loop_us = 10, .debt = 7, .due_pct = 100};
    struct cycle_config cfg = config(1, 100);
    struct cycle c;
    unsigned slices;

    cycle_init(&c);
    struct cycle_result res = run_cycle(&c, CYCLE_SLOW, &cfg, &s, &slices);
    ck_assert_uint_eq(res.loops, 2); /* one loop takes all, one finds nothing */
    ck_assert(!res.hit_time_limit);

    s = (struct sim){.now_us = 5, .loop_us = 10, .behind = 100};
    res = run_cycle(&c, CYCLE_SLOW, &cfg, &s, &slices);
    ck_assert_uint_eq(res.loops, 5); /* it continues to refine, although nothing expired */
    ck_assert(!res.hit_time_limit);
}

/* ---- when a cycle may begin -------------------------------------------------------------- */

/* Run a fast cycle, and check that the next one may begin at this distance and no sooner. */
static void check_distance(const struct cycle_config *cfg, struct sim *s, usec_t distance)
{
    struct cycle c;
    unsigned slices;
    usec_t started = s->now_us;

    cycle_init(&c);
    ck_assert(!cycle_may_begin(&c, CYCLE_FAST, cfg, 0, 0));
    ck_assert(cycle_may_begin(&c, CYCLE_FAST, cfg, 1, 0));
    run_cycle(&c, CYCLE_FAST, cfg, s, &slices);
    ck_assert_int_eq(cycle_fast_from(&c, cfg, s->now_us), started + distance);
    ck_assert(!cycle_may_begin(&c, CYCLE_FAST, cfg, 9, started + distance - 1));
    ck_assert(cycle_may_begin(&c, CYCLE_FAST, cfg, 9, started + distance));
    ck_assert(!cycle_may_begin(&c, CYCLE_FAST, cfg, 0, started + distance));
    ck_assert(cycle_may_begin(&c, CYCLE_SLOW, cfg, 0, started + 1));
}

TEST(fast_cycles_need_debt_and_distance)
{
    for (unsigned i = 0; i < ROWS; i++) {
        struct cycle_config cfg = config(rows[i].effort, 10);
        struct sim s = {.now_us = 100, .loop_us = 5, .debt = 1ULL << 40, .due_pct = 100};

        check_distance(&cfg, &s, 2 * (usec_t)rows[i].fast_us);
    }
}

/* What falls due a little at a time is expired when it does, not at most every 2 ms. */
TEST(a_fast_cycle_with_little_to_do_is_soon_followed)
{
    for (unsigned i = 0; i < ROWS; i++) {
        struct cycle_config cfg = config(rows[i].effort, 10);
        struct sim s = {.now_us = 100, .loop_us = 3, .debt = 4, .due_pct = 100};

        check_distance(&cfg, &s, 2 * 2 * 3); /* the second loop finds nothing */
    }
}

TEST(no_fast_cycle_while_one_runs)
{
    struct sim s = {.now_us = 100, .loop_us = 50, .debt = 100000, .due_pct = 100};
    struct cycle_ops ops = ops_of(&s);
    struct cycle_config cfg = config(1, 10);
    struct cycle c;
    struct cycle_result res;

    cycle_init(&c);
    cycle_slice(&c, CYCLE_SLOW, &cfg, &ops, &res);
    ck_assert(res.is_begun && !res.is_ended);
    ck_assert_uint_eq(res.loops, 5);
    ck_assert(!cycle_may_begin(&c, CYCLE_FAST, &cfg, s.debt, s.now_us));
    /* A fast slice continues the slow cycle. */
    cycle_slice(&c, CYCLE_FAST, &cfg, &ops, &res);
    ck_assert(!res.is_begun && c.kind == CYCLE_SLOW);
}

/*
 * A worker with debt for ten seconds: a slow cycle hz times a second, a fast cycle whenever one
 * may begin. Returns the microseconds spent in cycles; *worst is the most in any window of a
 * second that starts with a cycle.
 */
static usec_t run_worker(const struct cycle_config *cfg, struct sim *s, uint64_t *hits)
{
    struct cycle_ops ops = ops_of(s);
    struct cycle c;
    usec_t end = s->now_us + 10 * 1000000;
    usec_t tick = s->now_us;
    usec_t spent = 0;

    cycle_init(&c);
    while (s->now_us < end) {
        bool is_tick = s->now_us >= tick;
        enum cycle_kind kind = is_tick ? CYCLE_SLOW : CYCLE_FAST;
        struct cycle_result res;

        if (is_tick) {
            tick += 1000000 / cfg->hz;
        }
        if (c.is_running || cycle_may_begin(&c, kind, cfg, s->debt, s->now_us)) {
            cycle_slice(&c, kind, cfg, &ops, &res);
            spent += res.time_us;
            *hits += res.hit_time_limit;
        }
        s->now_us += s->between_us;
    }
    return spent;
}

TEST(the_cpu_cap_holds_over_slow_and_fast)
{
    static const uint32_t caps[] = {0, 1, 5, 25, 40};

    for (unsigned i = 0; i < ROWS * 5; i++) {
        const struct row *r = &rows[i % ROWS];
        struct cycle_config cfg = config(r->effort, i % 2 ? 10 : 100);
        struct sim s = {
            .now_us = 77, .loop_us = 11, .between_us = 20, .debt = 1ULL << 40, .due_pct = 100};
        uint64_t hits = 0;

        cfg.cpu_pct = caps[i / ROWS];
        cfg.sharers = i % 3;
        uint32_t pct = cfg.cpu_pct ? cfg.cpu_pct : r->slow_pct;
        usec_t spent = run_worker(&cfg, &s, &hits);
        /* Ten windows, each exceeding its limit by one loop at most. */
        usec_t share = (usec_t)pct * 10000 / (cfg.sharers == 2 ? 2 : 1);
        ck_assert_int_le(spent, 10 * (share + s.loop_us));
        ck_assert_int_ge(spent, 9 * share);
        ck_assert_uint_gt(hits, 0);
    }
}

/* Without a cap, the slow cycle takes its share and fast cycles half of the rest. */
TEST(without_a_cap_the_share_is_that_of_the_table)
{
    struct cycle_config cfg = config(1, 10);
    struct sim s = {
        .now_us = 77, .loop_us = 5, .between_us = 1, .debt = 1ULL << 40, .due_pct = 100};
    uint64_t hits = 0;

    cfg.slice_us = 1000000;
    usec_t spent = run_worker(&cfg, &s, &hits);
    ck_assert_int_ge(spent, 6000000);
    ck_assert_int_le(spent, 6500000);
}

/* A cycle under a cap of 1 %, which is 10 ms of each second, with much to do. */
struct capped {
    struct sim s;
    struct cycle_config cfg;
    struct cycle c;
};

static void begin_capped(struct capped *t, usec_t loop_us)
{
    t->s = (struct sim){.now_us = 100, .loop_us = loop_us, .debt = 1ULL << 40, .due_pct = 100};
    t->cfg = config(1, 10);
    t->cfg.cpu_pct = 1;
    cycle_init(&t->c);
}

static void check_nothing_runs(struct capped *t)
{
    struct cycle_ops ops = ops_of(&t->s);
    struct cycle_result res;

    cycle_slice(&t->c, CYCLE_SLOW, &t->cfg, &ops, &res);
    ck_assert(res.is_ended && !res.is_begun && !res.hit_time_limit);
    ck_assert_uint_eq(res.loops, 0);
}

TEST(a_spent_cap_does_nothing)
{
    struct capped t;
    unsigned slices;

    begin_capped(&t, 20000);
    struct cycle_result res = run_cycle(&t.c, CYCLE_SLOW, &t.cfg, &t.s, &slices);
    ck_assert_uint_eq(res.loops, 1);
    ck_assert(res.hit_time_limit);
    ck_assert(!cycle_may_begin(&t.c, CYCLE_SLOW, &t.cfg, 1, t.s.now_us));
    ck_assert(!cycle_may_begin(&t.c, CYCLE_FAST, &t.cfg, 1, t.s.now_us));
    ck_assert_int_eq(cycle_fast_from(&t.c, &t.cfg, t.s.now_us), 100 + 1000000);
    check_nothing_runs(&t);
    ck_assert(cycle_may_begin(&t.c, CYCLE_SLOW, &t.cfg, 1, 100 + 1000000));
}

/* What was spent in a window that begins later than now says nothing of now. */
TEST(a_clock_that_goes_back_opens_a_window)
{
    struct capped t;

    begin_capped(&t, 1);
    cycle_spend(&t.c, 50000, 10000000);
    ck_assert(!cycle_has_time(&t.c, &t.cfg, 10000000));
    ck_assert(cycle_has_time(&t.c, &t.cfg, 9999999));
}

/* Nor does it say when the last fast cycle was. */
TEST(a_clock_that_goes_back_lets_a_fast_cycle_begin)
{
    struct cycle_config cfg = config(1, 10);
    struct sim s = {.now_us = 10000000, .loop_us = 50, .debt = 1ULL << 40, .due_pct = 100};
    struct cycle c;
    unsigned slices;

    cycle_init(&c);
    run_cycle(&c, CYCLE_FAST, &cfg, &s, &slices);
    ck_assert_int_eq(cycle_fast_from(&c, &cfg, 10000000), 10000000 + 2 * 1000);
    ck_assert_int_eq(cycle_fast_from(&c, &cfg, 9999999), 9999999);
    ck_assert(cycle_may_begin(&c, CYCLE_FAST, &cfg, 1, 9999999));
}

TEST(other_work_counts_in_the_cap)
{
    struct capped t;

    begin_capped(&t, 1);
    ck_assert(cycle_has_time(&t.c, &t.cfg, t.s.now_us));
    cycle_spend(&t.c, 9999, t.s.now_us);
    ck_assert(cycle_has_time(&t.c, &t.cfg, t.s.now_us + 9999));
    cycle_spend(&t.c, 1, t.s.now_us + 9999);
    ck_assert(!cycle_has_time(&t.c, &t.cfg, t.s.now_us + 10000));
    check_nothing_runs(&t);
    ck_assert(cycle_has_time(&t.c, &t.cfg, t.s.now_us + 1000000));
}

/* Of 25 % a third of the rest is earned; sharers have that together. */
TEST(other_work_earns_its_time_by_rests)
{
    struct cycle_config cfg = config(1, 10);

    cfg.cpu_pct = 0;
    ck_assert_int_eq(cycle_earned(&cfg, 0), 0);
    ck_assert_int_eq(cycle_earned(&cfg, -5), 0);
    ck_assert_int_eq(cycle_earned(&cfg, 900), 300);
    ck_assert_int_eq(cycle_earned(&cfg, INT64_MAX), 1000000 / 3);
    cfg.cpu_pct = 50;
    ck_assert_int_eq(cycle_earned(&cfg, 900), 900);
    cfg.sharers = 2;
    ck_assert_int_eq(cycle_earned(&cfg, 900), 300);
    cfg.sharers = 1;
    cfg.cpu_pct = 100;
    ck_assert_int_eq(cycle_earned(&cfg, 0), 1000000);
}
