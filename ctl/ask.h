/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to the server, and its answers. Each function connects if necessary, and logs in.
 * Failures are reported by ctl_fail(), and the connection is closed where its state is unknown.
 */
#ifndef MAYFLY_CTL_ASK_H
#define MAYFLY_CTL_ASK_H

#include "ctl/ctl.h"
#include "lib/base/buf.h"
#include "lib/base/span.h"
#include "lib/link/link.h"

/* Connect and log in, unless that is done. */
enum ctl_status ask_connect(struct ctl *c);

/* Close the connection, if there is one; the next question opens another. */
void ask_disconnect(struct ctl *c);

/* Send bytes as they are; or a line, "\r\n" is added. */
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
 * What became of a line that was asked for, by the link itself: the line may be an error of the
 * protocol, which is CTL_REFUSED.
 */
enum ctl_status ask_judge(struct ctl *c, enum link_result result, struct span line);

/* The next line of the answer. An error of the protocol is CTL_REFUSED. */
enum ctl_status ask_answer(struct ctl *c, struct span *line);

/*
 * Read the first line of the answer to what was sent with this status; ask_done(): the only
 * line, which is "OK".
 */
enum ctl_status ask_first(struct ctl *c, enum ctl_status sent, struct span *line);
enum ctl_status ask_done(struct ctl *c, enum ctl_status sent);

/* The next line, however long it takes. */
enum ctl_status ask_event(struct ctl *c, struct span *line);

/* The next n bytes; over the limit it is CTL_GARBLED. */
#define ASK_VALUE_MAX ((size_t)2 << 30)
enum ctl_status ask_value(struct ctl *c, size_t n, struct span *value);

/* The answer is not what it should be. The connection is closed. */
enum ctl_status ask_garbled(struct ctl *c, struct span line);

/* Bytes of the longest key. */
#define ASK_KEY_MAX 250

/* ---- statistics -------------------------------------------------------------------------- */

/* An answer of lines "STAT name value", in the order in which they came. */
#define STATS_BYTES_MAX (64u << 20)
#define STATS_ROWS_MAX  1000000u

struct stats_row {
    uint32_t name_at, value_at; /* in the text */
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
 * The same of a section that not every server has: a refusal is an empty answer. Asks nothing
 * if `before`, the status of earlier questions, is not CTL_OK, and returns that.
 */
enum ctl_status ask_stats_if_any(struct ctl *c, enum ctl_status before, const char *section,
                                 struct stats *s);

/* The i-th line. */
struct span stats_name(const struct stats *s, size_t i);
struct span stats_value(const struct stats *s, size_t i);

/* Take a line over. False: it is no statistic, too many, or no memory. */
bool stats_take(struct stats *s, struct span line);

/* The value of a name; false: there is no such line, or it is not a number. */
bool stats_find(const struct stats *s, const char *name, struct span *value);
bool stats_number(const struct stats *s, const char *name, double *value);
bool stats_is(const struct stats *s, const char *name, const char *value);

/* The same where 0 is as good as nothing. */
double stats_get(const struct stats *s, const char *name);

#endif
