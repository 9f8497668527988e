/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a set costs the engine when several threads write, without sockets: threads that are
 * each pinned to a CPU overwrite values. With one thread, with each thread on keys of its own
 * shard, and with each on all keys, where the shards' locks and lines go from CPU to CPU; and
 * with one thread once more, while the shards write records of changes.
 *
 *     bench_writes [-t THREADS] [-S SHARDS] [-k KEYS] [-s BYTES] [-l LEAST] [-d SECONDS]
 *                  [-b BATCH] [-r ROUNDS] [-P]
 *
 * LEAST: values have LEAST to BYTES bytes, drawn for each set. BATCH: sets in one read-side
 * section, whose buckets are asked for ahead as a worker does for pipelined requests. The ways
 * take turns, in ROUNDS of SECONDS each. A line for each: millions of sets a second in all,
 * nanoseconds of CPU a set (the median of the rounds, and the best), and the rate as a multiple
 * of that of one thread. On a machine that others use, look at the best of many short rounds,
 * or run it with a real-time priority (-P, for root).
 */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/rcu.h"
#include "lib/engine/engine.h"
#include "lib/shard/shard.h"
#include "lib/ship/stream.h"
#include "lib/store/find.h"
#include "lib/store/store.h"
#include "tests/bench/basics.h"
#include "tests/common/rng.h"

#define THREADS_MAX 128
#define ROUNDS_MAX  99
#define BATCH_MAX   64

enum way { WAY_ONE, WAY_OWN, WAY_ALL, WAY_RECORDED, WAYS };

/* Of changes. */
#define RING_BYTES (16u << 20)

static const char *const way_names[] = {"one thread", "own shards", "all shards",
                                        "with records"};

struct key {
    char text[16];
    uint64_t hash;
};

struct setting {
    unsigned threads, shards, keys, value, least, batch, rounds;
    double seconds;
    bool is_urgent;
};

struct bench {
    struct setting set;
    struct engine engine;
    struct engine_options options;
    struct key *keys;
    uint32_t *own; /* numbers of keys, shard by shard */
    uint32_t own_begin[THREADS_MAX + 1];
    enum way way;
    pthread_barrier_t start;
    _Atomic bool stop;
};

struct bench_thread {
    pthread_t id;
    struct bench *b;
    unsigned number;
    uint64_t sets;
    double cpu_s;
};

/* The calling thread, and those that it makes, run before all without such a priority. */
static void hurry(int priority)
{
    struct sched_param p = {.sched_priority = priority};

    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &p) != 0) {
        fail("no real-time priority");
    }
}

static void store(struct bench *b, const struct key *k, struct span value, msec_t now)
{
    struct store st = {.mode = STORE_SET,
                       .hash = k->hash,
                       .key = span_of(k->text, sizeof(k->text)),
                       .deadline = MSEC_NEVER,
                       .value = value};

    if (engine_store(&b->engine, &st, now) != OUT_STORED) {
        fail("a set was not stored");
    }
}

static const struct key *draw(const struct bench_thread *t, struct rng *rng)
{
    const struct bench *b = t->b;

    if (b->way == WAY_OWN) {
        uint32_t begin = b->own_begin[t->number];

        return &b->keys[b->own[begin + rng_below(rng, b->own_begin[t->number + 1] - begin)]];
    }
    return &b->keys[rng_below(rng, b->set.keys)];
}

static size_t draw_len(const struct setting *set, struct rng *rng)
{
    return set->least < set->value ? set->least + rng_below(rng, set->value - set->least + 1)
                                   : set->value;
}

static void *run(void *arg)
{
    struct bench_thread *t = arg;
    struct bench *b = t->b;
    struct rng rng;
    const struct key *keys[BATCH_MAX];
    char *value = calloc(1, b->set.value + 1);

    pin_thread(t->number);
    if (b->set.is_urgent) {
        hurry(1); /* the reclaimer goes first */
    }
    rng_init(&rng, t->number + 1);
    rcu_register();
    pthread_barrier_wait(&b->start);
    double began = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    while (!atomic_load_explicit(&b->stop, memory_order_relaxed)) {
        msec_t now = clock_now(&b->engine.clock);

        for (unsigned i = 0; i < b->set.batch; i++) {
            keys[i] = draw(t, &rng);
        }
        rcu_begin();
        if (b->set.batch > 1) {
            const struct route *rt = router_read(&b->engine.router);

            for (unsigned i = 0; i < b->set.batch; i++) {
                engine_prefetch_bucket(rt, keys[i]->hash);
            }
            for (unsigned i = 0; i < b->set.batch; i++) {
                engine_prefetch_items(rt, &keys[i]->hash, sizeof(*keys[i]), 1);
            }
        }
        for (unsigned i = 0; i < b->set.batch; i++) {
            store(b, keys[i], span_of(value, draw_len(&b->set, &rng)), now);
        }
        rcu_end();
        t->sets += b->set.batch;
    }
    t->cpu_s = seconds_of(CLOCK_THREAD_CPUTIME_ID) - began;
    rcu_unregister();
    free(value);
    return NULL;
}

