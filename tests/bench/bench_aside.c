/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A look-aside client for the bench: every request is a get, and a set of the same key after a
 * miss. Keys are drawn by Zipf's law or uniformly, or come from a trace on standard input, one
 * request a line, whose first field is the number of the key. It tells the hit ratio and the
 * CPU time of the server process for each operation, gets and sets.
 *
 *     bench_aside --port N [--pid N] [--conns N] [--pipeline N] [--size BYTES[-BYTES]]
 *                 [--keys N [--theta T (0: uniform)] --ops N | --tenants N < trace]
 *                 [--warmup N] [--set (stores only)] [--seed N]
 *     bench_aside --sim ITEMS [the same keys]
 *
 * With --sim it plays the same requests to ideal caches of so many items instead: LRU, and
 * S3-FIFO (J. Yang et al., SOSP 2023) with a threshold of one and of two hits. Tenants play the
 * trace each with keys of its own, each beginning a part of it after the one before. Prints one
 * line of JSON. Exit status 1 when a reply was wrong, 2 when it could not work.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/basics.h"
#include "tests/bench/wire.h"

#define KEY_BYTES 22u
#define BATCH_MAX 256

static struct {
    int port, conns, pipeline;
    pid_t pid;
    uint64_t keys, ops, warmup, seed, sim, tenants;
    uint64_t size_low, size_high;
    double theta;
    bool sets;
} opt = {
    .conns = 8, .pipeline = 1, .seed = 1, .size_low = 4000, .size_high = 4000, .theta = 0.99};

/* One connection: a batch of sets for what was missed, then gets. */
struct conn {
    struct wire wire; /* stands first */
    uint64_t gets[BATCH_MAX];
    uint64_t missed[BATCH_MAX];
    unsigned sets_waiting, get_count, gets_done, missed_count;
    bool has_value; /* the get that is being answered was a hit */
};

static struct conn *conns;
static char *text;
static uint32_t *request; /* key numbers, in order */
static uint64_t requests, next_request, last_request;
static uint64_t gets, hits, stores;

static struct conn *conn_of(struct wire *w)
{
    return (struct conn *)(void *)w;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

/* ---- requests ---------------------------------------------------------------------------- */

static uint64_t size_of(uint64_t id)
{
    return opt.size_low + mix(id + 77) % (opt.size_high - opt.size_low + 1);
}

static void draw_keys(void)
{
    struct zipf z;
    uint64_t state = opt.seed;

    zipf_init(&z, opt.keys, opt.theta);
    requests = opt.ops + opt.warmup;
    request = must_alloc(malloc(requests * sizeof(*request)));
    for (uint64_t i = 0; i < requests; i++) {
        state += 0x9e3779b97f4a7c15ULL;
        request[i] = (uint32_t)zipf_pick(&z, unit_of(mix(state)));
    }
    zipf_fini(&z);
}

/* The tenants take turns; each begins a part of the trace after the one before. */
static void read_trace(void)
{
    char line[4096];
    uint64_t n = 0, cap = 1 << 20, lag, at = 0;
    uint32_t *base = must_alloc(malloc(cap * sizeof(*base)));

    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (n == cap) {
            cap *= 2;
            base = must_alloc(realloc(base, cap * sizeof(*base)));
        }
        base[n++] = (uint32_t)strtoul(line, NULL, 10);
    }
    lag = n / (16 * opt.tenants);
    requests = n * opt.tenants;
    request = must_alloc(malloc((requests + 1) * sizeof(*request)));
    for (uint64_t i = 0; i < n + lag * (opt.tenants - 1); i++) {
        for (uint64_t t = 0; t < opt.tenants; t++) {
            if (i >= t * lag && i - t * lag < n) {
                request[at++] = (uint32_t)(base[i - t * lag] * opt.tenants + t);
            }
        }
    }
    free(base);
}

/* ---- the ideal --------------------------------------------------------------------------- */

