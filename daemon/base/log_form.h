/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Formats a message for the thread that writes: as fields if the journal gets it, else as a
 * line of text or of JSON.
 */
#ifndef MAYFLY_DAEMON_BASE_LOG_FORM_H
#define MAYFLY_DAEMON_BASE_LOG_FORM_H

#include <stdarg.h>

#include "daemon/base/log_line.h"

/* See log_set_format(). */
void log_form_follow(const _Atomic uint32_t *format);

/* Are lines written as JSON now? Context: any thread. */
bool log_form_is_json(void);

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

#endif
