/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * buf: the marks, growth, and a long random run compared with a plain model.
 */
#include "lib/base/buf.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

TEST(empty_buffer_owns_nothing)
{
    struct buf b = {0};

    ck_assert_ptr_null(b.base);
    ck_assert_uint_eq(buf_len(&b), 0);
    ck_assert_uint_eq(buf_room(&b), 0);
    ck_assert(buf_append(&b, "", 0));
    ck_assert_ptr_null(b.base);
    ck_assert(buf_reserve(&b, 0));
    buf_fini(&b);
}

TEST(append_then_consume)
{
    struct buf b = {0};

    ck_assert(buf_append(&b, "hello ", 6));
    ck_assert(buf_append(&b, "world", 5));
    ck_assert(span_is(buf_span(&b), "hello world"));
    buf_consume(&b, 6);
    ck_assert(span_is(buf_span(&b), "world"));
    buf_consume(&b, 5);
    ck_assert_uint_eq(buf_len(&b), 0);
    ck_assert_uint_eq(buf_room(&b), b.cap);
    buf_fini(&b);
    ck_assert_ptr_null(b.base);
}

TEST(reserve_moves_to_the_front_before_it_grows)
{
    struct buf b = {0};

    ck_assert(buf_reserve(&b, 100));
    size_t cap = b.cap;
    const char *base = b.base;

    memset(buf_end(&b), 'a', cap);
    b.end = cap;
    memcpy(b.base + cap - 3, "end", 3);
    buf_consume(&b, cap - 3);
    ck_assert(buf_reserve(&b, cap - 3));
    ck_assert_ptr_eq(b.base, base);
    ck_assert_uint_eq(b.cap, cap);
    ck_assert(span_is(buf_span(&b), "end"));

    ck_assert(buf_reserve(&b, cap));
    ck_assert_uint_ge(buf_room(&b), cap);
    ck_assert(span_is(buf_span(&b), "end"));
    buf_fini(&b);
}

TEST(reserve_grows_no_further_than_the_content_will)
{
    struct buf b = {0};
    char bytes[1000] = {0};

    ck_assert(buf_append(&b, bytes, sizeof(bytes)));
    ck_assert(buf_reserve_within(&b, 200, 1500));
    ck_assert_uint_eq(b.cap, 1500);
    ck_assert(buf_append(&b, bytes, 500));
    ck_assert_uint_eq(b.cap, 1500);
    ck_assert(buf_reserve_within(&b, 100, 1500));
    ck_assert_uint_ge(b.cap, 1600);
    buf_fini(&b);
}

TEST(impossible_reserve_keeps_the_content)
{
    struct buf b = {0};

    ck_assert(buf_append(&b, "abc", 3));
    ck_assert(!buf_reserve(&b, SIZE_MAX));
    ck_assert(!buf_reserve(&b, SIZE_MAX / 2));
    ck_assert(span_is(buf_span(&b), "abc"));
    buf_fini(&b);
}

TEST(printf_appends_and_grows)
{
    struct buf b = {0};
    char expect[4096] = "";
    size_t n = 0;

    for (int i = 0; i < 100; i++) {
        ck_assert(buf_printf(&b, "STAT %s %d\r\n", "name", i));
        n += (size_t)snprintf(expect + n, sizeof(expect) - n, "STAT %s %d\r\n", "name", i);
    }
    ck_assert(span_eq(buf_span(&b), span_of(expect, n)));
    buf_clear(&b);
    ck_assert_uint_eq(buf_len(&b), 0);
    ck_assert(buf_printf(&b, "%s", ""));
    ck_assert_uint_eq(buf_len(&b), 0);
    buf_fini(&b);
}

/* A stream of numbered bytes: what comes out is what went in, whatever the marks do. */
TEST(random_run_keeps_the_stream)
{
    uint64_t seed = rng_seed();
    struct rng rng;
    struct buf b = {0};
    uint8_t in = 0;
    uint8_t out = 0;
    size_t len = 0;

    rng_init(&rng, seed);
    for (int step = 0; step < 20000; step++) {
        char piece[300];
        size_t n = (size_t)rng_below(&rng, sizeof(piece));

        if (rng_below(&rng, 2) == 0 || len == 0) {
            for (size_t i = 0; i < n; i++) {
                piece[i] = (char)in++;
            }
            ck_assert(buf_append(&b, piece, n));
            len += n;
        } else {
            n = n > len ? len : n;
            size_t wrong = 0;
            for (size_t i = 0; i < n; i++) {
                wrong += (uint8_t)buf_begin(&b)[i] != out++;
            }
            ck_assert_msg(wrong == 0, "seed %llu step %d", (unsigned long long)seed, step);
            buf_consume(&b, n);
            len -= n;
        }
        ck_assert_msg(buf_len(&b) == len, "seed %llu step %d", (unsigned long long)seed, step);
    }
    buf_fini(&b);
}
