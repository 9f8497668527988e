/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends requests to the server and reads its answers. Each function connects and logs in first
 * if necessary. After a failure the reason is recorded by ctl_fail(), and the connection is
 * closed if its state is unknown. Spans that are returned are valid until the next call.
 */
#ifndef MAYFLY_CTL_ASK_H
#define MAYFLY_CTL_ASK_H

#include "ctl/ctl.h"
#include "lib/base/buf.h"
#include "lib/base/span.h"
#include "lib/link/link.h"

/* Connect and log in, unless that is done. */
enum ctl_status ask_connect(struct ctl *c);

/* Close the connection, if there is one; the next request opens another. */
void ask_disconnect(struct ctl *c);

/* Send bytes as they are; or a line, to which "\r\n" is added. */
enum ctl_status ask_bytes(struct ctl *c, struct span bytes);
enum ctl_status ask_line(struct ctl *c, const char *fmt, ...) MF_PRINTF(2, 3);

/*
 * Send words as a line, separated by spaces; the first is the command. quotes: quote words that
 * need it, as in mayfly.conf.
 */
enum ctl_status ask_words(struct ctl *c, const struct ctl_words *args, bool quotes);

/* Wait for the server to close the connection, which is the answer, or for its refusal. */
enum ctl_status ask_end(struct ctl *c);

/*
 * The status for a result of the link (lib/link/), and for the line that was read if there is
 * one: an error of the protocol is CTL_REFUSED.
 */
enum ctl_status ask_judge(struct ctl *c, enum link_result result, struct span line);

/*
 * Read the next line of the answer; ask_event(): without a time limit; ask_done(): its only
 * line, which must be "OK". An error of the protocol is CTL_REFUSED. `before` is the status of
 * sending the request, or of the previous line; if it is not CTL_OK it is returned.
 */
enum ctl_status ask_answer(struct ctl *c, enum ctl_status before, struct span *line);
enum ctl_status ask_event(struct ctl *c, enum ctl_status before, struct span *line);
enum ctl_status ask_done(struct ctl *c, enum ctl_status before);

/* Read the next n bytes; CTL_GARBLED if n exceeds the limit. */
#define ASK_VALUE_MAX ((size_t)2 << 30)
enum ctl_status ask_value(struct ctl *c, size_t n, struct span *value);

/* Record that a line of the answer is malformed, and close the connection. */
enum ctl_status ask_garbled(struct ctl *c, struct span line);

/* Bytes of the longest key. */
#define ASK_KEY_MAX 250

/* ---- statistics -------------------------------------------------------------------------- */

/* An answer of lines "STAT name value", in the order in which they came. */
#define STATS_BYTES_MAX (64u << 20)
#define STATS_ROWS_MAX  1000000u

struct stats_row {
    uint32_t at; /* of the name in the text; the value follows it */
    uint32_t name_len, value_len;
};

struct stats {
    struct buf text;
    struct buf rows; /* of struct stats_row */
    size_t count;
};

/* Release the memory; the answer is then empty, as a zeroed one is. */
void stats_fini(struct stats *s);

/* Ask "stats <section>", which may be empty; replaces the previous content of s. */
enum ctl_status ask_stats(struct ctl *c, const char *section, struct stats *s);

/*
 * The same for a section that not every server has: a refusal makes s empty. `before` is the
 * status of earlier requests; if it is not CTL_OK it is returned, and nothing is sent.
 */
enum ctl_status ask_stats_if_any(struct ctl *c, enum ctl_status before, const char *section,
                                 struct stats *s);

/* The i-th line. */
struct span stats_name(const struct stats *s, size_t i);
struct span stats_value(const struct stats *s, size_t i);

/* Add a line. False: the line is no statistic, there are too many, or no memory. */
bool stats_take(struct stats *s, struct span line);

/* The value of a name; false: there is no such line, or it is not a number. */
bool stats_find(const struct stats *s, const char *name, struct span *value);
bool stats_number(const struct stats *s, const char *name, double *value);
bool stats_is(const struct stats *s, const char *name, const char *value);

/* The number of a name; 0 if there is none. */
double stats_get(const struct stats *s, const char *name);

#endif
