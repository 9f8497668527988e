/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writer of a log: see keylog_parts.h.
 *
 * A value in parts takes several blocks, which must be in one file. So the writer does not
 * begin a new log while it is within one.
 */
#include "lib/log/keylog_parts.h"

#include <errno.h>

#include "lib/engine/engine.h"

#define SYNC_MS 1000

/* Count slow writes and fsyncs. */
static void note_time(struct keylog *l, int64_t began_ms)
{
    int64_t ms = clock_mono_ms() - began_ms;

    if (ms > KEYLOG_SLOW_MS) {
        pthread_mutex_lock(&l->mutex);
        l->info.slow++;
        pthread_mutex_unlock(&l->mutex);
        l->cfg.on_slow(l->cfg.arg, (uint64_t)ms);
    }
}

static void note_file(struct keylog *l, uint64_t keys)
{
    pthread_mutex_lock(&l->mutex);
    if (keylog_is_open(l)) {
        l->info.was_good = l->out.file.error == 0;
    }
    l->info.keys += keys;
    l->info.all_bytes += l->out.file.bytes - l->out.counted;
    l->out.counted = l->out.file.bytes;
    l->info.bytes = l->out.file.bytes;
    l->info.unsynced = l->out.file.bytes - l->out.synced;
    pthread_mutex_unlock(&l->mutex);
}

/* Write the first of the next n blocks. Returns how many it wrote; 0: that failed. */
static unsigned put_blocks(struct keylog *l, unsigned n)
{
    const struct logfile_block *blocks = logfill_next(&l->fill);
    unsigned count = logfile_put(&l->out, blocks, n, logfill_is_full(&l->fill));
    uint64_t keys = 0;

    for (unsigned i = 0; i < count; i++) {
        keys += blocks[i].b.items;
    }
    note_file(l, keys); /* before the waiting bytes become 0 */
    return count;
}

/* Write the blocks that are ready. False: there was a gap. */
static bool write_pending(struct keylog *l)
{
    int64_t began = clock_mono_ms();
    bool is_good = true;
    bool has_written = false;
    unsigned n;

    while (is_good && (n = logfill_ready(&l->fill)) != 0) {
        if (keylog_is_open(l)) {
            n = put_blocks(l, n);
            is_good = n != 0;
            has_written = true;
        }
        for (; n != 0; n--) {
            l->is_in_value = logfill_next(&l->fill)->is_more;
            logfill_took(&l->fill);
        }
    }
    if (has_written) {
        note_time(l, began);
    }
    return is_good;
}

/* Start an fsync of the written bytes; the writer continues meanwhile. */
static void begin_sync(struct keylog *l)
{
    l->synced_ms = clock_mono_ms();
    if (l->out.is_open && l->out.synced != l->out.file.bytes) {
        logfile_sync_begin(&l->out, &l->syncing);
    }
}

/* Wait for the fsync in progress, if there is one. False: there was a gap. */
static bool end_sync(struct keylog *l)
{
    bool is_good = true;

    if (l->out.sync != NULL) {
        is_good = logfile_sync_end(&l->out);
        note_file(l, 0);
        note_time(l, l->synced_ms);
    }
    return is_good;
}

/* Sync the written bytes, and wait for it. False: there was a gap. */
static bool sync_file(struct keylog *l)
{
    bool is_good = end_sync(l);
    int64_t began = clock_mono_ms();

    if (is_good && l->out.is_open && l->out.synced != l->out.file.bytes) {
        is_good = logfile_sync(&l->out);
        note_file(l, 0);
        note_time(l, began);
    }
    l->synced_ms = clock_mono_ms();
    return is_good;
}

/* Complete and close the open file, and open the next one. Returns 0 or an errno. */
static int rotate(struct keylog *l)
{
    struct logfile next;
    int error;

    if (!keylog_is_open(l)) {
        logfile_close(&l->out); /* a failure of this close was reported earlier */
    }
    if (!write_pending(l) || (!l->is_in_value && !sync_file(l))) {
        error = l->out.file.error;
        keylog_on_gap(l, error);
        return error;
    }
    if (l->is_in_value) {
        return EAGAIN;
    }
    error = logfile_open(&next, l->cfg.io, l->cfg.dir, l->cfg.base,
                         clock_unix_ms(&l->cfg.engine->clock), l->next_chain, l->next_number);
    if (error != 0) {
        return error;
    }
    logfile_close(&l->out);
    logfile_move(&l->out, &next);
    pthread_mutex_lock(&l->mutex);
    if (!l->is_attached || keylog_state(l) == KEYLOG_STATE_VOID) {
        error = ENOBUFS; /* there was a gap meanwhile */
    } else {
        l->epoch = l->next_epoch;
        l->info.number = l->next_number;
        keylog_set_state(l, KEYLOG_STATE_OPEN);
    }
    pthread_mutex_unlock(&l->mutex);
    logfill_rotate(&l->fill, l->next_chain);
    note_file(l, 0);
    return error;
}

