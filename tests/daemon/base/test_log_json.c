/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_json: lines are whole objects, whatever is in them and however long.
 */
#include "daemon/base/log_form.h"

#include "lib/base/utf8.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

static char line[LOG_LINE_BYTES + 1];

static MF_PRINTF(4, 5) void compose(enum log_level level, uint32_t left_out,
                                    const struct log_about *about, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    size_t len = log_json_compose(line, level, left_out, about, fmt, args);
    va_end(args);
    ck_assert_uint_le(len, LOG_LINE_BYTES);
    line[len] = '\0';
    ck_assert_uint_eq(strlen(line), len);
    ck_assert(len > 3 && line[0] == '{' && strcmp(line + len - 3, "\"}\n") == 0);
    ck_assert(utf8_is_valid(span_of(line, len)));
    for (size_t i = 0; i + 1 < len; i++) {
        ck_assert((unsigned char)line[i] >= ' ');
    }
}

static void expect(const char *part)
{
    ck_assert_msg(strstr(line, part) != NULL, "%s is not in %s", part, line);
}

TEST(fields_are_those_that_there_are)
{
    const struct log_about about = {.peer = "127.0.0.1:5", .user = "a\"b"};

    compose(LOG_LEVEL_WARN, 0, NULL, "auth, no %s", "x");
    ck_assert_str_eq(strstr(line, "\"level\""),
                     "\"level\":\"warn\",\"area\":\"auth\",\"thread\":\"test_log_json\","
                     "\"message\":\"auth, no x\"}\n");
    compose(LOG_LEVEL_NOTICE, 7, &about, "no area here");
    expect("\"thread\":\"test_log_json\",\"peer\":\"127.0.0.1:5\",\"user\":\"a\\\"b\","
           "\"left_out\":7,\"message\":\"no area here\"}");
    ck_assert_ptr_null(strstr(line, "area\""));
}

TEST(a_message_that_is_too_long_is_cut)
{
    char text[3 * LOG_LINE_BYTES];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    compose(LOG_LEVEL_INFO, 0, NULL, "a, %s", text);
    expect("xxx...\"}");
    /* Short enough as it is, and too long when it is escaped. */
    memset(text, '\1', LOG_LINE_BYTES / 2);
    text[LOG_LINE_BYTES / 2] = '\0';
    compose(LOG_LEVEL_INFO, 0, NULL, "a, %s", text);
    expect("\\u0001...\"}");
}

TEST(a_field_that_is_too_long_is_left_out)
{
    char text[LOG_LINE_BYTES];
    const struct log_about about = {.peer = text, .user = "u"};

    memset(text, '"', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    compose(LOG_LEVEL_INFO, 0, &about, "a, b");
    ck_assert_ptr_null(strstr(line, "peer"));
    expect("\"user\":\"u\",\"message\":\"a, b\"");
}

TEST(any_bytes_of_any_length_give_a_line)
{
    struct rng rng;
    char text[2 * LOG_LINE_BYTES];
    char user[128];
    const struct log_about about = {.user = user};

    rng_init(&rng, rng_seed());
    for (unsigned i = 0; i < 20000; i++) {
        const size_t len = rng_below(&rng, sizeof(text));
        const size_t user_len = rng_below(&rng, sizeof(user));

        for (size_t k = 0; k < len; k++) {
            text[k] = (char)(1 + rng_below(&rng, 255));
        }
        for (size_t k = 0; k < user_len; k++) {
            user[k] = (char)(1 + rng_below(&rng, 255));
        }
        text[len] = '\0';
        user[user_len] = '\0';
        compose(LOG_LEVEL_INFO, 0, &about, "%s", text);
    }
}
