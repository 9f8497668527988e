/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text_parse: what every form of a line becomes, in memcached's words where that is a
 * reply. Each input is parsed whole, with more after it, and byte by byte, always from a
 * block of its exact size, so that a checker sees one byte read too many; all must agree.
 */
#include "proto/text_parse.h"
#include "tests/common/exact.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"
#include "tests/proto/text_lines.h"

#define VALUE_MAX 1000

/* No line here has a key in base64. */
static const struct text_limits limits = {.value_max = VALUE_MAX};

/* Everything text_parse() says; spans as offsets into the input. */
struct said {
    enum parse_status status;
    enum reply reply;
    size_t used;
    struct request req;
    ptrdiff_t key_at, more_at, value_at, args_at;
};

/* Parse a copy of exactly len bytes. */
static struct said parse_exact(const char *input, size_t len)
{
    struct said said = {.used = 4711, .reply = REPLY_COUNT};
    char *copy = exact_copy(input, len);

    said.status = text_parse(copy, len, &limits, &said.req, &said.used, &said.reply);
    if (said.status == PARSE_REPLY && said.req.noreply) {
        said.reply = REPLY_NONE; /* what the client gets */
    }
    said.key_at = offset_of(said.req.key, copy, len);
    said.more_at = offset_of(said.req.more, copy, len);
    said.value_at = offset_of(said.req.value, copy, len);
    said.args_at = offset_of(said.req.args, copy, len);
    free(copy);
    return said;
}

/* The number that a request carries, whichever it is. */
static uint64_t number_of(const struct request *req)
{
    switch (req->command) {
    case CMD_INCR:
    case CMD_DECR:
        return req->number.delta;
    case CMD_VERBOSITY:
    case CMD_CACHE_MEMLIMIT:
        return req->amount;
    default:
        return req->cas;
    }
}

static void assert_same(const struct said *a, const struct said *b, const char *input, size_t n)
{
    ck_assert_msg(a->status == b->status, "\"%s\" at %zu: status %d, else %d", input, n,
                  a->status, b->status);
    ck_assert_msg(a->reply == b->reply, "\"%s\" at %zu: reply %d, else %d", input, n, a->reply,
                  b->reply);
    if (a->status == PARSE_CLOSE) {
        return; /* the rest is undefined */
    }
    ck_assert_msg(a->used == b->used, "\"%s\" at %zu: used %zu, else %zu", input, n, a->used,
                  b->used);
    ck_assert_msg(
        a->req.command == b->req.command && a->req.cls == b->req.cls &&
            a->req.noreply == b->req.noreply && a->req.invalidate == b->req.invalidate &&
            a->req.wants_cas == b->req.wants_cas && a->req.flags == b->req.flags &&
            a->req.exptime == b->req.exptime && number_of(&a->req) == number_of(&b->req) &&
            a->req.value_len == b->req.value_len && a->req.key.len == b->req.key.len &&
            a->req.more.len == b->req.more.len && a->req.value.len == b->req.value.len &&
            a->req.args.len == b->req.args.len && a->key_at == b->key_at &&
            a->more_at == b->more_at && a->value_at == b->value_at && a->args_at == b->args_at,
        "\"%s\" at %zu: another request", input, n);
}

/*
 * Parse the input in every way it can arrive; returns the result. The parser must wait up to
 * some byte, and from there on give the final result; before that it may change only from
 * waiting for the line to waiting for the value.
 */
static struct said deliver(const char *input, size_t len)
{
    struct said whole = parse_exact(input, len);
    bool in_value = false;

    for (size_t n = 0; n < len; n++) {
        struct said part = parse_exact(input, n);
        if (part.status == PARSE_MORE) {
            ck_assert_msg(!in_value, "\"%s\" at %zu: forgot its line", input, n);
            ck_assert_uint_eq(part.used, 0);
            continue;
        }
        if (part.status == PARSE_BODY) {
            in_value = true;
            ck_assert_uint_le(part.used, n);
            ck_assert_uint_gt(part.used + part.req.value_len + 2, n);
            ck_assert_uint_eq(part.req.key.len, whole.req.key.len);
            continue;
        }
        ck_assert_uint_le(part.used, n);
        assert_same(&part, &whole, input, n);
    }
    if (whole.status != PARSE_MORE && whole.status != PARSE_BODY) {
        char *longer = malloc(len + 7);
        ck_assert_ptr_nonnull(longer);
        memcpy(longer, input, len);
        memcpy(longer + len, "get b\r\n", 7);
        struct said with_more = parse_exact(longer, len + 7);
        assert_same(&with_more, &whole, input, len + 7);
        free(longer);
    }
    return whole;
}