/* Are there blocks to be written now? Under the mutex. */
static bool has_enough(const struct keylog *l)
{
    uint64_t taken = logfill_taken(&l->fill);

    return taken < l->hurry_put || logfill_put(&l->fill) - taken >= LOGFILL_GATHER;
}

/* Milliseconds that the writer may sleep; -1: there is something to do. Under the mutex. */
static int64_t idle_ms(struct keylog *l)
{
    int64_t left = SYNC_MS;

    if ((!handoff_is_idle(&l->rotation) && !l->is_in_value) || has_enough(l) ||
        l->is_all_read || (keylog_may_finish(l) && l->mark_ticket > keylog_get(&l->done)) ||
        (l->out.is_open && !keylog_is_open(l))) {
        return -1;
    }
    if (l->out.sync != NULL) {
        return handoff_is_idle(&l->syncing) ? -1 : SYNC_MS;
    }
    if (l->out.is_open && l->out.synced != l->out.file.bytes &&
        atomic_load(&l->sync) != KEYLOG_SYNC_NO) {
        left = l->synced_ms + SYNC_MS - clock_mono_ms();
    } else if (l->out.is_open && l->out.synced == l->out.file.bytes) {
        left = INT64_MAX;
    }
    return left > 0 ? left : -1;
}

/*
 * Rotate, and return the result to the waiting caller. Under the mutex, which is released
 * meanwhile.
 */
static void answer_rotation(struct keylog *l)
{
    pthread_mutex_unlock(&l->mutex);
    int error = rotate(l);
    if (error != EAGAIN) {
        handoff_done(&l->rotation, error);
    }
    pthread_mutex_lock(&l->mutex);
}

/* Does a caller wait for the disk? */
static bool is_awaited(const struct keylog *l, uint32_t sync, uint64_t mark_ticket)
{
    uint64_t done = keylog_get(&l->done);

    return mark_ticket > done && (sync == KEYLOG_SYNC_ALWAYS || atomic_load(&l->urgent) != 0);
}

/* One round of the writer's work. Context: the writer. */
static void write_some(struct keylog *l, uint64_t mark_put, uint64_t mark_ticket, bool is_last)
{
    uint32_t sync = atomic_load(&l->sync);

    if (l->out.is_open && !keylog_is_open(l)) {
        logfile_close(&l->out);
    }
    bool is_good = write_pending(l);
    if (is_good && (is_last || is_awaited(l, sync, mark_ticket))) {
        is_good = sync_file(l);
    } else if (is_good && handoff_is_idle(&l->syncing)) {
        is_good = end_sync(l);
        if (is_good && sync != KEYLOG_SYNC_NO && clock_mono_ms() - l->synced_ms >= SYNC_MS) {
            begin_sync(l);
        }
    }
    if (!is_good) {
        keylog_on_gap(l, l->out.file.error);
    } else if (mark_put <= logfill_taken(&l->fill) && keylog_may_finish(l)) {
        keylog_finish(l, mark_ticket);
    }
}

static void keylog_write(void *arg)
{
    struct keylog *l = arg;
    bool is_over = false;

    pthread_mutex_lock(&l->mutex);
    while (!is_over) {
        int64_t ms = idle_ms(l);

        if (ms >= 0) {
            if (ms == INT64_MAX) {
                l->synced_ms = clock_mono_ms();
                pthread_cond_wait(&l->changed, &l->mutex);
            } else {
                keylog_wait_ms(l, ms);
            }
            continue;
        }
        if (!handoff_is_idle(&l->rotation) && !l->is_in_value) {
            answer_rotation(l);
            continue;
        }
        uint64_t mark_put = l->mark_put;
        uint64_t mark_ticket = l->mark_ticket;

        is_over = l->is_all_read;
        pthread_mutex_unlock(&l->mutex);
        write_some(l, mark_put, mark_ticket, is_over);
        pthread_mutex_lock(&l->mutex);
    }
    pthread_mutex_unlock(&l->mutex);
    if (l->out.is_open && keylog_is_open(l) && !l->is_in_value) {
        logfile_seal(&l->out, clock_unix_ms(&l->cfg.engine->clock));
    }
    logfile_close(&l->out);
}

/* Calls fsync while the writer continues. The writer closes the file only when this is done. */
static void keylog_sync(void *arg)
{
    struct keylog *l = arg;

    while (handoff_take(&l->syncing) >= 0) {
        bool is_good = l->cfg.io->fsync(l->out.file.fd) == 0;

        handoff_done(&l->syncing, is_good ? 0 : errno != 0 ? errno : EIO);
    }
}

const struct thread_kind keylog_writer = {.name = "log writer", .run = keylog_write};
const struct thread_kind keylog_syncer = {.name = "log sync", .run = keylog_sync};
