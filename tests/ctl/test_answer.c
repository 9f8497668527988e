/* SPDX-License-Identifier: BSD-3-Clause */
/* answer: what each kind of line says, and what is refused. */
#include "ctl/answer.h"
#include "tests/common/unit.h"

static void assert_span(struct span s, const char *text)
{
    ck_assert_msg(span_is(s, text), "\"%.*s\", not \"%s\"", (int)s.len, s.ptr, text);
}

TEST(errors_are_told_from_other_lines)
{
    ck_assert(answer_is_error(span_str("ERROR")));
    ck_assert(answer_is_error(span_str("ERROR no such thing")));
    ck_assert(answer_is_error(span_str("CLIENT_ERROR bad")));
    ck_assert(answer_is_error(span_str("SERVER_ERROR out of memory")));
    ck_assert(answer_is_error(span_str("SERVER_ERROR: shutdown not enabled")));
    ck_assert(!answer_is_error(span_str("ERRORS")));
    ck_assert(!answer_is_error(span_str(":")));
    ck_assert(!answer_is_error(span_str("STAT ERROR 1")));
    ck_assert(!answer_is_error(span_str("")));
}

TEST(a_pair_has_a_name_and_the_rest_of_the_line)
{
    struct span name, value;

    ck_assert(answer_pair(span_str("STAT a 1"), "STAT", &name, &value));
    assert_span(name, "a");
    assert_span(value, "1");
    ck_assert(answer_pair(span_str("CONFIG a b  c "), "CONFIG", &name, &value));
    assert_span(value, "b  c ");
    ck_assert(answer_pair(span_str("STAT a"), "STAT", &name, &value));
    assert_span(value, "");
    ck_assert(answer_pair(span_str("STAT a "), "STAT", &name, &value));
    assert_span(value, "");
    ck_assert(!answer_pair(span_str("STAT"), "STAT", &name, &value));
    ck_assert(!answer_pair(span_str("STATE a 1"), "STAT", &name, &value));
}

TEST(fields_are_taken_one_by_one)
{
    struct span line = span_str("ts=1.5  key= x=y=z end");
    struct span name, value;

    ck_assert(answer_field(&line, &name, &value));
    assert_span(name, "ts");
    assert_span(value, "1.5");
    ck_assert(answer_field(&line, &name, &value));
    assert_span(name, "key");
    assert_span(value, "");
    ck_assert(answer_field(&line, &name, &value));
    assert_span(name, "x");
    assert_span(value, "y=z");
    ck_assert(answer_field(&line, &name, &value));
    assert_span(name, "");
    assert_span(value, "end");
    ck_assert(!answer_field(&line, &name, &value));
}

TEST(a_meta_answer_has_its_flags)
{
    struct meta_answer m;

    ck_assert(answer_meta(span_str("VA 5 f7 t-1 s5 l3 h1 c9 kfoo X W"), &m));
    ck_assert(answer_code_is(&m, "VA"));
    ck_assert_uint_eq(m.value_len, 5);
    ck_assert(m.has_ttl);
    ck_assert_int_eq(m.ttl_s, -1);
    ck_assert_uint_eq(m.flags, 7);
    ck_assert_uint_eq(m.last_s, 3);
    ck_assert_uint_eq(m.cas, 9);
    ck_assert(m.was_hit && m.is_stale);
    ck_assert(answer_meta(span_str("EN"), &m));
    ck_assert(answer_code_is(&m, "EN") && !m.has_ttl);
}

TEST(a_meta_answer_that_is_none_is_refused)
{
    static const char *const lines[] = {"",
                                        "V",
                                        "VAL 5",
                                        "VA",
                                        "VA x",
                                        "VA -1",
                                        "HD t",
                                        "HD tx",
                                        "HD h",
                                        "HD f-1",
                                        "HD c1x",
                                        "STORED",
                                        "VA 18446744073709551616"};
    struct meta_answer m;

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        ck_assert_msg(!answer_meta(span_str(lines[i]), &m), "%s", lines[i]);
    }
}

TEST(a_line_of_a_dump_becomes_an_item)
{
    struct dump_item item;

    ck_assert(answer_dump_item(
        span_str(
            "key=a%20b%00c exp=1700000000 la=1600000000 cas=3 fetch=yes cls=1 size=70 flags=5"),
        &item));
    ck_assert_uint_eq(item.key_len, 5);
    ck_assert_mem_eq(item.key, "a b\0c", 5);
    ck_assert_int_eq(item.deadline_s, 1700000000);
    ck_assert_int_eq(item.access_s, 1600000000);
    ck_assert_uint_eq(item.size, 70);
    ck_assert_uint_eq(item.flags, 5);
    ck_assert(item.was_fetched);
    ck_assert(answer_dump_item(span_str("key=k exp=-1 fetch=no"), &item));
    ck_assert_int_eq(item.deadline_s, -1);
    ck_assert(!item.was_fetched);
}

TEST(a_line_of_a_dump_that_is_none_is_refused)
{
    static const char *const lines[] = {
        "",        "exp=1",      "key= exp=1",    "key=%2",
        "key=%zz", "key=a exp=", "key=a size=-1", "key=a la=1e3"};
    struct dump_item item;

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        ck_assert_msg(!answer_dump_item(span_str(lines[i]), &item), "%s", lines[i]);
    }
}

TEST(a_key_that_is_too_long_is_refused)
{
    char line[ANSWER_KEY_MAX + 100] = "key=";
    struct dump_item item;

    memset(line + 4, 'k', ANSWER_KEY_MAX);
    ck_assert(answer_dump_item(span_of(line, 4 + ANSWER_KEY_MAX), &item));
    line[4 + ANSWER_KEY_MAX] = 'k';
    ck_assert(!answer_dump_item(span_of(line, 4 + ANSWER_KEY_MAX + 1), &item));
}

TEST(a_key_of_a_dump_may_be_base64)
{
    struct dump_item item;

    ck_assert(answer_dump_key(span_str("mg abc"), &item));
    ck_assert_mem_eq(item.key, "abc", 3);
    ck_assert(answer_dump_key(span_str("mg YSBi b"), &item));
    ck_assert_uint_eq(item.key_len, 3);
    ck_assert_mem_eq(item.key, "a b", 3);
    ck_assert(!answer_dump_key(span_str("mg YSB b"), &item));
    ck_assert(!answer_dump_key(span_str("mg abc x"), &item));
    ck_assert(!answer_dump_key(span_str("mg"), &item));
    ck_assert(!answer_dump_key(span_str("ms abc"), &item));
}
