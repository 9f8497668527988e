/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of a log that is written: see logfile.h.
 */
#include "lib/snapshot/logfile.h"

#include <errno.h>

#include "lib/base/check.h"

/* For shorter blocks a wait for the disk is not worth it. */
#define LONG_BYTES (64u * 1024)

static bool write_bytes(void *arg, const void *bytes, size_t n)
{
    return newfile_write(&((struct logfile *)arg)->file, bytes, n);
}

bool logfile_sync(struct logfile *f)
{
    uint64_t bytes = f->file.bytes;

    if (!logfile_sync_end(f) || !newfile_flush(&f->file)) {
        return false;
    }
    f->synced = bytes;
    return true;
}

void logfile_sync_begin(struct logfile *f, struct handoff *to)
{
    f->syncing = f->file.bytes;
    f->sync = to;
    must(handoff_give(to));
}

bool logfile_sync_end(struct logfile *f)
{
    if (f->sync != NULL) {
        if (newfile_flushed(&f->file, handoff_wait(f->sync, 0, HANDOFF_EVER))) {
            f->synced = f->syncing;
        }
        f->sync = NULL;
    }
    return f->file.error == 0;
}

void logfile_close(struct logfile *f)
{
    if (f->is_open) {
        (void)logfile_sync_end(f);
        snap_encoder_fini(&f->encoder);
        newfile_end(&f->file);
        f->is_open = false;
    }
}

int logfile_open(struct logfile *f, const struct io_calls *io, const char *dir,
                 const char *base, int64_t unix_ms, uint64_t chain, uint64_t number)
{
    struct snap_header h = {
        .unix_ms = unix_ms, .flags = SNAP_IS_LOG, .chain = chain, .log = number};
    int error;

    *f = (struct logfile){.is_open = false};
    if (!keychain_name(f->name, base, number)) {
        return ENAMETOOLONG;
    }
    if (!newfile_begin(&f->file, io, dir, f->name)) {
        return f->file.error;
    }
    if (!snap_encoder_begin(&f->encoder, write_bytes, f, &h, false)) {
        error = f->file.error != 0 ? f->file.error : ENOMEM;
        newfile_end(&f->file);
        return error;
    }
    f->is_open = true;
    if (!newfile_flush(&f->file) || !newfile_name(&f->file)) {
        error = f->file.error;
        logfile_close(f);
        /* If it has its name: the log that goes on may be cut only while it is the last. */
        (void)newfile_remove(io, dir, f->name);
        return error;
    }
    f->synced = f->file.bytes;
    return 0;
}

/* Bytes from there to where a page begins; as many as a block has at least. */
static uint32_t rest_of_page(uint64_t from)
{
    uint64_t used = (from + SNAP_BLOCK_BYTES) % NEWFILE_ALIGN;

    return SNAP_BLOCK_BYTES + (used != 0 ? (uint32_t)(NEWFILE_ALIGN - used) : 0);
}

bool logfile_put(struct logfile *f, const struct snap_block *b, char *room, bool in_haste)
{
    uint64_t unsynced = f->file.bytes - f->synced;
    struct snap_block marked = *b;
    bool is_direct;
    bool is_good;

    marked.unsynced = unsynced < SNAP_UNSYNCED_MAX ? (uint32_t)unsynced : SNAP_UNSYNCED_MAX;
    /* The parts of a value follow each other. */
    if (f->is_buffered || b->stored < LONG_BYTES || b->kind == SNAP_VALUE) {
        newfile_go_buffered(&f->file);
        return snap_put_block(&f->encoder, &marked, room);
    }
    is_direct = !in_haste && f->file.bytes % NEWFILE_ALIGN == 0;
    if (!is_direct) {
        newfile_go_buffered(&f->file);
    } else if (!f->file.is_direct) {
        newfile_go_direct(&f->file);
    }
    is_good = snap_put_padded(&f->encoder, &marked, room,
                              rest_of_page(f->file.bytes + SNAP_BLOCK_BYTES + b->stored));
    f->is_buffered = is_direct && !f->file.is_direct; /* the file system does not want it */
    return is_good;
}

void logfile_seal(struct logfile *f, int64_t unix_ms)
{
    const struct snap_block b = {.kind = SNAP_ITEMS, .unix_ms = unix_ms};

    if (f->synced == f->file.bytes && snap_put_block(&f->encoder, &b, f->encoder.block)) {
        (void)newfile_flush(&f->file);
    }
}

void logfile_move(struct logfile *to, const struct logfile *from)
{
    *to = *from;
    to->encoder.arg = to;
    to->file.name = to->name;
}