/* ---- requests ---------------------------------------------------------------------------- */

static void assert_span(const char *input, const char *what, ptrdiff_t at, size_t len,
                        const char *want)
{
    size_t want_len = want != NULL ? strlen(want) : 0;

    ck_assert_msg(len == want_len && memcmp(input + at, want != NULL ? want : "", len) == 0,
                  "\"%s\": %s is \"%.*s\"", input, what, (int)len, input + at);
}

TEST(a_good_line_becomes_its_request)
{
    for (size_t i = 0; i < sizeof(good_rows) / sizeof(good_rows[0]); i++) {
        const struct good_row *row = &good_rows[i];
        const char *in = row->input;
        struct said said = deliver(in, strlen(in));

        ck_assert_msg(said.status == PARSE_OK, "\"%s\": status %d", in, said.status);
        ck_assert_msg(said.reply == REPLY_NONE, "\"%s\": reply %d", in, said.reply);
        ck_assert_msg(said.used == (row->used != 0 ? row->used : strlen(in)),
                      "\"%s\": used %zu", in, said.used);
        ck_assert_msg(said.req.command == row->command, "\"%s\": command %d", in,
                      said.req.command);
        ck_assert_uint_eq(said.req.cls, command_class_of(row->command));
        assert_span(in, "key", said.key_at, said.req.key.len, row->key);
        assert_span(in, "more", said.more_at, said.req.more.len, row->more);
        assert_span(in, "value", said.value_at, said.req.value.len, row->value);
        assert_span(in, "args", said.args_at, said.req.args.len, row->args);
        ck_assert_msg(said.req.value_len == said.req.value.len, "\"%s\"", in);
        ck_assert_msg(number_of(&said.req) == row->number, "\"%s\": %" PRIu64, in,
                      number_of(&said.req));
        ck_assert_msg(said.req.exptime == row->exptime, "\"%s\": %" PRId64, in,
                      said.req.exptime);
        ck_assert_msg(said.req.flags == row->flags, "\"%s\": %" PRIu32, in, said.req.flags);
        ck_assert_msg(said.req.noreply == row->noreply, "\"%s\"", in);
        ck_assert_msg(said.req.wants_cas == row->wants_cas, "\"%s\"", in);
        ck_assert_msg(!said.req.invalidate, "\"%s\"", in);
    }
}

/* ---- replies ----------------------------------------------------------------------------- */

TEST(a_bad_line_gets_memcacheds_reply)
{
    for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
        const struct bad_row *row = &bad_rows[i];
        const char *in = row->input;
        struct said said = deliver(in, strlen(in));

        ck_assert_msg(said.status == PARSE_REPLY, "\"%s\": status %d", in, said.status);
        ck_assert_msg(said.reply == row->reply, "\"%s\": reply %d", in, said.reply);
        ck_assert_msg(said.used == (row->used != 0 ? row->used : strlen(in)),
                      "\"%s\": used %zu", in, said.used);
        ck_assert_msg(said.req.value_len == row->swallow, "\"%s\": swallows %zu", in,
                      said.req.value_len);
        ck_assert_msg(said.req.invalidate == row->invalidate, "\"%s\"", in);
        if (row->invalidate) {
            assert_span(in, "key", said.key_at, said.req.key.len, "a");
        }
    }
}

TEST(http_closes)
{
    static const char *const rows[] = {
        "GET / HTTP/1.1\r\n",  "POST /x HTTP/1.0\r\n", "foo HTTP/\r\n",
        "put / HTTP/1.1 \r\n", "trace / HTTP/2\r\n",   "x a b c d e f g h i HTTP/1\r\n",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct said said = deliver(rows[i], strlen(rows[i]));
        ck_assert_msg(said.status == PARSE_CLOSE, "\"%s\": status %d", rows[i], said.status);
        ck_assert_int_eq(said.reply, REPLY_NONE);
    }
}

