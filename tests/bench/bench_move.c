/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What moving slots between shards costs, without sockets: an engine is filled to a part of its
 * limit, slots move, and the items are counted before and after.
 *
 *     bench_move [-m MIB] [-s BYTES] [-l LARGE] [-f PERCENT,...] [-c CASE,...] [-p PERCENT]
 *                [-n FROM,TO] [-i]
 *
 * -s: bytes of a value; -l: of those of one in 4096 keys; keys have 20. -f: how full, 101 for
 * more than it bears. -p: share of a CPU that the mover may take. -i: idle, without the thread
 * that gets and sets meanwhile. CASE:
 *
 *     whole   two shards; all that the first has goes to the second
 *     runs    every other run of 64 slots of the first
 *     run     a single run of 64 slots
 *     half    2 -> 4 -> 2 shards: all spreads from two shards over four, and comes back
 *     number  another number of shards by engine_set_shards(), and the first one again: 2 -> 4
 *             -> 2, or as -n says. The mover is another thread, whose CPU time is part of that
 *             of the process
 *     sets    what a set costs in slots that are settled, and in some that move: nanoseconds
 *             of CPU for a key that is there, that is still in the shard which its slot leaves,
 *             and that is new; the median of some rounds
 *
 * A line for each: items before; how many of them are gone, in percent; seconds; items moved;
 * microseconds of CPU an item of the thread that moves, and of the process without the thread
 * that probes; by how much the resident set grew at most, and by how much it was above the
 * limit then, in percent of the limit; and for gets and sets of that thread the microseconds at
 * p99, p99.9 and of the longest, before and meanwhile. Get and set take turns, with a pause
 * after each, on keys all over the engine; the sets replace a few keys of their own.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/rcu.h"
#include "lib/engine/engine.h"
#include "lib/reshard/reshard.h"
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"
#include "lib/store/find.h"
#include "lib/store/store.h"
#include "tests/bench/basics.h"
#include "tests/common/moves.h"
#include "tests/common/rng.h"

#define KEY_BYTES   20
#define PROBE_KEYS  1000u
#define PROBES_MAX  (1u << 20)
#define LARGE_EVERY 4096
#define RUN         64u

enum { GETS, SETS, PROBES };

struct setting {
    unsigned mib, value, large, cpu_pct;
    unsigned from, to; /* numbers of shards */
    bool is_idle;
};

struct probe {
    uint32_t *ns[PROBES];
    unsigned count[PROBES];
};

struct bench {
    struct setting set;
    struct engine engine;
    struct engine_options options;
    uint64_t keys; /* that were set */
    char *value;
    /* the thread that gets and sets */
    pthread_t prober;
    struct probe probes[2];
    _Atomic bool is_moving, is_stopping;
    double prober_s; /* its CPU time */
};

static uint64_t now_ns(void)
{
    return (uint64_t)(seconds_of(CLOCK_MONOTONIC) * 1e9);
}

static uint64_t hash_of(const struct bench *b, char key[KEY_BYTES + 1], char kind, uint64_t i)
{
    snprintf(key, KEY_BYTES + 1, "%c%019u", kind, (uint32_t)i);
    return engine_hash(&b->engine, key, KEY_BYTES);
}

static void maintain(struct bench *b)
{
    for (uint32_t i = 0; i < b->engine.shard_count; i++) {
        struct shard *s = b->engine.shards[i];

        if (shard_wants_work(s)) {
            (void)shard_maintain(s, clock_now(&b->engine.clock), 250);
        }
    }
}

static void store(struct bench *b, char kind, uint64_t i, size_t bytes)
{
    char key[KEY_BYTES + 1];
    struct store st = {.mode = STORE_SET,
                       .hash = hash_of(b, key, kind, i),
                       .key = span_of(key, KEY_BYTES),
                       .deadline = MSEC_NEVER,
                       .value = span_of(b->value, bytes),
                       .may_wait = true};
    enum outcome out;

    do {
        rcu_begin();
        out = engine_store(&b->engine, &st, clock_now(&b->engine.clock));
        rcu_end();
        if (out == OUT_WAIT) {
            grace_ask(reclaim_grace(b->engine.reclaimer), GRACE_HURRY);
            rcu_wait();
            maintain(b);
        }
    } while (out == OUT_WAIT);
    if (out != OUT_STORED) {
        fail("a set was not stored");
    }
}

static double used_pct(const struct bench *b)
{
    return (double)atomic_load(&b->engine.budget.used_bytes) * 100 /
           (double)((uint64_t)b->set.mib << 20);
}

static uint64_t sum(const struct bench *b, enum counter id)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < b->engine.shard_count; i++) {
        n += ctr_get(&b->engine.shards[i]->counters, id);
    }
    return n;
}