enum place { NOWHERE, IN_SMALL, IN_MAIN, IN_GHOST };

struct queue {
    uint32_t head, tail; /* newest, oldest; 0: none. Keys are counted from 1 here */
    uint64_t count;
};

static uint32_t *older, *newer;
static uint8_t *place, *heat;

static void push(struct queue *q, uint32_t k)
{
    newer[k] = 0;
    older[k] = q->head;
    if (q->head != 0) {
        newer[q->head] = k;
    } else {
        q->tail = k;
    }
    q->head = k;
    q->count++;
}

static void take_out(struct queue *q, uint32_t k)
{
    if (newer[k] != 0) {
        older[newer[k]] = older[k];
    } else {
        q->head = older[k];
    }
    if (older[k] != 0) {
        newer[older[k]] = newer[k];
    } else {
        q->tail = newer[k];
    }
    q->count--;
}

static double sim_lru(uint64_t items)
{
    struct queue q = {0, 0, 0};
    uint64_t found = 0;

    for (uint64_t i = 0; i < requests; i++) {
        uint32_t k = request[i] + 1;

        if (place[k] != NOWHERE) {
            found += i >= opt.warmup;
            take_out(&q, k);
        } else if (q.count == items) {
            uint32_t victim = q.tail;
            take_out(&q, victim);
            place[victim] = NOWHERE;
        }
        place[k] = IN_SMALL;
        push(&q, k);
    }
    return (double)found / (double)(requests - opt.warmup);
}

struct s3fifo {
    struct queue small, main, ghost;
    uint64_t items;
    int threshold;
};

static void remember(struct s3fifo *c, uint32_t k)
{
    place[k] = IN_GHOST;
    push(&c->ghost, k);
    if (c->ghost.count > c->items) {
        uint32_t last = c->ghost.tail;
        take_out(&c->ghost, last);
        place[last] = NOWHERE;
    }
}

static void evict_one(struct s3fifo *c)
{
    while (c->small.count > c->items / 10 || c->main.count == 0) {
        uint32_t k = c->small.tail;

        take_out(&c->small, k);
        if (heat[k] < c->threshold) {
            remember(c, k);
            return;
        }
        heat[k] = 0;
        place[k] = IN_MAIN;
        push(&c->main, k);
    }
    for (;;) {
        uint32_t k = c->main.tail;

        take_out(&c->main, k);
        if (heat[k] == 0) {
            place[k] = NOWHERE;
            return;
        }
        heat[k]--;
        push(&c->main, k);
    }
}

static double sim_s3fifo(uint64_t items, int threshold)
{
    struct s3fifo c = {.items = items, .threshold = threshold};
    uint64_t found = 0;

    for (uint64_t i = 0; i < requests; i++) {
        uint32_t k = request[i] + 1;
        bool was_ghost = place[k] == IN_GHOST;

        if (place[k] == IN_SMALL || place[k] == IN_MAIN) {
            found += i >= opt.warmup;
            heat[k] += heat[k] < 3;
            continue;
        }
        if (was_ghost) {
            take_out(&c.ghost, k);
        }
        place[k] = NOWHERE;
        while (c.small.count + c.main.count >= items) {
            evict_one(&c);
        }
        heat[k] = 0;
        place[k] = was_ghost ? IN_MAIN : IN_SMALL;
        push(was_ghost ? &c.main : &c.small, k);
    }
    return (double)found / (double)(requests - opt.warmup);
}

static void forget(uint64_t keys)
{
    memset(place, 0, keys);
    memset(heat, 0, keys);
}

