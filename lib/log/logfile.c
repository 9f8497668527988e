/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of a log that is written: see logfile.h.
 */
#include "lib/log/logfile.h"

#include <errno.h>

#include "lib/base/check.h"

/* For shorter blocks a wait for the disk is not worth it. */
#define LONG_BYTES (64u * 1024)

static bool write_bytes(void *arg, const void *bytes, size_t n)
{
    return newfile_write(&((struct logfile *)arg)->file, bytes, n);
}

/*
 * Would a start find the file? An fsync succeeds even if the file or its folder was removed or
 * renamed. False: f->file.error.
 */
static bool has_name(struct logfile *f)
{
    return newfile_flushed(
        &f->file, f->file.io->check_name(f->file.fd, f->dir, f->name) == 0 ? 0 : errno);
}

bool logfile_sync(struct logfile *f)
{
    uint64_t bytes = f->file.bytes;

    if (!logfile_sync_end(f) || !newfile_flush(&f->file) || !has_name(f)) {
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
        if (newfile_flushed(&f->file, handoff_wait(f->sync, 0, HANDOFF_EVER)) && has_name(f)) {
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

    *f = (struct logfile){.dir = dir};
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
        /*
         * In case it has its name: the previous log may have a torn end only while it is the
         * last.
         */
        (void)newfile_remove(io, dir, f->name);
        return error;
    }
    f->synced = f->file.bytes;
    return 0;
}

/* Bytes from this offset to the start of a page; at least the length of a block's header. */
static uint32_t rest_of_page(uint64_t from)
{
    uint64_t used = (from + SNAP_BLOCK_BYTES) % NEWFILE_ALIGN;

    return SNAP_BLOCK_BYTES + (used != 0 ? (uint32_t)(NEWFILE_ALIGN - used) : 0);
}

/* A copy of the block that records how much of the file is durable. */
static struct snap_block marked(const struct logfile *f, const struct snap_block *b, size_t at)
{
    uint64_t unsynced = f->file.bytes + at - f->synced;
    struct snap_block marked = *b;

    marked.unsynced = unsynced < SNAP_UNSYNCED_MAX ? (uint32_t)unsynced : SNAP_UNSYNCED_MAX;
    return marked;
}

/* The parts of a value follow each other, without a PAD between. */
static bool is_long(const struct snap_block *b)
{
    return b->stored >= LONG_BYTES && b->kind != SNAP_VALUE;
}

/* Bytes of the PAD that fills the room if one write can take the next block as well; else 0. */
static uint32_t rest_of_room(const struct logfile_block *block)
{
    const struct logfile_block *next = block + 1;
    uint32_t rest = (uint32_t)LOGFILE_ROOM_BYTES - SNAP_BLOCK_BYTES - block->b.stored;

    return is_long(&next->b) && next->bytes == block->bytes + LOGFILE_ROOM_BYTES &&
                   rest < SNAP_BLOCK_BYTES + 2 * NEWFILE_ALIGN
               ? rest
               : 0;
}

/* Append long blocks, which begin where a page does, with one write. Returns their number. */
static unsigned put_run(struct logfile *f, const struct logfile_block *blocks, unsigned n)
{
    unsigned count = 0;
    size_t bytes = 0;
    uint32_t rest, more;

    do {
        const struct logfile_block *block = &blocks[count++];
        const struct snap_block b = marked(f, &block->b, bytes);

        rest = count < n ? rest_of_room(block) : 0;
        more = rest != 0 ? rest : rest_of_page(SNAP_BLOCK_BYTES + b.stored);
        bytes += snap_seal_padded(&f->encoder, &b, block->bytes, more);
    } while (rest != 0);
    return snap_put_sealed(&f->encoder, blocks->bytes, bytes) ? count : 0;
}

/* Append a block through the page cache, with a PAD of `more` bytes; 0: without one. */
static unsigned put_buffered(struct logfile *f, const struct logfile_block *block,
                             uint32_t more)
{
    const struct snap_block b = marked(f, &block->b, 0);

    newfile_go_buffered(&f->file);
    if (more == 0) {
        return snap_put_block(&f->encoder, &b, block->bytes) ? 1 : 0;
    }
    size_t bytes = snap_seal_padded(&f->encoder, &b, block->bytes, more);
    return snap_put_sealed(&f->encoder, block->bytes, bytes) ? 1 : 0;
}

unsigned logfile_put(struct logfile *f, const struct logfile_block *blocks, unsigned n,
                     bool in_haste)
{
    size_t bytes = SNAP_BLOCK_BYTES + blocks->b.stored;
    uint32_t more = rest_of_page(f->file.bytes + bytes);

    if (f->is_buffered || !is_long(&blocks->b)) {
        return put_buffered(f, blocks, 0);
    }
    if (in_haste || f->file.bytes % NEWFILE_ALIGN != 0) {
        return put_buffered(f, blocks, bytes + more <= LOGFILE_ROOM_BYTES ? more : 0);
    }
    if (!f->file.is_direct) {
        newfile_go_direct(&f->file);
    }
    n = put_run(f, blocks, n);
    f->is_buffered = !f->file.is_direct; /* the file system does not want it */
    return n;
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
