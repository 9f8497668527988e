/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log file (keylog.h) being written. It gets its name, durably, when it is begun, and is then
 * appended to. Used by one thread at a time.
 */
#ifndef MAYFLY_LIB_LOG_LOGFILE_H
#define MAYFLY_LIB_LOG_LOGFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/handoff.h"
#include "lib/format/encode.h"
#include "lib/format/newfile.h"
#include "lib/log/keychain.h"

/* Bytes of memory for a block that is to be appended and its PAD, aligned by NEWFILE_ALIGN. */
#define LOGFILE_ROOM_BYTES                                                                     \
    ((SNAP_ROOM_BYTES + SNAP_BLOCK_BYTES + NEWFILE_ALIGN - 1) / NEWFILE_ALIGN * NEWFILE_ALIGN)

/* A block that was filled elsewhere. */
struct logfile_block {
    struct snap_block b;
    char *bytes;  /* of LOGFILE_ROOM_BYTES */
    bool is_more; /* the next block continues the same value: it must follow in the file */
};

struct logfile {
    struct newfile file;
    struct snap_encoder encoder;
    const char *dir; /* [borrowed] */
    char name[KEYCHAIN_NAME_MAX];
    bool is_open;
    bool is_buffered;     /* by the system, as it has to be */
    uint64_t synced;      /* bytes that are durable: whole blocks */
    uint64_t syncing;     /* bytes that will be, when this is done: */
    struct handoff *sync; /* [borrowed] NULL: no fsync is in progress */
    uint64_t counted;     /* bytes that the owner has counted */
};

/*
 * Make the log of this number, with a header, durably. `dir` stays. Returns 0 or an errno.
 * Context: outside a section; as the rest.
 */
int logfile_open(struct logfile *f, const struct io_calls *io, const char *dir,
                 const char *base, int64_t unix_ms, uint64_t chain, uint64_t number);

/*
 * Append the first of these n blocks, or several that one write takes: those that nearly fill
 * their memory, if that of the next one follows. Each notes how much of the file is durable.
 * One that is long is followed by a PAD, and goes past the memory of the system if that can be,
 * unless in_haste: then the system takes it sooner than the disk does. Returns the number of
 * blocks appended; 0: the write failed, file.error.
 */
unsigned logfile_put(struct logfile *f, const struct logfile_block *blocks, unsigned n,
                     bool in_haste);

/*
 * Append that all before is durable, durably: from now on whatever is not there was lost by the
 * disk. Unless something is not; no value is under way. That it fails is no harm.
 */
void logfile_seal(struct logfile *f, int64_t unix_ms);

/* It is at another place from now on. */
void logfile_move(struct logfile *to, const struct logfile *from);

/*
 * Make durable what was written, under its name. False: file.error. Between begin and end
 * another thread takes the slot of `to`, calls fsync, and is done with its errno. The file may
 * be written to meanwhile; end waits, and does nothing if there was no begin.
 */
bool logfile_sync(struct logfile *f);
void logfile_sync_begin(struct logfile *f, struct handoff *to);
bool logfile_sync_end(struct logfile *f);

/* Nothing is done if it is not open. */
void logfile_close(struct logfile *f);

#endif
