/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A look-aside client for the bench: every request is a get, and a set of the same key after a
 * miss. Keys are drawn by Zipf's law or uniformly, or come from a trace on standard input, one
 * request a line, whose first field is the number of the key and whose second may be the size
 * of its value. It tells the hit ratio and the CPU time of the server process for each
 * operation (gets and sets).
 *
 *     bench_aside --port N [--proto text|resp] [--pid N] [--conns N] [--pipeline N]
 *                 [--size BYTES[-BYTES] | --size skewed | --size trace[/N]]
 *                 [--keys N [--theta T (0: uniform)] --ops N | --tenants N < trace]
 *                 [--warmup N] [--set (stores only)] [--seed N]
 *     bench_aside --sim ITEMS | --sim-bytes BYTES [the same keys and sizes]
 *     bench_aside --footprint [the same keys and sizes]
 *
 * With --sim it plays the same requests to the caches of ideal.h instead. They hold this number
 * of items, or with --sim-bytes this many bytes of keys, values, and SIM_OVERHEAD an item. With
 * --footprint it only counts the objects and the bytes of their keys and values. Tenants play
 * the trace, each with keys of its own, each beginning a part of it after the one before. The
 * size of a value belongs to its key: spread evenly, by default; skewed: log-normal, half of
 * them below 223 bytes, from 31 to 4000; trace/N: the Nth part of what the trace says. A batch
 * of pipelined requests ends before a key that it has asked for. Prints one line of JSON. Exit
 * status 1 when a reply was wrong, 2 when it could not work.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/basics.h"
#include "tests/bench/ideal.h"
#include "tests/bench/wire.h"

#define KEY_BYTES 22u
#define BATCH_MAX 256

/* What an item takes beside its key and value, in an ideal cache: as much as in a good one. */
#define SIM_OVERHEAD 48u

static struct {
    int port, conns, pipeline;
    pid_t pid;
    uint64_t keys, ops, warmup, seed, sim, sim_bytes, tenants;
    uint64_t size_low, size_high;
    uint64_t size_part; /* of the size in the trace; 0: not from there */
    double theta;
    bool sets, is_resp, is_skewed, only_footprint;
} opt = {
    .conns = 8, .pipeline = 1, .seed = 1, .size_low = 4000, .size_high = 4000, .theta = 0.99};

/* One connection: a batch of sets for what was missed, then gets. */
struct conn {
    struct wire wire; /* must be the first member */
    uint64_t gets[BATCH_MAX];
    uint64_t missed[BATCH_MAX];
    unsigned sets_waiting, get_count, gets_done, missed_count;
    bool has_value; /* the get that is being answered was a hit */
};

static struct conn *conns;
static char *text;
static uint32_t *request;    /* key numbers, in order */
static uint32_t *trace_size; /* by the number of a key in the trace */
static uint64_t trace_keys;
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

/* Log-normal, by the method of Box and Muller. */
static uint64_t skewed_size_of(uint64_t id)
{
    double u = unit_of(mix(id + 77)) + 0x1p-54, v = unit_of(mix(id + 7777));
    double size = 223 * exp(.75 * sqrt(-2 * log(u)) * cos(2 * M_PI * v));

    return size < 31 ? 31 : size > 4000 ? 4000 : (uint64_t)size;
}

