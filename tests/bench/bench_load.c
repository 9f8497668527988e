/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lean load generator for the bench: one thread, one epoll set, closed loop. Every connection
 * sends a batch of requests, waits for all replies, sends the next. The CPU time of the server
 * process is read before and after the measured requests, so that connecting, filling
 * and warming up do not count.
 *
 *     bench_load --port N [--pid N] [--proto text|resp] [--conns N] [--pipeline N]
 *                [--op get|set|mixed|incr] [--ratio N (gets to one set, with mixed)]
 *                [--width N (keys of a get)] [--prefix C] [--keys N] [--size BYTES]
 *                [--zipf] [--ttl SECONDS] [--ops N] [--warmup N] [--fill] [--seed N]
 *
 * Prints one line: the figures as JSON. Exit status 1 when a reply was wrong, 2 when it could
 * not work. Each value is checked for its length, and byte by byte with --verify.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/basics.h"
#include "tests/bench/wire.h"
#include "tests/common/rng.h"

#define KEY_BYTES   20u
#define ZIPF_RING   (1u << 20)
#define ZIPF_THETA  0.99
#define TEXT_SPREAD 4096u

enum op { OP_GET, OP_SET, OP_MIXED, OP_INCR };
enum proto { PROTO_TEXT, PROTO_RESP };

static struct {
    int port, conns, pipeline, width;
    pid_t pid;
    enum proto proto;
    enum op op;
    unsigned ratio;
    char prefix;
    uint64_t keys, size, ops, warmup, seed;
    unsigned ttl;
    bool zipf, fill, verify;
} opt = {.conns = 50,
         .pipeline = 1,
         .width = 1,
         .ratio = 1,
         .prefix = 'k',
         .keys = 10000,
         .size = 100,
         .seed = 1};

/* One connection: the batch in flight and how far its replies are read. */
struct conn {
    struct wire wire;  /* must be the first member */
    unsigned waiting;  /* requests without their whole reply */
    uint64_t value_id; /* the key of the value that is coming */
    unsigned got;      /* text: values of the get that is being answered */
    unsigned array;    /* RESP: elements of an array still to come */
};

struct counts {
    uint64_t done, hits, misses;
};

static struct conn *conns;
static char *text; /* values are slices of it */
static uint32_t *zipf_ring;
static uint32_t zipf_at;
static struct rng rng;
static struct counts counts;
static uint64_t to_send;    /* requests of this phase not yet sent */
static uint64_t done_until; /* number of replies that ends this phase */
static uint64_t fill_next;

static struct conn *conn_of(struct wire *w)
{
    return (struct conn *)(void *)w;
}

/* ---- keys and values --------------------------------------------------------------------- */

/* A ring of picks by Zipf's law. */
static void make_zipf(void)
{
    struct zipf z;

    zipf_init(&z, opt.keys, ZIPF_THETA);
    zipf_ring = must_alloc(malloc(ZIPF_RING * sizeof(*zipf_ring)));
    for (uint32_t i = 0; i < ZIPF_RING; i++) {
        /* Ranks are scattered over the keys, so that hot keys are not neighbours. */
        zipf_ring[i] =
            (uint32_t)(zipf_pick(&z, unit_of(rng_next(&rng))) * 2654435761u % opt.keys);
    }
    zipf_fini(&z);
}

static uint64_t pick_key(void)
{
    if (opt.zipf) {
        return zipf_ring[zipf_at++ % ZIPF_RING];
    }
    return rng_below(&rng, opt.keys);
}

static void put_key(char *out, uint64_t id)
{
    out[0] = opt.prefix;
    for (size_t i = KEY_BYTES - 1; i > 0; i--) {
        out[i] = (char)('0' + id % 10);
        id /= 10;
    }
}

static uint64_t read_key(const char *key)
{
    uint64_t id = 0;

    for (size_t i = 1; i < KEY_BYTES; i++) {
        id = id * 10 + (uint64_t)(key[i] - '0');
    }
    return id;
}

static const char *value_of(uint64_t id)
{
    return text + (id * 0x9e3779b97f4a7c15ULL >> 32) % TEXT_SPREAD;
}

/* ---- requests ---------------------------------------------------------------------------- */

static void put_get(struct conn *c)
{
    char *p = wire_room(&c->wire, 64 + (size_t)opt.width * (KEY_BYTES + 8)), *start = p;

    if (opt.proto == PROTO_TEXT) {
        memcpy(p, "get", 3);
        p += 3;
        for (int i = 0; i < opt.width; i++) {
            *p++ = ' ';
            put_key(p, pick_key());
            p += KEY_BYTES;
        }
        memcpy(p, "\r\n", 2);
        p += 2;
    } else {
        p += opt.width == 1 ? sprintf(p, "*2\r\n$3\r\nGET\r\n")
                            : sprintf(p, "*%d\r\n$4\r\nMGET\r\n", opt.width + 1);
        for (int i = 0; i < opt.width; i++) {
            memcpy(p, "$20\r\n", 5);
            put_key(p + 5, pick_key());
            memcpy(p + 5 + KEY_BYTES, "\r\n", 2);
            p += 7 + KEY_BYTES;
        }
    }
    c->wire.out_len += (size_t)(p - start);
}

