/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of a log that is written: see logfile.h.
 */
#include "lib/snapshot/logfile.h"

#include <errno.h>

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

void logfile_sync_begin(struct logfile *f, struct syncer *s)
{
    f->syncing = f->file.bytes;
    f->syncer = s;
    syncer_begin(s, f->file.fd);
}

bool logfile_sync_end(struct logfile *f)
{
    if (f->syncer != NULL) {
        if (newfile_flushed(&f->file, syncer_end(f->syncer))) {
            f->synced = f->syncing;
        }
        f->syncer = NULL;
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

bool logfile_put(struct logfile *f, const struct snap_block *b, char *block)
{
    uint64_t unsynced = f->file.bytes - f->synced;
    struct snap_block marked = *b;

    marked.unsynced = unsynced < SNAP_UNSYNCED_MAX ? (uint32_t)unsynced : SNAP_UNSYNCED_MAX;
    return snap_put_block(&f->encoder, &marked, block);
}

void logfile_seal(struct logfile *f, int64_t unix_ms)
{
    const struct snap_block b = {.kind = SNAP_ITEMS, .unix_ms = unix_ms};

    if (f->synced == f->file.bytes && logfile_put(f, &b, f->encoder.block)) {
        (void)newfile_flush(&f->file);
    }
}

void logfile_move(struct logfile *to, const struct logfile *from)
{
    *to = *from;
    to->encoder.arg = to;
    to->file.name = to->name;
}
