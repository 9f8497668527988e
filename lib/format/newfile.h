/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic replacement of a file: whatever fails, and whenever the machine stops, the name has
 * either the old file or the new one. The new file is written under a temporary name, made
 * durable, then renamed.
 *
 * After a failed write or fsync the new file is removed. The fsync is not repeated: the kernel
 * may have dropped the pages that it could not write, and a second fsync would then succeed.
 */
#ifndef MAYFLY_LIB_FORMAT_NEWFILE_H
#define MAYFLY_LIB_FORMAT_NEWFILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/format/io.h"

/* Alignment of direct writes, in memory and in the file. */
#define NEWFILE_ALIGN ((size_t)4096)

/* Writeback is started after this many bytes, so that the final fsync finds little to do. */
#define NEWFILE_SYNC_BYTES ((uint64_t)32 << 20)

struct newfile {
    const struct io_calls *io; /* [borrowed] */
    const char *name;          /* [borrowed] in the folder */
    char temp[NAME_MAX + 1];
    int dir, fd;     /* -1: not open */
    bool is_direct;  /* writes bypass the page cache */
    uint64_t bytes;  /* written */
    uint64_t synced; /* of them, bytes whose writeback was started */
    int error;       /* errno of the first failure; 0: none */
};

/*
 * Begin to write a file for this name in this folder. A temporary file that an earlier process
 * has left is removed. False: f->error. Context: any thread, outside a section, as all of
 * these.
 */
bool newfile_begin(struct newfile *f, const struct io_calls *io, const char *dir,
                   const char *name);

/*
 * Write aligned bytes past the page cache from now on, if possible: for a long file that is not
 * about to be read. The second function ends that; a write that is not aligned does too.
 */
void newfile_go_direct(struct newfile *f);
void newfile_go_buffered(struct newfile *f);

/* Append. False: f->error; nothing more is written from then on. */
bool newfile_write(struct newfile *f, const void *bytes, size_t n);

/*
 * Make the written bytes durable; newfile_sync() also closes the file. Waits for the disk.
 * False: f->error.
 */
bool newfile_flush(struct newfile *f);
bool newfile_sync(struct newfile *f);

/*
 * Another thread did the fsync, with this errno or 0. Returns false and sets f->error likewise.
 */
bool newfile_flushed(struct newfile *f, int error);

/*
 * Replace the old file by the new one, which is durable. False: f->error. The old file is then
 * still in place, unless only the folder's fsync failed: after a crash it may be either.
 */
bool newfile_name(struct newfile *f);

/* End. Without a successful newfile_name() the new file is removed, and the old one stays. */
void newfile_end(struct newfile *f);

/*
 * Give a file another name, durably; `to` NULL: remove it, if it is there. Returns 0 or an
 * errno.
 */
int newfile_rename(const struct io_calls *io, const char *dir, const char *from,
                   const char *to);
int newfile_remove(const struct io_calls *io, const char *dir, const char *name);

#endif