static void put_set(struct conn *c, uint64_t id)
{
    char *p = wire_room(&c->wire, opt.size + 256), *start = p, key[KEY_BYTES];
    char number[24];
    unsigned ttl = opt.ttl != 0 ? opt.ttl + (unsigned)rng_below(&rng, opt.ttl * 4) : 0;
    const char *value = value_of(id);
    size_t size = opt.size;

    if (opt.op == OP_INCR) {
        size = (size_t)sprintf(number, "%" PRIu64, id);
        value = number;
    }
    put_key(key, id);
    if (opt.proto == PROTO_TEXT) {
        p += sprintf(p, "set %.*s 0 %u %zu\r\n", (int)KEY_BYTES, key, ttl, size);
    } else {
        p += sprintf(p, "*%d\r\n$3\r\nSET\r\n$20\r\n%.*s\r\n$%zu\r\n", ttl != 0 ? 5 : 3,
                     (int)KEY_BYTES, key, size);
    }
    memcpy(p, value, size);
    p += size;
    memcpy(p, "\r\n", 2);
    p += 2;
    if (opt.proto == PROTO_RESP && ttl != 0) {
        char seconds[16];
        int n = sprintf(seconds, "%u", ttl);
        p += sprintf(p, "$2\r\nEX\r\n$%d\r\n%s\r\n", n, seconds);
    }
    c->wire.out_len += (size_t)(p - start);
}

static void put_incr(struct conn *c)
{
    char *p = wire_room(&c->wire, 128), key[KEY_BYTES];

    put_key(key, pick_key());
    c->wire.out_len +=
        (size_t)(opt.proto == PROTO_TEXT
                     ? sprintf(p, "incr %.*s 1\r\n", (int)KEY_BYTES, key)
                     : sprintf(p, "*2\r\n$4\r\nINCR\r\n$20\r\n%.*s\r\n", (int)KEY_BYTES, key));
}

static void put_request(struct conn *c)
{
    if (opt.fill) {
        put_set(c, fill_next++);
        return;
    }
    switch (opt.op) {
    case OP_GET:
        put_get(c);
        break;
    case OP_SET:
        put_set(c, pick_key());
        break;
    case OP_INCR:
        put_incr(c);
        break;
    case OP_MIXED:
        if (rng_below(&rng, opt.ratio + 1) == 0) {
            put_set(c, pick_key());
        } else {
            put_get(c);
        }
        break;
    }
}

/* ---- replies ----------------------------------------------------------------------------- */

static void value_begins(struct conn *c, uint64_t len)
{
    counts.hits++;
    c->got++;
    c->wire.skip = len + 2;
    if (opt.op != OP_INCR && len != opt.size) {
        wire_is_wrong("length", 6);
    }
}

static void reply_done(struct conn *c)
{
    c->waiting--;
    counts.done++;
}

/* A line of the text protocol. */
static void text_line(struct wire *w, const char *line, size_t len)
{
    struct conn *c = conn_of(w);

    if (len > 6 + KEY_BYTES && memcmp(line, "VALUE ", 6) == 0) {
        uint64_t n = 0;

        c->value_id = read_key(line + 6);
        for (const char *p = line + 6 + KEY_BYTES + 3; p < line + len && *p >= '0' && *p <= '9';
             p++) {
            n = n * 10 + (uint64_t)(*p - '0');
        }
        value_begins(c, n);
        return;
    }
    if (!(len == 3 && memcmp(line, "END", 3) == 0) &&
        !(len == 6 && memcmp(line, "STORED", 6) == 0) &&
        !(len != 0 && *line >= '0' && *line <= '9')) {
        wire_is_wrong(line, len);
    }
    reply_done(c);
}

static void resp_line(struct wire *w, const char *line, size_t len)
{
    struct conn *c = conn_of(w);
    int64_t n = strtoll(line + 1, NULL, 10);

    switch (*line) {
    case '*':
        c->array = (unsigned)n;
        return;
    case '$':
        if (n >= 0) {
            c->value_id = UINT64_MAX;
            value_begins(c, (uint64_t)n);
        } else {
            counts.misses++;
        }
        if (c->array > 1) {
            c->array--;
            return;
        }
        c->array = 0;
        break;
    case '+':
    case ':':
        break;
    default:
        wire_is_wrong(line, len);
        break;
    }
    reply_done(c);
}

