/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one line per event, to standard error, with the priority prefixes of the journal
 * when that is where it leads. The form is
 *
 *     log_warn("listener, cannot bind %s (%s)", where, why);
 *
 * subject, comma, what happened, cause in parentheses; lower case, no full stop. Values are
 * never logged, keys only at debug.
 *
 * A line is put together on the stack and written by one write(2), so lines of threads do not
 * mix; a line that is too long is cut. Warnings are limited per call site: LOG_LIMIT_BURST in
 * LOG_LIMIT_S seconds, the next one that passes says how many were left out. Lines only ever go
 * to descriptor 2, which privs_open_std_fds() keeps from being a client's.
 */
#ifndef MAYFLY_DAEMON_BASE_LOG_H
#define MAYFLY_DAEMON_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/check.h"

/*
 * The higher, the less important. Error, warn and notice always show; -v adds info, -vv debug,
 * -vvv trace.
 */
enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_NOTICE,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_TRACE
};

#define LOG_LIMIT_BURST 5
#define LOG_LIMIT_S     10

/* What a call site of log_warn() remembers. */
struct log_limit {
    /* [atomic] */
    _Atomic int64_t window;    /* number of the LOG_LIMIT_S window it last spoke in */
    _Atomic uint32_t lines;    /* lines of that window */
    _Atomic uint32_t left_out; /* lines not written since the last one that was */
};

/*
 * Choose journal or plain form from what standard error is, and take the level from this
 * verbosity (borrowed for the life of the process; NULL: 0). Before this call the log works,
 * with the plain form and verbosity 0. Context: main, before start.
 */
void log_init(const _Atomic uint32_t *verbosity);

/* Would a line of this level be written? One relaxed load. Context: any thread. */
bool log_is_on(enum log_level level);

/* Write a line. Keeps errno. Context: any thread. */
void log_write(enum log_level level, const char *fmt, ...) MF_PRINTF(2, 3);

/* Write a warning if its call site may speak. Keeps errno. Context: any thread. */
void log_write_limited(struct log_limit *limit, const char *fmt, ...) MF_PRINTF(2, 3);

#define log_error(...)  log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_notice(...) log_write(LOG_LEVEL_NOTICE, __VA_ARGS__)

#define log_warn(...)                                                                          \
    do {                                                                                       \
        static struct log_limit log_limit_here_;                                               \
        log_write_limited(&log_limit_here_, __VA_ARGS__);                                      \
    } while (0)

/* The arguments of these are not evaluated when the level is off. */
#define log_at_(level, ...)                                                                    \
    do {                                                                                       \
        if (log_is_on(level)) {                                                                \
            log_write(level, __VA_ARGS__);                                                     \
        }                                                                                      \
    } while (0)
#define log_info(...)  log_at_(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at_(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_trace(...) log_at_(LOG_LEVEL_TRACE, __VA_ARGS__)

#endif