/* One way for some time; sets a second, and nanoseconds of CPU a set. */
static void measure(struct bench *b, enum way way, double *rate, double *cpu_ns)
{
    struct bench_thread threads[THREADS_MAX] = {0};
    unsigned n = way == WAY_ONE || way == WAY_RECORDED ? 1 : b->set.threads;
    struct stream stream;
    uint64_t sets = 0;
    double cpu = 0;

    b->way = way;
    b->stop = false;
    if (way == WAY_RECORDED && stream_begin(&stream, &b->engine) != MF_OK) {
        fail("no memory for records");
    }
    pthread_barrier_init(&b->start, NULL, n + 1);
    for (unsigned i = 0; i < n; i++) {
        threads[i].b = b;
        threads[i].number = i;
        pthread_create(&threads[i].id, NULL, run, &threads[i]);
    }
    pthread_barrier_wait(&b->start);
    double began = seconds_of(CLOCK_MONOTONIC);
    usleep((useconds_t)(b->set.seconds * 1e6));
    atomic_store(&b->stop, true);
    for (unsigned i = 0; i < n; i++) {
        pthread_join(threads[i].id, NULL);
        sets += threads[i].sets;
        cpu += threads[i].cpu_s;
    }
    *rate = (double)sets / (seconds_of(CLOCK_MONOTONIC) - began);
    *cpu_ns = cpu * 1e9 / (double)sets;
    pthread_barrier_destroy(&b->start);
    if (way == WAY_RECORDED) {
        stream_end(&stream);
    }
}

static void make_keys(struct bench *b)
{
    const struct route *rt = router_read(&b->engine.router);
    uint32_t n = 0;
    char *value = calloc(1, b->set.value + 1);

    b->keys = calloc(b->set.keys, sizeof(*b->keys));
    b->own = calloc(b->set.keys, sizeof(*b->own));
    for (unsigned i = 0; i < b->set.keys; i++) {
        struct key *k = &b->keys[i];
        char text[sizeof(k->text) + 1];

        snprintf(text, sizeof(text), "key-%012u", i);
        memcpy(k->text, text, sizeof(k->text));
        k->hash = engine_hash(&b->engine, k->text, sizeof(k->text));
        rcu_begin();
        store(b, k, span_of(value, b->set.value), clock_now(&b->engine.clock));
        rcu_end();
    }
    for (unsigned s = 0; s < b->set.threads; s++) {
        const struct shard *shard = b->engine.shards[s % b->engine.shard_count];

        b->own_begin[s] = n;
        for (unsigned i = 0; i < b->set.keys; i++) {
            if (route_shard(rt, b->keys[i].hash) == shard) {
                b->own[n++] = i;
            }
        }
    }
    b->own_begin[b->set.threads] = n;
    free(value);
}

int main(int argc, char **argv)
{
    static struct bench b = {.set = {2, 0, 10000, 32, UINT_MAX, 1, 21, .1, false}};
    static double rate[WAYS][ROUNDS_MAX];
    static double cpu[WAYS][ROUNDS_MAX];
    static const struct bench_option options[] = {
        {"-t", .count = &b.set.threads}, {"-S", .count = &b.set.shards},
        {"-k", .count = &b.set.keys},    {"-s", .count = &b.set.value},
        {"-l", .count = &b.set.least},   {"-P", .flag = &b.set.is_urgent},
        {"-d", .real = &b.set.seconds},  {"-b", .count = &b.set.batch},
        {"-r", .count = &b.set.rounds},  {.name = NULL},
    };
    struct engine_config cfg;
    double one = 0;

    read_options(argc, argv, options);
    if (b.set.threads < 1 || b.set.threads > THREADS_MAX || b.set.batch < 1 ||
        b.set.batch > BATCH_MAX || b.set.rounds < 1 || b.set.rounds > ROUNDS_MAX) {
        fail("an argument is out of range");
    }
    if (b.set.is_urgent) {
        hurry(2);
    }
    rcu_register();
    memcpy(&b.options, &engine_options_default, sizeof(b.options));
    engine_config_init(&cfg);
    cfg.ring_bytes = RING_BYTES;
    cfg.shards = b.set.shards != 0 ? b.set.shards : b.set.threads;
    cfg.options = &b.options;
    cfg.limit_bytes = 1024ull << 20;
    cfg.items_hint = b.set.keys;
    if (engine_start(&b.engine, &cfg) != MF_OK) {
        fail("the engine does not start");
    }
    make_keys(&b);
    for (unsigned i = 0; i < b.set.rounds; i++) {
        for (enum way w = 0; w < WAYS; w++) {
            measure(&b, w, &rate[w][i], &cpu[w][i]);
        }
    }
    for (enum way w = 0; w < WAYS; w++) {
        double m = median(rate[w], b.set.rounds);
        double ns = median(cpu[w], b.set.rounds);

        one = w == WAY_ONE ? m : one;
        printf("%-12s %7.2f M/s %7.0f ns %7.0f best %6.2fx\n", way_names[w], m / 1e6, ns,
               cpu[w][0], m / one);
    }
    engine_stop(&b.engine);
    rcu_unregister();
    return 0;
}
