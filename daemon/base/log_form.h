/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Formats a message for the thread that writes: as fields if the journal gets it, else as a
 * line of text or of JSON.
 */
#ifndef MAYFLY_DAEMON_BASE_LOG_FORM_H
#define MAYFLY_DAEMON_BASE_LOG_FORM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/log_line.h"
#include "lib/base/span.h"

/* Compose a message, as log_line() does. about may be NULL. Context: any thread. */
size_t log_form_compose(char out[LOG_LINE_BYTES], enum log_level level, uint32_t left_out,
                        const struct log_about *about, const char *fmt, va_list args)
    MF_PRINTF(5, 0);

/* ---- log_json.c -------------------------------------------------------------------------- */

/*
 * Messages as JSON: one object a line, with time (RFC 3339, UTC), level, area (what the message
 * is about, its first word), thread, peer and user where there is one, left_out (a number: how
 * many messages like it were not written) where there were some, and message. Bytes that are
 * not UTF-8 become U+FFFD, so a line is valid whatever a client sent.
 */

/* Compose a line, as log_line() does. about may be NULL. Context: any thread. */
size_t log_json_compose(char out[LOG_LINE_BYTES], enum log_level level, uint32_t left_out,
                        const struct log_about *about, const char *fmt, va_list args)
    MF_PRINTF(5, 0);

/* ---- log_writer.c ------------------------------------------------------------------------ */

/*
 * The thread that writes the log. If standard error is a pipe that nobody reads or a terminal
 * that was stopped, only this thread waits. Before it runs and after it has stopped, callers
 * write their lines themselves; no client is connected then.
 */

/* Is the thread running, so that clients may be connected? Context: any thread. */
bool log_writer_is_on(void);

/*
 * Write a line, or hand it to the thread. False: it was dropped. Never waits while the thread
 * runs. Context: any thread.
 */
bool log_writer_put(struct span line);

/* ---- log_journal.c ----------------------------------------------------------------------- */

/*
 * A client of systemd's journal: one datagram with fields for each message, in the format of
 * systemd.io/JOURNAL_NATIVE_PROTOCOL. notify.c says why libsystemd is not used.
 *
 * Fields: PRIORITY, SYSLOG_IDENTIFIER, MAYFLY_AREA (what the message is about, its first word),
 * MAYFLY_THREAD, MAYFLY_PEER and MAYFLY_USER where there is one, MESSAGE. The journal adds the
 * process, the unit and the time.
 */

/* The path of the journal's socket. */
#define LOG_JOURNAL_SOCKET "/run/systemd/journal/socket"

/*
 * Send messages to the socket with this path from now on. Returns false if no process listens
 * there, and nothing has changed. Context: main, before start.
 */
bool log_journal_open(const char *path);

/* Send messages to standard error again. Context: main, no other thread logs. */
void log_journal_close(void);

/* Is it in use? Context: any thread. */
bool log_journal_is_on(void);

/*
 * Compose a message, as log_line() does. about may be NULL. Context: any thread.
 */
size_t log_journal_compose(char out[LOG_LINE_BYTES], enum log_level level, uint32_t left_out,
                           const struct log_about *about, const char *fmt, va_list args)
    MF_PRINTF(5, 0);

/*
 * Send a composed message. waits: wait for room in the socket. False: the journal did not take
 * it. Context: any thread.
 */
bool log_journal_send(struct span message, bool waits);

/*
 * Turn a composed message into the line that standard error gets in its place, where the
 * journal may be as well; returns its length. Context: any thread.
 */
size_t log_journal_as_line(struct span message, char out[LOG_LINE_BYTES]);

#endif
