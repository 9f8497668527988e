/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Formats the lines of a statistics answer. If there is no memory for a line, that is noted,
 * and the whole answer is replaced at its end.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_OUT_H
#define MAYFLY_DAEMON_STATS_STATS_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/check.h"

struct stats_out {
    struct buf *buf; /* [borrowed] */
    char prefix[32]; /* comes before each name: "items:1:", "" */
    bool is_short;   /* there was no memory for some line */
};

static inline struct stats_out stats_out_to(struct buf *buf)
{
    return (struct stats_out){.buf = buf};
}

/* Set the prefix of the names that follow. Context: as below. */
void stats_prefix(struct stats_out *o, const char *fmt, ...) MF_PRINTF(2, 3);

/* "STAT <prefix><name> <value>\r\n" in several forms. Context: any thread, one at a time. */
void stats_put_u64(struct stats_out *o, const char *name, uint64_t value);
void stats_put_i64(struct stats_out *o, const char *name, int64_t value);
void stats_put_text(struct stats_out *o, const char *name, const char *value);
void stats_putf(struct stats_out *o, const char *name, const char *fmt, ...) MF_PRINTF(3, 4);

/* A line of another form, line end included. */
void stats_put_raw(struct stats_out *o, const char *line);

/*
 * Write END; or, when there was no memory for a line, an error in place of everything since
 * `start` (buf_len() at the beginning). False when there is no memory for that either. Context:
 * as above.
 */
bool stats_out_end(struct stats_out *o, size_t start);

#endif
