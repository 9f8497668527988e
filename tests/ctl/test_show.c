/* SPDX-License-Identifier: BSD-3-Clause */
/* show and json: nothing that a server sends acts on a terminal, or breaks JSON. */
#include <math.h>

#include "ctl/json.h"
#include "ctl/show.h"
#include "lib/base/utf8.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

/* What is printed, in a static place. */
static const char *shown(const char *bytes, size_t len, bool is_utf8)
{
    static char text[4096];
    FILE *out = fmemopen(text, sizeof(text), "w");
    size_t columns = show_text(out, span_of(bytes, len), is_utf8);

    fputc('\0', out); /* else nothing is written where there is nothing to show */
    ck_assert_uint_eq(columns, show_columns(span_of(bytes, len), is_utf8));
    fclose(out);
    return text;
}

TEST(what_a_terminal_takes_for_commands_is_escaped)
{
    static const struct {
        const char *bytes;
        const char *text;
    } rows[] = {
        {"plain", "plain"},
        {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
        {"\033[31m", "\\x1b[31m"},
        {"back\\slash", "back\\\\slash"},
        {"\x7f", "\\x7f"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\xc2\x9b"
         "2J",
         "\\xc2\\x9b2J"}, /* CSI of C1 */
        {"\x9b"
         "2J",
         "\\x9b2J"}, /* the same as a byte */
        {"\xe2\x80\xae"
         "exe",
         "\\xe2\\x80\\xaeexe"}, /* right to left */
        {"\xf0\x9f\x90\x9d", "\xf0\x9f\x90\x9d"},
        {"\xc0\xaf", "\\xc0\\xaf"},                   /* overlong */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* past the last one */
        {"\xe2\x82", "\\xe2\\x82"},                   /* cut */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_str_eq(shown(rows[i].bytes, strlen(rows[i].bytes), true), rows[i].text);
    }
    ck_assert_str_eq(shown("a\0b", 3, true), "a\\x00b");
    ck_assert_str_eq(shown("gr\xc3\xbc", 4, false), "gr\\xc3\\xbc");
}

TEST(escapes_come_back)
{
    struct rng rng;
    char bytes[64];
    char back[512];

    rng_init(&rng, rng_seed());
    for (unsigned round = 0; round < 400; round++) {
        size_t len = rng_below(&rng, sizeof(bytes));
        size_t got = 0;

        for (size_t i = 0; i < len; i++) {
            bytes[i] = (char)rng_below(&rng, 256);
        }
        const char *text = shown(bytes, len, round % 2 == 0);
        ck_assert(utf8_is_valid(span_str(text)));
        ck_assert(strcspn(text, "\n\r\t\033\x7f") == strlen(text));
        ck_assert(show_unescape(back, &got, span_str(text)));
        ck_assert(got == len && memcmp(back, bytes, len) == 0);
    }
}

TEST(what_is_no_escape_is_refused)
{
    static const char *const texts[] = {"\\", "\\q", "\\x", "\\x1", "\\xg0", "a\\"};
    char out[16];
    size_t len;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ck_assert_msg(!show_unescape(out, &len, span_str(texts[i])), "%s", texts[i]);
    }
}

TEST(numbers_have_the_unit_of_their_name)
{
    char text[UNIT_TEXT_BYTES];

    ck_assert_int_eq(unit_of(span_str("0:resident_bytes")), UNIT_BYTES);
    ck_assert_int_eq(unit_of(span_str("bytes")), UNIT_BYTES);
    ck_assert_int_eq(unit_of(span_str("expire_lag_p99_ms")), UNIT_MS);
    ck_assert_int_eq(unit_of(span_str("uptime")), UNIT_S);
    ck_assert_int_eq(unit_of(span_str("expire_stale_estimate_pct")), UNIT_PCT);
    ck_assert_int_eq(unit_of(span_str("curr_items")), UNIT_NONE);
    ck_assert_int_eq(unit_of(span_str("1:ops_per_s")), UNIT_NONE);
    unit_short(text, UNIT_BYTES, 1536);
    ck_assert_str_eq(text, "1.5 KiB");
    unit_short(text, UNIT_BYTES, 1023);
    ck_assert_str_eq(text, "1023 B");
    unit_short(text, UNIT_BYTES, 64.0 * 1024 * 1024);
    ck_assert_str_eq(text, "64.0 MiB");
    unit_short(text, UNIT_US, 250);
    ck_assert_str_eq(text, "250 us");
    duration_text(text, 0);
    ck_assert_str_eq(text, "0 s");
    duration_text(text, 0.5);
    ck_assert_str_eq(text, "500 ms");
    duration_text(text, 59.5);
    ck_assert_str_eq(text, "59.5 s");
    duration_text(text, 60);
    ck_assert_str_eq(text, "1 min");
    duration_text(text, 3725);
    ck_assert_str_eq(text, "1 h 2 min");
    duration_text(text, 86400 * 2);
    ck_assert_str_eq(text, "2 days");
    duration_text(text, INFINITY);
    ck_assert_str_eq(text, "forever");
    duration_text(text, NAN);
    ck_assert_str_eq(text, "forever");
    number_short(text, 12345);
    ck_assert_str_eq(text, "12.3k");
    number_short(text, 9999);
    ck_assert_str_eq(text, "9999");
    number_short(text, 1e300);
}

TEST(json_is_written_as_it_should_be)
{
    char text[1024];
    FILE *out = fmemopen(text, sizeof(text), "w");
    struct json j;

    json_init_lines(&j, out);
    json_begin(&j, NULL, '{');
    json_scalar(&j, "a", span_str("12"));
    json_begin(&j, "b", '[');
    json_scalar(&j, NULL, span_str("-0.5"));
    json_scalar(&j, NULL, span_str("007"));
    json_scalar(&j, NULL, span_str("1.6.45"));
    json_scalar(&j, NULL, span_str("1."));
    json_scalar(&j, NULL, span_str("-"));
    json_scalar(&j, NULL, span_str(""));
    json_double(&j, NULL, NAN);
    json_bool(&j, NULL, true);
    json_scalar(&j, NULL, (struct span){0});
    json_end(&j, '[');
    json_text(&j, "q\"\\\n", span_of("\0\x9b\xc2\x9b", 4));
    (void)json_bytes(&j, "key", span_str("k"));
    (void)json_bytes(&j, "key", span_of("\xff", 1));
    json_end(&j, '{');
    fclose(out);
    ck_assert_str_eq(
        text, "{\"a\": 12, \"b\": [-0.5, \"007\", \"1.6.45\", \"1.\", \"-\", \"\", null, true, "
              "null], \"q\\\"\\\\\\u000a\": \"\\u0000\\ufffd\\u009b\", \"key\": \"k\", "
              "\"key_base64\": \"/w==\"}\n");
}