TEST(a_line_without_end_waits)
{
    static const char *const rows[] = {"",        " ",           "g",
                                       "get",     "get ",        "get a",
                                       "get a\r", "set a 0 0 1", "set a 0 0 1\r",
                                       "version", "incr a 1",    "foo HTTP/1.1"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct said said = deliver(rows[i], strlen(rows[i]));
        ck_assert_msg(said.status == PARSE_MORE, "\"%s\": status %d", rows[i], said.status);
        ck_assert_uint_eq(said.used, 0);
    }
}

TEST(a_value_on_its_way_is_announced)
{
    struct said said = deliver("set a 3 4 5 noreply\r\nabcde\r", 27);

    ck_assert_int_eq(said.status, PARSE_BODY);
    ck_assert_uint_eq(said.used, 21);
    ck_assert_uint_eq(said.req.value_len, 5);
    ck_assert_uint_eq(said.req.flags, 3);
    ck_assert_int_eq(said.req.exptime, 4);
    ck_assert(said.req.noreply);
}

/*
 * When a line has arrived without its value, the direct way makes the same of it as the general
 * way, which a second space forces.
 */
TEST(both_ways_announce_the_same)
{
    static const char *const rows[][2] = {
        {"set key 0 0 50\r\nabc", "set key  0 0 50\r\nabc"},
        {"set key 0 0 50\r\n", "set key  0 0 50\r\n"},
        {"set key 7 100 5 noreply\r\nabcde\r", "set key  7 100 5 noreply\r\nabcde\r"},
        {"set key 4294967295 2592000 3\r\nab", "set key  4294967295 2592000 3\r\nab"},
        {"set key 0 0 50\rabc", "set key  0 0 50\rabc"},
        {"set key 0 0 50", "set key  0 0 50"},
        {"set key 0 0 50 ", "set key  0 0 50 "},
        {"set key 0 0 50 x\r\nabc", "set key  0 0 50 x\r\nabc"},
        {"set key 0 0 999999999999\r\nabc", "set key  0 0 999999999999\r\nabc"},
        {"set key 4294967296 0 5\r\nabc", "set key  4294967296 0 5\r\nabc"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct said direct = parse_exact(rows[i][0], strlen(rows[i][0]));
        struct said general = parse_exact(rows[i][1], strlen(rows[i][1]));

        if (direct.status == PARSE_BODY || direct.status == PARSE_REPLY) {
            direct.used++;
        }
        assert_same(&direct, &general, rows[i][0], i);
    }
}

TEST(nul_is_a_byte_of_the_key)
{
    struct said said = deliver("get a\0b\r\n", 9);

    ck_assert_int_eq(said.status, PARSE_OK);
    ck_assert_uint_eq(said.req.key.len, 3);
    said = deliver("set \0 0 0 1\r\n\0\r\n", 16);
    ck_assert_int_eq(said.status, PARSE_OK);
    ck_assert_uint_eq(said.req.key.len, 1);
    ck_assert_uint_eq(said.req.value.len, 1);
    said = deliver("get\0 a\r\n", 8);
    ck_assert_int_eq(said.reply, REPLY_ERROR);
    said = deliver("set a 0\0 0 1\r\n", 14);
    ck_assert_int_eq(said.reply, REPLY_BAD_FORMAT);
}

/* ---- limits ------------------------------------------------------------------------------ */

/* The format with its %s replaced by a word of n bytes. */
static struct said deliver_word(const char *format, int n)
{
    char word[1024];
    char line[2048];

    ck_assert_int_lt(n, (int)sizeof(word));
    memset(word, 'k', (size_t)n);
    word[n] = '\0';
    int len = snprintf(line, sizeof(line), "%.*s%s%s", (int)(strchr(format, '%') - format),
                       format, word, strchr(format, '%') + 1);
    return deliver(line, (size_t)len);
}

TEST(keys_end_at_250_bytes)
{
    static const char *const rows[] = {
        "get %\r\n",
        "gets %\r\n",
        "gat 0 %\r\n",
        "gats 0 %\r\n",
        "get a %\r\n",
        "get a % b\r\n",
        "gat 0 a %\r\n",
        "get %\n",
        " get %\r\n",
        "delete %\r\n",
        "delete % 0\r\n",
        "incr % 1\r\n",
        "decr % 1\r\n",
        "touch % 0\r\n",
        "set % 0 0 1\r\nx\r\n",
        "add % 0 0 1\r\nx\r\n",
        "cas % 0 0 1 1\r\nx\r\n",
        "append % 0 0 1\r\nx\r\n",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int n = 240; n <= 260; n++) {
            struct said said = deliver_word(rows[i], n);
            bool fits = n <= REQUEST_KEY_MAX;
            ck_assert_msg(said.status == (fits ? PARSE_OK : PARSE_REPLY), "\"%s\", %d", rows[i],
                          n);
            ck_assert_msg(said.reply == (fits ? REPLY_NONE : REPLY_BAD_FORMAT), "\"%s\", %d",
                          rows[i], n);
            ck_assert_msg(fits || !said.req.invalidate, "\"%s\"", rows[i]);
            /* A value is swallowed with its line. */
            bool has_value = strstr(rows[i], "\nx") != NULL;
            ck_assert_msg(fits || said.req.value_len == (has_value ? 3 : 0), "\"%s\"", rows[i]);
        }
    }
    ck_assert_int_eq(deliver_word("set % 0 0 1 noreply\r\n", 251).reply, REPLY_NONE);
    ck_assert_int_eq(deliver_word("incr % x\r\n", 251).reply, REPLY_BAD_FORMAT);
    ck_assert_int_eq(deliver_word("touch % x\r\n", 251).reply, REPLY_BAD_FORMAT);
    ck_assert_int_eq(deliver_word("delete % x\r\n", 251).reply, REPLY_BAD_FORMAT);
    ck_assert_int_eq(deliver_word("gat x %\r\n", 251).reply, REPLY_BAD_EXPTIME);
}

