/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The base of the daemon, which every other folder of it may use. It knows no settings.
 *
 *   log.h       the log's interface; log_line: a line of text; log_json: a line of JSON;
 *               log_journal: messages with fields; log_form: selects one of these; log_file: a
 *               file to write to instead of standard error; log_writer: the thread that
 *               writes; log_ring: its queue
 *   machine.h   memory and CPUs that the machine and control groups allow
 *   mailbox.h   messages to a thread with a loop
 *   pool.h      threads for slow calls
 *   bytering.h  a queue of bytes from one thread to another
 *   path.c      absolute paths; file.h: small files in folders of another user
 *   file_edit.c atomic replacement of a file's content
 *   rawio.h     system calls of a request; prefetch.h: prefetching the bytes that they copy
 *   version.h   version and options of this build
 *
 * The folder may include lib/base.
 *
 * This file: the log. One line per event, to standard error; or to the journal, with fields,
 * when standard error is the journal. The form is
 *
 *     log_warn("listener, cannot bind %s (%s)", where, why);
 *
 * subject, comma, event, cause in parentheses; lower case, no full stop. Values are never
 * logged, keys only at debug.
 *
 * A line is composed on the stack and written by one write(2), so lines of threads do not mix;
 * a line that is too long is cut. All lines go to descriptor 2; privs_open_std_fds() makes sure
 * that it is never a client's.
 *
 * Logging never waits for standard error: between log_start() and log_stop() lines go into a
 * ring of fixed size, and a thread of the log writes them. When the ring is full, lines are
 * dropped and counted, and the log reports their number.
 *
 * During that time a call site writes at most LOG_LIMIT_BURST lines in LOG_LIMIT_S seconds, at
 * any level; the next line after that has the number of omitted ones. So no client can fill a
 * disk. Only log_notice() is not limited: it is for actions of the operator. Use
 * log_notice_limited() for notices that clients can cause.
 */
#ifndef MAYFLY_DAEMON_BASE_LOG_H
#define MAYFLY_DAEMON_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/counters.h"

/*
 * Ordered by falling importance. Error, warn and notice are always written; -v adds info, -vv
 * debug, -vvv trace.
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

/* The state of the limit of one call site. */
struct log_limit {
    uint32_t burst; /* [const] most lines of a window; 0: LOG_LIMIT_BURST */
    /* [atomic] */
    _Atomic int64_t window;    /* number of the LOG_LIMIT_S window of its last line */
    _Atomic uint32_t lines;    /* lines of that window */
    _Atomic uint32_t left_out; /* lines not written since the last one that was */
};

/* The client that a message is about, for the fields of the journal; NULL: none. */
struct log_about {
    const char *peer; /* [borrowed] address of a client */
    const char *user; /* [borrowed] */
};

/*
 * Choose where messages go, and take the level from this verbosity (borrowed for the life of
 * the process; NULL: 0). to: "stderr", "journal", the path of the journal's socket, or NULL:
 * the journal if standard error is it, else standard error. Standard error has the journal's
 * prefixes of priority if it is the journal. False: there is no journal, and messages go to
 * standard error. Before this call the log works with the plain form and verbosity 0. Context:
 * main, before start.
 */
bool log_init(const _Atomic uint32_t *verbosity, const char *to);

/* Values of log_set_format(), in the order of the words of log_format. */
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/*
 * Take the form of lines from this enum log_format (borrowed for the life of the process; NULL:
 * text). The journal gets fields in any case. Context: main, before start.
 */
void log_set_format(const _Atomic uint32_t *format);

/* Are lines written as JSON now? Context: any thread. */
bool log_is_json(void);

/*
 * Write the log to this file from now on. It is reopened if it is open, because it may have
 * been renamed. Returns false if it cannot be opened: *why has the reason, and nothing has
 * changed. Lines that the file does not take go to standard error. Context: main; the first
 * time before log_start().
 */
bool log_open_file(const char *path, const char **why);

/*
 * From now on lines are limited, and a thread writes them. False: the thread cannot be created,
 * and callers continue to write lines. Context: main, after the process went to the background,
 * before clients are served.
 */
bool log_start(void);

/*
 * Wait until the lines logged before the call are written, for at most a second. Context: main.
 */
void log_flush(void);

/*
 * End the thread once it has written all waiting lines. If that takes longer than a second, the
 * thread is abandoned, and later lines are dropped: a standard error that is not read must not
 * keep the process from exiting. Does nothing if the thread does not run. Context: main, after
 * clients were served.
 */
void log_stop(void);

/* Do messages go to the journal, in any form? Context: any thread, after log_init(). */
bool log_is_journal(void);

/* The counters of the log (writer ANY in counters.def). Context: any thread. */
const struct counters *log_counters(void);

/* Would a line of this level be written? One relaxed load. Context: any thread. */
bool log_is_on(enum log_level level);

/* Write a line. Keeps errno. Context: any thread. */
void log_write(enum log_level level, const char *fmt, ...) MF_PRINTF(2, 3);

/*
 * Write a line about a client (NULL: none) unless its call site is over the limit. Keeps errno.
 * Context: any thread.
 */
void log_write_about(struct log_limit *limit, enum log_level level,
                     const struct log_about *about, const char *fmt, ...) MF_PRINTF(4, 5);

/* The arguments are not evaluated when the level is off. */
#define log_about_(level, about, ...)                                                          \
    do {                                                                                       \
        static struct log_limit log_limit_here_;                                               \
        if (log_is_on(level)) {                                                                \
            log_write_about(&log_limit_here_, level, about, __VA_ARGS__);                      \
        }                                                                                      \
    } while (0)
#define log_at_(level, ...)        log_about_(level, NULL, __VA_ARGS__)
#define log_warn_about(about, ...) log_about_(LOG_LEVEL_WARN, about, __VA_ARGS__)
#define log_info_about(about, ...) log_about_(LOG_LEVEL_INFO, about, __VA_ARGS__)
#define log_error(...)             log_at_(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)              log_at_(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_notice(...)            log_write(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_notice_limited(...)    log_at_(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...)              log_at_(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)             log_at_(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_trace(...)             log_at_(LOG_LEVEL_TRACE, __VA_ARGS__)

#endif
