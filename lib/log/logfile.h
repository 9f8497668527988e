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
    bool is_buffered;     /* direct writes are impossible here */
    uint64_t synced;      /* bytes that are durable: whole blocks */
    uint64_t syncing;     /* bytes that are durable once `sync` is done */
    struct handoff *sync; /* [borrowed] the fsync in progress; NULL: none */
    uint64_t counted;     /* bytes that the owner has counted */
};

/*
 * Create the log with this number, and write its header, durably. `dir` is kept, not copied.
 * Returns 0 or an errno. Context: outside a section, as for the rest.
 */
int logfile_open(struct logfile *f, const struct io_calls *io, const char *dir,
                 const char *base, int64_t unix_ms, uint64_t chain, uint64_t number);

/*
 * Append the first of these n blocks, or several by one write: blocks that nearly fill their
 * memory and are adjacent there. Each block records how much of the file is durable. A long
 * block is followed by a PAD and written directly, past the page cache, if possible. Not if
 * in_haste: the page cache takes it sooner than the disk. Returns the number of blocks
 * appended; 0: the write failed, see file.error.
 */
unsigned logfile_put(struct logfile *f, const struct logfile_block *blocks, unsigned n,
                     bool in_haste);

/*
 * If all bytes are durable, append a block that says so, and make it durable: bytes that are
 * missing later were then lost by the disk. Does nothing otherwise. No value may be incomplete.
 * A failure is harmless.
 */
void logfile_seal(struct logfile *f, int64_t unix_ms);

/* Move the struct to another address. */
void logfile_move(struct logfile *to, const struct logfile *from);

/*
 * Make the written bytes durable, and check that the file still has its name. False:
 * file.error. logfile_sync_begin() gives the work to another thread: that takes the slot of
 * `to`, calls fsync, and returns the slot with the errno. The file may be written to meanwhile.
 * logfile_sync_end() waits for it, and does nothing without a begin.
 */
bool logfile_sync(struct logfile *f);
void logfile_sync_begin(struct logfile *f, struct handoff *to);
bool logfile_sync_end(struct logfile *f);

/* Close the file, if it is open. */
void logfile_close(struct logfile *f);

#endif
