/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: the form of a line, levels, the limit on warnings, and that lines of threads do not mix.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "tests/common/unit.h"

static _Atomic uint32_t verbosity;
static int log_fd;
static int saved_stderr;

/* Standard error becomes a file that the test reads. */
static void setup(void)
{
    FILE *f = tmpfile();

    ck_assert_ptr_nonnull(f);
    log_fd = dup(fileno(f));
    fclose(f);
    fcntl(log_fd, F_SETFL, O_APPEND);
    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    dup2(log_fd, STDERR_FILENO);
    atomic_store(&verbosity, 0);
    unsetenv("JOURNAL_STREAM");
    log_init(&verbosity);
}

static void teardown(void)
{
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(log_fd);
    unsetenv("JOURNAL_STREAM");
    log_init(NULL);
}

TEST_FIXTURE(setup, teardown)

/* Everything logged so far; the log is empty afterwards. */
static const char *logged(void)
{
    static char text[1 << 20];
    ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);

    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    ck_assert_int_eq(ftruncate(log_fd, 0), 0);
    return text;
}

static unsigned count_lines(const char *text)
{
    unsigned n = 0;

    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

TEST(a_line_has_time_level_and_text)
{
    int year, month, day, hour, minute, second, ms, end = 0;

    log_error("listener, cannot bind %s (%s)", "x:1", "busy");
    const char *line = logged();
    int n = sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ error: %n", &year, &month, &day, &hour,
                   &minute, &second, &ms, &end);
    ck_assert_int_eq(n, 7);
    ck_assert_str_eq(line + end, "listener, cannot bind x:1 (busy)\n");
}

TEST(levels_follow_the_verbosity_live)
{
    static const unsigned lines[] = {3, 4, 5, 6};

    for (uint32_t v = 0; v < 4; v++) {
        atomic_store(&verbosity, v);
        log_error("test, error");
        log_write(LOG_LEVEL_WARN, "test, warn");
        log_notice("test, notice");
        log_info("test, info");
        log_debug("test, debug");
        log_trace("test, trace");
        ck_assert_uint_eq(count_lines(logged()), lines[v]);
        ck_assert(log_is_on(LOG_LEVEL_NOTICE));
        ck_assert_int_eq(log_is_on(LOG_LEVEL_INFO), v >= 1);
    }
}

TEST(arguments_of_a_silent_level_are_not_evaluated)
{
    int calls = 0;

    log_debug("test, %d", ++calls);
    ck_assert_int_eq(calls, 0);
}

TEST(the_journal_gets_priorities)
{
    struct stat st;
    char stream[64];

    ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
    snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    log_init(&verbosity);
    log_notice("test, started");
    ck_assert_str_eq(logged(), "<5>test, started\n");

    /* The variable is inherited, but standard error goes elsewhere. */
    setenv("JOURNAL_STREAM", "1:1", 1);
    log_init(&verbosity);
    log_notice("test, started");
    ck_assert_int_ne(logged()[0], '<');
}

TEST(a_long_line_is_cut_and_still_ends)
{
    char text[5000];

    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_error("test, %s", text);
    const char *line = logged();
    size_t len = strlen(line);
    ck_assert_uint_le(len, 1024);
    ck_assert_uint_gt(len, 1000);
    ck_assert_str_eq(line + len - 5, "a...\n");
}

TEST(control_characters_do_not_get_through)
{
    log_error("test, %s", "one\r\ntwo\033[2Jthree");
    const char *line = logged();
    ck_assert_uint_eq(count_lines(line), 1);
    ck_assert_ptr_nonnull(strstr(line, "one??two?[2Jthree\n"));
}

TEST(errno_survives)
{
    errno = ENOLINK;
    log_error("test, x");
    ck_assert_int_eq(errno, ENOLINK);
    log_warn("test, x");
    ck_assert_int_eq(errno, ENOLINK);
}

static void warn_here(void)
{
    log_warn("test, again");
}

TEST(warnings_of_one_place_are_limited)
{
    static struct log_limit limit;

    for (int i = 0; i < 1000; i++) {
        warn_here();
    }
    /* A new window may begin once while the loop runs. */
    unsigned lines = count_lines(logged());
    ck_assert_uint_ge(lines, LOG_LIMIT_BURST);
    ck_assert_uint_le(lines, 2 * LOG_LIMIT_BURST);

    for (int i = 0; i < 100; i++) {
        log_write_limited(&limit, "test, other place");
    }
    ck_assert_uint_ge(count_lines(logged()), LOG_LIMIT_BURST);

    /* The next window begins with one line, which says how many were left out. */
    atomic_store(&limit.window, 0);
    const uint32_t left_out = atomic_load(&limit.left_out);
    ck_assert_uint_gt(left_out, 0);
    log_write_limited(&limit, "test, other place");
    char wanted[64];
    snprintf(wanted, sizeof(wanted), "test, other place [%u more like this left out]\n",
             left_out);
    ck_assert_ptr_nonnull(strstr(logged(), wanted));
    log_write_limited(&limit, "test, other place");
    ck_assert_ptr_null(strstr(logged(), "left out"));
}

#define THREADS      4
#define LINES_EACH   200
#define LINE_LETTERS 300

static void *write_lines(void *arg)
{
    const char letter = *(const char *)arg;
    char text[LINE_LETTERS + 1];

    memset(text, letter, LINE_LETTERS);
    text[LINE_LETTERS] = '\0';
    for (int i = 0; i < LINES_EACH; i++) {
        log_notice("%s", text);
    }
    return NULL;
}

TEST(lines_of_threads_do_not_mix)
{
    static const char letters[THREADS] = {'a', 'b', 'c', 'd'};
    pthread_t threads[THREADS];
    unsigned lines = 0;

    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_lines, (void *)&letters[i]),
                         0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (const char *line = logged(); *line != '\0'; lines++) {
        const char *text = strstr(line, "notice: ");
        ck_assert_ptr_nonnull(text);
        text += strlen("notice: ");
        for (int i = 0; i < LINE_LETTERS; i++) {
            ck_assert_int_eq(text[i], text[0]);
        }
        ck_assert_int_eq(text[LINE_LETTERS], '\n');
        line = text + LINE_LETTERS + 1;
    }
    ck_assert_uint_eq(lines, THREADS * LINES_EACH);
}

TEST(a_closed_standard_error_is_survived)
{
    close(STDERR_FILENO);
    log_error("test, no reader");
    dup2(log_fd, STDERR_FILENO);
    ck_assert_str_eq(logged(), "");
}
