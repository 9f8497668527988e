/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Formats one line of the log as text; log.h describes the form.
 */
#ifndef MAYFLY_DAEMON_BASE_LOG_LINE_H
#define MAYFLY_DAEMON_BASE_LOG_LINE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/log.h"
#include "lib/base/span.h"

/* Size of a line with its newline. PIPE_BUF would allow more, but some readers do not. */
#define LOG_LINE_BYTES 1024

/*
 * Choose the journal's or the plain form by what standard error is now; true: it is the
 * journal. Context: main, before start.
 */
bool log_line_choose_form(void);

/* The plain form, whatever standard error is. Context: main, before the log's thread runs. */
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

#endif
