/* SPDX-License-Identifier: BSD-3-Clause */
/* options: command lines and lines of the prompt. */
#include "ctl/options.h"
#include "tests/common/unit.h"

static struct options options;
static struct ctl_words line, left;
static char store[1024];
static char why[200];

static bool split(const char *text)
{
    return words_split(&line, span_str(text), store, why, sizeof(why));
}

/* Read a command line, given as one text. */
static bool read_line(const char *text, bool may_connect)
{
    ck_assert(split(text));
    options_init(&options);
    return options_read(&options, &line, may_connect, &left, why, sizeof(why));
}

TEST(defaults_are_those_of_the_table)
{
    options_init(&options);
    ck_assert_str_eq(options.control, CONTROL_PATH);
    ck_assert_ptr_null(options.host);
    ck_assert(options.timeout == 5.0);
    ck_assert(!options.json && options.given == 0);
}

TEST(options_stand_anywhere)
{
    ck_assert(read_line("-s /a stats -j items --timeout=0.5 -w 2", true));
    ck_assert_str_eq(options.control, "/a");
    ck_assert(options.json);
    ck_assert(options.timeout == 0.5);
    ck_assert(options.watch == 2.0);
    ck_assert_uint_eq(left.count, 2);
    ck_assert(span_is(left.word[1], "items"));
    ck_assert(options_fit(&options, COMMAND_stats, why, sizeof(why)));
    ck_assert(!options_fit(&options, COMMAND_get, why, sizeof(why)));
    ck_assert_str_eq(why, "--watch cannot be used with get");
}

TEST(letters_may_stand_together)
{
    ck_assert(read_line("-jn3 dump", true));
    ck_assert(options.json);
    ck_assert_uint_eq(options.count, 3);
}

TEST(negative_numbers_and_what_follows_two_minus_are_arguments)
{
    ck_assert(read_line("touch k -1", true));
    ck_assert_uint_eq(left.count, 3);
    ck_assert(read_line("get -- --json -- -", true));
    ck_assert_uint_eq(left.count, 4);
    ck_assert(!options.json);
}

TEST(what_is_wrong_is_told)
{
    static const char *const lines[] = {
        "--nonsense",        "-Q",
        "--timeout",         "--timeout 0",
        "--timeout -1",      "--timeout 1e9",
        "--json=yes",        "dump -n x",
        "dump -n -1",        "dump --min-size 1q",
        "--timeout=nan",     "--count=",
        "dump --min-size k", "dump --min-size 99999999999999g",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        why[0] = '\0';
        ck_assert_msg(!read_line(lines[i], true), "%s", lines[i]);
        ck_assert_msg(why[0] != '\0', "%s", lines[i]);
    }
}

TEST(bytes_have_letters)
{
    ck_assert(read_line("dump --min-size 64k", true));
    ck_assert_uint_eq(options.min_size, 65536);
    ck_assert(read_line("dump --min-size 2G", true));
    ck_assert_uint_eq(options.min_size, (uint64_t)2 << 30);
}

TEST(a_prompt_does_not_connect_elsewhere)
{
    ck_assert(read_line("stats --json", false));
    ck_assert(!read_line("stats -s /other", false));
    ck_assert(!read_line("stats --tls", false));
}

TEST(lines_are_split_as_by_a_shell)
{
    ck_assert(split("  a  'b c' \"d\\x41\\\"\"e\\ f '' \t"));
    ck_assert_uint_eq(line.count, 4);
    ck_assert(span_is(line.word[0], "a"));
    ck_assert(span_is(line.word[1], "b c"));
    ck_assert(span_is(line.word[2], "dA\"e f"));
    ck_assert(span_is(line.word[3], ""));
    ck_assert(split("\"\\x00x\""));
    ck_assert_uint_eq(line.word[0].len, 2);
    ck_assert(split(""));
    ck_assert_uint_eq(line.count, 0);
    ck_assert(!split("'open"));
    ck_assert(!split("\"open\\\""));
    ck_assert(!split("\"\\q\""));
}

TEST(there_is_an_end_of_words)
{
    static char text[2 * WORDS_MAX + 3];
    static char room[sizeof(text)];

    for (size_t i = 0; i < WORDS_MAX + 1; i++) {
        memcpy(text + 2 * i, "a ", 2);
    }
    ck_assert(words_split(&line, span_of(text, 2 * WORDS_MAX), room, why, sizeof(why)));
    ck_assert_uint_eq(line.count, WORDS_MAX);
    ck_assert(!words_split(&line, span_of(text, 2 * WORDS_MAX + 1), room, why, sizeof(why)));
}

TEST(every_command_has_its_row)
{
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        const struct ctl_command_row *row = &ctl_commands[id];

        ck_assert_uint_eq(ctl_command_find(row->name), id);
        ck_assert_ptr_nonnull(row->run);
        ck_assert(row->least <= row->most && row->most < WORDS_MAX);
        ck_assert(row->help[strlen(row->help) - 1] == '.');
    }
    ck_assert_uint_eq(ctl_command_find("nonsense"), COMMAND_COUNT);
    for (unsigned id = 0; id < OPT_COUNT; id++) {
        const struct ctl_option_row *row = &ctl_options[id];

        ck_assert((row->kind == KIND_FLAG) == (row->arg == NULL));
        for (unsigned other = 0; other < id; other++) {
            ck_assert_str_ne(row->name, ctl_options[other].name);
            ck_assert(row->letter == '\0' || row->letter != ctl_options[other].letter);
        }
    }
}