TEST(key_and_value_share_the_limit)
{
    for (int key = 1; key <= REQUEST_KEY_MAX; key += 83) {
        for (int total = VALUE_MAX - 2; total <= VALUE_MAX + 2; total++) {
            char line[512];
            int n = snprintf(line, sizeof(line), "set %0*d 0 0 %d\r\n", key, 0, total - key);

            struct said said = parse_exact(line, (size_t)n);
            ck_assert_int_eq(said.status, total <= VALUE_MAX ? PARSE_BODY : PARSE_REPLY);
        }
    }
}

/* A line of len bytes without its end: the head, then words of 100 bytes. */
static char *long_line(const char *head, size_t len)
{
    char *line = malloc(len + 2);

    ck_assert_ptr_nonnull(line);
    for (size_t i = 0; i < len; i++) {
        line[i] = i < strlen(head) ? head[i] : (i % 101 == 0 ? ' ' : 'x');
    }
    memcpy(line + len, "\r\n", 2);
    return line;
}

TEST(lines_are_bounded)
{
    static const struct {
        const char *head;
        size_t bound;   /* of a line whose end is there */
        size_t unended; /* of one whose end is missing */
    } rows[] = {
        {"get ", TEXT_GET_LINE_MAX, TEXT_GET_LINE_MAX},
        {"gets ", TEXT_GET_LINE_MAX, TEXT_GET_LINE_MAX},
        {"   get ", TEXT_GET_LINE_MAX, TEXT_GET_LINE_MAX},
        {"gat 0 ", TEXT_GET_LINE_MAX, TEXT_UNENDED_MAX},
        {"gats 0 ", TEXT_GET_LINE_MAX, TEXT_UNENDED_MAX},
        {"mg a ", TEXT_LINE_MAX, TEXT_UNENDED_MAX},
        {"set ", TEXT_LINE_MAX, TEXT_UNENDED_MAX},
        {"version ", TEXT_LINE_MAX, TEXT_UNENDED_MAX},
        {"getx ", TEXT_LINE_MAX, TEXT_UNENDED_MAX},
        {"xxxx", TEXT_LINE_MAX, TEXT_UNENDED_MAX},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t bound = rows[i].bound;
        char *line = long_line(rows[i].head, bound + 1);

        /*
         * At the bound it may still end; one byte further it may not, even when the end is
         * there.
         */
        ck_assert_int_eq(parse_exact(line, rows[i].unended).status, PARSE_MORE);
        ck_assert_int_eq(parse_exact(line, rows[i].unended + 1).status, PARSE_CLOSE);
        ck_assert_int_eq(parse_exact(line, bound + 3).status, PARSE_CLOSE);
        line[bound] = '\n';
        ck_assert_int_ne(parse_exact(line, bound + 1).status, PARSE_CLOSE);
        free(line);
    }
}

