/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See log_form.h. The state is one word, which is set before there are threads.
 */
#include "daemon/base/log_form.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/context.h"

/* The words of a message before its comma have at most this many bytes. */
#define AREA_MAX 16u

/* [const] after log_line_choose_form() and log_line_use_plain() */
static bool is_journal;

/* The journal's priority (syslog's numbers) and the word of the plain form. */
static const struct {
    int priority;
    const char *word;
} levels[] = {
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

bool log_line_choose_form(void)
{
    must_be_main();
    is_journal = stderr_is_journal();
    return is_journal;
}

void log_line_use_plain(void)
{
    must_be_main();
    is_journal = false;
}

bool log_line_is_journal(void)
{
    return is_journal;
}

char log_line_priority(enum log_level level)
{
    return (char)('0' + levels[level].priority);
}

const char *log_line_word(enum log_level level)
{
    return levels[level].word;
}

const char *log_line_time(char text[LOG_TIME_BYTES])
{
    struct timespec now;
    struct tm tm;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(text, LOG_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, LOG_TIME_BYTES - n, ".%03ldZ", now.tv_nsec / 1000000);
    return text;
}

struct span log_line_area(const char *fmt, va_list args)
{
    const size_t len = strcspn(fmt, ",");
    va_list first;

    if (strncmp(fmt, "%s,", 3) == 0) {
        va_copy(first, args);
        const char *area = va_arg(first, const char *);
        va_end(first);
        return span_str(area);
    }
    return span_of(fmt, len <= AREA_MAX && fmt[len] == ',' ? len : 0);
}

/* Write what comes before the text; returns its length. */
static size_t put_head(char *line, enum log_level level)
{
    char time[LOG_TIME_BYTES];

    if (is_journal) {
        return (size_t)snprintf(line, LOG_LINE_BYTES, "<%d>", levels[level].priority);
    }
    return (size_t)snprintf(line, LOG_LINE_BYTES, "%s %s: ", log_line_time(time),
                            levels[level].word);
}

void log_line_blank(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) {
            text[i] = '?';
        }
    }
}

size_t log_line_text(char *out, size_t room, uint32_t left_out, const char *fmt, va_list args)
{
    static const char cut[] = "...";

    room--; /* for the line's end */
    int n = vsnprintf(out, room, fmt, args);
    if (n < 0) {
        return 0;
    }
    size_t len = (size_t)n;
    if (len >= room) {
        len = room - 1;
        memcpy(out + len - (sizeof(cut) - 1), cut, sizeof(cut) - 1);
    }
    if (left_out > 0 && len + 1 < room) {
        n = snprintf(out + len, room - len, " [%" PRIu32 " similar messages omitted]",
                     left_out);
        len += n > 0 && (size_t)n < room - len ? (size_t)n : 0;
    }
    log_line_blank(out, len);
    out[len] = '\n';
    return len + 1;
}

size_t log_line(char out[LOG_LINE_BYTES], enum log_level level, uint32_t left_out,
                const char *fmt, va_list args)
{
    const size_t head = put_head(out, level);

    must(level <= LOG_LEVEL_TRACE && head < LOG_LINE_BYTES / 2);
    size_t len = log_line_text(out + head, LOG_LINE_BYTES - head, left_out, fmt, args);
    return len > 0 ? head + len : 0;
}
