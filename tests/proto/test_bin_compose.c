/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bin_compose: the bytes of replies, against frames that are put together byte by byte.
 */
#include "proto/bin_compose.h"
#include "tests/common/unit.h"
#include "tests/proto/bin_frames.h"

static struct request request_of(int opcode, enum command command)
{
    return (struct request){
        .key = span_of("the key", 7),
        .command = (uint8_t)command,
        .cls = CLASS_BINARY,
        .opcode = (uint8_t)opcode,
        .opaque = 0xdeadbeef,
    };
}

static void assert_frame(const char *got, size_t got_len, struct frame want)
{
    size_t len;

    want.magic = 0x81;
    char *bytes = frame_bytes(&want, &len);
    ck_assert_uint_eq(got_len, len);
    ck_assert_msg(memcmp(got, bytes, len) == 0, "another frame for opcode %d", want.opcode);
    free(bytes);
}

TEST(values_come_with_flags_and_cas)
{
    char out[200];
    struct request get = request_of(0x00, CMD_GET);
    size_t len = bin_compose_value(out, &get, 0x01020304, 3, 0x1112131415161718);

    ck_assert_uint_eq(len, BIN_VALUE_HEAD_MAX);
    memcpy(out + len, "abc", 3);
    assert_frame(out, len + 3,
                 FRAME(0x00, EXTRAS("\1\2\3\4"), VALUE("abc"), .cas = 0x1112131415161718));
}

TEST(get_and_gat_with_k_carry_the_key)
{
    static const uint8_t with_key[] = {0x0c, 0x0d, 0x23, 0x24};
    static const uint8_t without[] = {0x00, 0x09, 0x1c, 0x1d, 0x1e};
    char out[200];

    for (size_t i = 0; i < sizeof(with_key); i++) {
        struct request r = request_of(with_key[i], CMD_GET);
        size_t len = bin_compose_value(out, &r, 7, 0, 9);
        assert_frame(out, len,
                     FRAME(with_key[i], EXTRAS("\0\0\0\7"), KEY("the key"), .cas = 9));
        len = bin_compose_miss(out, &r);
        assert_frame(out, len, FRAME(with_key[i], KEY("the key"), .status = 1));
    }
    for (size_t i = 0; i < sizeof(without); i++) {
        struct request r = request_of(without[i], CMD_GET);
        size_t len = bin_compose_value(out, &r, 7, 0, 9);
        assert_frame(out, len, FRAME(without[i], EXTRAS("\0\0\0\7"), .cas = 9));
        len = bin_compose_miss(out, &r);
        assert_frame(out, len, FRAME(without[i], VALUE("Not found"), .status = 1));
    }
}

TEST(the_largest_value_has_its_length)
{
    char out[300];
    struct request r = request_of(0x0c, CMD_GET);
    struct frame want = FRAME(0x0c, EXTRAS("\xff\xff\xff\xff"), KEY("the key"),
                              .says_body = SAYS((1 << 30) + 11), .cas = UINT64_MAX);
    size_t len = bin_compose_value(out, &r, UINT32_MAX, (size_t)1 << 30, UINT64_MAX);

    assert_frame(out, len, want);
}

TEST(errors_have_a_text_and_no_cas)
{
    static const struct {
        enum bin_reply reply;
        uint16_t status;
        const char *text;
    } rows[] = {
        {BIN_REPLY_OK, 0, ""},
        {BIN_REPLY_NOT_FOUND, 1, "Not found"},
        {BIN_REPLY_EXISTS, 2, "Data exists for key."},
        {BIN_REPLY_TOO_LARGE, 3, "Too large."},
        {BIN_REPLY_INVALID, 4, "Invalid arguments"},
        {BIN_REPLY_NOT_STORED, 5, "Not stored."},
        {BIN_REPLY_NON_NUMERIC, 6, "Non-numeric server-side value for incr or decr"},
        {BIN_REPLY_AUTH_FAILURE, 0x20, "Auth failure."},
        {BIN_REPLY_UNKNOWN, 0x81, "Unknown command"},
        {BIN_REPLY_NO_MEMORY, 0x82, "Out of memory"},
        {BIN_REPLY_NO_MEMORY_STORE, 0x82, "Out of memory allocating item"},
        {BIN_REPLY_NO_MEMORY_INCR, 0x82, "Out of memory incrementing value"},
        {BIN_REPLY_NO_MEMORY_STATS, 0x82, "Out of memory generating stats"},
    };
    struct request r = request_of(0x11, CMD_SET);
    char out[BIN_REPLY_MAX];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = bin_compose_reply(out, &r, rows[i].reply, 42);

        assert_frame(out, len,
                     FRAME(0x11, .value = rows[i].text, .value_len = strlen(rows[i].text),
                           .status = rows[i].status, .cas = rows[i].status == 0 ? 42 : 0));
    }
}

