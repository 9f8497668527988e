/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bin_parse: what every opcode becomes, and frames whose lengths are wrong.
 * Each frame is parsed whole, with more after it, and cut at every byte, always from a block
 * of its exact size, so that a checker sees one byte read too many; all must agree.
 */
#include "proto/bin_compose.h"
#include "proto/bin_parse.h"
#include "tests/common/exact.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"
#include "tests/proto/bin_frames.h"

#define VALUE_MAX 1000

static const struct bin_limits limits = {.value_max = VALUE_MAX};

/* Everything bin_parse() says; spans as offsets into the input. */
struct said {
    enum parse_status status;
    enum bin_reply reply;
    size_t used;
    struct request req;
    ptrdiff_t key_at, value_at;
};

/* Parse a copy of exactly len bytes. */
static struct said parse_exact(const char *input, size_t len)
{
    struct said said = {.used = 4711, .reply = BIN_REPLY_COUNT};
    char *copy = exact_copy(input, len);

    said.status = bin_parse(copy, len, &limits, &said.req, &said.used, &said.reply);
    if (said.status == PARSE_OK || said.status == PARSE_BODY || said.status == PARSE_REPLY) {
        said.key_at = offset_of(said.req.key, copy, len);
        said.value_at = offset_of(said.req.value, copy, len);
    }
    free(copy);
    return said;
}

static void assert_same(const struct said *a, const struct said *b, size_t n)
{
    ck_assert_msg(a->status == b->status, "at %zu: status %d, else %d", n, a->status,
                  b->status);
    ck_assert_msg(a->reply == b->reply, "at %zu: reply %d, else %d", n, a->reply, b->reply);
    if (a->status == PARSE_CLOSE) {
        return; /* the rest is undefined */
    }
    ck_assert_msg(a->used == b->used, "at %zu: used %zu, else %zu", n, a->used, b->used);
    ck_assert_msg(
        a->req.command == b->req.command && a->req.cls == b->req.cls &&
            a->req.noreply == b->req.noreply && a->req.invalidate == b->req.invalidate &&
            a->req.flags == b->req.flags && a->req.exptime == b->req.exptime &&
            a->req.cas == b->req.cas && a->req.opcode == b->req.opcode &&
            a->req.opaque == b->req.opaque && a->req.value_len == b->req.value_len &&
            a->req.number.delta == b->req.number.delta &&
            a->req.number.initial == b->req.number.initial &&
            a->req.key.len == b->req.key.len && a->req.value.len == b->req.value.len &&
            a->key_at == b->key_at && a->value_at == b->value_at,
        "at %zu: another request", n);
}

/*
 * Parse the input in every way it can arrive; returns the result. While the parser waits, it
 * must say for how many bytes; when they are there, it must give the final result.
 */
static struct said deliver(const char *input, size_t len)
{
    struct said whole = parse_exact(input, len);
    size_t wanted = 0;

    for (size_t n = 0; n < len; n++) {
        struct said part = parse_exact(input, n);
        if (part.status == PARSE_MORE) {
            ck_assert_uint_gt(part.used, n);
            ck_assert_uint_ge(part.used, wanted);
            wanted = part.used;
            continue;
        }
        ck_assert_uint_ge(n, wanted);
        if (part.status == PARSE_BODY) {
            ck_assert_uint_le(part.used, n);
            ck_assert_uint_gt(part.used + part.req.value_len, n);
            ck_assert_uint_eq(part.req.key.len, whole.req.key.len);
            wanted = part.used;
            continue;
        }
        assert_same(&part, &whole, n);
    }
    if (whole.status != PARSE_MORE && whole.status != PARSE_BODY) {
        char *longer = malloc(len + 24);
        ck_assert_ptr_nonnull(longer);
        memcpy(longer, input, len);
        memset(longer + len, 0x80, 24);
        struct said with_more = parse_exact(longer, len + 24);
        assert_same(&with_more, &whole, len + 24);
        free(longer);
    }
    return whole;
}

static struct said deliver_frame(const struct frame *f)
{
    size_t len;
    char *bytes = frame_bytes(f, &len);
    struct said said = deliver(bytes, len);

    free(bytes);
    return said;
}

/* ---- requests ---------------------------------------------------------------------------- */

#define FLAGS_TIME "\0\0\1\2\xff\xff\xff\xfe"
#define NUMBERS                                                                                \
    "\0\0\0\0\0\0\0\x05"                                                                       \
    "\xff\xff\xff\xff\xff\xff\xff\xff"                                                         \
    "\0\0\0\x64"
#define TIME "\0\0\0\x64"

