/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: levels, and the limit on lines that repeat. A line is composed on the stack and
 * handed to the thread that writes (log_writer.c). Nothing here waits or takes a lock.
 */
#include "daemon/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/base/log_form.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"

/* [const] after log_init() */
static const _Atomic uint32_t *log_verbosity;

/* [atomic] of all threads */
static struct counters counters;

bool log_init(const _Atomic uint32_t *verbosity, const char *to)
{
    const bool is_journal = log_line_choose_form();

    must_be_main();
    log_verbosity = verbosity;
    log_journal_close();
    log_file_close();
    if (to != NULL && strcmp(to, "stderr") == 0) {
        return true;
    }
    if (to == NULL) {
        (void)(is_journal && log_journal_open(LOG_JOURNAL_SOCKET));
        return true;
    }
    return log_journal_open(strcmp(to, "journal") == 0 ? LOG_JOURNAL_SOCKET : to);
}

bool log_open_file(const char *path, const char **why)
{
    must_be_main();
    if (!log_file_open(path, why)) {
        return false;
    }
    if (log_journal_is_on() || log_line_is_journal()) {
        must(!log_writer_is_on());
        log_journal_close();
        log_line_use_plain();
    }
    return true;
}

bool log_is_journal(void)
{
    return log_journal_is_on() || log_line_is_journal();
}

const struct counters *log_counters(void)
{
    return &counters;
}

bool log_is_on(enum log_level level)
{
    const uint32_t verbosity =
        log_verbosity != NULL ? atomic_load_explicit(log_verbosity, memory_order_relaxed) : 0;
    return (uint32_t)level <= LOG_LEVEL_NOTICE + verbosity;
}

static MF_PRINTF(4, 0) void put_line(enum log_level level, uint32_t left_out,
                                     const struct log_about *about, const char *fmt,
                                     va_list args)
{
    char line[LOG_LINE_BYTES];
    const size_t len = log_form_compose(line, level, left_out, about, fmt, args);

    if (!log_writer_put(span_of(line, len))) {
        ctr_add_shared(&counters, CTR_log_dropped, 1);
    }
}

void log_write(enum log_level level, const char *fmt, ...)
{
    const int saved_errno = errno;
    va_list args;

    if (log_is_on(level)) {
        va_start(args, fmt);
        put_line(level, 0, NULL, fmt, args);
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
    const uint32_t burst = limit->burst != 0 ? limit->burst : LOG_LIMIT_BURST;
    const int64_t window = clock_mono_us() / (LOG_LIMIT_S * INT64_C(1000000)) + 1;

    if (atomic_load_explicit(&limit->window, memory_order_relaxed) != window) {
        atomic_store_explicit(&limit->window, window, memory_order_relaxed);
        atomic_store_explicit(&limit->lines, 0, memory_order_relaxed);
    }
    if (atomic_fetch_add_explicit(&limit->lines, 1, memory_order_relaxed) < burst) {
        return true;
    }
    atomic_fetch_add_explicit(&limit->left_out, 1, memory_order_relaxed);
    ctr_add_shared(&counters, CTR_log_left_out, 1);
    return false;
}

void log_write_about(struct log_limit *limit, enum log_level level,
                     const struct log_about *about, const char *fmt, ...)
{
    const int saved_errno = errno;
    va_list args;

    /* While nothing is served no client can cause a line, and what is said is a list. */
    if (log_is_on(level) && (!log_writer_is_on() || limit_allows(limit))) {
        va_start(args, fmt);
        put_line(level, atomic_exchange_explicit(&limit->left_out, 0, memory_order_relaxed),
                 about, fmt, args);
        va_end(args);
    }
    errno = saved_errno;
}
