/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meta lines to requests: good ones, every bad one with memcached's reply, and the same
 * result however the input is cut.
 */
#include "proto/meta_parse.h"
#include "tests/common/exact.h"
#include "tests/common/unit.h"
#include "tests/proto/meta_lines.h"

#define VALUE_MAX 300

struct said {
    enum parse_status status;
    enum reply reply;
    size_t used;
    struct request req;
    char key[REQUEST_KEY_MAX + 1]; /* a copy; the spans of req are stale */
    char args[256];
    char room[TEXT_KEY_ROOM];
};

/* Parse a copy that has not one byte more than len, with just enough room for a key. */
static void parse_exact(struct said *said, const char *input, size_t len)
{
    char *copy = exact_copy(input, len);
    char *room = said->room;
    struct text_limits limits = {.value_max = VALUE_MAX, .key_room = &room};

    memset(said->key, 0, sizeof(said->key));
    memset(said->args, 0, sizeof(said->args));
    said->used = 4711;
    said->reply = REPLY_COUNT;
    said->status = text_parse(copy, len, &limits, &said->req, &said->used, &said->reply);
    if (said->status == PARSE_OK || said->status == PARSE_BODY) {
        ck_assert_uint_le(said->req.key.len, REQUEST_KEY_MAX);
        ck_assert(room >= said->room && room <= said->room + sizeof(said->room));
        if (said->req.key.len > 0) {
            memcpy(said->key, said->req.key.ptr, said->req.key.len);
        }
        if (said->req.args.len > 0) {
            ck_assert_uint_lt(said->req.args.len, sizeof(said->args));
            memcpy(said->args, said->req.args.ptr, said->req.args.len);
        }
    }
    free(copy);
}

/* A shorter input must wait or give the same result; a longer one changes nothing. */
static void deliver(struct said *whole, const char *input, size_t len)
{
    char *longer = malloc(len + 5);
    struct said part;

    parse_exact(whole, input, len);
    for (size_t n = 0; n < len; n++) {
        parse_exact(&part, input, n);
        if (part.status == PARSE_MORE || part.status == PARSE_BODY) {
            continue;
        }
        ck_assert_msg(part.status == whole->status && part.reply == whole->reply &&
                          part.used == whole->used &&
                          part.req.value_len == whole->req.value_len,
                      "\"%s\" cut at %zu", input, n);
    }
    ck_assert_ptr_nonnull(longer);
    memcpy(longer, input, len);
    memcpy(longer + len, "mn\r\n", 5);
    parse_exact(&part, longer, len + 4);
    ck_assert_msg(part.status == whole->status && part.used == whole->used, "\"%s\"", input);
    ck_assert_str_eq(part.key, whole->key);
    ck_assert_str_eq(part.args, whole->args);
    free(longer);
}

TEST(a_good_line_becomes_its_request)
{
    for (size_t i = 0; i < sizeof(good_lines) / sizeof(good_lines[0]); i++) {
        const struct good_line *row = &good_lines[i];
        size_t key_len = row->key_len > 0 ? row->key_len : strlen(row->key);
        uint64_t letters = 0;
        struct said said;

        deliver(&said, row->input, strlen(row->input));
        ck_assert_msg(said.status == PARSE_OK, "\"%s\": status %d, %.*s", row->input,
                      said.status, (int)reply_text(said.reply).len, reply_text(said.reply).ptr);
        ck_assert_uint_eq(said.used, strlen(row->input));
        ck_assert_uint_eq(said.req.command, row->command);
        ck_assert_uint_eq(said.req.cls, CLASS_META);
        ck_assert(!said.req.noreply && !said.req.invalidate);
        ck_assert_msg(said.req.key.len == key_len && memcmp(said.key, row->key, key_len) == 0,
                      "\"%s\": key \"%s\"", row->input, said.key);
        ck_assert_msg(strcmp(said.args, row->args) == 0, "\"%s\": args \"%s\"", row->input,
                      said.args);
        for (const char *p = row->letters; *p != '\0'; p++) {
            letters |= META_LETTER(*p);
        }
        ck_assert_msg(said.req.letters == letters, "\"%s\": %" PRIx64, row->input,
                      said.req.letters);
        ck_assert_uint_eq(said.req.value_len, row->value_len);
        ck_assert_uint_eq(said.req.value.len, row->value_len);
    }
}

