/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: the form of a line, levels, the limit on lines that repeat, that lines of threads do not
 * mix, and that nobody waits for a standard error that takes nothing.
 */
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

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
    log_init(&verbosity, "stderr");
}

static void teardown(void)
{
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(log_fd);
    unsetenv("JOURNAL_STREAM");
    log_init(NULL, "stderr");
}

TEST_FIXTURE(setup, teardown)

/* Return all logged text, and empty the log. */
static const char *logged(void)
{
    static char text[1 << 20];
    ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);

    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    ck_assert_int_eq(ftruncate(log_fd, 0), 0);
    return text;
}

static uint64_t dropped_so_far(void)
{
    return ctr_get(log_counters(), CTR_log_dropped);
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
    log_init(&verbosity, "stderr");
    log_notice("test, started");
    ck_assert_str_eq(logged(), "<5>test, started\n");

    /* The variable is inherited, but standard error goes elsewhere. */
    setenv("JOURNAL_STREAM", "1:1", 1);
    log_init(&verbosity, "stderr");
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

TEST(nothing_is_limited_before_clients_are_served)
{
    for (int i = 0; i < 100; i++) {
        warn_here();
    }
    ck_assert_uint_eq(count_lines(logged()), 100);
}

static void say_here(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        log_error("test, again");
        break;
    case LOG_LEVEL_WARN:
        log_warn("test, again");
        break;
    case LOG_LEVEL_INFO:
        log_info("test, again");
        break;
    default:
        log_debug("test, again");
        break;
    }
}

TEST(lines_of_one_place_are_limited_at_every_level)
{
    static const enum log_level limited[] = {LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO,
                                             LOG_LEVEL_DEBUG};

    atomic_store(&verbosity, 3);
    ck_assert(log_start());
    for (size_t l = 0; l < sizeof(limited) / sizeof(limited[0]); l++) {
        const uint64_t before = ctr_get(log_counters(), CTR_log_left_out);

        for (int i = 0; i < 1000; i++) {
            say_here(limited[l]);
        }
        log_flush();
        /* A new window may begin once while the loop runs. */
        unsigned lines = count_lines(logged());
        ck_assert_uint_ge(lines, LOG_LIMIT_BURST);
        ck_assert_uint_le(lines, 2 * LOG_LIMIT_BURST);
        ck_assert_uint_eq(ctr_get(log_counters(), CTR_log_left_out) - before, 1000 - lines);
    }
    log_stop();
}

TEST(the_next_line_says_how_many_were_left_out)
{
    static struct log_limit limit;
    char wanted[64];

    ck_assert(log_start());
    for (int i = 0; i < 100; i++) {
        log_write_about(&limit, LOG_LEVEL_WARN, NULL, "test, other place");
    }
    log_flush();
    ck_assert_uint_ge(count_lines(logged()), LOG_LIMIT_BURST);

    atomic_store(&limit.window, 0); /* as if the next window had begun */
    const uint32_t left_out = atomic_load(&limit.left_out);
    ck_assert_uint_gt(left_out, 0);
    log_write_about(&limit, LOG_LEVEL_WARN, NULL, "test, other place");
    snprintf(wanted, sizeof(wanted), "test, other place [%u similar messages omitted]\n",
             left_out);
    log_flush();
    ck_assert_ptr_nonnull(strstr(logged(), wanted));
    log_write_about(&limit, LOG_LEVEL_WARN, NULL, "test, other place");
    log_flush();
    ck_assert_ptr_null(strstr(logged(), "omitted"));
    log_stop();
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

/* Threads write many lines; returns how many arrived, none of them mixed with another. */
static unsigned write_from_threads(void)
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
    log_flush();
    for (const char *line = logged(); *line != '\0'; lines++) {
        const char *end = strchr(line, '\n');
        const char *text = strstr(line, "notice: ");

        ck_assert_ptr_nonnull(end);
        if (text == NULL || text > end) {
            ck_assert_ptr_nonnull(strstr(line, " messages dropped "));
            line = end + 1;
            lines--;
            continue;
        }
        text += strlen("notice: ");
        for (int i = 0; i < LINE_LETTERS; i++) {
            ck_assert_int_eq(text[i], text[0]);
        }
        ck_assert_int_eq(text[LINE_LETTERS], '\n');
        line = text + LINE_LETTERS + 1;
    }
    return lines;
}

