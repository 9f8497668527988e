/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: formats on the stack, writes once, takes no lock. The state is two words that
 * log_init() sets before there are threads.
 */
#include "daemon/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"

/* A line with its end. PIPE_BUF would allow more, but readers would not. */
#define LOG_LINE_BYTES 1024

/* [const] after log_init() */
static const _Atomic uint32_t *log_verbosity;
static bool log_is_journal;

/* The journal's priority (syslog's numbers) and the word of the plain form. */
static const struct {
    int priority;
    const char *word;
} log_levels[] = {
    [LOG_LEVEL_ERROR] = {3, "error"},   [LOG_LEVEL_WARN] = {4, "warn"},
    [LOG_LEVEL_NOTICE] = {5, "notice"}, [LOG_LEVEL_INFO] = {6, "info"},
    [LOG_LEVEL_DEBUG] = {7, "debug"},   [LOG_LEVEL_TRACE] = {7, "trace"},
};

/*
 * The service manager names the journal's socket by device and inode in JOURNAL_STREAM. Our
 * standard error must be that socket: the variable alone is also inherited by processes whose
 * output goes elsewhere.
 */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    char own[64];
    if (stream == NULL || fstat(STDERR_FILENO, &st) != 0) {
        return false;
    }
    snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    return strcmp(own, stream) == 0;
}

void log_init(const _Atomic uint32_t *verbosity)
{
    must_be_main();
    log_verbosity = verbosity;
    log_is_journal = stderr_is_journal();
}

bool log_is_on(enum log_level level)
{
    const uint32_t verbosity =
        log_verbosity != NULL ? atomic_load_explicit(log_verbosity, memory_order_relaxed) : 0;
    return (uint32_t)level <= LOG_LEVEL_NOTICE + verbosity;
}

/* Write what comes before the text; returns its length. */
static size_t put_head(char *line, enum log_level level)
{
    if (log_is_journal) {
        return (size_t)snprintf(line, LOG_LINE_BYTES, "<%d>", log_levels[level].priority);
    }
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    const size_t n = strftime(line, LOG_LINE_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
    return n + (size_t)snprintf(line + n, LOG_LINE_BYTES - n,
                                ".%03ldZ %s: ", now.tv_nsec / 1000000, log_levels[level].word);
}

/* Replace characters that would end the line or move the cursor of a terminal. */
static void blank_controls(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) {
            text[i] = '?';
        }
    }
}

static void write_line(const char *line, size_t len)
{
    ssize_t n;
    do {
        n = write(STDERR_FILENO, line, len);
    } while (n < 0 && errno == EINTR);
    /* An error here cannot be reported anywhere; the service goes on. */
}

static MF_PRINTF(2, 0) void put_line(enum log_level level, const char *fmt, va_list args,
                                     uint32_t left_out)
{
    static const char cut[] = "...";
    char line[LOG_LINE_BYTES];
    const size_t head = put_head(line, level);

    must(level <= LOG_LEVEL_TRACE && head < sizeof(line) / 2);
    const size_t room = sizeof(line) - head - 1; /* for the line's end */
    int n = vsnprintf(line + head, room, fmt, args);
    if (n < 0) {
        return;
    }
    size_t len = (size_t)n;
    if (len >= room) {
        len = room - 1;
        memcpy(line + head + len - (sizeof(cut) - 1), cut, sizeof(cut) - 1);
    }
    if (left_out > 0 && len + 1 < room) {
        n = snprintf(line + head + len, room - len, " [%" PRIu32 " more like this left out]",
                     left_out);
        len += n > 0 && (size_t)n < room - len ? (size_t)n : 0;
    }
    blank_controls(line + head, len);
    line[head + len] = '\n';
    write_line(line, head + len + 1);
}

void log_write(enum log_level level, const char *fmt, ...)
{
    const int saved_errno = errno;
    va_list args;
    if (log_is_on(level)) {
        va_start(args, fmt);
        put_line(level, fmt, args, 0);
        va_end(args);
    }
    errno = saved_errno;
}

/*
 * May this call site write a line? Two threads may both reset the count when a window begins:
 * that lets a few more lines pass and is not worth a lock.
 */
static bool limit_allows(struct log_limit *limit)
{
    const int64_t window = clock_mono_us() / (LOG_LIMIT_S * INT64_C(1000000)) + 1;
    if (atomic_load_explicit(&limit->window, memory_order_relaxed) != window) {
        atomic_store_explicit(&limit->window, window, memory_order_relaxed);
        atomic_store_explicit(&limit->lines, 0, memory_order_relaxed);
    }
    if (atomic_fetch_add_explicit(&limit->lines, 1, memory_order_relaxed) < LOG_LIMIT_BURST) {
        return true;
    }
    atomic_fetch_add_explicit(&limit->left_out, 1, memory_order_relaxed);
    return false;
}

void log_write_limited(struct log_limit *limit, const char *fmt, ...)
{
    const int saved_errno = errno;
    va_list args;
    if (limit_allows(limit)) {
        const uint32_t left_out =
            atomic_exchange_explicit(&limit->left_out, 0, memory_order_relaxed);
        va_start(args, fmt);
        put_line(LOG_LEVEL_WARN, fmt, args, left_out);
        va_end(args);
    }
    errno = saved_errno;
}