static void check_value(struct wire *w, const char *bytes, size_t n)
{
    const struct conn *c = conn_of(w);
    uint64_t at = opt.size + 2 - w->skip;

    if (c->value_id != UINT64_MAX && at < opt.size) {
        uint64_t take = n < opt.size - at ? n : opt.size - at;
        if (memcmp(value_of(c->value_id) + at, bytes, take) != 0) {
            wire_is_wrong("value", 5);
        }
    }
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void next_batch(struct conn *c)
{
    wire_clear(&c->wire);
    for (int i = 0; i < opt.pipeline && to_send > 0; i++) {
        put_request(c);
        to_send--;
        c->waiting++;
    }
    wire_send(&c->wire);
}

static void on_taken(struct wire *w)
{
    struct conn *c = conn_of(w);

    if (c->waiting == 0 && to_send > 0) {
        next_batch(c);
    }
}

static bool is_phase_over(void)
{
    return counts.done >= done_until;
}

/* Send n requests over all connections and read all replies. */
static void run_phase(uint64_t n)
{
    const struct wire_client client = {opt.proto == PROTO_TEXT ? text_line : resp_line,
                                       opt.verify && opt.op != OP_INCR ? check_value : NULL,
                                       on_taken};

    done_until = counts.done + n;
    to_send = n;
    for (int i = 0; i < opt.conns && to_send > 0; i++) {
        next_batch(&conns[i]);
    }
    wire_run(&client, is_phase_over);
}

static void measure(void)
{
    clockid_t server = cpu_clock_of(opt.pid);

    if (!opt.fill && opt.warmup > 0) {
        run_phase(opt.warmup);
    }
    uint64_t misses = counts.misses;
    counts.hits = 0;
    double cpu = seconds_of(server), wall = seconds_of(CLOCK_MONOTONIC);
    double mine = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t n = opt.fill ? opt.keys : opt.ops;
    run_phase(n);
    cpu = seconds_of(server) - cpu;
    wall = seconds_of(CLOCK_MONOTONIC) - wall;
    mine = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - mine;
    printf("{\"ops\": %" PRIu64 ", \"server_us_per_op\": %.4f, \"server_busy\": %.3f, "
           "\"client_busy\": %.3f, \"ops_per_s\": %.0f, \"hits\": %" PRIu64
           ", \"misses\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"first_wrong\": \"%s\"}\n",
           n, opt.pid != 0 ? cpu * 1e6 / (double)n : 0, cpu / wall, mine / wall,
           (double)n / wall, counts.hits, counts.misses - misses, wire_wrong, wire_first_wrong);
}

static void read_op(const char *s)
{
    static const char *const names[] = {"get", "set", "mixed", "incr"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(s, names[i]) == 0) {
            opt.op = (enum op)i;
            return;
        }
    }
    fprintf(stderr, "bench_load: no such operation: %s\n", s);
    exit(2);
}

static void read_proto(const char *s)
{
    opt.proto = strcmp(s, "resp") == 0 ? PROTO_RESP : PROTO_TEXT;
}

static void read_prefix(const char *s)
{
    opt.prefix = s[0];
}

static void parse_options(int argc, char **argv)
{
    static const struct bench_option options[] = {
        {"--port", .number = &opt.port},
        {"--pid", .number = &opt.pid},
        {"--proto", .read = read_proto},
        {"--conns", .number = &opt.conns},
        {"--pipeline", .number = &opt.pipeline},
        {"--op", .read = read_op},
        {"--ratio", .count = &opt.ratio},
        {"--width", .number = &opt.width},
        {"--prefix", .read = read_prefix},
        {"--keys", .wide = &opt.keys},
        {"--size", .wide = &opt.size},
        {"--zipf", .flag = &opt.zipf},
        {"--ttl", .count = &opt.ttl},
        {"--ops", .wide = &opt.ops},
        {"--warmup", .wide = &opt.warmup},
        {"--fill", .flag = &opt.fill},
        {"--seed", .wide = &opt.seed},
        {"--verify", .flag = &opt.verify},
        {.name = NULL},
    };

    read_options(argc, argv, options);
    if (opt.port <= 0 || opt.conns <= 0 || opt.pipeline <= 0 || opt.width <= 0 ||
        opt.keys == 0) {
        fprintf(stderr, "bench_load: --port is needed, counts are positive\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    rng_init(&rng, opt.seed);
    text = make_text(opt.size + TEXT_SPREAD);
    if (opt.zipf) {
        make_zipf();
    }
    conns = must_alloc(calloc((size_t)opt.conns, sizeof(*conns)));
    for (int i = 0; i < opt.conns; i++) {
        wire_open(&conns[i].wire, opt.port);
    }
    measure();
    for (int i = 0; i < opt.conns; i++) {
        wire_close(&conns[i].wire);
    }
    free(conns);
    free(text);
    free(zipf_ring);
    return wire_wrong != 0;
}
