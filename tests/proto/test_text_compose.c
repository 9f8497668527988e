/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text_compose: the bytes of values, numbers and replies.
 */
#include "proto/text_compose.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

/* The value line must be what printf makes of it, and fit the room that it promises. */
static void assert_value_line(const char *key, size_t key_len, uint32_t flags, size_t value_len,
                              bool with_cas, uint64_t cas)
{
    char want[512];
    char *got = malloc(TEXT_VALUE_LINE_MAX + key_len);
    int n = snprintf(want, sizeof(want), "VALUE %.*s %" PRIu32 " %zu", (int)key_len, key, flags,
                     value_len);

    ck_assert_ptr_nonnull(got);
    if (with_cas) {
        n += snprintf(want + n, sizeof(want) - (size_t)n, " %" PRIu64, cas);
    }
    n += snprintf(want + n, sizeof(want) - (size_t)n, "\r\n");
    size_t len = text_compose_value(got, key, key_len, flags, value_len, with_cas, cas);
    ck_assert_msg(len == (size_t)n && memcmp(got, want, len) == 0, "\"%.*s\", not \"%s\"",
                  (int)len, got, want);
    free(got);
}

TEST(value_line_at_every_power_of_ten)
{
    uint64_t n = 1;

    for (int digits = 1; digits <= 20; digits++) {
        for (int64_t step = -1; step <= 1; step++) {
            uint64_t v = n + (uint64_t)step;
            assert_value_line("key", 3, (uint32_t)v, (size_t)v, true, v);
            assert_value_line("key", 3, (uint32_t)v, (size_t)v, false, v);
        }
        n *= 10;
    }
    assert_value_line("key", 3, UINT32_MAX, SIZE_MAX, true, UINT64_MAX);
}

TEST(value_line_with_any_key)
{
    char key[REQUEST_KEY_MAX];

    memset(key, 'k', sizeof(key));
    for (size_t len = 1; len <= sizeof(key); len++) {
        assert_value_line(key, len, 0, 100, false, 0);
    }
}

TEST(value_line_of_random_numbers)
{
    struct rng rng;
    uint64_t seed = rng_seed();

    rng_init(&rng, seed);
    for (int i = 0; i < 20000; i++) {
        uint64_t flags = rng_next(&rng) >> (32 + rng_below(&rng, 32));
        uint64_t len = rng_next(&rng) >> rng_below(&rng, 64);
        uint64_t cas = rng_next(&rng) >> rng_below(&rng, 64);
        assert_value_line("a", 1, (uint32_t)flags, (size_t)len, true, cas);
    }
}

static const char *const command_names[] = {
    [CMD_NONE] = "",
#define COMMAND(id, name, ...) [CMD_##id] = (name),
#include "proto/command.def"
#undef COMMAND
};

static void assert_reply(enum command command, enum outcome outcome, uint64_t number,
                         const char *want)
{
    char got[TEXT_REPLY_MAX];
    struct request req = {.command = (uint8_t)command,
                          .cls = (uint8_t)command_class_of(command)};
    size_t len = text_compose(got, &req, outcome, number);

    ck_assert_msg(len == strlen(want) && memcmp(got, want, len) == 0, "%s, %s: \"%.*s\"",
                  command_names[command], outcome_name(outcome), (int)len, got);
    req.noreply = true;
    ck_assert_uint_eq(text_compose(got, &req, outcome, number), 0);
}