TEST(spaces_without_end_are_bounded)
{
    char *line = malloc(TEXT_LINE_MAX + 8);

    ck_assert_ptr_nonnull(line);
    memset(line, ' ', TEXT_LINE_MAX + 8);
    memcpy(line + TEXT_LINE_MAX, "get a b\n", 8);
    ck_assert_int_eq(parse_exact(line, TEXT_UNENDED_MAX).status, PARSE_MORE);
    ck_assert_int_eq(parse_exact(line, TEXT_UNENDED_MAX + 1).status, PARSE_CLOSE);
    ck_assert_int_eq(parse_exact(line, TEXT_LINE_MAX + 8).status, PARSE_CLOSE);
    free(line);
}

/* As memcached: a hundred spaces before a get are skipped, and no more. */
TEST(spaces_before_a_long_get_are_bounded)
{
    for (size_t spaces = 99; spaces <= 102; spaces++) {
        char *line = long_line("", TEXT_LINE_MAX);

        memset(line, ' ', spaces);
        memcpy(line + spaces, "get ", 4);
        struct said said = parse_exact(line, TEXT_UNENDED_MAX + 1);
        ck_assert_int_eq(said.status, spaces <= 100 ? PARSE_MORE : PARSE_CLOSE);
        free(line);
    }
}

TEST(ten_thousand_keys_in_a_line)
{
    enum { KEYS = 10000, EACH = 201 };
    size_t len = 3 + (size_t)KEYS * EACH + 2;
    char *line = malloc(len + 1);

    ck_assert_ptr_nonnull(line);
    memcpy(line, "get", 3);
    for (int i = 0; i < KEYS; i++) {
        snprintf(line + 3 + i * EACH, EACH + 1, " %0*d", EACH - 1, i);
    }
    memcpy(line + len - 2, "\r\n", 2);

    struct request req;
    size_t used;
    enum reply reply;
    ck_assert_int_eq(text_parse(line, len, &limits, &req, &used, &reply), PARSE_OK);
    ck_assert_uint_eq(used, len);
    struct span key = req.key;
    struct span more = req.more;
    int n = 0;
    do {
        ck_assert_uint_eq(key.len, EACH - 1);
        ck_assert_ptr_eq(key.ptr, line + 3 + n * EACH + 1);
        n++;
    } while (text_next_key(&more, &key));
    ck_assert_int_eq(n, KEYS);
    ck_assert_uint_eq(more.len, 0);
    free(line);
}

/* ---- random lines ------------------------------------------------------------------------ */

/*
 * Keys of lengths around the limit, spaces between: compared with counting the bytes of each
 * word.
 */
TEST(long_keys_are_found_anywhere)
{
    struct rng rng;
    uint64_t seed = rng_seed();

    rng_init(&rng, seed);
    for (int round = 0; round < 2000; round++) {
        char line[8192];
        size_t n = 4;
        size_t words = 0;
        bool has_long = false;

        memcpy(line, "get ", 4);
        while (n < 4000 && rng_below(&rng, 12) != 0) {
            size_t len =
                rng_below(&rng, 8) == 0 ? 245 + rng_below(&rng, 8) : rng_below(&rng, 251);
            has_long |= len > REQUEST_KEY_MAX;
            words += len > 0;
            memset(line + n, 'k', len);
            n += len;
            for (uint64_t spaces = 1 + rng_below(&rng, 3) * rng_below(&rng, 200); spaces > 0;
                 spaces--) {
                line[n++] = ' ';
            }
        }
        line[n++] = '\n';
        struct said said = parse_exact(line, n);
        enum reply want = has_long     ? REPLY_BAD_FORMAT
                          : words == 0 ? REPLY_BAD_FORMAT
                                       : REPLY_NONE;
        ck_assert_msg(said.reply == want, "seed %" PRIu64 ", round %d: %d", seed, round,
                      said.reply);
    }
}

