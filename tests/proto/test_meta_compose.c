/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines of meta replies: order, keys in base64, marks, and that the longest one fits.
 */
#include "proto/meta_compose.h"
#include "proto/meta_parse.h"
#include "tests/common/unit.h"

static const struct meta_facts plain = {
    .shows = META_SHOWS_ITEM,
    .cas = 77,
    .size = 2,
    .left_ms = 300 * 1000,
    .left_before_ms = 50 * 1000 - 999,
    .client = 5,
    .idle_s = 12,
};

static struct request request_of(const char *key, const char *args)
{
    struct request req = {.command = CMD_MG, .cls = CLASS_META};
    struct meta_flags flags;

    ck_assert_int_eq(meta_read_flags(span_str(args), true, &flags), REPLY_NONE);
    req.key = span_str(key);
    req.args = span_str(args);
    req.letters = flags.letters;
    return req;
}

static void assert_line(enum meta_code code, const char *args, const struct meta_facts *facts,
                        const char *want)
{
    struct request req = request_of("a b", args);
    char *line = malloc(META_LINE_MAX);

    ck_assert_ptr_nonnull(line);
    size_t len = meta_compose(line, code, &req, facts);
    ck_assert_uint_le(len, META_LINE_MAX);
    ck_assert_msg(len == strlen(want) && memcmp(line, want, len) == 0, "%s: \"%.*s\"", args,
                  (int)len, line);
    free(line);
}

TEST(flags_are_answered_in_order)
{
    assert_line(META_HD, "", &plain, "HD\r\n");
    assert_line(META_VA, "v", &plain, "VA 2\r\n");
    assert_line(META_VA, "s v c f", &plain, "VA 2 s2 c77 f5\r\n");
    assert_line(META_VA, "f  v c s ", &plain, "VA 2 f5 c77 s2\r\n");
    assert_line(META_HD, "k l O12 h t", &plain, "HD ka b l12 O12 h0 t300\r\n");
    assert_line(META_HD, "q u I P/x L D1 O", &plain, "HD O\r\n");
    assert_line(META_HD, "  c   fx  s ", &plain, "HD c77 f5 s2\r\n");
    assert_line(META_VA, "v t", &plain, "VA 2 t300\r\n");
}

TEST(a_base64_key_returns_as_one)
{
    assert_line(META_HD, "b k O1", &plain, "HD kYSBi b O1\r\n");
    assert_line(META_HD, "k O1 b", &plain, "HD kYSBi b O1\r\n");
    assert_line(META_HD, "b", &plain, "HD\r\n");
}

TEST(only_known_facts_are_shown)
{
    struct meta_facts key_only = {.shows = META_SHOWS_KEY};

    assert_line(META_EN, "s v c k O1 t", &key_only, "EN ka b O1\r\n");
    assert_line(META_NF, "O1 k", &key_only, "NF O1 ka b\r\n");
    assert_line(META_NS, "v", &key_only, "NS\r\n");
    assert_line(META_EX, "c", &key_only, "EX\r\n");
}

TEST(time_left_before_and_after_a_touch)
{
    struct meta_facts endless = plain;

    assert_line(META_HD, "t T300", &plain, "HD t50\r\n");
    assert_line(META_HD, "T300 t", &plain, "HD t300\r\n");
    assert_line(META_HD, "t", &plain, "HD t300\r\n");
    endless.left_ms = -1;
    assert_line(META_HD, "t", &endless, "HD t-1\r\n");
    assert_line(META_HD, "p", &endless, "HD p-1\r\n");
}

TEST(milliseconds_left_before_and_after_a_touch)
{
    struct meta_facts f = plain;

    assert_line(META_HD, "p t p1", &plain, "HD p49001 t50\r\n");
    assert_line(META_HD, "p p1 t", &plain, "HD p49001 t300\r\n");
    assert_line(META_HD, "p1 p t", &plain, "HD p300000 t300\r\n");
    assert_line(META_HD, "k p", &plain, "HD ka b p300000\r\n");
    f.left_ms = 1;
    assert_line(META_HD, "p t", &f, "HD p1 t1\r\n");
    f.left_ms = 0;
    assert_line(META_HD, "p t", &f, "HD p0 t0\r\n");
}