static void simulate(void)
{
    uint64_t keys = 0;
    double lru, s3, s31;

    for (uint64_t i = 0; i < requests; i++) {
        keys = request[i] + 2 > keys ? request[i] + 2 : keys;
    }
    older = must_alloc(calloc(keys, sizeof(*older)));
    newer = must_alloc(calloc(keys, sizeof(*newer)));
    place = must_alloc(calloc(keys, 1));
    heat = must_alloc(calloc(keys, 1));
    lru = sim_lru(opt.sim);
    forget(keys);
    s31 = sim_s3fifo(opt.sim, 1);
    forget(keys);
    s3 = sim_s3fifo(opt.sim, 2);
    printf("{\"requests\": %" PRIu64 ", \"lru\": %.4f, \"s3fifo_1\": %.4f, "
           "\"s3fifo_2\": %.4f}\n",
           requests, lru, s31, s3);
    free(older);
    free(newer);
    free(place);
    free(heat);
}

/* ---- sending ----------------------------------------------------------------------------- */

static void put_set(struct conn *c, uint64_t id)
{
    uint64_t size = size_of(id);
    char *p = wire_room(&c->wire, size + 128), *start = p;

    p += sprintf(p, "set %0*" PRIu64 " 0 0 %" PRIu64 "\r\n", (int)KEY_BYTES, id, size);
    memcpy(p, text, size);
    memcpy(p + size, "\r\n", 2);
    c->wire.out_len += (size_t)(p + size + 2 - start);
    c->sets_waiting++;
}

static void put_get(struct conn *c, uint64_t id)
{
    char *p = wire_room(&c->wire, 64);

    c->wire.out_len += (size_t)sprintf(p, "get %0*" PRIu64 "\r\n", (int)KEY_BYTES, id);
    c->gets[c->get_count++] = id;
}

static bool is_waiting(const struct conn *c)
{
    return c->sets_waiting != 0 || c->gets_done < c->get_count;
}

static void next_batch(struct conn *c)
{
    wire_clear(&c->wire);
    for (unsigned i = 0; i < c->missed_count; i++) {
        put_set(c, c->missed[i]);
    }
    c->missed_count = c->get_count = c->gets_done = 0;
    for (int i = 0; i < opt.pipeline && next_request < last_request; i++) {
        if (opt.sets) {
            put_set(c, request[next_request++]);
        } else {
            put_get(c, request[next_request++]);
        }
    }
    wire_send(&c->wire);
}

/* ---- replies ----------------------------------------------------------------------------- */

static void get_answered(struct conn *c)
{
    uint64_t id = c->gets[c->gets_done++];

    gets++;
    if (c->has_value) {
        hits++;
    } else {
        c->missed[c->missed_count++] = id;
    }
    c->has_value = false;
}

static void on_line(struct wire *w, const char *line, size_t len)
{
    struct conn *c = conn_of(w);

    if (len > 6 && memcmp(line, "VALUE ", 6) == 0) {
        uint64_t size = size_of(c->gets[c->gets_done]);

        c->has_value = true;
        w->skip = size + 2;
        if (strtoull(line + 6, NULL, 10) != c->gets[c->gets_done] ||
            strtoull(line + 6 + KEY_BYTES + 3, NULL, 10) != size) {
            wire_is_wrong(line, len);
        }
    } else if (len == 3 && memcmp(line, "END", 3) == 0 && c->gets_done < c->get_count) {
        get_answered(c);
    } else if (c->sets_waiting != 0) {
        c->sets_waiting--;
        stores++;
        if (len != 6 || memcmp(line, "STORED", 6) != 0) {
            wire_is_wrong(line, len);
        }
    } else {
        errno = EPROTO;
        die("an answer to nothing");
    }
}

static void on_taken(struct wire *w)
{
    if (!is_waiting(conn_of(w))) {
        next_batch(conn_of(w));
    }
}

/* ---- the loop ---------------------------------------------------------------------------- */

static bool is_phase_over(void)
{
    for (int i = 0; i < opt.conns; i++) {
        if (is_waiting(&conns[i])) {
            return false;
        }
    }
    return true;
}