TEST(numbers_are_eight_bytes)
{
    struct request r = request_of(0x05, CMD_INCR);
    char out[BIN_REPLY_MAX];
    size_t len = bin_compose_number(out, &r, 0xfffefdfcfbfaf9f8, 3);

    assert_frame(out, len, FRAME(0x05, VALUE("\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8"), .cas = 3));
}

TEST(statistics_end_with_an_empty_frame)
{
    struct request r = request_of(0x10, CMD_STATS);
    char out[200];
    size_t len = bin_compose_stat(out, &r, span_str("pid"), span_str("4711"));

    assert_frame(out, len, FRAME(0x10, KEY("pid"), VALUE("4711")));
    len = bin_compose_stat(out, &r, span_of(NULL, 0), span_of(NULL, 0));
    assert_frame(out, len, FRAME(0x10));
}

TEST(every_outcome_has_a_status)
{
    struct request set = request_of(0x01, CMD_SET);
    struct request add = request_of(0x02, CMD_ADD);
    struct request replace = request_of(0x03, CMD_REPLACE);
    struct request append = request_of(0x0e, CMD_APPEND);
    struct request prepend = request_of(0x0f, CMD_PREPEND);
    struct request incr = request_of(0x05, CMD_INCR);
    struct request touch = request_of(0x1c, CMD_TOUCH);

    ck_assert_int_eq(bin_reply_of(&set, OUT_STORED), BIN_REPLY_OK);
    ck_assert_int_eq(bin_reply_of(&set, OUT_EXISTS), BIN_REPLY_EXISTS);
    ck_assert_int_eq(bin_reply_of(&set, OUT_NOT_FOUND), BIN_REPLY_NOT_FOUND);
    ck_assert_int_eq(bin_reply_of(&set, OUT_TOO_LARGE), BIN_REPLY_TOO_LARGE);
    ck_assert_int_eq(bin_reply_of(&set, OUT_NO_MEMORY), BIN_REPLY_NO_MEMORY_STORE);
    ck_assert_int_eq(bin_reply_of(&add, OUT_NOT_STORED), BIN_REPLY_EXISTS);
    ck_assert_int_eq(bin_reply_of(&replace, OUT_NOT_STORED), BIN_REPLY_NOT_FOUND);
    ck_assert_int_eq(bin_reply_of(&append, OUT_NOT_STORED), BIN_REPLY_NOT_STORED);
    ck_assert_int_eq(bin_reply_of(&append, OUT_TOO_LARGE), BIN_REPLY_NOT_STORED);
    ck_assert_int_eq(bin_reply_of(&prepend, OUT_TOO_LARGE), BIN_REPLY_NOT_STORED);
    ck_assert_int_eq(bin_reply_of(&incr, OUT_NON_NUMERIC), BIN_REPLY_NON_NUMERIC);
    ck_assert_int_eq(bin_reply_of(&incr, OUT_NO_MEMORY), BIN_REPLY_NO_MEMORY_INCR);
    ck_assert_int_eq(bin_reply_of(&touch, OUT_NO_MEMORY), BIN_REPLY_NO_MEMORY);
    ck_assert_int_eq(bin_reply_of(&touch, OUT_NOT_FOUND), BIN_REPLY_NOT_FOUND);
    ck_assert_int_eq(bin_reply_of(&touch, OUT_DELETED), BIN_REPLY_OK);
}
