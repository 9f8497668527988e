/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Formats a message for the thread that writes: as fields if the journal gets it, else as a
 * line of text or of JSON.
 */
#ifndef MAYFLY_DAEMON_BASE_LOG_FORM_H
#define MAYFLY_DAEMON_BASE_LOG_FORM_H

#include <stdalign.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/log.h"
#include "lib/base/span.h"

/* ---- log_line.c -------------------------------------------------------------------------- */

/*
 * Formats one line of the log as text; log.h describes the form.
 */

/* Size of a line with its newline. PIPE_BUF would allow more, but some readers do not. */
#define LOG_LINE_BYTES 1024

/*
 * Choose the journal's form if standard error is the journal now, else the plain form. True: it
 * is the journal. Context: main, before start.
 */
bool log_line_choose_form(void);

/* Use the plain form in any case. Context: main, before the log's thread runs. */
void log_line_use_plain(void);

/* Is the journal's form in use? Context: any thread. */
bool log_line_is_journal(void);

/* The journal's number of a level, a digit. Context: any thread. */
char log_line_priority(enum log_level level);

/* The word of a level. Context: any thread. */
const char *log_line_word(enum log_level level);

/* The time now as RFC 3339 has it, in UTC. Fills text. Context: any thread. */
#define LOG_TIME_BYTES 40
const char *log_line_time(char text[LOG_TIME_BYTES]);

/*
 * The area of a message: its words up to the comma, also if they are its first argument; may be
 * empty. Context: any thread.
 */
struct span log_line_area(const char *fmt, va_list args);

/* Replace bytes that would end a line or move the cursor of a terminal. Context: any thread. */
void log_line_blank(char *text, size_t len);

/*
 * Compose the text of a line, cut to the room, its end included; returns its length, which is 0
 * when the format is malformed. left_out as below. Context: any thread.
 */
size_t log_line_text(char *out, size_t room, uint32_t left_out, const char *fmt, va_list args)
    MF_PRINTF(4, 0);

/*
 * Compose a line, including its end. Returns its length, or 0 if the format is malformed.
 * left_out: number of similar lines that were not written. Context: any thread.
 */
size_t log_line(char out[LOG_LINE_BYTES], enum log_level level, uint32_t left_out,
                const char *fmt, va_list args) MF_PRINTF(4, 0);

/* ---- log_form.c -------------------------------------------------------------------------- */

/* Compose a message, as log_line() does. about may be NULL. Context: any thread. */
size_t log_form_compose(char out[LOG_LINE_BYTES], enum log_level level, uint32_t left_out,
                        const struct log_about *about, const char *fmt, va_list args)
    MF_PRINTF(5, 0);

/* ---- log_json.c -------------------------------------------------------------------------- */

/*
 * Messages as JSON: one object per line, with time (RFC 3339, UTC), level, area (the subject of
 * the message, its first word), thread, peer and user if known, left_out (the number of similar
 * messages that were not written) if there were any, and message. Bytes that are not UTF-8
 * become U+FFFD, so a line is valid whatever a client sent.
 */

/* Compose a line, as log_line() does. about may be NULL. Context: any thread. */
size_t log_json_compose(char out[LOG_LINE_BYTES], enum log_level level, uint32_t left_out,
                        const struct log_about *about, const char *fmt, va_list args)
    MF_PRINTF(5, 0);

/* ---- log_writer.c ------------------------------------------------------------------------ */

/*
 * The thread that writes the log. If standard error is a pipe that is not read or a stopped
 * terminal, only this thread waits. Before it runs and after it has stopped, callers write
 * their lines themselves; no client is connected then.
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
 * Fields: PRIORITY, SYSLOG_IDENTIFIER, MAYFLY_AREA (the subject of the message, its first
 * word), MAYFLY_THREAD, MAYFLY_PEER and MAYFLY_USER if known, MESSAGE. The journal adds the
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
 * Convert a composed message to a line for standard error, which may be the journal too;
 * returns its length. Context: any thread.
 */
size_t log_journal_as_line(struct span message, char out[LOG_LINE_BYTES]);

/* ---- log_file.c -------------------------------------------------------------------------- */

/*
 * A log file that replaces standard error.
 */

/*
 * Open the file, and create it if it does not exist; it replaces the one that is open. Returns
 * false on failure: *why has the reason, and the previous one stays open. Context: main.
 */
bool log_file_open(const char *path, const char **why);

/* Close it. Context: main, no other thread logs. */
void log_file_close(void);

/* Its descriptor; -1: none is open. Context: any thread. */
int log_file_fd(void);

/* Could it be opened? Makes no file. Returns as log_file_open(). Context: main, at start. */
bool log_file_check(const char *path, const char **why);

/* ---- log_ring.c -------------------------------------------------------------------------- */

/*
 * A bounded queue of log lines from any thread to the thread that writes. No side waits for the
 * other. If the queue is full, a line is dropped, and the next line that fits carries the
 * number of dropped ones.
 */

/* Most lines that wait. About 130 KiB, of which only used pages become resident. */
#define LOG_RING_SLOTS 128

struct log_slot {
    /*
     * [atomic] the turn of the slot. A producer may use it when turn is its position less the
     * number of the slot, the consumer when it is that plus one. So it is 0 in an unused slot,
     * whose page need not be resident. Stored with release after the rest was written or read,
     * loaded with acquire.
     */
    _Atomic uint64_t turn;
    /* of the thread whose turn it is */
    uint32_t len;
    uint32_t dropped; /* lines dropped before this one */
    char text[LOG_LINE_BYTES];
};

struct log_ring {
    alignas(64) _Atomic uint64_t put;      /* [atomic] position of the next line */
    alignas(64) _Atomic uint32_t dropped;  /* [atomic] not reported by a line yet */
    uint64_t taken;                        /* [consumer] position of the oldest line */
    struct log_slot slots[LOG_RING_SLOTS]; /* a position's slot is its remainder */
};

/* Make an empty ring. Context: before it is shared. */
void log_ring_init(struct log_ring *r);

/*
 * Put a line of at most LOG_LINE_BYTES. False: there is no room, and the line is counted as
 * dropped. Context: any thread.
 */
bool log_ring_put(struct log_ring *r, struct span line);

/*
 * The oldest line; NULL when none is there, or when its producer has not finished it. Borrowed
 * until log_ring_drop(). Context: consumer.
 */
const struct log_slot *log_ring_front(const struct log_ring *r);

/* Make room in the place of the oldest line. Context: consumer. */
void log_ring_drop(struct log_ring *r);

/*
 * The number of dropped lines that no later line carries; it counts from 0 again. Context: any
 * thread.
 */
uint32_t log_ring_take_dropped(struct log_ring *r);

#endif
