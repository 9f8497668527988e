/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outq: the bytes that leave in arbitrary portions, from the output of a turn and from the
 * queue, are those that were composed; pinned values survive their item; memory is released.
 */
#include <sys/socket.h>

#include "daemon/net/outq.h"
#include "lib/base/rcu.h"
#include "lib/engine/engine.h"
#include "lib/store/erase.h"
#include "lib/store/find.h"
#include "lib/store/store.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define OUT_BYTES  (128u * 1024)
#define VALUE_MAX  (900u * 1024)
#define STREAM_MAX (2u << 20)

static struct engine engine;
static char *value;    /* of the item that is sent */
static char *expected; /* all bytes of a round, in order */
static char *got;
static int fds[2];
static struct io io; /* over fds[0] */

static void setup(void)
{
    struct engine_config cfg;
    int small = 4096;

    engine_config_init(&cfg);
    cfg.shards = 1;
    cfg.limit_bytes = 64u << 20;
    ck_assert_int_eq(engine_start(&engine, &cfg), MF_OK);
    rcu_register();
    value = malloc(VALUE_MAX);
    expected = malloc(STREAM_MAX);
    got = malloc(STREAM_MAX);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    io_init(&io, fds[0]);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
}

static void teardown(void)
{
    close(fds[0]);
    if (fds[1] >= 0) {
        close(fds[1]);
    }
    free(got);
    free(expected);
    free(value);
    rcu_unregister();
    engine_stop(&engine);
}

TEST_FIXTURE(setup, teardown)

static void store_value(size_t len, char first)
{
    struct store s = {
        .mode = STORE_SET,
        .hash = engine_hash(&engine, "key", 3),
        .key = span_str("key"),
        .deadline = MSEC_NEVER,
    };

    for (size_t i = 0; i < len; i++) {
        value[i] = (char)(first + (char)(i % 61));
    }
    s.value = span_of(value, len);
    rcu_begin();
    ck_assert_int_eq(engine_store(&engine, &s, clock_now(&engine.clock)), OUT_STORED);
    rcu_end();
}

static struct found find_value(void)
{
    return engine_find(router_read(&engine.router), engine_hash(&engine, "key", 3), "key", 3,
                       clock_now(&engine.clock));
}

/* Compose n bytes that occur nowhere else, and expect them. */
static void compose(struct out *o, size_t *total, size_t n, char c)
{
    memset(o->base + o->len, c, n);
    o->len += n;
    memset(expected + *total, c, n);
    *total += n;
}

static size_t take(size_t have, size_t most)
{
    ssize_t n = read(fds[1], got + have, most);

    return n > 0 ? (size_t)n : 0;
}

static void check_stream(size_t total, size_t have)
{
    ck_assert_uint_eq(have, total);
    ck_assert_int_eq(memcmp(got, expected, total), 0);
}

/* What waits is the end of what was composed, with the value of which a part may be sent. */
static void check_copy(const struct outq *q, size_t total)
{
    const size_t left = out_left(&q->out);
    struct buf copy = {0};

    ck_assert(outq_copy(q, &copy));
    ck_assert_uint_eq(buf_len(&copy), left);
    ck_assert_int_eq(memcmp(buf_begin(&copy), expected + total - left, left), 0);
    ck_assert_uint_eq(out_left(&q->out), left);
    buf_fini(&copy);
}

/* Send the queue while the peer takes random portions, until both are through. */
static size_t drain(struct outq *q, struct rng *rng, size_t have, size_t total)
{
    enum send_status status = outq_is_empty(q) ? SEND_ALL : SEND_BLOCKED;
    uint64_t written = 0;

    while (status != SEND_ALL) {
        have += take(have, 1 + rng_below(rng, 60000));
        status = outq_send(q, &io, &written);
        ck_assert_int_ne(status, SEND_BROKEN);
        if (status == SEND_BLOCKED && rng_below(rng, 8) == 0) {
            check_copy(q, total);
        }
    }
    for (size_t n; (n = take(have, STREAM_MAX - have)) > 0;) {
        have += n;
    }
    ck_assert_ptr_null(q->out.base);
    return have;
}

