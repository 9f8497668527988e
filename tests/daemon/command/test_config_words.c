/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config_words: what the words of a command are, and which lines have none.
 */
#include "daemon/command/exec.h"

#include "tests/common/unit.h"

static struct config_words words;

/* The words, separated by |. */
static void check(const char *line, const char *wanted)
{
    char all[CONFIG_TEXT_MAX] = "";
    const char *why = config_words_split(&words, span_str(line));

    ck_assert_msg(why == NULL, "%s: %s", line, why);
    for (unsigned i = 0; i < words.count; i++) {
        strcat(all, i > 0 ? "|" : "");
        strcat(all, words.word[i]);
    }
    ck_assert_str_eq(all, wanted);
}

TEST(blanks_separate_words)
{
    check("", "");
    check("   ", "");
    check("get", "get");
    check("  set   a b ", "set|a|b");
    check("a\"b c\\ '", "a\"b|c\\|'");
}

TEST(quotes_hold_blanks)
{
    check("\"a b\" c", "a b|c");
    check("\"\" \" \"", "| ");
    check("\"\\\"\\\\\\x41\\x7A\"", "\"\\Az");
}

TEST(words_are_joined)
{
    check("set \"a\"   b c", "set|a|b|c");
    config_words_join(&words, 1);
    ck_assert_uint_eq(words.count, 3);
    ck_assert_str_eq(words.word[1], "a b");
    ck_assert_str_eq(words.word[2], "c");
    config_words_join(&words, 1);
    ck_assert_uint_eq(words.count, 2);
    ck_assert_str_eq(words.word[1], "a b c");
}

TEST(quotes_that_are_wrong)
{
    static const char *const lines[] = {
        "\"", "a \"b", "\"a\"b", "\"a\"\"b\"", "\"\\n\"", "\"\\x4\"", "\"\\x00\"", "\"\\",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        ck_assert_msg(config_words_split(&words, span_str(lines[i])) != NULL, "%s", lines[i]);
    }
    ck_assert_ptr_nonnull(config_words_split(&words, span_of("a\0b", 3)));
    ck_assert_ptr_nonnull(config_words_split(&words, span_of("\"\0\"", 3)));
}

TEST(lines_have_a_bound)
{
    static char line[CONFIG_TEXT_MAX + 1];

    memset(line, 'x', sizeof(line));
    ck_assert_ptr_null(config_words_split(&words, span_of(line, CONFIG_TEXT_MAX - 1)));
    ck_assert_uint_eq(strlen(words.word[0]), CONFIG_TEXT_MAX - 1);
    ck_assert_ptr_nonnull(config_words_split(&words, span_of(line, CONFIG_TEXT_MAX)));
    for (size_t i = 0; i < sizeof(line); i += 2) {
        line[i] = ' ';
    }
    ck_assert_ptr_null(config_words_split(&words, span_of(line, 2 * (size_t)CONFIG_WORDS_MAX)));
    ck_assert_uint_eq(words.count, CONFIG_WORDS_MAX);
    ck_assert_str_eq(
        config_words_split(&words, span_of(line, 2 * (size_t)CONFIG_WORDS_MAX + 2)),
        "too many words");
}
