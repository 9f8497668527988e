/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live_text: a text that is replaced while others read it is never seen in part.
 */
#include "daemon/options/settings.h"

#include <pthread.h>

#include "tests/common/unit.h"

#define READERS 2
#define WRITERS 2
#define ROUNDS  20000u

static struct live_text shared;

TEST(zeros_are_the_empty_text)
{
    static struct live_text t;
    char out[LIVE_TEXT_BYTES] = "x";

    ck_assert_uint_eq(live_text_get(&t, out, sizeof(out)), 0);
    ck_assert_str_eq(out, "");
}

TEST(a_text_is_read_as_it_was_set)
{
    struct live_text t = {0};
    char longest[LIVE_TEXT_BYTES];
    char out[LIVE_TEXT_BYTES];

    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    live_text_set(&t, longest);
    ck_assert_uint_eq(live_text_get(&t, out, sizeof(out)), LIVE_TEXT_BYTES - 1);
    ck_assert_str_eq(out, longest);
    live_text_set(&t, "short");
    ck_assert_uint_eq(live_text_get(&t, out, sizeof(out)), 5);
    ck_assert_str_eq(out, "short");
}

/* Texts of one letter, as many as its place in the alphabet, each in 16 pieces. */
static void fill(char *out, unsigned letter)
{
    const size_t len = (letter + 1) * 16u;

    memset(out, (int)('a' + letter), len);
    out[len] = '\0';
}

static void *write_texts(void *arg)
{
    char text[LIVE_TEXT_BYTES];

    for (unsigned i = 0; i < ROUNDS; i++) {
        fill(text, (i + *(unsigned *)arg) % 26);
        live_text_set(&shared, text);
    }
    return NULL;
}

/* NULL: every text was one that was set. */
static void *read_texts(void *arg)
{
    char text[LIVE_TEXT_BYTES];
    char whole[LIVE_TEXT_BYTES];

    for (unsigned i = 0; i < ROUNDS; i++) {
        const size_t len = live_text_get(&shared, text, sizeof(text));

        fill(whole, (unsigned)(text[0] - 'a') % 26);
        if (len != strlen(whole) || strcmp(text, whole) != 0) {
            return arg;
        }
    }
    return NULL;
}

TEST(readers_see_whole_texts_while_others_write)
{
    unsigned firsts[WRITERS] = {0, 13};
    pthread_t writers[WRITERS];
    pthread_t readers[READERS];
    void *wrong;

    live_text_set(&shared, "aaaaaaaaaaaaaaaa");
    for (unsigned i = 0; i < WRITERS; i++) {
        ck_assert_int_eq(pthread_create(&writers[i], NULL, write_texts, &firsts[i]), 0);
    }
    for (unsigned i = 0; i < READERS; i++) {
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_texts, &shared), 0);
    }
    for (unsigned i = 0; i < READERS; i++) {
        ck_assert_int_eq(pthread_join(readers[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        ck_assert_int_eq(pthread_join(writers[i], NULL), 0);
    }
}