static uint64_t size_of(uint64_t id)
{
    if (opt.is_skewed) {
        return skewed_size_of(id);
    }
    if (opt.size_part != 0) {
        return trace_size[id / opt.tenants] / opt.size_part + 1;
    }
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

static void note_size(uint32_t key, uint32_t size)
{
    if (key >= trace_keys) {
        trace_size = must_alloc(realloc(trace_size, (key + 1ULL) * 2 * sizeof(*trace_size)));
        memset(trace_size + trace_keys, 0,
               ((key + 1ULL) * 2 - trace_keys) * sizeof(*trace_size));
        trace_keys = (key + 1ULL) * 2;
    }
    trace_size[key] = size;
    if (opt.size_part != 0 && size / opt.size_part + 1 > opt.size_high) {
        opt.size_high = size / opt.size_part + 1; /* the longest value to come */
    }
}

/* The tenants take turns; each begins a part of the trace after the one before. */
static void read_trace(void)
{
    char line[4096];
    uint64_t n = 0, cap = 1 << 20, lag, at = 0;
    uint32_t *base = must_alloc(malloc(cap * sizeof(*base)));

    while (fgets(line, sizeof(line), stdin) != NULL) {
        char *end;

        if (n == cap) {
            cap *= 2;
            base = must_alloc(realloc(base, cap * sizeof(*base)));
        }
        base[n] = (uint32_t)strtoul(line, &end, 10);
        note_size(base[n++], (uint32_t)strtoul(end, NULL, 10));
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

/* ---- without a server -------------------------------------------------------------------- */

/* One more than the highest number of a key. */
static uint64_t key_count(void)
{
    uint64_t keys = 0;

    for (uint64_t i = 0; i < requests; i++) {
        keys = request[i] + 1 > keys ? request[i] + 1 : keys;
    }
    return keys;
}

static void simulate(void)
{
    const uint64_t keys = key_count();
    struct ideal in = {request, requests, opt.warmup, opt.sim, NULL};
    uint32_t *size = NULL;

    if (opt.sim_bytes != 0) {
        in.room = opt.sim_bytes;
        in.size = size = must_alloc(malloc(keys * sizeof(*size)));
        for (uint64_t id = 0; id < keys; id++) {
            size[id] = (uint32_t)(KEY_BYTES + size_of(id) + SIM_OVERHEAD);
        }
    }
    struct ideal_ratios r = ideal_play(&in);
    printf("{\"requests\": %" PRIu64 ", \"min\": %.4f, \"lru\": %.4f, \"s3fifo_1\": %.4f, "
           "\"s3fifo_2\": %.4f}\n",
           requests, r.min, r.lru, r.s3fifo_1, r.s3fifo_2);
    free(size);
}

static void print_footprint(void)
{
    uint64_t objects = 0, bytes = 0;
    uint8_t *seen = must_alloc(calloc(key_count(), 1));

    for (uint64_t i = 0; i < requests; i++) {
        if (seen[request[i]] == 0) {
            seen[request[i]] = 1;
            objects++;
            bytes += KEY_BYTES + size_of(request[i]);
        }
    }
    free(seen);
    printf("{\"requests\": %" PRIu64 ", \"objects\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n",
           requests, objects, bytes);
}

/* ---- sending ----------------------------------------------------------------------------- */

static void put_set(struct conn *c, uint64_t id)
{
    uint64_t size = size_of(id);
    char *p = wire_room(&c->wire, size + 128), *start = p;

    p += sprintf(p,
                 opt.is_resp ? "*3\r\n$3\r\nSET\r\n$22\r\n%0*" PRIu64 "\r\n$%" PRIu64 "\r\n"
                             : "set %0*" PRIu64 " 0 0 %" PRIu64 "\r\n",
                 (int)KEY_BYTES, id, size);
    memcpy(p, text, size);
    memcpy(p + size, "\r\n", 2);
    c->wire.out_len += (size_t)(p + size + 2 - start);
    c->sets_waiting++;
}

static void put_get(struct conn *c, uint64_t id)
{
    char *p = wire_room(&c->wire, 64);

    c->wire.out_len += (size_t)sprintf(
        p,
        opt.is_resp ? "*2\r\n$3\r\nGET\r\n$22\r\n%0*" PRIu64 "\r\n" : "get %0*" PRIu64 "\r\n",
        (int)KEY_BYTES, id);
    c->gets[c->get_count++] = id;
}

static bool is_waiting(const struct conn *c)
{
    return c->sets_waiting != 0 || c->gets_done < c->get_count;
}

/* Whether this batch has asked for the key: what becomes of that has to be seen first. */
static bool is_asked(const struct conn *c, uint64_t id)
{
    for (unsigned i = 0; i < c->get_count; i++) {
        if (c->gets[i] == id) {
            return true;
        }
    }
    return false;
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
        } else if (is_asked(c, request[next_request])) {
            break;
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

static void set_answered(struct conn *c, const char *line, size_t len, const char *good)
{
    if (c->sets_waiting == 0) {
        errno = EPROTO;
        fail("an answer to nothing");
    }
    c->sets_waiting--;
    stores++;
    if (len != strlen(good) || memcmp(line, good, len) != 0) {
        wire_is_wrong(line, len);
    }
}

static void resp_line(struct wire *w, const char *line, size_t len)
{
    struct conn *c = conn_of(w);
    int64_t n = *line == '$' ? strtoll(line + 1, NULL, 10) : -1;

    if (*line != '$' || c->gets_done == c->get_count) {
        set_answered(c, line, len, "+OK");
        return;
    }
    if (n >= 0) {
        c->has_value = true;
        w->skip = (uint64_t)n + 2;
        if ((uint64_t)n != size_of(c->gets[c->gets_done])) {
            wire_is_wrong(line, len);
        }
    }
    get_answered(c);
}

static void text_line(struct wire *w, const char *line, size_t len)
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
    } else {
        set_answered(c, line, len, "STORED");
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
    const struct wire_client client = {opt.is_resp ? resp_line : text_line, NULL, on_taken};

    last_request = next_request + n;
    for (int i = 0; i < opt.conns; i++) {
        next_batch(&conns[i]);
    }
    wire_run(&client, is_phase_over);
}

static void play(void)
{
    clockid_t server = cpu_clock_of(opt.pid);

    text = make_text(opt.size_high);
    conns = must_alloc(calloc((size_t)opt.conns, sizeof(*conns)));
    for (int i = 0; i < opt.conns; i++) {
        wire_open(&conns[i].wire, opt.port);
    }
    run_phase(opt.warmup);
    gets = hits = stores = 0;
    double cpu = seconds_of(server);
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

    if (strcmp(s, "skewed") == 0) {
        opt.is_skewed = true;
        opt.size_low = opt.size_high = 4000;
        return;
    }
    if (strncmp(s, "trace", 5) == 0) {
        opt.size_part = s[5] == '/' ? strtoull(s + 6, NULL, 10) : 1;
        opt.size_low = opt.size_high = 1;
        return;
    }
    opt.size_low = strtoull(s, &end, 10);
    opt.size_high = *end == '-' ? strtoull(end + 1, NULL, 10) : opt.size_low;
}

static void read_proto(const char *s)
{
    opt.is_resp = strcmp(s, "resp") == 0;
}

static void parse_options(int argc, char **argv)
{
    static const struct bench_option options[] = {
        {"--port", .number = &opt.port},
        {"--pid", .number = &opt.pid},
        {"--conns", .number = &opt.conns},
        {"--size", .read = parse_sizes},
        {"--keys", .wide = &opt.keys},
        {"--pipeline", .number = &opt.pipeline},
        {"--theta", .real = &opt.theta},
        {"--ops", .wide = &opt.ops},
        {"--tenants", .wide = &opt.tenants},
        {"--seed", .wide = &opt.seed},
        {"--warmup", .wide = &opt.warmup},
        {"--set", .flag = &opt.sets},
        {"--sim", .wide = &opt.sim},
        {"--sim-bytes", .wide = &opt.sim_bytes},
        {"--proto", .read = read_proto},
        {"--footprint", .flag = &opt.only_footprint},
        {.name = NULL},
    };

    read_options(argc, argv, options);
    if ((opt.port > 0) + (opt.sim > 0) + (opt.sim_bytes > 0) + opt.only_footprint != 1 ||
        (opt.keys == 0) == (opt.tenants == 0) || (opt.size_part != 0 && opt.tenants == 0) ||
        opt.conns <= 0 || opt.pipeline <= 0 || opt.pipeline > BATCH_MAX || opt.size_low == 0 ||
        opt.size_high < opt.size_low) {
        fprintf(stderr,
                "bench_aside: one of --port, --sim, --sim-bytes and --footprint, and of "
                "--keys and --tenants; see the source\n");
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
        fail("no requests");
    }
    if (opt.sim != 0 || opt.sim_bytes != 0) {
        simulate();
    } else if (opt.only_footprint) {
        print_footprint();
    } else {
        play();
    }
    free(request);
    free(trace_size);
    return wire_wrong != 0;
}
