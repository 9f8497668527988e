/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hotkeys: the keys that are asked for most, under a load as caches see it (Zipf's law), on one
 * worker and on several; how counts fade; and the estimate for a key that has no row.
 */
#include "daemon/worker/insight.h"

#include <math.h>

#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define KEYS     100000u
#define ACCESSES 3000000u
#define WORKERS  3u
#define SAMPLING 50u
#define TOP      10u
#define SHOWN    20u

static double *below; /* probability of the keys up to each */
static uint32_t *asked;
static struct worker *workers;
static struct settings settings;

static void setup(void)
{
    double sum = 0;

    below = calloc(KEYS, sizeof(*below));
    asked = calloc(KEYS, sizeof(*asked));
    workers = aligned_alloc(64, WORKERS * sizeof(*workers));
    ck_assert(below != NULL && asked != NULL && workers != NULL);
    memset(workers, 0, WORKERS * sizeof(*workers));
    for (uint32_t i = 0; i < KEYS; i++) {
        sum += 1.0 / (i + 1);
        below[i] = sum;
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        below[i] /= sum;
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i].settings = &settings;
        workers[i].insight.random = i + 1;
        insight_begin_sampling(&workers[i], SAMPLING);
    }
}

static void teardown(void)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        mem_free(workers[i].insight.hotkeys);
    }
    free(workers);
    free(asked);
    free(below);
}

TEST_FIXTURE(setup, teardown)