static const struct {
    struct frame frame;
    enum command command;
    enum command_class cls;
    bool is_quiet;
} good[] = {
    {FRAME(0x00, KEY("k")), CMD_GET, CLASS_BINARY, false},
    {FRAME(0x01, EXTRAS(FLAGS_TIME), KEY("k"), VALUE("v")), CMD_SET, CLASS_BINARY, false},
    {FRAME(0x01, EXTRAS(FLAGS_TIME), KEY("k")), CMD_SET, CLASS_BINARY, false},
    {FRAME(0x02, EXTRAS(FLAGS_TIME), KEY("k"), VALUE("v")), CMD_ADD, CLASS_BINARY, false},
    {FRAME(0x03, EXTRAS(FLAGS_TIME), KEY("k"), VALUE("v")), CMD_REPLACE, CLASS_BINARY, false},
    {FRAME(0x04, KEY("k")), CMD_DELETE, CLASS_BINARY, false},
    {FRAME(0x05, EXTRAS(NUMBERS), KEY("k")), CMD_INCR, CLASS_BINARY, false},
    {FRAME(0x06, EXTRAS(NUMBERS), KEY("k")), CMD_DECR, CLASS_BINARY, false},
    {FRAME(0x07), CMD_QUIT, CLASS_BINARY_ADMIN, false},
    {FRAME(0x08), CMD_FLUSH_ALL, CLASS_BINARY_ADMIN, false},
    {FRAME(0x08, EXTRAS(TIME)), CMD_FLUSH_ALL, CLASS_BINARY_ADMIN, false},
    {FRAME(0x09, KEY("k")), CMD_GET, CLASS_BINARY, true},
    {FRAME(0x0a), CMD_NONE, CLASS_BINARY, false},
    {FRAME(0x0b), CMD_VERSION, CLASS_BINARY_ADMIN, false},
    {FRAME(0x0c, KEY("k")), CMD_GET, CLASS_BINARY, false},
    {FRAME(0x0d, KEY("k")), CMD_GET, CLASS_BINARY, true},
    {FRAME(0x0e, KEY("k"), VALUE("v")), CMD_APPEND, CLASS_BINARY, false},
    {FRAME(0x0f, KEY("k"), VALUE("")), CMD_PREPEND, CLASS_BINARY, false},
    {FRAME(0x10), CMD_STATS, CLASS_BINARY_ADMIN, false},
    {FRAME(0x10, KEY("settings")), CMD_STATS, CLASS_BINARY_ADMIN, false},
    {FRAME(0x11, EXTRAS(FLAGS_TIME), KEY("k"), VALUE("v")), CMD_SET, CLASS_BINARY, true},
    {FRAME(0x12, EXTRAS(FLAGS_TIME), KEY("k"), VALUE("v")), CMD_ADD, CLASS_BINARY, true},
    {FRAME(0x13, EXTRAS(FLAGS_TIME), KEY("k"), VALUE("v")), CMD_REPLACE, CLASS_BINARY, true},
    {FRAME(0x14, KEY("k")), CMD_DELETE, CLASS_BINARY, true},
    {FRAME(0x15, EXTRAS(NUMBERS), KEY("k")), CMD_INCR, CLASS_BINARY, true},
    {FRAME(0x16, EXTRAS(NUMBERS), KEY("k")), CMD_DECR, CLASS_BINARY, true},
    {FRAME(0x17), CMD_QUIT, CLASS_BINARY_ADMIN, true},
    {FRAME(0x18), CMD_FLUSH_ALL, CLASS_BINARY_ADMIN, true},
    {FRAME(0x19, KEY("k"), VALUE("v")), CMD_APPEND, CLASS_BINARY, true},
    {FRAME(0x1a, KEY("k"), VALUE("v")), CMD_PREPEND, CLASS_BINARY, true},
    {FRAME(0x1c, EXTRAS(TIME), KEY("k")), CMD_TOUCH, CLASS_BINARY, false},
    {FRAME(0x1d, EXTRAS(TIME), KEY("k")), CMD_GAT, CLASS_BINARY, false},
    {FRAME(0x1e, EXTRAS(TIME), KEY("k")), CMD_GAT, CLASS_BINARY, true},
    {FRAME(0x20), CMD_NONE, CLASS_BINARY, false},
    {FRAME(0x21, KEY("PLAIN"), VALUE("\0u\0p")), CMD_NONE, CLASS_BINARY, false},
    {FRAME(0x22, KEY("PLAIN"), VALUE("\0u\0p")), CMD_NONE, CLASS_BINARY, false},
    {FRAME(0x23, EXTRAS(TIME), KEY("k")), CMD_GAT, CLASS_BINARY, false},
    {FRAME(0x24, EXTRAS(TIME), KEY("k")), CMD_GAT, CLASS_BINARY, true},
};