/* A line of random pieces of commands: some are right, most are nearly. */
static size_t random_line(struct rng *rng, char *out)
{
    static const char *const pieces[] = {
        "get",        "set",
        "incr",       "decr",
        "gets",       "cas",
        "delete",     "touch",
        "gat",        "add",
        "a",          "key",
        "0",          "1",
        "2",          "12",
        "-1",         "+3",
        "noreply",    "4294967295",
        "4294967296", "99999999999999999999",
        "x",          "\r",
        "\t",         "abcdefghijklmnop",
        "HTTP/1.1",   "flush_all",
        "\x01",       "1000",
        "999",        "2147483646",
    };
    static const char *const gaps[] = {" ", " ", " ", " ", " ", "  ", "", "\n", "\r\n"};
    static const char *const ends[] = {"\r\n", "\r\n",      "\n",        "",
                                       "\r",   "\r\nx\r\n", "\r\n12\r\n"};
    size_t n = 0;

    for (uint64_t words = 1 + rng_below(rng, 7); words > 0; words--) {
        const char *piece = pieces[rng_below(rng, sizeof(pieces) / sizeof(pieces[0]))];
        const char *gap = gaps[rng_below(rng, sizeof(gaps) / sizeof(gaps[0]))];
        n += (size_t)sprintf(out + n, "%s%s", piece, words > 1 ? gap : "");
    }
    return n +
           (size_t)sprintf(out + n, "%s", ends[rng_below(rng, sizeof(ends) / sizeof(ends[0]))]);
}

/*
 * A leading space means nothing to the protocol and forces the general way: both ways must
 * agree, and each with itself when the input comes byte by byte.
 */
TEST(direct_and_general_way_agree)
{
    struct rng rng;
    uint64_t seed = rng_seed();

    rng_init(&rng, seed);
    for (int round = 0; round < 20000; round++) {
        char line[256] = " ";
        size_t n = random_line(&rng, line + 1);
        const char *newline = memchr(line + 1, '\n', n);
        if (newline != NULL && newline < line + 4) {
            continue; /* so short that the space makes a difference */
        }
        struct said direct = deliver(line + 1, n);
        struct said general = deliver(line, n + 1);

        general.used -= general.used > 0;
        general.key_at -= general.req.key.len > 0;
        general.more_at -= general.req.more.len > 0;
        general.value_at -= general.req.value.len > 0;
        general.args_at -= general.req.args.len > 0;
        assert_same(&direct, &general, line, n);
    }
}

/* Whatever is in its place: code that reads a key need not ask how long it is. */
TEST(a_refused_line_has_no_key)
{
    static const char *const lines[] = {
        "get %",
        "gets %",
        "get short %",
        "gat 0 %",
        "gat x short",
        "set % 0 0 1",
        "set short x 0 1",
        "cas short 0 0 1",
        "ms % 1",
        "ms short 1 !",
        "mg %",
        "mg short !",
        "me %",
        "md %",
        "ma %",
        "incr % 1",
        "incr short x",
        "touch % 0",
        "touch short x",
        "delete %",
        "expire % 1",
        "expire short",
        "ttl %",
        "unlink short %",
    };
    const struct text_limits extended = {.value_max = VALUE_MAX, .has_extensions = true};

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        size_t head = strcspn(lines[i], "%"); /* % means a word too long for a key */
        const char *tail = lines[i] + head + (lines[i][head] == '%');
        char line[1100];
        struct request req;
        enum reply reply;
        size_t used;

        memset(line, 'k', sizeof(line));
        memcpy(line, lines[i], head);
        head += lines[i][head] == '%' ? 1000 : 0;
        int n = snprintf(line + head, sizeof(line) - head, "%s\r\nx\r\n", tail);
        ck_assert_int_eq(text_parse(line, head + (size_t)n, &extended, &req, &used, &reply),
                         PARSE_REPLY);
        ck_assert_msg(req.key.len == 0 && !req.invalidate, "\"%s\"", lines[i]);
    }
}