TEST(a_bad_line_gets_memcacheds_reply)
{
    for (size_t i = 0; i < sizeof(bad_lines) / sizeof(bad_lines[0]); i++) {
        const struct bad_line *row = &bad_lines[i];
        struct said said;

        deliver(&said, row->input, strlen(row->input));
        ck_assert_msg(said.status == PARSE_REPLY, "\"%s\": status %d", row->input, said.status);
        ck_assert_msg(said.reply == row->reply, "\"%s\": %.*s", row->input,
                      (int)reply_text(said.reply).len, reply_text(said.reply).ptr);
        ck_assert_uint_eq(said.used, strlen(row->input));
        ck_assert_msg(said.req.value_len == row->swallow, "\"%s\": swallows %zu", row->input,
                      said.req.value_len);
    }
}

TEST(a_value_that_has_not_arrived_is_announced)
{
    struct said said;

    parse_exact(&said, "ms a 5 k\r\nxy", 12);
    ck_assert_int_eq(said.status, PARSE_BODY);
    ck_assert_uint_eq(said.used, 10);
    ck_assert_uint_eq(said.req.value_len, 5);
    ck_assert_str_eq(said.key, "a");
    ck_assert_str_eq(said.args, "k");
}

TEST(a_value_too_large_is_swallowed_and_invalidates)
{
    static const char *const lines[] = {"ms a 300\r\n", "ms a 300 ME q\r\n",
                                        "ms YQ== 300 b\r\n"};

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct said said;

        deliver(&said, lines[i], strlen(lines[i]));
        ck_assert_int_eq(said.status, PARSE_REPLY);
        ck_assert_int_eq(said.reply, REPLY_TOO_LARGE);
        ck_assert(said.req.invalidate);
        ck_assert_uint_eq(said.req.value_len, 302);
        ck_assert(said.req.key.len == 1);
    }
}

TEST(a_bad_chunk_is_refused)
{
    struct said said;

    deliver(&said, "ms a 2 q\r\nxyz\n", 14);
    ck_assert_int_eq(said.status, PARSE_REPLY);
    ck_assert_int_eq(said.reply, REPLY_BAD_CHUNK);
    ck_assert_uint_eq(said.req.value_len, 0);
}

/* Keys of 250 bytes, and of 251; the largest that base64 can encode. */
TEST(keys_at_their_limit)
{
    char line[600];

    for (size_t len = 250; len <= 251; len++) {
        static const struct {
            const char *before, *after;
        } forms[] = {
            {"mg ", " v\r\n"}, {"md ", "\r\n"},        {"ma ", "\r\n"},
            {"me ", "\r\n"},   {"ms ", " 1\r\nx\r\n"},
        };
        char key[252];

        memset(key, 'k', len);
        key[len] = '\0';
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
            struct said said;

            int n =
                snprintf(line, sizeof(line), "%s%s%s", forms[i].before, key, forms[i].after);
            parse_exact(&said, line, (size_t)n);
            ck_assert_int_eq(said.status, len == 250 ? PARSE_OK : PARSE_REPLY);
            enum reply want =
                said.req.command == CMD_MA ? REPLY_META_BAD_FLAGS : REPLY_BAD_FORMAT;
            ck_assert_int_eq(said.reply, len == 250 ? REPLY_NONE : want);
            ck_assert_uint_eq(said.req.key.len,
                              len == 250 ? len : 0); /* a refused one has none */
        }
    }
    struct said said;
    int n = snprintf(line, sizeof(line), "mg %0248d b\r\n", 0);
    parse_exact(&said, line, (size_t)n);
    ck_assert_int_eq(said.status, PARSE_OK);
    ck_assert_uint_eq(said.req.key.len, 186);
}

/* p is a flag of mayflyd alone: T in milliseconds, or a question for them. */
TEST(a_time_in_milliseconds_is_a_time)
{
    struct meta_flags f;

    ck_assert_int_eq(meta_read_flags(span_str("R60 p1500 p N5"), true, &f), REPLY_NONE);
    ck_assert(f.is_ms && f.exptime == 1500 && !f.touches_first && !f.makes_by_touch);
    ck_assert_uint_eq(f.letters, META_LETTER('R') | META_LETTER('T') | META_LETTER('p') |
                                     META_LETTER('N'));
    ck_assert_int_eq(meta_read_flags(span_str("p-9223372036854775808 R60"), true, &f),
                     REPLY_NONE);
    ck_assert(f.is_ms && f.exptime == INT64_MIN && f.touches_first && f.makes_by_touch);
    ck_assert_int_eq(meta_read_flags(span_str("T5"), true, &f), REPLY_NONE);
    ck_assert(!f.is_ms && f.exptime == 5);
    ck_assert_int_eq(meta_read_flags(span_str("p5 T5"), true, &f), REPLY_META_DUPLICATE);
    ck_assert_int_eq(meta_read_flags(span_str("p5 p6"), true, &f), REPLY_META_DUPLICATE);
    ck_assert_int_eq(meta_read_flags(span_str("p p"), true, &f), REPLY_META_DUPLICATE);
    ck_assert_int_eq(meta_read_flags(span_str("p1.5"), true, &f), REPLY_META_BAD_TOKEN);
    ck_assert_int_eq(meta_read_flags(span_str("p9223372036854775808"), true, &f),
                     REPLY_META_BAD_TOKEN);
    ck_assert_int_eq(meta_read_flags(span_str("v p5"), false, &f), REPLY_META_INVALID);
    ck_assert_int_eq(meta_read_flags(span_str("p"), false, &f), REPLY_META_INVALID);
    ck_assert_int_eq(meta_read_flags(span_str("k p T5 k"), false, &f), REPLY_META_INVALID);
}