TEST(every_opcode_becomes_its_request)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct frame f = good[i].frame;
        size_t len;

        f.cas = 0x0102030405060708;
        char *bytes = frame_bytes(&f, &len);
        struct said said = deliver(bytes, len);
        ck_assert_msg(said.status == PARSE_OK, "row %zu: status %d", i, said.status);
        ck_assert_int_eq(said.reply, BIN_REPLY_OK);
        ck_assert_uint_eq(said.used, len);
        ck_assert_msg(said.req.command == good[i].command, "row %zu", i);
        ck_assert_msg(said.req.cls == good[i].cls, "row %zu", i);
        ck_assert_msg(said.req.noreply == good[i].is_quiet, "row %zu", i);
        ck_assert_uint_eq(said.req.opcode, f.opcode);
        ck_assert_uint_eq(said.req.opaque, 0xdeadbeef);
        ck_assert_uint_eq(said.req.cas, 0x0102030405060708);
        ck_assert_uint_eq(said.req.key.len, f.key_len);
        ck_assert(f.key_len == 0 || memcmp(bytes + said.key_at, f.key, f.key_len) == 0);
        ck_assert_uint_eq(said.req.value.len, f.value_len);
        ck_assert_uint_eq(said.req.value_len, f.value_len);
        ck_assert(f.value_len == 0 || memcmp(bytes + said.value_at, f.value, f.value_len) == 0);
        ck_assert(!said.req.invalidate);
        free(bytes);
    }
}

TEST(extras_are_unsigned_numbers)
{
    struct said set = deliver_frame(&FRAME(0x01, EXTRAS(FLAGS_TIME), KEY("k")));
    struct said incr = deliver_frame(&FRAME(0x05, EXTRAS(NUMBERS), KEY("k")));
    struct said gat = deliver_frame(&FRAME(0x1d, EXTRAS("\x80\0\0\0"), KEY("k")));
    struct said flush = deliver_frame(&FRAME(0x08, EXTRAS("\xff\xff\xff\xff")));

    ck_assert_uint_eq(set.req.flags, 0x102);
    ck_assert_int_eq(set.req.exptime, 0xfffffffe);
    ck_assert_uint_eq(incr.req.number.delta, 5);
    ck_assert_uint_eq(incr.req.number.initial, UINT64_MAX);
    ck_assert_int_eq(incr.req.exptime, 100);
    ck_assert_int_eq(gat.req.exptime, 0x80000000);
    ck_assert_int_eq(flush.req.exptime, 0xffffffff);
}

TEST(virtual_bucket_and_data_type_say_nothing)
{
    struct said said = deliver_frame(&FRAME(0x00, KEY("k"), .status = 77, .datatype = 9));

    ck_assert_int_eq(said.status, PARSE_OK);
    ck_assert_int_eq(said.req.command, CMD_GET);
}

/* ---- wrong frames ------------------------------------------------------------------------ */

/*
 * CVE-2009-2415 and CVE-2016-8704, -8705, -8706 are of this kind: lengths that contradict.
 */
TEST(lengths_beyond_the_body_close)
{
    const struct frame rows[] = {
        FRAME(0x00, KEY("k"), .says_body = SAYS(0)),
        FRAME(0x0e, KEY("abc"), .says_body = SAYS(2)),
        FRAME(0x01, EXTRAS(FLAGS_TIME), KEY("k"), .says_body = SAYS(8)),
        FRAME(0x01, EXTRAS(FLAGS_TIME), KEY("k"), .says_key = SAYS(65535)),
        FRAME(0x0e, KEY("k"), .says_key = SAYS(65535), .says_body = SAYS(65534)),
        FRAME(0x21, KEY("PLAIN"), .says_body = SAYS(4)),
        FRAME(0x77, KEY("k"), .says_body = SAYS(0)),
        FRAME(0x0a, .says_extras = SAYS(255)),
        FRAME(0x0a, .says_extras = SAYS(255), .says_key = SAYS(65535),
              .says_body = SAYS(65535)),
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct said said = deliver_frame(&rows[i]);
        ck_assert_msg(said.status == PARSE_CLOSE, "row %zu: status %d", i, said.status);
        ck_assert_msg(said.reply == BIN_REPLY_UNKNOWN, "row %zu: reply %d", i, said.reply);
        ck_assert_uint_eq(said.req.opaque, 0xdeadbeef);
    }
}

