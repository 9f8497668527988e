/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sections of `stats`. Private to stats*.c.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_PARTS_H
#define MAYFLY_DAEMON_STATS_STATS_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/mailbox.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/worker.h"
#include "lib/base/buf.h"
#include "lib/base/check.h"

/* ---- stats_out.c ------------------------------------------------------------------------- */

/*
 * Formats the lines of a statistics answer. If there is no memory for a line, that is recorded,
 * and the whole answer is replaced by an error at its end.
 */

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

/* ---- stats_gather.c ---------------------------------------------------------------------- */

/*
 * Answers that need other workers, or more time than one turn. A message goes from worker to
 * worker, is a task of each until its work there is done, and returns to the requesting worker,
 * which completes the answer. Only one thread at a time has it, so it needs no lock.
 *
 * A long answer is sent in portions. Whenever GATHER_PORTION_BYTES are ready, the message
 * returns to its first worker, and stays there until the client has received them. So clients
 * that do not read hold little memory.
 */

/* Text that makes a portion. */
#define GATHER_PORTION_BYTES (8u * 1024)

enum gather_stage { GATHER_VISITS, GATHER_FINISHES, GATHER_IS_DROPPED };

/* The result of finish(). */
enum gather_end {
    GATHER_AGAIN, /* visit all workers once more */
    GATHER_DONE,
};

/* The functions of one kind of gathered answer. */
struct gather_kind {
    size_t size; /* of a gather with what follows it; zero at the beginning */

    /* Work on one worker until stats_gather_pauses(). True: done there. Context: worker w. */
    bool (*visit)(struct stats_gather *g, struct worker *w);
    /*
     * All workers were visited: append the remaining text, and release the gather's memory
     * unless all will be visited again. May be NULL. Context: the requesting worker.
     */
    enum gather_end (*finish)(struct stats_gather *g);
    /*
     * The answer was cancelled: release the gather's memory. May be NULL. Context: worker w,
     * which was or would have been visited next; or the requesting worker.
     */
    void (*drop)(struct stats_gather *g, struct worker *w);
};

extern const struct gather_kind gather_conns;   /* `stats conns`: all sockets */
extern const struct gather_kind gather_hotkeys; /* the most requested keys */
extern const struct gather_kind gather_bigkeys; /* the largest items, by a walk over all */
extern const struct gather_kind gather_detail;  /* `stats detail dump`: PREFIX lines */

/* The first member of the struct of each kind of answer, which is one block of mem_alloc(). */
struct stats_gather {
    const struct gather_kind *kind;

    struct message message;
    struct task task;     /* of the worker that has it */
    struct worker *asker; /* [borrowed] */
    uint32_t next;        /* the worker that is visited next */
    uint32_t workers;     /* workers that existed when it began; these are visited */
    enum gather_stage stage;
    bool was_dropped;
    struct stats_out out;
    stats_done_fn done;
    void *done_arg;
};

/*
 * Start a gather, on the first worker. It counts in later_count of the asker until done was
 * called for the last time. Same contract as stats_command(). Context: worker.
 */
enum stats_result stats_gather_begin(const struct gather_kind *kind, struct worker *asker,
                                     struct buf *out, stats_done_fn done, void *arg);

/* Is the slice over, or a portion complete? Context: worker w, which has it. */
bool stats_gather_pauses(const struct stats_gather *g, const struct worker *w);

/* ---- stats_parts.c ----------------------------------------------------------------------- */

/*
 * Those that are answered at once: each appends its lines except the last one. Context: worker,
 * outside a read-side section and outside a shard.
 */

/* stats_general.c */
void stats_general(struct worker *w, struct stats_out *o);
void stats_items(struct worker *w, struct stats_out *o);
void stats_slabs(struct worker *w, struct stats_out *o);
void stats_settings(struct worker *w, struct stats_out *o);
void stats_expire(struct worker *w, struct stats_out *o);
void stats_shards(struct worker *w, struct stats_out *o);

/* stats_tables.c */
void stats_budgets(struct worker *w, struct stats_out *o);
void stats_moves(struct worker *w, struct stats_out *o);
void stats_persistence(struct worker *w, struct stats_out *o);
void stats_replication(struct worker *w, struct stats_out *o);

/* stats_latency.c */
void stats_latency(struct worker *w, struct stats_out *o);
void stats_latency_workers(struct worker *w, struct stats_out *o);

/*
 * `stats sizes`: counts of items by size, in steps of 32 bytes. They are counted by a walk over
 * all items, which is a task of the worker that was asked. Clients that ask during a walk share
 * the next one, so each sees the items that it stored before. Same contract as stats_command().
 */
enum stats_result stats_sizes(struct worker *w, struct buf *out, stats_done_fn done, void *arg);

/* Maximum number of prefixes with a separate row: of a worker, and in a dump. */
#define DETAIL_PREFIXES_MAX 10000u

#endif
