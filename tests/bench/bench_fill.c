/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a set takes while an engine fills, without sockets: each thread stores keys of its
 * own that nobody has stored before, and times every set. So memory, index and, with deadlines,
 * the wheel grow all the time.
 *
 *     bench_fill [-t THREADS] [-S SHARDS] [-m MIB] [-s BYTES] [-f PERCENT] [-p NANOSECONDS]
 *                [-c] [-e] [-i] [-r ROUNDS]
 *
 * A round fills half of a fresh engine of MIB (-m), or this part of it (-f): with more than it
 * bears items are evicted and remembered. -p: the time between two sets of a thread,
 * which represents the rest of a request. -c: the times are those of the thread's CPU, which do
 * not depend on what else the machine does, but do not show how long a set waits for a lock.
 * -e: the items have deadlines. -i: the index is made for them, so it does not grow.
 *
 * Each line has the median of the rounds, and in brackets the least of them: nanoseconds of a
 * set by percentile, microseconds of the longest sets; microseconds of CPU a set of all
 * threads, the reclaimer and the pauses included; sets that had to wait (for a larger index);
 * segments that were not resident when they were taken; and how many page faults the threads
 * that store had per MiB of the limit that was filled, in the engine. Those are first touches
 * of what was not made resident before; nearly all of them are in the shard.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/rcu.h"
#include "lib/engine/engine.h"
#include "lib/shard/upkeep.h"
#include "lib/store/store.h"
#include "tests/bench/basics.h"

#define THREADS_MAX 64
#define ROUNDS_MAX  99
#define MIB         ((uint64_t)1 << 20)

/* As in the daemon: sets between two looks for background work, and its longest slice. */
#define TURN    64
#define HOME_US 250

/* A histogram of nanoseconds: 16 steps for each power of two. */
#define STEPS_LOG2 4u
#define STEPS      (1u << STEPS_LOG2)
#define BINS       (40u * STEPS)

enum figure { P50, P99, P99_9, P99_99, LONGEST, CPU_US, WAITS, LATE, FAULTS, FIGURES };

static const struct {
    const char *name;
    double unit;
} figures[] = {{"p50 ns", 1},      {"p99 ns", 1},        {"p99.9 ns", 1},
               {"p99.99 us", 1e3}, {"longest us", 1e3},  {"CPU us a set", 1},
               {"waits", 1},       {"late segments", 1}, {"faults a MiB", 1}};

struct setting {
    unsigned threads, shards, mib, value, percent, rounds;
    uint64_t pause_ns;
    clockid_t clock;
    bool has_deadlines, has_index;
};

struct bench {
    struct setting set;
    struct engine engine;
    struct engine_options options;
    uint64_t sets; /* of each thread in a round */
    pthread_barrier_t start;
};

struct bench_thread {
    pthread_t id;
    struct bench *b;
    unsigned number;
    uint64_t bins[BINS];
    uint64_t longest;
    uint64_t waits;
    long faults;
};

static uint64_t now_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static unsigned bin_of(uint64_t ns)
{
    if (ns < STEPS) {
        return (unsigned)ns;
    }
    unsigned log2 = 63u - (unsigned)__builtin_clzll(ns);
    return (log2 - STEPS_LOG2 + 1) * STEPS + (unsigned)(ns >> (log2 - STEPS_LOG2)) % STEPS;
}

/* The upper end of a bin. */
static uint64_t bin_end(unsigned bin)
{
    return bin < STEPS ? bin : (uint64_t)(STEPS + bin % STEPS + 1) << (bin / STEPS - 1);
}

/* Stands for the rest of a request: input, parsing, output. */
static void pause_for(uint64_t ns)
{
    uint64_t until = now_ns(CLOCK_MONOTONIC) + ns;

    while (ns != 0 && now_ns(CLOCK_MONOTONIC) < until) {
    }
}

/* False when it has to wait. */
static bool store(struct bench *b, uint64_t number, const char *value)
{
    char text[24];
    msec_t now = clock_now(&b->engine.clock);
    struct store st = {
        .mode = STORE_SET, .value = span_of(value, b->set.value), .may_wait = true};

    snprintf(text, sizeof(text), "key-%016llx", (unsigned long long)number);
    st.key = span_of(text, 20);
    st.hash = engine_hash(&b->engine, text, 20);
    /* Far away, and all different. */
    st.deadline =
        b->set.has_deadlines ? now + 3600000 + (msec_t)(number % 3600000) : MSEC_NEVER;
    enum outcome out = engine_store(&b->engine, &st, now);
    if (out != OUT_STORED && out != OUT_WAIT) {
        fail("a set was not stored");
    }
    return out == OUT_STORED;
}

static long faults_of_thread(void)
{
    struct rusage u;

    (void)getrusage(RUSAGE_THREAD, &u);
    return u.ru_minflt;
}

/* What the home worker of a shard does between two turns. */
static void work_at_home(const struct bench_thread *t)
{
    struct engine *e = &t->b->engine;

    for (unsigned i = t->number; i < e->shard_count; i += t->b->set.threads) {
        if (shard_wants_work(e->shards[i])) {
            (void)shard_maintain(e->shards[i], clock_now(&e->clock), HOME_US);
        }
    }
}

