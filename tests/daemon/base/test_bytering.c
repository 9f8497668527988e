/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The byte ring: order across its end, all or nothing, one producer and one consumer.
 */
#include "daemon/base/bytering.h"

#include <pthread.h>
#include <sched.h>

#include "tests/common/unit.h"

#define NOTHING span_of("", 0)

TEST(bytes_come_out_in_order_over_the_end)
{
    struct byte_ring r;
    unsigned char next = 0;
    unsigned char want = 0;

    ck_assert(byte_ring_init(&r, 37)); /* no power of two, no multiple of what is put */
    for (int round = 0; round < 1000; round++) {
        char a[5];
        char b[8];
        char out[13];

        for (size_t i = 0; i < sizeof(a); i++) {
            a[i] = (char)next++;
        }
        for (size_t i = 0; i < sizeof(b); i++) {
            b[i] = (char)next++;
        }
        ck_assert(byte_ring_put(&r, span_of(a, sizeof(a)), span_of(b, sizeof(b))));
        ck_assert_uint_eq(byte_ring_len(&r), sizeof(out));
        byte_ring_copy(&r, 0, out, 4);
        byte_ring_copy(&r, 4, out + 4, sizeof(out) - 4);
        for (size_t i = 0; i < sizeof(out); i++) {
            ck_assert_uint_eq((unsigned char)out[i], want++);
        }
        byte_ring_drop(&r, sizeof(out));
    }
    byte_ring_fini(&r);
}

TEST(front_is_contiguous_and_never_beyond_the_end)
{
    struct byte_ring r;

    ck_assert(byte_ring_init(&r, 10));
    ck_assert_uint_eq(byte_ring_front(&r).len, 0);
    ck_assert(byte_ring_put(&r, span_str("1234567"), NOTHING));
    byte_ring_drop(&r, 7);
    ck_assert(byte_ring_put(&r, span_str("abcdef"), span_str("gh")));
    struct span front = byte_ring_front(&r);
    ck_assert(span_is(front, "abc"));
    byte_ring_drop(&r, front.len);
    ck_assert(span_is(byte_ring_front(&r), "defgh"));
    byte_ring_fini(&r);
}

TEST(what_does_not_fit_is_refused_as_a_whole)
{
    struct byte_ring r;

    ck_assert(byte_ring_init(&r, 8));
    ck_assert(byte_ring_put(&r, span_str("12345"), NOTHING));
    ck_assert(!byte_ring_put(&r, span_str("678"), span_str("9")));
    ck_assert_uint_eq(byte_ring_len(&r), 5);
    ck_assert(byte_ring_put(&r, span_str("67"), span_str("8")));
    ck_assert_uint_eq(byte_ring_len(&r), 8);
    ck_assert(!byte_ring_put(&r, span_str("9"), NOTHING));
    ck_assert(span_is(byte_ring_front(&r), "12345678"));
    byte_ring_fini(&r);
}

TEST(ring_of_no_bytes_refuses_everything)
{
    struct byte_ring r;

    ck_assert(byte_ring_init(&r, 0));
    ck_assert(!byte_ring_put(&r, span_str("1"), NOTHING));
    ck_assert_uint_eq(byte_ring_len(&r), 0);
    ck_assert_uint_eq(byte_ring_front(&r).len, 0);
    byte_ring_fini(&r);
}

#define NUMBERS 200000u

static void *produce(void *arg)
{
    struct byte_ring *r = arg;

    for (uint32_t i = 0; i < NUMBERS; i++) {
        uint32_t pair[2] = {i, ~i};

        while (!byte_ring_put(r, span_of(&pair[0], 4), span_of(&pair[1], 4))) {
            sched_yield();
        }
    }
    return NULL;
}

TEST(two_threads_lose_and_tear_nothing)
{
    struct byte_ring r;
    pthread_t thread;

    ck_assert(byte_ring_init(&r, 100));
    ck_assert_int_eq(pthread_create(&thread, NULL, produce, &r), 0);
    for (uint32_t i = 0; i < NUMBERS; i++) {
        uint32_t pair[2];

        while (byte_ring_len(&r) == 0) {
            sched_yield();
        }
        ck_assert_uint_ge(byte_ring_len(&r), sizeof(pair));
        byte_ring_copy(&r, 0, pair, sizeof(pair));
        byte_ring_drop(&r, sizeof(pair));
        ck_assert_uint_eq(pair[0], i);
        ck_assert_uint_eq(pair[1], ~i);
    }
    pthread_join(thread, NULL);
    byte_ring_fini(&r);
}