static uint32_t draw_key(struct rng *rng)
{
    double p = (double)(rng_next(rng) >> 11) / 9007199254740992.0;
    uint32_t low = 0;
    uint32_t high = KEYS - 1;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (below[mid] < p) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static void ask(struct worker *w, uint32_t n)
{
    char key[16];
    int len = snprintf(key, sizeof(key), "key-%u", n);

    asked[n]++;
    if (--w->insight.sample_left == 0) {
        insight_sample(w, n % 64, span_of(key, (size_t)len)); /* hashes may be the same */
    }
}

static struct hotkeys_sum *sum_of_all(void)
{
    struct hotkeys_sum *sum = calloc(1, sizeof(*sum));

    ck_assert_ptr_nonnull(sum);
    for (uint32_t i = 0; i < WORKERS; i++) {
        if (workers[i].insight.hotkeys != NULL) {
            hotkeys_sum_add(sum, workers[i].insight.hotkeys);
        }
    }
    hotkeys_sum_sort(sum);
    return sum;
}

/* The place of a key in the sum. */
static uint32_t place(const struct hotkeys_sum *sum, uint32_t n)
{
    char key[16];
    size_t len = (size_t)snprintf(key, sizeof(key), "key-%u", n);
    uint32_t i = 0;

    while (i < sum->used &&
           (sum->row[i].key_len != len || memcmp(sum->row[i].key, key, len) != 0)) {
        i++;
    }
    return i;
}

TEST(the_hottest_are_found_and_their_error_is_known)
{
    struct rng rng;

    rng_init(&rng, 1);
    for (uint32_t i = 0; i < ACCESSES; i++) {
        ask(&workers[i % WORKERS], draw_key(&rng));
    }
    struct hotkeys_sum *sum = sum_of_all();
    ck_assert_double_ge(sum->total, 0.97 * ACCESSES);
    ck_assert_double_le(sum->total, 1.03 * ACCESSES);
    for (uint32_t n = 0; n < TOP; n++) {
        uint32_t at = place(sum, n);
        double off = sum->row[at].count - asked[n];
        double chance = 4 * sqrt((double)asked[n] * SAMPLING);

        ck_assert_msg(at < SHOWN, "key %u of %u accesses is at place %u", n, asked[n], at);
        ck_assert_double_le(off, sum->row[at].error + chance);
        ck_assert_double_ge(off, -sum->row[at].error - chance);
    }
    ck_assert_uint_eq(place(sum, 0), 0);
    free(sum);
}

TEST(counts_fade_by_half_in_30_seconds)
{
    struct hotkeys *h = calloc(1, sizeof(*h));

    ck_assert_ptr_nonnull(h);
    hotkeys_init(h, 1000);
    for (int i = 0; i < 64; i++) {
        hotkeys_add(h, 1000, 1, span_str("a"), 10);
    }
    ck_assert_double_eq(h->count[0], 640);
    hotkeys_fade(h, 1999);
    ck_assert_double_eq(h->count[0], 640);
    hotkeys_fade(h, 31999);
    ck_assert_double_ge(h->count[0], 319.9);
    ck_assert_double_le(h->count[0], 320.1);
    ck_assert_double_ge(h->covered_s, 15);
    ck_assert_double_le(h->covered_s, 30);
    hotkeys_add(h, 31999, 2, span_str("b"), 1);
    hotkeys_fade(h, 10000000);
    ck_assert_uint_eq(h->used, 0);
    free(h);
}

/* A steady rate is what the counts tell, however long it has been going on. */
TEST(rates)
{
    struct hotkeys *h = calloc(1, sizeof(*h));

    ck_assert_ptr_nonnull(h);
    hotkeys_init(h, 0);
    for (msec_t now = 0; now < 300000; now += 10) {
        hotkeys_add(h, now, 1, span_str("a"), 7);
        if (now > 5000 && now % 1000 == 0) { /* just faded */
            ck_assert_double_ge(h->count[0] / h->covered_s, 650);
            ck_assert_double_le(h->count[0] / h->covered_s, 750);
        }
    }
    free(h);
}

TEST(a_key_without_a_row_takes_the_least)
{
    struct hotkeys *h = calloc(1, sizeof(*h));
    char key[16];

    ck_assert_ptr_nonnull(h);
    hotkeys_init(h, 0);
    for (uint32_t i = 0; i < HOTKEYS_ROWS; i++) {
        ck_assert_double_eq(hotkeys_least(h), 0);
        snprintf(key, sizeof(key), "%u", i);
        hotkeys_add(h, 0, i, span_str(key), i == 77 ? 2 : 5);
    }
    ck_assert_double_eq(hotkeys_least(h), 2);
    hotkeys_add(h, 0, 1000, span_str("new"), 5);
    ck_assert_uint_eq(h->used, HOTKEYS_ROWS);
    ck_assert_double_eq(h->count[77], 7);
    ck_assert_double_eq(h->error[77], 2);
    ck_assert_int_eq(memcmp(h->key[77], "new", 3), 0);
    hotkeys_fade(h, 30000); /* what is not known of it fades as its count does */
    ck_assert_double_eq_tol(h->error[77], 1, 0.01);
    ck_assert_double_eq_tol(h->count[77], 3.5, 0.01);
    free(h);
}

TEST(what_is_no_key_is_not_counted)
{
    static char text[100000];
    struct hotkeys *h = calloc(1, sizeof(*h));

    ck_assert_ptr_nonnull(h);
    hotkeys_init(h, 0);
    for (uint32_t i = 0; i <= HOTKEYS_ROWS; i++) {
        hotkeys_add(h, 0, i, span_of(text, sizeof(text)), 1);
        hotkeys_add(h, 0, i, span_of(text, REQUEST_KEY_MAX + 1), 1);
        hotkeys_add(h, 0, i, span_of(NULL, 0), 1);
    }
    ck_assert_uint_eq(h->used, 0);
    ck_assert_double_eq(h->total, 0);
    hotkeys_add(h, 0, 1, span_of(text, REQUEST_KEY_MAX), 1);
    ck_assert_uint_eq(h->used, 1);
    free(h);
}

/* All its rows are taken; the first is of the key `name`. */
static void fill_rows(struct hotkeys *h, const char *name, uint32_t n)
{
    char key[16];

    hotkeys_init(h, 0);
    hotkeys_add(h, 0, 9999, span_str(name), n);
    for (uint32_t i = 1; i < HOTKEYS_ROWS; i++) {
        snprintf(key, sizeof(key), "%u", i);
        hotkeys_add(h, 0, i, span_str(key), 3);
    }
}

/* A key that has a row on each worker is counted exactly, however many others there are. */
TEST(a_key_with_a_row_everywhere_has_no_error)
{
    struct hotkeys *h = calloc(1, sizeof(*h));
    struct hotkeys_sum *sum = calloc(1, sizeof(*sum));

    ck_assert(h != NULL && sum != NULL);
    fill_rows(h, "a", 100);
    hotkeys_sum_add(sum, h);
    fill_rows(h, "a", 50);
    hotkeys_sum_add(sum, h);
    hotkeys_sum_sort(sum);
    ck_assert_uint_eq(sum->row[0].hash, 9999);
    ck_assert_double_eq(sum->row[0].count, 150);
    ck_assert_double_eq(sum->row[0].error, 0);
    /* Where it has no row it may have had as many as the least. */
    fill_rows(h, "b", 50);
    hotkeys_sum_add(sum, h);
    hotkeys_sum_sort(sum);
    ck_assert_double_eq(sum->row[0].count, 150);
    ck_assert_double_eq(sum->row[0].error, 3);
    ck_assert_double_eq(sum->row[1].count, 50);
    ck_assert_double_eq(sum->row[1].error, 6);
    free(sum);
    free(h);
}