static void *run(void *arg)
{
    struct bench_thread *t = arg;
    struct bench *b = t->b;
    char *value = make_text(b->set.value + 1);

    pin_thread(t->number);
    rcu_register();
    memset(t->bins, 0, sizeof(t->bins));
    t->longest = 0;
    t->waits = 0;
    pthread_barrier_wait(&b->start);
    t->faults = -faults_of_thread();
    for (uint64_t i = 0; i < b->sets; i++) {
        pause_for(b->set.pause_ns);
        rcu_begin();
        uint64_t began = now_ns(b->set.clock);
        bool is_stored = store(b, i * b->set.threads + t->number, value);
        uint64_t took = now_ns(b->set.clock) - began;
        rcu_end();
        if (!is_stored || i % TURN == 0) {
            work_at_home(t);
        }
        if (!is_stored) {
            t->waits++;
            i--;
            usleep(1000); /* as the daemon does */
            continue;
        }
        t->bins[bin_of(took) < BINS ? bin_of(took) : BINS - 1]++;
        t->longest = took > t->longest ? took : t->longest;
    }
    t->faults += faults_of_thread();
    rcu_unregister();
    free(value);
    return NULL;
}

static double percentile(const uint64_t *bins, uint64_t sets, double part)
{
    uint64_t left = (uint64_t)((double)sets * part);

    for (unsigned i = 0; i < BINS; i++) {
        if (bins[i] > left) {
            return (double)bin_end(i);
        }
        left -= bins[i];
    }
    return 0;
}

static void start_engine(struct bench *b)
{
    struct engine_config cfg;

    memcpy(&b->options, &engine_options_default, sizeof(b->options));
    engine_config_init(&cfg);
    cfg.shards = b->set.shards != 0 ? b->set.shards : b->set.threads;
    cfg.options = &b->options;
    cfg.limit_bytes = b->set.mib * MIB;
    cfg.items_hint = b->set.has_index ? b->sets * b->set.threads : 0;
    if (engine_start(&b->engine, &cfg) != MF_OK) {
        fail("the engine does not start");
    }
}

/* How many segments were not resident when a set took them. */
static double late_segments(const struct bench *b)
{
    double n = 0;

    for (unsigned i = 0; i < b->engine.shard_count; i++) {
        n += (double)ctr_get(&b->engine.shards[i]->counters, CTR_segments_late);
    }
    return n;
}

/* Fill an engine; the results, by figure. */
static void measure(struct bench *b, struct bench_thread *threads, double *out)
{
    uint64_t bins[BINS] = {0};
    uint64_t sets = b->sets * b->set.threads;
    double longest = 0;
    double faults = 0;
    double waits = 0;

    start_engine(b);
    pthread_barrier_init(&b->start, NULL, b->set.threads + 1);
    for (unsigned i = 0; i < b->set.threads; i++) {
        threads[i].b = b;
        threads[i].number = i;
        pthread_create(&threads[i].id, NULL, run, &threads[i]);
    }
    pthread_barrier_wait(&b->start);
    uint64_t cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned i = 0; i < b->set.threads; i++) {
        pthread_join(threads[i].id, NULL);
        for (unsigned k = 0; k < BINS; k++) {
            bins[k] += threads[i].bins[k];
        }
        longest = (double)threads[i].longest > longest ? (double)threads[i].longest : longest;
        faults += (double)threads[i].faults;
        waits += (double)threads[i].waits;
    }
    cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    out[P50] = percentile(bins, sets, .5);
    out[P99] = percentile(bins, sets, .99);
    out[P99_9] = percentile(bins, sets, .999);
    out[P99_99] = percentile(bins, sets, .9999);
    out[LONGEST] = longest;
    out[CPU_US] = (double)cpu / 1e3 / (double)sets;
    out[WAITS] = waits;
    out[LATE] = late_segments(b);
    out[FAULTS] = faults / ((double)b->set.mib * b->set.percent / 100);
    pthread_barrier_destroy(&b->start);
    engine_stop(&b->engine);
}

int main(int argc, char **argv)
{
    static struct bench b = {
        .set = {2, 0, 512, 100, 50, 9, 1000, CLOCK_MONOTONIC, false, false}};
    static struct bench_thread threads[THREADS_MAX];
    static double seen[ROUNDS_MAX][FIGURES];
    static bool is_cpu;
    static const struct bench_option options[] = {
        {"-t", .count = &b.set.threads},
        {"-S", .count = &b.set.shards},
        {"-m", .count = &b.set.mib},
        {"-s", .count = &b.set.value},
        {"-f", .count = &b.set.percent},
        {"-p", .wide = &b.set.pause_ns},
        {"-r", .count = &b.set.rounds},
        {"-c", .flag = &is_cpu},
        {"-e", .flag = &b.set.has_deadlines},
        {"-i", .flag = &b.set.has_index},
        {.name = NULL},
    };

    read_options(argc, argv, options);
    if (is_cpu) {
        b.set.clock = CLOCK_THREAD_CPUTIME_ID;
    }
    if (b.set.threads < 1 || b.set.threads > THREADS_MAX || b.set.rounds < 1 ||
        b.set.rounds > ROUNDS_MAX || b.set.mib < 2 || b.set.value > 10000 ||
        b.set.percent < 1) {
        fail("an argument is out of range");
    }
    /* Some 60 bytes of each item are not its value. */
    b.sets = b.set.mib * MIB / 100 * b.set.percent / (b.set.value + 60) / b.set.threads;
    rcu_register();
    for (unsigned i = 0; i < b.set.rounds; i++) {
        measure(&b, threads, seen[i]);
    }
    for (enum figure f = 0; f < FIGURES; f++) {
        double column[ROUNDS_MAX];

        for (unsigned i = 0; i < b.set.rounds; i++) {
            column[i] = seen[i][f];
        }
        printf("%-13s %10.2f", figures[f].name, median(column, b.set.rounds) / figures[f].unit);
        printf(" (%.2f)\n", column[0] / figures[f].unit);
    }
    rcu_unregister();
    return 0;
}