TEST(lengths_that_an_opcode_does_not_have_close)
{
    static const uint8_t has_value[] = {0x01, 0x02, 0x03, 0x0e, 0x0f, 0x11,
                                        0x12, 0x13, 0x19, 0x1a, 0x21, 0x22};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const struct frame *row = &good[i].frame;
        struct frame f = *row;
        bool takes_value = memchr(has_value, row->opcode, sizeof(has_value)) != NULL;

        /* One byte of extras more, and one less. */
        f.extras = NUMBERS "x";
        f.extras_len = row->extras_len + 1;
        ck_assert_msg(deliver_frame(&f).reply == BIN_REPLY_INVALID, "row %zu, extras", i);
        if (row->extras_len > 0) {
            f.extras_len = row->extras_len - 1;
            ck_assert_msg(deliver_frame(&f).reply == BIN_REPLY_INVALID, "row %zu, extras", i);
        }
        /* A key where there is none, none where there is one. */
        f = *row;
        f.key = "key";
        f.key_len = row->key_len > 0 ? 0 : 3;
        if (row->opcode != 0x10) {
            struct said said = deliver_frame(&f);
            ck_assert_msg(said.status == PARSE_CLOSE, "row %zu, key: %d", i, said.status);
            ck_assert_msg(said.reply == BIN_REPLY_INVALID, "row %zu, key", i);
        }
        /* A value where there is none. */
        f = *row;
        f.value = "value";
        f.value_len = 5;
        if (!takes_value) {
            struct said said = deliver_frame(&f);
            ck_assert_msg(said.status == PARSE_CLOSE, "row %zu, value: %d", i, said.status);
            ck_assert_msg(said.reply == BIN_REPLY_INVALID, "row %zu, value", i);
        }
    }
}

/* CVE-2020-10931 is extras that are copied before their length is checked. */
TEST(extras_of_255_bytes_close)
{
    char extras[255] = {0};

    for (int opcode = 0; opcode <= 0x24; opcode++) {
        struct frame f =
            FRAME(opcode, .extras = extras, .extras_len = sizeof(extras), KEY("k"));
        struct said said = deliver_frame(&f);

        if (said.status == PARSE_REPLY) {
            ck_assert_int_eq(said.reply, BIN_REPLY_UNKNOWN); /* an opcode that is not served */
            continue;
        }
        ck_assert_int_eq(said.status, PARSE_CLOSE);
        ck_assert_int_eq(said.reply, BIN_REPLY_INVALID);
    }
}

TEST(keys_end_at_250_bytes)
{
    char key[251];

    memset(key, 'k', sizeof(key));
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct frame f = good[i].frame;

        if (f.key_len > 0) {
            f.key = key;
            f.key_len = 250;
            ck_assert_int_eq(deliver_frame(&f).status, PARSE_OK);
            f.key_len = 251;
            struct said said = deliver_frame(&f);
            ck_assert_int_eq(said.status, PARSE_CLOSE);
            ck_assert_int_eq(said.reply, BIN_REPLY_INVALID);
        }
    }
}

/* Decided by the header: a key of 64 KiB is not waited for. */
TEST(long_keys_are_refused_by_their_header)
{
    struct said said =
        deliver_frame(&FRAME(0x00, .says_key = SAYS(65535), .says_body = SAYS(65535)));

    ck_assert_int_eq(said.status, PARSE_CLOSE);
    ck_assert_int_eq(said.reply, BIN_REPLY_INVALID);
}

/* CVE-2011-4971 is a body that, taken as a signed number, is negative. */
TEST(values_up_to_4_gib_are_too_large)
{
    static const uint32_t bodies[] = {VALUE_MAX + 9, INT32_MAX, 0x80000000u, 0xfffffff7u,
                                      UINT32_MAX};

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct said set = deliver_frame(
            &FRAME(0x01, EXTRAS(FLAGS_TIME), KEY("k"), .says_body = SAYS(bodies[i])));
        struct said append =
            deliver_frame(&FRAME(0x0e, KEY("k"), .says_body = SAYS(bodies[i])));

        ck_assert_int_eq(set.status, PARSE_REPLY);
        ck_assert_int_eq(set.reply, BIN_REPLY_TOO_LARGE);
        ck_assert_uint_eq(set.used, 24 + 9);
        ck_assert_uint_eq(set.req.value_len, (size_t)bodies[i] - 9);
        ck_assert(set.req.invalidate);
        ck_assert_uint_eq(set.req.key.len, 1);
        ck_assert_int_eq(append.status, PARSE_REPLY);
        ck_assert_uint_eq(append.req.value_len, (size_t)bodies[i] - 1);
        ck_assert(!append.req.invalidate);
    }
}