TEST(lines_of_threads_do_not_mix)
{
    ck_assert_uint_eq(write_from_threads(), THREADS * LINES_EACH);
}

TEST(lines_of_threads_do_not_mix_on_their_way_to_the_writer)
{
    const uint64_t before = dropped_so_far();

    ck_assert(log_start());
    unsigned lines = write_from_threads();
    ck_assert_uint_eq(lines + dropped_so_far() - before, THREADS * LINES_EACH);
    log_stop();
}

TEST(a_closed_standard_error_is_survived)
{
    close(STDERR_FILENO);
    log_error("test, no reader");
    dup2(log_fd, STDERR_FILENO);
    ck_assert_str_eq(logged(), "");
}

/* Standard error becomes a pipe that is full; returns its read end. */
static int full_pipe(void)
{
    static const char block[4096];
    int fds[2];

    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    while (write(fds[1], block, sizeof(block)) > 0) {
    }
    ck_assert_int_eq(fcntl(fds[1], F_SETFL, 0), 0);
    dup2(fds[1], STDERR_FILENO);
    close(fds[1]);
    return fds[0];
}

static char piped[1 << 19];

/* Read a pipe to its end, in a thread of its own. */
static void *read_all(void *arg)
{
    int fd = *(int *)arg;
    size_t len = 0;
    ssize_t n;

    while ((n = read(fd, piped + len, sizeof(piped) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    piped[len] = '\0';
    close(fd);
    return NULL;
}

/* End the log, and the pipe; returns what came through it, without what full_pipe() put. */
static const char *end_of_pipe(pthread_t reader)
{
    const char *text = piped;

    log_stop();
    dup2(saved_stderr, STDERR_FILENO);
    pthread_join(reader, NULL);
    while (*text == '\0' && text < piped + sizeof(piped) - 1) {
        text++;
    }
    return text;
}

#define FLOOD 1000

TEST(nobody_waits_for_a_pipe_that_is_not_read)
{
    const uint64_t before = dropped_so_far();
    int fd = full_pipe();
    pthread_t reader;
    unsigned lines = 0;
    unsigned dropped = 0;

    ck_assert(log_start());
    for (int i = 0; i < FLOOD; i++) {
        log_notice("test, number %d", i);
    }
    ck_assert_uint_gt(dropped_so_far(), before);
    /* Nothing is lost that was not counted, and the log says so. */
    ck_assert_int_eq(pthread_create(&reader, NULL, read_all, &fd), 0);
    const char *text = end_of_pipe(reader);
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        unsigned count;
        const char *warning = strstr(line, "warn: log, ");

        ck_assert_ptr_nonnull(strchr(line, '\n'));
        if (warning != NULL && warning < strchr(line, '\n')) {
            ck_assert_int_eq(sscanf(warning, "warn: log, %u messages dropped", &count), 1);
            dropped += count;
        } else {
            lines++;
        }
    }
    ck_assert_uint_eq(dropped, dropped_so_far() - before);
    ck_assert_uint_eq(lines + dropped, FLOOD);
}

TEST(a_stop_does_not_wait_for_ever)
{
    const uint64_t before = dropped_so_far();
    int fd = full_pipe();
    int status;

    /* In a process of its own, as the thread is never joined. */
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (!log_start()) {
            _exit(1);
        }
        log_notice("test, nobody reads this");
        log_stop();
        log_notice("test, nor this"); /* and it is not written: that would wait */
        _exit(dropped_so_far() == before + 1 ? 0 : 2);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    close(fd);
}

TEST(a_pipe_that_does_not_block_gets_every_line)
{
    int fd = full_pipe();
    pthread_t reader;

    ck_assert_int_eq(fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK), 0);
    ck_assert(log_start());
    log_notice("test, one");
    log_notice("test, two");
    ck_assert_int_eq(pthread_create(&reader, NULL, read_all, &fd), 0);
    const char *text = end_of_pipe(reader);
    ck_assert_ptr_nonnull(strstr(text, "test, one\n"));
    ck_assert_ptr_nonnull(strstr(text, "test, two\n"));
}