TEST(a_jitter_is_a_percentage)
{
    struct meta_flags f;

    ck_assert_int_eq(meta_read_flags(span_str("j20 T5"), true, &f), REPLY_NONE);
    ck_assert_uint_eq(f.jitter, 20);
    ck_assert_int_eq(meta_read_flags(span_str("j0"), true, &f), REPLY_NONE);
    ck_assert(meta_has(f.letters, 'j') && f.jitter == 0);
    ck_assert_int_eq(meta_read_flags(span_str("j100"), true, &f), REPLY_NONE);
    ck_assert_int_eq(meta_read_flags(span_str("j101"), true, &f), REPLY_META_BAD_TOKEN);
    ck_assert_int_eq(meta_read_flags(span_str("j"), true, &f), REPLY_META_BAD_TOKEN);
    ck_assert_int_eq(meta_read_flags(span_str("j-1"), true, &f), REPLY_META_BAD_TOKEN);
    ck_assert_int_eq(meta_read_flags(span_str("j5 j5"), true, &f), REPLY_META_DUPLICATE);
    ck_assert_int_eq(meta_read_flags(span_str("j5"), false, &f), REPLY_META_INVALID);
}

TEST(flags_are_read)
{
    struct meta_flags f;

    ck_assert_int_eq(meta_read_flags(span_str("T-5 N30 R60 C18446744073709551615 E7 D9 J8"
                                              " F4294967295 MA Oabc"),
                                     true, &f),
                     REPLY_NONE);
    ck_assert_int_eq(f.exptime, -5);
    ck_assert_int_eq(f.vivify, 30);
    ck_assert_int_eq(f.recache, 60);
    ck_assert_uint_eq(f.cas, UINT64_MAX);
    ck_assert_uint_eq(f.cas_new, 7);
    ck_assert_uint_eq(f.delta, 9);
    ck_assert_uint_eq(f.initial, 8);
    ck_assert_uint_eq(f.client, UINT32_MAX);
    ck_assert_int_eq(f.mode, 'A');
    ck_assert_uint_eq(f.opaque_len, 3);
    ck_assert(f.touches_first);
    ck_assert_int_eq(meta_read_flags(span_str("R60 T5"), true, &f), REPLY_NONE);
    ck_assert(!f.touches_first);
    ck_assert_int_eq(meta_read_flags(span_str(""), true, &f), REPLY_NONE);
    ck_assert(f.letters == 0 && f.delta == 1);
}

/*
 * The direct way makes the same of a line as the general way does with a space before it.
 */
TEST(both_ways_agree)
{
    for (size_t i = 0; i < sizeof(good_lines) / sizeof(good_lines[0]); i++) {
        char spaced[300];
        struct said direct;
        struct said general;
        int n = snprintf(spaced, sizeof(spaced), " %s", good_lines[i].input);

        parse_exact(&direct, good_lines[i].input, (size_t)n - 1);
        parse_exact(&general, spaced, (size_t)n);
        ck_assert_uint_eq(direct.used + 1, general.used);
        ck_assert_str_eq(direct.key, general.key);
        ck_assert_str_eq(direct.args, general.args);
        ck_assert_int_eq(direct.status, general.status);
        ck_assert_uint_eq(direct.req.letters, general.req.letters);
        ck_assert_uint_eq(direct.req.command, general.req.command);
        ck_assert_uint_eq(direct.req.cls, general.req.cls);
        ck_assert_uint_eq(direct.req.flags, general.req.flags);
        ck_assert_int_eq(direct.req.exptime, general.req.exptime);
        ck_assert_uint_eq(direct.req.value_len, general.req.value_len);
        ck_assert_uint_eq(direct.req.value.len, general.req.value.len);
        ck_assert_uint_eq(direct.req.more.len, general.req.more.len);
    }
}
