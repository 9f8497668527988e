/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a snapshot, or a log that belongs to one, up to its end or its first damage. It uses
 * the code of the daemon (lib/format/, lib/log/), so both come to the same result.
 */
#ifndef MAYFLY_CTL_EXAMINE_H
#define MAYFLY_CTL_EXAMINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ctl/json.h"
#include "lib/format/decode.h"
#include "lib/format/fault.h"
#include "lib/format/format.h"
#include "lib/log/keychain.h"

/* The state of a file, as an exit status; of several files the greatest counts. */
enum check_verdict {
    VERDICT_WHOLE = 0,
    VERDICT_DAMAGED = 1,
    VERDICT_OTHER = 65,     /* EX_DATAERR: not a snapshot, or its version is not supported */
    VERDICT_UNREADABLE = 66 /* EX_NOINPUT: it cannot be opened, or the disk cannot read it */
};

/* Elements of examined.blocks[], which counts blocks by kind; the last is for unknown kinds. */
#define EXAMINE_KINDS (SNAP_KIND_MAX + 2u)

/* Result of reading the logs beside a snapshot. */
struct examined_logs {
    uint64_t count;          /* intact logs before the first fault */
    uint64_t number;         /* of the last log, or of the faulty one; 0: there are none */
    bool is_torn;            /* the last one has a torn end, which a start cuts off */
    enum keychain_end end;   /* KEYCHAIN_DONE: no fault; never KEYCHAIN_NO_MEMORY */
    struct snap_fault fault; /* if KEYCHAIN_BAD */
};

/* What was found, up to the first damage. */
struct examined {
    struct snap_fault fault;   /* SNAP_FINE: the file is whole */
    struct snap_header header; /* if has_header */
    bool has_header;
    uint64_t bytes;                 /* up to the damage, or all */
    uint64_t blocks[EXAMINE_KINDS]; /* intact blocks */
    uint64_t packed;                /* of the blocks: compressed */
    uint64_t stored_bytes;          /* content of the blocks as stored in the file */
    uint64_t raw_bytes;             /* the same, uncompressed */
    uint64_t items;                 /* complete items, due or not */
    uint64_t in_parts;              /* of the items: in several blocks */
    uint64_t cut;                   /* large values that could not be kept until they were
                                       written */
    uint64_t expired;               /* of items: due at now_unix_ms */
    uint64_t forever;               /* of items: without a deadline */
    uint64_t key_bytes, value_bytes;
    uint64_t gone;             /* of a log: keys that were absent, not counted as items */
    uint64_t keys;             /* of a log: hashes of keys, perhaps of some several times */
    uint64_t synced;           /* of a log: bytes that an fsync had covered, according to its
                                  blocks */
    bool is_torn;              /* a log, damaged only after its last synced byte */
    int64_t last_unix_ms;      /* when the latest block was made; 0: there is none */
    int64_t flush_at;          /* unix ms: the earliest flush_all in it; INT64_MAX: none */
    int64_t due_unix_ms;       /* of a log: items due by then have expired; 0: unknown */
    struct examined_logs logs; /* of a snapshot; the caller's to fill in */
};

/*
 * Read a file through `read`, and fill in *x. now_unix_ms decides which items have expired.
 * False: no memory. Context: any thread.
 */
bool examine(struct examined *x, snap_read_fn read, void *arg, int64_t now_unix_ms);

/* Is it a log of keys (lib/log/keylog.h), rather than a snapshot? */
static inline bool examine_is_log(const struct examined *x)
{
    return x->has_header && (x->header.flags & SNAP_IS_LOG) != 0;
}

/* The verdict on the file and on its logs, x->logs. */
enum check_verdict examine_verdict(const struct examined *x);

/*
 * The number of items that a start with load=salvage would restore now: those before the damage
 * that have not expired; 0 if a flush_all applies by now. A start with load=yes restores the
 * same number from an intact file, else none.
 */
uint64_t examine_salvage(const struct examined *x, int64_t now_unix_ms);

/* ---- the logs of a snapshot -------------------------------------------------------------- */

/*
 * Checks the logs of a snapshot (lib/log/keychain.h): are all logs present that the server
 * would load with it, and are they complete? Nothing is changed, not even an incomplete end.
 */

/*
 * Read the logs of the snapshot at this path that has this header. False: no memory. Context:
 * any thread.
 */
bool examine_logs(struct examined_logs *l, const char *path, const struct snap_header *h);

/* ---- report.c ---------------------------------------------------------------------------- */

/*
 * Prints the result for a file, as text or as JSON. Context: any thread.
 */

/*
 * A line that says whether the file is intact, or where it is damaged, then its content. The
 * name is escaped for terminals.
 */
void report_text(FILE *out, const char *name, const struct examined *x, int64_t now_unix_ms,
                 bool is_utf8);

/* The same as one JSON object. */
void report_json(struct json *j, const char *name, const struct examined *x,
                 int64_t now_unix_ms);

#endif
