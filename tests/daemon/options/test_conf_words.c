/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conf_words: the words of a file of flags are those that Debian's scripts and the shell make
 * of it, and what a shell would act on is refused. tests/it/it_options.py compares with the
 * script.
 */
#include "daemon/options/conf_line.h"

#include "tests/common/unit.h"

/* The words of a line, each in brackets, or what is wrong with it. */
static const char *words_of(struct span text)
{
    static char out[256];
    struct conf_words w;
    size_t len = 0;

    ck_assert(conf_words_init(&w, text.len));
    const char *why = conf_words_add(&w, text, 7);
    out[0] = '\0';
    for (int i = 1; i < w.argc; i++) {
        ck_assert_uint_eq(w.lines[i], 7);
        len += (size_t)snprintf(out + len, sizeof(out) - len, "[%s]", w.argv[i]);
    }
    ck_assert_ptr_null(w.argv[w.argc]);
    conf_words_fini(&w);
    if (why != NULL) {
        ck_assert_str_eq(out, "");
        snprintf(out, sizeof(out), "%s", why);
    }
    return out;
}

static void check_words(const char *text, const char *wanted)
{
    const char *got = words_of(span_str(text));

    ck_assert_msg(strcmp(got, wanted) == 0, "\"%s\" is %s, not %s", text, got, wanted);
}

TEST(lines_become_words)
{
    check_words("-m 64", "[-m][64]");
    check_words("  -m\t 64 \r", "[-m][64]");
    check_words("-m64", "[-m64]");
    check_words("--port=5 -v", "[--port=5][-v]");
    check_words("64", "[64]"); /* the argument of a flag in the line before */
    check_words("-l [::1]:5,127.0.0.1", "[-l][[::1]:5,127.0.0.1]");
}

TEST(comments_and_some_lines_are_left_out)
{
    check_words("", "");
    check_words("   ", "");
    check_words("# -m 64", "");
    check_words("-m 64 # all of it", "[-m][64]");
    check_words("-m 64# all", "[-m][64]");
    check_words("-m 64 # a # b", "[-m][64]");
    check_words("-D \\#", "[-D][#]");
    check_words("-m 64 # a \\# b", "[-m][64][#][b]"); /* as in the scripts */
    check_words("-d", "");
    check_words("-d -m 64", "");
    check_words("-h", "");
    check_words("logfile /var/log/memcached.log", "");
    check_words("logfile\t/var/log/memcached.log", "");
}

TEST(quotes_are_those_of_the_shell)
{
    check_words("-s '/a b'", "[-s][/a b]");
    check_words("-s \"/a b\"", "[-s][/a b]");
    check_words("-s /a\\ b", "[-s][/a b]");
    check_words("-s '' -v", "[-s][][-v]");
    check_words("-s ''", "[-s][]");
    check_words("-s a'b'\"c\"d", "[-s][abcd]");
    check_words("-s '\\$*'", "[-s][\\$*]");
    check_words("-s \"\\$\\`\\\"\\\\\\a*;\"", "[-s][$`\"\\\\a*;]");
    check_words("-s a~", "[-s][a~]");
    check_words("-s \\~", "[-s][~]");
}

TEST(what_a_shell_would_act_on_is_refused)
{
    static const char *const lines[] = {
        "-m $SIZE",  "-m \"$SIZE\"", "-m `id`",  "-m \"`id`\"", "-m 64; id", "-m 64 & id",
        "-m 64 | x", "-m 64 > x",    "-m 64 <x", "-s (a)",      "-s *",      "-s a?",
        "-s ~/a",    "-s 'a",        "-s \"a",   "-s a\\",      "-D '#'",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const char *got = words_of(span_str(lines[i]));

        ck_assert_msg(got[0] != '[' && got[0] != '\0', "%s: %s", lines[i], got);
    }
    check_words("maxmemory 5", "a flag begins with a dash");
    ck_assert_ptr_nonnull(strstr(words_of(span_of("-m\0 64", 6)), "NUL"));
}

TEST(a_line_that_is_wrong_adds_nothing)
{
    struct conf_words w;
    static const char text[] = "-m 64\n-v -s 'a\n-t 2";

    ck_assert(conf_words_init(&w, strlen(text)));
    ck_assert_ptr_null(conf_words_add(&w, span_of(text, 5), 1));
    ck_assert_ptr_nonnull(conf_words_add(&w, span_of(text + 6, 8), 2));
    ck_assert_ptr_null(conf_words_add(&w, span_str(text + 15), 3));
    ck_assert_int_eq(w.argc, 5);
    ck_assert_str_eq(w.argv[1], "-m");
    ck_assert_str_eq(w.argv[2], "64");
    ck_assert_str_eq(w.argv[3], "-t");
    ck_assert_str_eq(w.argv[4], "2");
    ck_assert_ptr_null(w.argv[5]);
    ck_assert_uint_eq(w.lines[2], 1);
    ck_assert_uint_eq(w.lines[3], 3);
    conf_words_fini(&w);
}
