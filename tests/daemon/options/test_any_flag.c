/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options: whatever is on the command line, parsing it ends in settings or in a message. Every
 * flag of the tables, in every form that it has, with values of every kind. What --check-config
 * checks beyond that takes a process for each: tests/it/it_any_input.py runs some of them.
 */
#include <signal.h>

#include "daemon/options/options.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "tests/common/unit.h"

#define WORD_BYTES 6000u

static const char *const values[] = {
    "",
    "0",
    "1",
    "-1",
    "1.5",
    "1k",
    "1g",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
    "-9223372036854775808",
    "99999999999999999999999999999999999999999999999999999999999999999999999999999999",
    "1e999",
    "-0",
    "0x10",
    "07777777777",
    "nan",
    "inf",
    "yes",
    "no",
    "x",
    "*",
    "a,b,c",
    ",",
    ",,,",
    "1,2",
    "=",
    "a=b",
    "/nonexistent/x",
    "900:1",
    "900:1,900",
    ":",
    "[::1]:0",
    "%s%n",
    "\"",
    "'",
    "\\",
    "\xff\x01",
    "\n",
    "@",
    "-",
    "--",
    "no_no_",
    "fdstore",
    "tag[x]:proto[ascii]:notls:*",
};
#define VALUES (sizeof(values) / sizeof(values[0]))

static char line[WORD_BYTES]; /* a value of thousands of bytes, after those of the table */
static char *no_variables[] = {NULL};
static char **saved_environ;
static int saved_out;
static int saved_err;
static unsigned parsed;
static char *volatile last[2]; /* words that are parsed now */
static char used_text[OPTION_TEXT_BYTES];
static unsigned only =
    OPTION_COUNT; /* the option that is shown after parsing; OPTION_COUNT: all */

/* Messages go nowhere, and so does that of a check that failed: say what it was about. */
static void on_abort(int number)
{
    for (unsigned i = 0; i < 2 && last[i] != NULL; i++) {
        (void)!write(saved_err, last[i], strlen(last[i]));
        (void)!write(saved_err, "\n", 1);
    }
}

static void setup(void)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    memset(line, 'x', sizeof(line) - 1);
    fflush(NULL);
    saved_out = dup(STDOUT_FILENO);
    saved_err = dup(STDERR_FILENO);
    ck_assert(nowhere >= 0 && saved_out >= 0 && saved_err >= 0);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
    signal(SIGABRT, on_abort);
    saved_environ = environ; /* parsing looks for names like those of variables of the tests */
    environ = no_variables;
}

static void teardown(void)
{
    environ = saved_environ;
    signal(SIGABRT, SIG_DFL);
    fflush(NULL);
    dup2(saved_out, STDOUT_FILENO);
    dup2(saved_err, STDERR_FILENO);
    close(saved_out);
    close(saved_err);
    printf("# %u command lines\n", parsed);
}

TEST_FIXTURE(setup, teardown)

static const char *value_at(size_t i)
{
    return i < VALUES ? values[i] : line;
}

/* Parse two words, the second perhaps NULL; whatever comes of it can be shown. */
static void parse(char *first, char *second)
{
    static char program[] = "mayflyd";
    char *argv[] = {program, first, second, NULL};
    struct settings s;
    int status = 0;

    last[0] = first;
    last[1] = second;
    if (options_parse(second != NULL ? 3 : 2, argv, &s, &status) == OPTIONS_EXIT) {
        ck_assert_int_ge(status, 0);
        ck_assert_int_le(status, 100);
    }
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if (only == OPTION_COUNT || only == id) {
            (void)option_typed(&s, id, used_text);
            (void)option_show(&s, id, used_text);
        }
    }
    settings_fini(&s);
    parsed++;
}

static char *word(const char *before, const char *name, const char *between, const char *value)
{
    static char words[2][WORD_BYTES + 100];
    static unsigned turn;
    char *out = words[turn++ % 2];

    snprintf(out, sizeof(words[0]), "%s%s%s%s", before, name, between, value);
    return out;
}

/* In each form that takes a value, and in those that take none. */
static void parse_all_forms(const char *name, int letter)
{
    const char short_flag[] = {'-', (char)letter, '\0'};
    char dash_o[] = "-o";

    if (letter != 0) {
        parse(word(short_flag, "", "", ""), NULL);
    }
    if (name[0] != '\0') {
        parse(word("--", name, "", ""), NULL);
        parse(word("--no-", name, "", ""), NULL);
        parse(dash_o, word("", name, "", ""));
        parse(dash_o, word("no_", name, "", ""));
        parse(dash_o, word(",", name, "=,", name));
    }
    for (size_t i = 0; i <= VALUES; i++) {
        if (letter != 0) {
            parse(word(short_flag, "", "", value_at(i)), NULL);
            parse(word(short_flag, "", "", ""), word("", "", "", value_at(i)));
        }
        if (name[0] != '\0') {
            parse(word("--", name, "=", value_at(i)), NULL);
            parse(dash_o, word("", name, "=", value_at(i)));
        }
    }
}

TEST(every_option_with_every_value)
{
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        only = id;
        parse_all_forms(option_rows[id].name, option_rows[id].letter);
    }
    only = OPTION_COUNT;
}

TEST(every_name_of_memcached_with_every_value)
{
    for (size_t i = 0; i < compat_row_count; i++) {
        parse_all_forms(compat_rows[i].name, compat_rows[i].letter);
    }
}

TEST(words_that_are_no_flags)
{
    for (int letter = 1; letter < 256; letter++) {
        const char flag[] = {'-', (char)letter, '\0'};

        parse(word(flag, "", "", ""), NULL);
        parse(word(flag, "", "", "x"), NULL);
    }
    for (size_t i = 0; i <= VALUES; i++) {
        parse(word("", "", "", value_at(i)), NULL);
        parse(word("--", "", "", value_at(i)), NULL);
        parse(word("-o", "", "", value_at(i)), NULL);
        parse(word("--config", "=", "", value_at(i)), NULL);
        parse(word("--memcached-conf", "=", "", value_at(i)), NULL);
    }
}

/* As `config set` does it. */
TEST(every_change_of_a_running_server)
{
    struct settings s;
    char why[OPTION_TEXT_BYTES];

    settings_init(&s);
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        for (size_t i = 0; i <= VALUES; i++) {
            why[0] = '\0';
            last[0] = (char *)(uintptr_t)option_rows[id].name;
            last[1] = (char *)(uintptr_t)value_at(i);
            ck_assert(option_change(&s, id, value_at(i), why) || why[0] != '\0');
            parsed++;
        }
    }
    settings_fini(&s);
}