static void fill(struct bench *b, unsigned pct)
{
    uint64_t full_at = UINT64_MAX;

    for (b->keys = 0; b->keys < full_at; b->keys++) {
        uint64_t i = b->keys;

        store(b, 'k', i,
              b->set.large != 0 && i % LARGE_EVERY == 0 ? b->set.large : b->set.value);
        if (i < PROBE_KEYS) {
            store(b, 'p', i, b->set.value);
        }
        if (i % 64 == 0) {
            maintain(b);
        }
        if (full_at == UINT64_MAX && (sum(b, CTR_evictions) != 0 || used_pct(b) >= pct)) {
            full_at = pct <= 100 ? 0 : b->keys * 5 / 4;
        }
    }
    for (unsigned i = 0; i < 100; i++) {
        maintain(b);
        usleep(2000);
    }
}

/* ---- the thread that gets and sets ------------------------------------------------------- */

static void note(struct bench *b, int kind, uint64_t ns)
{
    struct probe *p = &b->probes[atomic_load_explicit(&b->is_moving, memory_order_relaxed)];

    if (p->count[kind] < PROBES_MAX) {
        p->ns[kind][p->count[kind]++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    }
}

static void *probe_main(void *arg)
{
    struct bench *b = arg;
    const struct timespec pause = {0, 20000};
    struct rng rng;
    char key[KEY_BYTES + 1];

    rng_init(&rng, 1);
    rcu_register();
    while (!atomic_load_explicit(&b->is_stopping, memory_order_relaxed)) {
        uint64_t hash = hash_of(b, key, 'k', rng_below(&rng, b->keys));
        uint64_t begun = now_ns();

        rcu_begin();
        (void)engine_find(router_read(&b->engine.router), hash, key, KEY_BYTES,
                          clock_now(&b->engine.clock));
        rcu_end();
        note(b, GETS, now_ns() - begun);
        begun = now_ns();
        store(b, 'p', rng_below(&rng, PROBE_KEYS), b->set.value);
        note(b, SETS, now_ns() - begun);
        maintain(b);
        (void)nanosleep(&pause, NULL);
    }
    b->prober_s = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    rcu_unregister();
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void print_probes(struct bench *b, int kind, const char *name)
{
    printf("  %s us", name);
    for (int i = 0; i < 2; i++) {
        uint32_t *ns = b->probes[i].ns[kind];
        unsigned n = b->probes[i].count[kind];

        if (n == 0) {
            continue;
        }
        qsort(ns, n, sizeof(*ns), by_size);
        printf("%s %.1f %.1f %.0f", i == 0 ? "" : " ->", ns[(uint64_t)n * 99 / 100] / 1e3,
               ns[(uint64_t)n * 999 / 1000] / 1e3, ns[n - 1] / 1e3);
    }
    printf("\n");
}

/* ---- memory ------------------------------------------------------------------------------ */

/* A line of /proc/self/status that gives a size; in bytes. */
static uint64_t status_bytes(const char *name)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    uint64_t kib = 0;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            kib = strtoull(line + strlen(name), NULL, 10);
        }
    }
    if (f == NULL || kib == 0) {
        fail("there is no size in /proc/self/status");
    }
    fclose(f);
    return kib << 10;
}

/* The largest resident set (VmHWM) is counted from now on. */
static void forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");

    if (f == NULL || fputs("5", f) == EOF || fclose(f) != 0) {
        fail("the largest resident set cannot be reset");
    }
}

/* ---- moving ------------------------------------------------------------------------------ */

/* One of this number of runs of the first shard goes to the second. */
static void plan_runs(struct move_plan *p, uint32_t every)
{
    move_plan_init(p);
    for (uint32_t i = 0; i < ROUTE_SLOTS / 2; i++) {
        if (i / RUN % every == 0) {
            p->to[i] = 1;
        }
    }
}

static uint64_t carry_out(struct bench *b, const struct move_plan *p)
{
    const struct move_config cfg = {.plan = p, .cpu_pct = b->set.cpu_pct};
    struct move_info info;

    if (engine_move(&b->engine, &cfg, &info) != MF_OK) {
        fail("a move failed");
    }
    return info.items;
}

/* Have the mover see to another number of shards, and wait for it. */
static uint64_t change_number(struct bench *b, uint32_t shards)
{
    struct reshard_info info;

    if (engine_set_shards(&b->engine, shards, b->set.cpu_pct) != MF_OK) {
        fail("the number of shards cannot be changed");
    }
    do {
        usleep(1000);
        engine_reshard_info(&b->engine, &info);
    } while (info.state != RESHARD_IDLE);
    return info.items;
}

