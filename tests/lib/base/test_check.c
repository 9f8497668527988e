/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A check that fails prints one line with expression, place and thread, and aborts.
 */
#include "lib/base/check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/common/unit.h"

/* What a child that calls fn prints on standard error; it must abort. */
static void last_words(void (*fn)(void), char *out, size_t size)
{
    size_t len = 0;
    ssize_t n;
    int fds[2];
    int status;

    ck_assert_int_eq(pipe(fds), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        const struct rlimit no_core = {0, 0};

        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)dup2(fds[1], STDERR_FILENO);
        (void)pthread_setname_np(pthread_self(), "a-test");
        fn();
        _exit(0);
    }
    close(fds[1]);
    while (len < size - 1 && (n = read(fds[0], out + len, size - 1 - len)) > 0) {
        len += (size_t)n;
    }
    out[len] = '\0';
    close(fds[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGABRT);
}

static void holds_and_fails(void)
{
    volatile int two = 2;

    must(two + two == 4);
    must(two + two == 5);
}

TEST(it_prints_what_failed_where_and_in_which_thread)
{
    char said[1024];

    last_words(holds_and_fails, said, sizeof(said));
    ck_assert_msg(strncmp(said, "check failed: two + two == 5, ", 30) == 0, "%s", said);
    ck_assert_msg(strstr(said, "test_check.c:") != NULL, "%s", said);
    ck_assert_msg(strstr(said, ", thread a-test\n") != NULL, "%s", said);
}

static void fails_with_a_note(void)
{
    check_note("reading");
    check_note("writing");
    must(0);
}

TEST(it_prints_the_note_of_the_thread)
{
    char said[1024];

    last_words(fails_with_a_note, said, sizeof(said));
    ck_assert_msg(strstr(said, ", thread a-test, writing\n") != NULL, "%s", said);
}

static void fails_at_length(void)
{
    char expr[2000];

    memset(expr, 'x', sizeof(expr));
    expr[sizeof(expr) - 1] = '\0';
    check_failed(expr, __FILE__, __LINE__);
}

TEST(a_long_line_is_cut_but_still_ended)
{
    char said[4096];

    last_words(fails_at_length, said, sizeof(said));
    ck_assert_uint_gt(strlen(said), 100);
    ck_assert_uint_lt(strlen(said), 1000);
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
}

TEST(a_standard_error_that_nobody_reads_does_not_keep_it_from_aborting)
{
    static const char block[4096];
    int fds[2];
    int status;

    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    while (write(fds[1], block, sizeof(block)) > 0) {
    }
    ck_assert_int_eq(fcntl(fds[1], F_SETFL, 0), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        const struct rlimit no_core = {0, 0};

        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)dup2(fds[1], STDERR_FILENO);
        holds_and_fails();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGABRT);
    close(fds[0]);
    close(fds[1]);
}