TEST(key_and_value_share_the_limit)
{
    char value[VALUE_MAX] = {0};
    struct frame f =
        FRAME(0x01, EXTRAS(FLAGS_TIME), KEY("key"), .value = value, .value_len = VALUE_MAX - 3);

    ck_assert_int_eq(deliver_frame(&f).status, PARSE_OK);
    f.value_len++;
    struct said said = deliver_frame(&f);
    ck_assert_int_eq(said.status, PARSE_REPLY);
    ck_assert_int_eq(said.reply, BIN_REPLY_TOO_LARGE);
    ck_assert_uint_eq(said.req.value_len, VALUE_MAX - 2);
}

/* CVE-2016-8706 is a value of SASL that is shorter than its mechanism. */
TEST(long_sasl_values_are_not_kept)
{
    struct said said = deliver_frame(
        &FRAME(0x21, KEY("PLAIN"), .says_body = SAYS(5 + BIN_SASL_VALUE_MAX + 1)));

    ck_assert_int_eq(said.status, PARSE_REPLY);
    ck_assert_int_eq(said.reply, BIN_REPLY_UNKNOWN);
    ck_assert_uint_eq(said.req.value_len, BIN_SASL_VALUE_MAX + 1);
    said = deliver_frame(&FRAME(0x21, KEY("PLAIN"), .says_body = SAYS(5 + BIN_SASL_VALUE_MAX)));
    ck_assert_int_eq(said.status, PARSE_BODY);
    ck_assert_uint_eq(said.req.value_len, BIN_SASL_VALUE_MAX);
}

TEST(unknown_opcodes_drop_their_body)
{
    for (int opcode = 0; opcode < 256; opcode++) {
        bool is_served = opcode <= 0x24 && opcode != 0x1b && opcode != 0x1f;
        struct frame f = FRAME(opcode, EXTRAS("1234567"), KEY("k"), VALUE("value"));
        struct said said = deliver_frame(&f);

        if (is_served) {
            ck_assert_msg(said.status == PARSE_CLOSE, "opcode %d", opcode);
            continue;
        }
        ck_assert_msg(said.status == PARSE_REPLY, "opcode %d: status %d", opcode, said.status);
        ck_assert_int_eq(said.reply, BIN_REPLY_UNKNOWN);
        ck_assert_uint_eq(said.used, 24);
        ck_assert_uint_eq(said.req.value_len, 13);
        ck_assert_uint_eq(said.req.opcode, opcode);
        ck_assert_uint_eq(said.req.opaque, 0xdeadbeef);
        ck_assert(!said.req.noreply);
    }
}

TEST(a_wrong_magic_closes_at_once)
{
    for (int magic = 0; magic < 256; magic++) {
        char byte = (char)magic;
        struct said said = parse_exact(&byte, 1);

        ck_assert_int_eq(said.status, magic == 0x80 ? PARSE_MORE : PARSE_CLOSE);
        ck_assert_int_eq(said.reply, BIN_REPLY_OK);
        struct frame f = FRAME(0x0a);
        f.magic = magic;
        said = deliver_frame(&f);
        ck_assert_int_eq(said.status, magic == 0x80 ? PARSE_OK : PARSE_CLOSE);
    }
}

/* Any header at all: no span leaves the input, and no more is used than was there. */
TEST(random_headers)
{
    struct rng rng;
    char frame[400];

    rng_init(&rng, rng_seed());
    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < sizeof(frame); i++) {
            frame[i] = (char)rng_next(&rng);
        }
        frame[0] = (char)0x80;
        frame[1] = (char)rng_below(&rng, 0x28);
        if (round % 8 != 0) {
            frame[2] = 0; /* so that lengths are right now and then */
            frame[3] = (char)rng_below(&rng, 4);
            frame[4] = (char)((rng_below(&rng, 4) + 3) % 4 * 4);
            memset(frame + 8, 0, 3);
            frame[11] = (char)(rng_below(&rng, 2) * rng_below(&rng, 40) + frame[3] + frame[4]);
        }
        size_t len = rng_below(&rng, sizeof(frame) + 1);
        struct said said = parse_exact(frame, len);
        if (said.status == PARSE_OK) {
            ck_assert_uint_le(said.used, len);
            ck_assert_uint_ge(said.used, 24);
            ck_assert_uint_le(said.req.key.len, REQUEST_KEY_MAX);
            deliver(frame, said.used);
        }
    }
}