/* By a plan; NULL: to a number of shards. */
static void measure(struct bench *b, const char *name, unsigned pct, const struct move_plan *p,
                    uint32_t shards)
{
    uint64_t before = sum(b, CTR_curr_items);
    uint64_t resident = status_bytes("VmRSS:");
    double limit = (double)((uint64_t)b->set.mib << 20);

    for (int i = 0; i < 2; i++) {
        b->probes[i].count[GETS] = b->probes[i].count[SETS] = 0;
    }
    b->is_stopping = false;
    b->is_moving = false;
    b->prober_s = 0;
    double all = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    if (!b->set.is_idle) {
        pthread_create(&b->prober, NULL, probe_main, b);
        usleep(500000);
    }
    forget_peak();
    double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    double began = seconds_of(CLOCK_MONOTONIC);
    atomic_store(&b->is_moving, true);
    uint64_t moved = p != NULL ? carry_out(b, p) : change_number(b, shards);
    double took = seconds_of(CLOCK_MONOTONIC) - began;
    cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
    atomic_store(&b->is_stopping, true);
    if (!b->set.is_idle) {
        pthread_join(b->prober, NULL);
    }
    all = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - all - b->prober_s;
    uint64_t after = sum(b, CTR_curr_items);
    double peak = (double)status_bytes("VmHWM:");
    printf("%-10s %3u %%  items %9llu  lost %6.2f %%  %6.2f s  moved %9llu  CPU us an item "
           "%6.2f, all %6.2f  used %5.1f %%  resident + %4.2f %%, above -m %4.2f %%\n",
           name, pct, (unsigned long long)before,
           after < before ? (double)(before - after) * 100 / (double)before : 0, took,
           (unsigned long long)moved, cpu * 1e6 / (double)(moved + 1),
           all * 1e6 / (double)(moved + 1), used_pct(b),
           (peak - (double)resident) * 100 / limit,
           peak > limit ? (peak - limit) * 100 / limit : 0);
    if (!b->set.is_idle) {
        print_probes(b, GETS, "gets");
        print_probes(b, SETS, "sets");
    }
    fflush(stdout);
}

/* ---- sets in slots that move ------------------------------------------------------------- */

#define ROUNDS     9
#define ROUND_KEYS 16384u /* in each round, of each kind */
#define AT_ONCE    16u    /* sets in one section, as for a client that pipelines */

enum { OVER_SETTLED, NEW_SETTLED, OVER_LEFT, OVER_ARRIVED, NEW_MOVING, SET_KINDS };

static const char *const set_kinds[SET_KINDS] = {"settled, there", "settled, new",
                                                 "moving, in the old shard",
                                                 "moving, in the new shard", "moving, new"};

struct request {
    uint64_t hash;
    char key[KEY_BYTES + 1];
};

static void set_some(struct bench *b, const struct request *r)
{
    struct store st = {.mode = STORE_SET,
                       .deadline = MSEC_NEVER,
                       .value = span_of(b->value, b->set.value),
                       .may_wait = true};

    rcu_begin();
    for (unsigned i = 0; i < AT_ONCE; i++) {
        st.hash = r[i].hash;
        st.key = span_of(r[i].key, KEY_BYTES);
        while (engine_store(&b->engine, &st, clock_now(&b->engine.clock)) == OUT_WAIT) {
            rcu_end();
            grace_ask(reclaim_grace(b->engine.reclaimer), GRACE_HURRY);
            rcu_wait();
            maintain(b);
            rcu_begin();
        }
    }
    rcu_end();
}

/* Nanoseconds of CPU for a set of each. */
static double time_sets(struct bench *b, const struct request *r)
{
    double began = seconds_of(CLOCK_THREAD_CPUTIME_ID);

    for (unsigned i = 0; i < ROUND_KEYS; i += AT_ONCE) {
        set_some(b, &r[i]);
    }
    return (seconds_of(CLOCK_THREAD_CPUTIME_ID) - began) * 1e9 / ROUND_KEYS;
}

/* Keys of a kind in slots of the first shard, or of the second one; *next: to go on with. */
static void draw_keys(struct bench *b, struct request *r, char kind, bool is_first,
                      uint64_t *next)
{
    for (unsigned n = 0; n < ROUND_KEYS;) {
        r[n].hash = hash_of(b, r[n].key, kind, (*next)++);
        n += (route_slot_number(r[n].hash) < ROUTE_SLOTS / 2) == is_first;
    }
}

/* All slots of the first shard begin to move to the second, and no mover carries them. */
static void begin_to_move(struct bench *b)
{
    const struct route_slot states[] = {route_prepared(0, 1), route_moving(0, 1)};

    for (int i = 0; i < 2; i++) {
        if (router_publish(&b->engine.router, 0, ROUTE_SLOTS / 2, states[i]) != MF_OK) {
            fail("slots cannot move");
        }
        rcu_wait();
    }
}

