/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_ring: order, what happens when it is full, and many producers at once.
 */
#include "daemon/base/log_form.h"

#include <pthread.h>
#include <sys/mman.h>

#include "tests/common/unit.h"

static struct log_ring ring;

static void setup(void)
{
    log_ring_init(&ring);
}

TEST_FIXTURE(setup, NULL)

static bool put_number(unsigned n)
{
    char text[16];

    return log_ring_put(&ring, span_of(text, (size_t)snprintf(text, sizeof(text), "%u", n)));
}

static unsigned take_number(uint32_t *dropped)
{
    const struct log_slot *s = log_ring_front(&ring);
    char text[16];
    unsigned n;

    ck_assert_ptr_nonnull(s);
    ck_assert_uint_lt(s->len, sizeof(text));
    memcpy(text, s->text, s->len);
    text[s->len] = '\0';
    ck_assert_int_eq(sscanf(text, "%u", &n), 1);
    *dropped = s->dropped;
    log_ring_drop(&ring);
    return n;
}

TEST(lines_come_out_in_order_round_after_round)
{
    uint32_t dropped;

    for (unsigned i = 0; i < 5 * LOG_RING_SLOTS; i += 3) {
        for (unsigned j = i; j < i + 3; j++) {
            ck_assert(put_number(j));
        }
        for (unsigned j = i; j < i + 3; j++) {
            ck_assert_uint_eq(take_number(&dropped), j);
            ck_assert_uint_eq(dropped, 0);
        }
        ck_assert_ptr_null(log_ring_front(&ring));
    }
}

TEST(the_first_line_with_room_carries_what_was_dropped)
{
    uint32_t dropped;

    for (unsigned i = 0; i < LOG_RING_SLOTS; i++) {
        ck_assert(put_number(i));
    }
    ck_assert(!put_number(1000));
    ck_assert(!put_number(1001));
    ck_assert_uint_eq(take_number(&dropped), 0);
    ck_assert(put_number(1002));
    ck_assert(!put_number(1003));
    for (unsigned i = 1; i < LOG_RING_SLOTS; i++) {
        ck_assert_uint_eq(take_number(&dropped), i);
        ck_assert_uint_eq(dropped, 0);
    }
    ck_assert_uint_eq(take_number(&dropped), 1002);
    ck_assert_uint_eq(dropped, 2);
    ck_assert_ptr_null(log_ring_front(&ring));
    ck_assert_uint_eq(log_ring_take_dropped(&ring), 1);
    ck_assert_uint_eq(log_ring_take_dropped(&ring), 0);
}

TEST(a_line_of_the_full_length_fits)
{
    char text[LOG_LINE_BYTES];

    memset(text, 'x', sizeof(text));
    ck_assert(log_ring_put(&ring, span_of(text, sizeof(text))));
    const struct log_slot *s = log_ring_front(&ring);
    ck_assert_ptr_nonnull(s);
    ck_assert_uint_eq(s->len, sizeof(text));
    ck_assert_int_eq(memcmp(s->text, text, sizeof(text)), 0);
}

#define PRODUCERS  4u
#define LINES_EACH 20000u

static void *produce(void *arg)
{
    unsigned id = (unsigned)(uintptr_t)arg;

    for (unsigned i = 0; i < LINES_EACH; i++) {
        (void)put_number(id * LINES_EACH + i);
    }
    return NULL;
}

TEST(every_line_of_many_producers_arrives_or_is_counted)
{
    pthread_t threads[PRODUCERS];
    unsigned next[PRODUCERS] = {0};
    uint64_t arrived = 0;
    uint64_t missed = 0;
    unsigned joined = 0;

    for (uintptr_t i = 0; i < PRODUCERS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, produce, (void *)i), 0);
    }
    while (joined < PRODUCERS || log_ring_front(&ring) != NULL) {
        uint32_t dropped;

        if (log_ring_front(&ring) == NULL) {
            pthread_join(threads[joined++], NULL);
            continue;
        }
        unsigned n = take_number(&dropped);
        unsigned *from = &next[n / LINES_EACH];
        ck_assert_uint_ge(n % LINES_EACH, *from); /* of one producer in order */
        *from = n % LINES_EACH + 1;
        arrived++;
        missed += dropped;
    }
    missed += log_ring_take_dropped(&ring);
    ck_assert_uint_eq(arrived + missed, PRODUCERS * LINES_EACH);
}

/* What is written to becomes resident: here it may not be written to. */
TEST(an_empty_ring_is_not_resident)
{
    const size_t first = offsetof(struct log_ring, slots);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct log_ring *fresh =
        mmap(NULL, sizeof(*fresh), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t dropped;

    ck_assert_ptr_ne(fresh, MAP_FAILED);
    ck_assert_uint_lt(first, page);
    ck_assert_int_eq(mprotect((char *)fresh + page, sizeof(*fresh) - page, PROT_READ), 0);
    log_ring_init(fresh);
    ck_assert_int_eq(
        mprotect((char *)fresh + page, sizeof(*fresh) - page, PROT_READ | PROT_WRITE), 0);
    ck_assert_int_eq(munmap(fresh, sizeof(*fresh)), 0);

    /* What was used is empty again. */
    for (unsigned i = 0; i < LOG_RING_SLOTS + 3; i++) {
        (void)put_number(i);
    }
    log_ring_init(&ring);
    ck_assert_ptr_null(log_ring_front(&ring));
    ck_assert(put_number(7));
    ck_assert_uint_eq(take_number(&dropped), 7);
}