/* Send the next n requests over all connections and read all replies. */
static void run_phase(uint64_t n)
{
    static const struct wire_client client = {on_line, NULL, on_taken};

    last_request = next_request + n;
    for (int i = 0; i < opt.conns; i++) {
        next_batch(&conns[i]);
    }
    wire_run(&client, is_phase_over);
}

static void play(void)
{
    clockid_t server = cpu_clock_of(opt.pid);
    double cpu;

    text = make_text(opt.size_high);
    conns = must_alloc(calloc((size_t)opt.conns, sizeof(*conns)));
    for (int i = 0; i < opt.conns; i++) {
        wire_open(&conns[i].wire, opt.port);
    }
    run_phase(opt.warmup);
    gets = hits = stores = 0;
    cpu = seconds_of(server);
    run_phase(requests - opt.warmup);
    cpu = seconds_of(server) - cpu;
    printf("{\"gets\": %" PRIu64 ", \"stores\": %" PRIu64 ", \"hit_ratio\": %.4f, "
           "\"server_us_per_op\": %.4f, \"wrong\": %" PRIu64 ", \"first_wrong\": \"%s\"}\n",
           gets, stores, gets != 0 ? (double)hits / (double)gets : 0,
           opt.pid != 0 ? cpu * 1e6 / (double)(gets + stores) : 0, wire_wrong,
           wire_first_wrong);
    for (int i = 0; i < opt.conns; i++) {
        wire_close(&conns[i].wire);
    }
    free(conns);
    free(text);
}

static void parse_sizes(const char *s)
{
    char *end;

    opt.size_low = strtoull(s, &end, 10);
    opt.size_high = *end == '-' ? strtoull(end + 1, NULL, 10) : opt.size_low;
}

static void parse_options(int argc, char **argv)
{
    static const struct option longs[] = {
        {"port", 1, NULL, 'p'},  {"pid", 1, NULL, 'i'},    {"conns", 1, NULL, 'c'},
        {"size", 1, NULL, 's'},  {"keys", 1, NULL, 'k'},   {"pipeline", 1, NULL, 'l'},
        {"theta", 1, NULL, 'z'}, {"ops", 1, NULL, 'n'},    {"tenants", 1, NULL, 't'},
        {"seed", 1, NULL, 'e'},  {"warmup", 1, NULL, 'u'}, {"set", 0, NULL, 'o'},
        {"sim", 1, NULL, 'm'},   {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        uint64_t n = optarg != NULL ? strtoull(optarg, NULL, 10) : 0;

        switch (c) {
        case 'p':
            opt.port = (int)n;
            break;
        case 'i':
            opt.pid = (pid_t)n;
            break;
        case 'c':
            opt.conns = (int)n;
            break;
        case 'l':
            opt.pipeline = (int)n;
            break;
        case 's':
            parse_sizes(optarg);
            break;
        case 'k':
            opt.keys = n;
            break;
        case 'z':
            opt.theta = strtod(optarg, NULL);
            break;
        case 't':
            opt.tenants = n;
            break;
        case 'n':
            opt.ops = n;
            break;
        case 'u':
            opt.warmup = n;
            break;
        case 'o':
            opt.sets = true;
            break;
        case 'e':
            opt.seed = n;
            break;
        case 'm':
            opt.sim = n;
            break;
        default:
            exit(2);
        }
    }
    if ((opt.port <= 0) == (opt.sim == 0) || (opt.keys == 0) == (opt.tenants == 0) ||
        opt.conns <= 0 || opt.pipeline <= 0 || opt.pipeline > BATCH_MAX || opt.size_low == 0 ||
        opt.size_high < opt.size_low) {
        fprintf(stderr, "bench_aside: --port or --sim, --keys or --tenants; see the source\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    if (opt.keys != 0) {
        draw_keys();
    } else {
        read_trace();
    }
    if (requests <= opt.warmup) {
        errno = EINVAL;
        die("no requests");
    }
    if (opt.sim != 0) {
        simulate();
    } else {
        play();
    }
    free(request);
    return wire_wrong != 0;
}