static void measure_sets(struct bench *b, unsigned pct)
{
    struct request *r = must_alloc(malloc(ROUND_KEYS * sizeof(*r)));
    double ns[SET_KINDS][ROUNDS];
    uint64_t next[4] = {0, 0, 0, 0}; /* settled there, new; moving there, new */

    begin_to_move(b);
    for (unsigned i = 0; i < ROUNDS; i++) {
        draw_keys(b, r, 'k', false, &next[0]);
        ns[OVER_SETTLED][i] = time_sets(b, r);
        draw_keys(b, r, 'k', true, &next[2]);
        ns[OVER_LEFT][i] = time_sets(b, r);
        ns[OVER_ARRIVED][i] = time_sets(b, r);
        draw_keys(b, r, 'n', false, &next[1]);
        ns[NEW_SETTLED][i] = time_sets(b, r);
        draw_keys(b, r, 'm', true, &next[3]);
        ns[NEW_MOVING][i] = time_sets(b, r);
        maintain(b);
    }
    printf("sets       %3u %%\n", pct);
    for (int k = 0; k < SET_KINDS; k++) {
        double all = median(ns[k], ROUNDS);

        printf("  %-25s %6.0f ns  x %.2f\n", set_kinds[k], all,
               all /
                   median(ns[k == NEW_MOVING || k == NEW_SETTLED ? NEW_SETTLED : OVER_SETTLED],
                          ROUNDS));
    }
    free(r);
}

static void begin(struct bench *b, uint32_t shards)
{
    struct engine_config cfg;

    memcpy(&b->options, &engine_options_default, sizeof(b->options));
    engine_config_init(&cfg);
    cfg.shards = shards;
    cfg.options = &b->options;
    cfg.limit_bytes = (uint64_t)b->set.mib << 20;
    cfg.seed = 1;
    if (engine_start(&b->engine, &cfg) != MF_OK) {
        fail("the engine does not start");
    }
}

static void run_case(struct bench *b, const char *name, unsigned pct)
{
    static struct move_plan p;
    bool is_half = strcmp(name, "half") == 0;

    bool is_number = strcmp(name, "number") == 0;

    begin(b, is_half ? 4 : is_number ? b->set.from : 2);
    if (is_half) {
        move_plan_even(&p, &b->engine, 2);
        (void)carry_out(b, &p);
    }
    fill(b, pct);
    if (is_half) {
        move_plan_even(&p, &b->engine, 4);
        measure(b, "2 -> 4", pct, &p, 0);
        move_plan_even(&p, &b->engine, 2);
        measure(b, "4 -> 2", pct, &p, 0);
    } else if (is_number) {
        char step[32];

        for (int i = 0; i < 2; i++) {
            uint32_t shards = i == 0 ? b->set.to : b->set.from;

            snprintf(step, sizeof(step), "%u -> %u", i == 0 ? b->set.from : b->set.to, shards);
            measure(b, step, pct, NULL, shards);
        }
    } else if (strcmp(name, "sets") == 0) {
        measure_sets(b, pct);
    } else {
        plan_runs(&p, strcmp(name, "whole") == 0 ? 1 : strcmp(name, "runs") == 0 ? 2 : 4096);
        measure(b, name, pct, &p, 0);
    }
    reshard_stop(&b->engine);
    engine_stop(&b->engine);
}

int main(int argc, char **argv)
{
    static struct bench b = {.set = {512, 100, 0, 100, 2, 4, false}};
    static const char *fills = "101,96,86,78";
    static const char *cases = "whole,runs,run,half,number";
    static const char *numbers;
    static const struct bench_option options[] = {
        {"-m", .count = &b.set.mib},
        {"-s", .count = &b.set.value},
        {"-l", .count = &b.set.large},
        {"-f", .text = &fills},
        {"-c", .text = &cases},
        {"-p", .count = &b.set.cpu_pct},
        {"-n", .text = &numbers},
        {"-i", .flag = &b.set.is_idle},
        {.name = NULL},
    };

    read_options(argc, argv, options);
    if (numbers != NULL && sscanf(numbers, "%u,%u", &b.set.from, &b.set.to) != 2) {
        fail("-n takes two numbers of shards");
    }
    b.value = make_text((b.set.large > b.set.value ? b.set.large : b.set.value) + 1);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < PROBES; k++) {
            b.probes[i].ns[k] = must_alloc(malloc(PROBES_MAX * sizeof(uint32_t)));
        }
    }
    rcu_register();
    for (const char *name = strtok(strdup(cases), ","); name != NULL;
         name = strtok(NULL, ",")) {
        for (const char *f = fills; f != NULL; f = strchr(f, ',')) {
            f += *f == ',';
            run_case(&b, name, (unsigned)atoi(f));
        }
    }
    rcu_unregister();
    return 0;
}