TEST(time_left_of_a_vivified_item)
{
    struct meta_facts made = plain;

    made.is_made = true;
    made.left_before_ms = -1;
    made.left_made_ms = 30 * 1000;
    assert_line(META_HD, "t N30 T300", &made, "HD t-1\r\n");
    assert_line(META_HD, "N30 t T300", &made, "HD t30\r\n");
    assert_line(META_HD, "N30 T300 t", &made, "HD t300\r\n");
    assert_line(META_HD, "T300 N30 t", &made, "HD t30\r\n");
}

TEST(marks_come_last)
{
    struct meta_facts f = plain;

    f.is_won = true;
    assert_line(META_HD, "c", &f, "HD c77 W\r\n");
    f.is_stale = true;
    assert_line(META_HD, "c", &f, "HD c77 X W\r\n");
    f.is_won = false;
    f.was_won = true;
    assert_line(META_HD, "", &f, "HD Z X\r\n");
    f.is_stale = false;
    f.was_fetched = true;
    assert_line(META_HD, "h", &f, "HD h1 Z\r\n");
}

TEST(both_ways_write_the_same_success)
{
    char line[META_LINE_MAX];
    size_t len = meta_compose_done(line);

    line[len] = '\0';
    assert_line(META_HD, "T5 F1", &plain, line);
}

TEST(the_longest_line_fits)
{
    struct meta_facts f = {
        .shows = META_SHOWS_ITEM,
        .cas = UINT64_MAX,
        .size = UINT64_MAX,
        .left_ms = INT64_MAX,
        .client = UINT32_MAX,
        .idle_s = UINT32_MAX,
        .was_won = true,
        .is_stale = true,
        .is_won = true,
    };
    char key[REQUEST_KEY_MAX + 1];
    char *line = malloc(META_LINE_MAX);
    char *debug_line = malloc(META_DEBUG_MAX);
    struct meta_debug debug = {INT64_MIN + 1, UINT32_MAX, UINT64_MAX, UINT64_MAX,
                               true,          true,       UINT32_MAX};

    ck_assert(line != NULL && debug_line != NULL);
    memset(key, 'k', REQUEST_KEY_MAX);
    key[REQUEST_KEY_MAX] = '\0';
    struct request req =
        request_of(key, "b k O1234567890123456789012345678901 c f h l p s t v q u");
    ck_assert_uint_le(meta_compose(line, META_VA, &req, &f), META_LINE_MAX);
    ck_assert_uint_le(meta_compose_debug(debug_line, &req, &debug), META_DEBUG_MAX);
    free(line);
    free(debug_line);
}

TEST(debug_has_memcacheds_order)
{
    struct request req = request_of("a b", "");
    struct meta_debug debug = {-1, 7, 12, 62, true, false, 9};
    char line[META_DEBUG_MAX + 1];

    line[meta_compose_debug(line, &req, &debug)] = '\0';
    ck_assert_str_eq(line, "ME a b exp=-1 la=7 cas=12 fetch=yes cls=1 size=62\r\n");
    req = request_of("a b", "b");
    debug.was_fetched = false;
    debug.exp = -49;
    line[meta_compose_debug(line, &req, &debug)] = '\0';
    ck_assert_str_eq(line, "ME YSBi exp=-49 la=7 cas=12 fetch=no cls=1 size=62\r\n");
    debug.shows_freq = true;
    line[meta_compose_debug(line, &req, &debug)] = '\0';
    ck_assert_str_eq(line, "ME YSBi exp=-49 la=7 cas=12 fetch=no cls=1 size=62 freq=9\r\n");
}
