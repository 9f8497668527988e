/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of systemd's journal: one datagram with fields for each message, in the format of
 * systemd.io/JOURNAL_NATIVE_PROTOCOL. notify.c says why libsystemd is not used.
 *
 * Fields: PRIORITY, SYSLOG_IDENTIFIER, MAYFLY_AREA (what the message is about, its first word),
 * MAYFLY_THREAD, MAYFLY_PEER and MAYFLY_USER where there is one, MESSAGE. The journal adds the
 * process, the unit and the time.
 */
#ifndef MAYFLY_DAEMON_BASE_LOG_JOURNAL_H
#define MAYFLY_DAEMON_BASE_LOG_JOURNAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/log_line.h"
#include "lib/base/span.h"

/* Where the journal listens. */
#define LOG_JOURNAL_SOCKET "/run/systemd/journal/socket"

/*
 * Send messages to the socket with this path from now on. Returns false if no process listens
 * there, and nothing has changed. Context: main, before start.
 */
bool log_journal_open(const char *path);

/* Back to standard error. Context: main, no other thread logs. */
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
 * Send a composed message. waits: until there is room, or else not at all. False: the journal
 * does not take it. Context: any thread.
 */
bool log_journal_send(struct span message, bool waits);

/*
 * Turn a composed message into the line that standard error gets in its place, where the
 * journal may be as well; returns its length. Context: any thread.
 */
size_t log_journal_as_line(struct span message, char out[LOG_LINE_BYTES]);

#endif