TEST(outcomes_in_memcacheds_words)
{
    assert_reply(CMD_SET, OUT_STORED, 0, "STORED\r\n");
    assert_reply(CMD_SET, OUT_OK, 0, "STORED\r\n");
    assert_reply(CMD_ADD, OUT_NOT_STORED, 0, "NOT_STORED\r\n");
    assert_reply(CMD_REPLACE, OUT_MISS, 0, "NOT_STORED\r\n");
    assert_reply(CMD_CAS, OUT_EXISTS, 0, "EXISTS\r\n");
    assert_reply(CMD_CAS, OUT_MISS, 0, "NOT_FOUND\r\n");
    assert_reply(CMD_CAS, OUT_NOT_FOUND, 0, "NOT_FOUND\r\n");
    assert_reply(CMD_DELETE, OUT_DELETED, 0, "DELETED\r\n");
    assert_reply(CMD_DELETE, OUT_OK, 0, "DELETED\r\n");
    assert_reply(CMD_DELETE, OUT_MISS, 0, "NOT_FOUND\r\n");
    assert_reply(CMD_TOUCH, OUT_TOUCHED, 0, "TOUCHED\r\n");
    assert_reply(CMD_TOUCH, OUT_HIT, 0, "TOUCHED\r\n");
    assert_reply(CMD_TOUCH, OUT_MISS, 0, "NOT_FOUND\r\n");
    assert_reply(CMD_INCR, OUT_NUMBER, UINT64_MAX, "18446744073709551615\r\n");
    assert_reply(CMD_DECR, OUT_NUMBER, 0, "0\r\n");
    assert_reply(CMD_INCR, OUT_MISS, 0, "NOT_FOUND\r\n");
    assert_reply(CMD_INCR, OUT_NON_NUMERIC, 0,
                 "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    assert_reply(CMD_FLUSH_ALL, OUT_OK, 0, "OK\r\n");
    assert_reply(CMD_GET, OUT_MISS, 0, "END\r\n");
    assert_reply(CMD_GAT, OUT_HIT, 0, "END\r\n");
    assert_reply(CMD_SET, OUT_TOO_LARGE, 0, "SERVER_ERROR object too large for cache\r\n");
    assert_reply(CMD_APPEND, OUT_TOO_LARGE, 0, "NOT_STORED\r\n");
    assert_reply(CMD_PREPEND, OUT_TOO_LARGE, 0, "NOT_STORED\r\n");
    assert_reply(CMD_SET, OUT_NO_MEMORY, 0, "SERVER_ERROR out of memory storing object\r\n");
    assert_reply(CMD_INCR, OUT_NO_MEMORY, 0, "SERVER_ERROR out of memory in incr\r\n");
    assert_reply(CMD_SET, OUT_WAIT, 0, "");
}

TEST(words_are_composed_alike_both_ways)
{
    for (int noreply = 0; noreply <= 1; noreply++) {
        struct request set = {.command = CMD_SET, .cls = CLASS_STORE, .noreply = noreply};
        struct request touch = {.command = CMD_TOUCH, .cls = CLASS_TOUCH, .noreply = noreply};
        char direct[TEXT_REPLY_MAX], general[TEXT_REPLY_MAX];
        size_t len = text_compose(general, &set, OUT_STORED, 0);

        ck_assert_uint_eq(text_compose_stored(direct, &set), len);
        ck_assert_mem_eq(direct, general, len);
        len = text_compose(general, &touch, OUT_TOUCHED, 0);
        ck_assert_uint_eq(text_compose_touched(direct, &touch), len);
        ck_assert_mem_eq(direct, general, len);
    }
}

TEST(numbers_are_composed_alike_both_ways)
{
    static const uint64_t numbers[] = {0, 9, 10, 12345, UINT32_MAX, UINT64_MAX};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct request req = {.command = CMD_INCR, .cls = CLASS_ARITH};
        char direct[TEXT_REPLY_MAX], general[TEXT_REPLY_MAX], digits[NUM_DIGITS_MAX] = {0};
        size_t n = num_put_u64(digits, numbers[i]);
        size_t len = text_compose(general, &req, OUT_NUMBER, numbers[i]);

        ck_assert_uint_eq(text_compose_digits(direct, &req, digits, n), len);
        ck_assert_mem_eq(direct, general, len);
        req.noreply = true;
        ck_assert_uint_eq(text_compose_digits(direct, &req, digits, n), 0);
    }
}

TEST(version_is_a_line)
{
    char out[TEXT_REPLY_MAX];
    size_t len = text_compose_version(out, span_str("1.6.40"));

    ck_assert(span_is(span_of(out, len), "VERSION 1.6.40\r\n"));
}

TEST(every_reply_ends_its_lines_and_fits)
{
    ck_assert_uint_eq(reply_text(REPLY_NONE).len, 0);
    for (int r = REPLY_NONE + 1; r < REPLY_COUNT; r++) {
        struct span text = reply_text((enum reply)r);
        ck_assert_uint_ge(text.len, 4);
        ck_assert_uint_le(text.len, TEXT_REPLY_MAX);
        /* Two of config go on with the reason. */
        bool goes_on = r == REPLY_CONFIG_REFUSED || r == REPLY_CONFIG_FAILED;
        ck_assert_int_eq(text.ptr[text.len - 1], goes_on ? ' ' : '\n');
        for (const char *p = text.ptr; p < text.ptr + text.len; p++) {
            ck_assert_int_eq(*p == '\n', p > text.ptr && p[-1] == '\r');
        }
    }
}

TEST(commands_are_found_by_their_exact_name)
{
    for (int c = CMD_NONE + 1; c < CMD_COUNT; c++) {
        struct span name = span_str(command_names[c]);
        ck_assert_int_eq(command_find(name), c);
        ck_assert_int_eq(command_find(span_of(name.ptr, name.len - 1)), c == CMD_GETS ? CMD_GET
                                                                        : c == CMD_GATS
                                                                            ? CMD_GAT
                                                                            : CMD_NONE);
    }
    ck_assert_int_eq(command_find(span_str("")), CMD_NONE);
    ck_assert_int_eq(command_find(span_str("Get")), CMD_NONE);
    ck_assert_int_eq(command_find(span_str("gex")), CMD_NONE);
}