/*
 * Bytes, a value, bytes: sent in portions, the rest kept when the socket is full, drained
 * later.
 */
static void send_round(struct rng *rng, size_t value_len)
{
    char *base = malloc(OUT_BYTES);
    struct outq q;
    struct out o;
    size_t total = 0;
    uint64_t written = 0;

    store_value(value_len, (char)('A' + rng_below(rng, 20)));
    outq_init(&q);
    out_init(&o, base, OUT_BYTES);
    rcu_begin();
    compose(&o, &total, rng_below(rng, 3) * rng_below(rng, 30000), '1');
    if (value_len > 0) {
        struct found f = find_value();

        ck_assert_ptr_nonnull(f.item);
        out_value(&o, f.shard, f.item);
        memcpy(expected + total, value, value_len);
        total += value_len;
    }
    compose(&o, &total, rng_below(rng, 3) * rng_below(rng, 30000), '2');
    size_t have = 0;
    for (unsigned i = rng_below(rng, 20); i > 0; i--) {
        ck_assert_int_ne(out_send(&o, &io, &written), SEND_BROKEN);
        have += take(have, 1 + rng_below(rng, 60000));
    }
    ck_assert(outq_keep(&q, &o));
    ck_assert_uint_eq(out_left(&o), 0);
    rcu_end();
    /* The item is gone and its place may be taken: what was pinned or copied stays. */
    store_value(value_len, 'q');
    rcu_begin();
    ck_assert_int_eq(engine_delete(&engine, engine_hash(&engine, "key", 3), span_str("key"), 0,
                                   clock_now(&engine.clock)),
                     OUT_DELETED);
    rcu_end();
    ck_assert(outq_append(&q, "tail", 4));
    memcpy(expected + total, "tail", 4);
    total += 4;
    check_copy(&q, total);
    have = drain(&q, rng, have, total);
    check_stream(total, have);
    free(base);
}

TEST(what_is_composed_arrives)
{
    static const size_t sizes[] = {0,      1,      500,    20000,  32768,  40000,
                                   65536,  70000,  131072, 262144, 270000, 300000,
                                   524288, 600000, 786432, 900000};
    uint64_t seed = rng_seed();
    struct rng rng;

    printf("seed %llu\n", (unsigned long long)seed);
    rng_init(&rng, seed);
    for (unsigned round = 0; round < 200; round++) {
        send_round(&rng, sizes[rng_below(&rng, sizeof(sizes) / sizeof(sizes[0]))]);
    }
}

TEST(empty_queue_owns_nothing)
{
    struct outq q;

    outq_init(&q);
    ck_assert(outq_is_empty(&q));
    ck_assert_uint_eq(outq_held_bytes(&q), 0);
    ck_assert(outq_append(&q, "", 0));
    ck_assert_uint_eq(outq_held_bytes(&q), 0);
    ck_assert(outq_append(&q, "x", 1));
    ck_assert(!outq_is_empty(&q));
    ck_assert_uint_gt(outq_held_bytes(&q), 0);
    outq_fini(&q);
    ck_assert_uint_eq(outq_held_bytes(&q), 0);
}

TEST(closed_peer_breaks_without_a_signal)
{
    struct outq q;
    uint64_t written = 0;

    close(fds[1]);
    fds[1] = -1;
    outq_init(&q);
    ck_assert(outq_append(&q, "x", 1));
    ck_assert_int_eq(outq_send(&q, &io, &written), SEND_BROKEN);
    ck_assert_uint_eq(written, 0);
    outq_fini(&q);
}

TEST(pin_is_undone_when_the_queue_is_dropped)
{
    char *base = malloc(OUT_BYTES);
    struct outq q;
    struct out o;

    store_value(VALUE_MAX, 'A');
    outq_init(&q);
    out_init(&o, base, OUT_BYTES);
    rcu_begin();
    struct found f = find_value();
    out_value(&o, f.shard, f.item);
    ck_assert(outq_keep(&q, &o));
    rcu_end();
    ck_assert(q.is_pinned);
    ck_assert_uint_lt(outq_held_bytes(&q), VALUE_MAX);
    outq_fini(&q);
    ck_assert(!q.is_pinned);
    free(base);
}
