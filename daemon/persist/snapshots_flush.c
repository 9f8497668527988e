/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replacing and removing the snapshot file.
 *
 * A save renames a new file to the snapshot's name. A flush, or a gap of the log, removes the
 * file and voids a save in progress: each starts an epoch. If the log records flushes, the file
 * stays.
 *
 * A flush may only be answered when the removal is durable, or the flush is in the log on the
 * disk. A separate thread does that, so no worker waits; not the thread of the saves, because a
 * save may take long.
 *
 * A file that cannot be removed is void: after a crash its outdated items would reappear. The
 * removal is retried each second; meanwhile no log is started, and with appendfsync=always
 * changes are refused.
 */
#include "daemon/persist/snapshots_parts.h"

#include <errno.h>
#include <string.h>

#include "daemon/base/log.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"
#include "lib/format/newfile.h"

/* Between two tries to remove a void file. */
#define RETRY_MS 1000

void snapshots_want_anew(struct snapshots *s)
{
    if (append_is_used(&s->append)) {
        pthread_mutex_lock(&s->mutex);
        s->wants |= KEEPER_WANTS_ANEW; /* delayed: one save is enough for many flushes */
        pthread_mutex_unlock(&s->mutex);
    }
}

/* ---- saves ------------------------------------------------------------------------------- */

bool snapshots_is_outdated(void *arg)
{
    struct snapshots *s = arg;

    return atomic_load(&s->base.now) != s->save_epoch || snapshots_are_less(s);
}

/*
 * The new file is about to be renamed. That is refused after a flush, or a gap of its log.
 * The file may have states that are not in the log yet, so that loading would apply older ones
 * after them.
 */
bool snapshots_before_naming(void *arg)
{
    struct snapshots *s = arg;
    uint32_t before = BASE_NONE;

    must_not_be_reading();
    (void)append_make_durable(&s->append);
    pthread_mutex_lock(&s->base.naming);
    /* In this order: a flush that sees no file has started an epoch that is seen here. */
    atomic_compare_exchange_strong(&s->base.kind, &before, BASE_GOOD);
    if (snapshots_is_outdated(s) || !append_is_logging(&s->append)) {
        atomic_store(&s->base.kind, before);
        pthread_mutex_unlock(&s->base.naming);
        return false;
    }
    return true;
}

void snapshots_after_naming(void *arg, bool is_named)
{
    struct snapshots *s = arg;

    if (is_named) {
        s->base.epoch = s->save_epoch;
        if (base_file_kind(&s->base) == BASE_VOID) {
            atomic_store(&s->base.kind, BASE_GOOD); /* the void one was replaced */
            append_base_changed(&s->append, s->save_epoch);
        }
    }
    pthread_mutex_unlock(&s->base.naming);
}

void snapshots_keep(struct snapshots *s)
{
    uint32_t before = BASE_GOOD;

    pthread_mutex_lock(&s->base.naming);
    atomic_compare_exchange_strong(&s->base.kind, &before, BASE_KEPT);
    pthread_mutex_unlock(&s->base.naming);
}

/* ---- removals ---------------------------------------------------------------------------- */

/*
 * Durably remove the file if it is of an earlier epoch. Waits for the disk. Returns an errno.
 */
static int remove_before(struct snapshots *s, uint64_t epoch)
{
    int error = 0;

    must_not_be_reading();
    pthread_mutex_lock(&s->base.naming);
    if (base_file_kind(&s->base) != BASE_NONE && s->base.epoch < epoch) {
        error = newfile_remove(&io_system, s->settings->dir, s->name);
        atomic_store(&s->base.kind, error != 0 ? BASE_VOID : BASE_NONE);
    }
    append_base_changed(&s->append, epoch);
    pthread_mutex_unlock(&s->base.naming);
    if (error != 0) {
        pthread_mutex_lock(&s->mutex);
        pthread_cond_broadcast(&s->changed); /* make the flusher retry */
        pthread_mutex_unlock(&s->mutex);
    }
    return error;
}

static uint64_t begin_epoch(struct snapshots *s)
{
    return atomic_fetch_add(&s->base.now, 1) + 1;
}

int snapshots_clear(struct snapshots *s)
{
    return base_file_kind(&s->base) == BASE_VOID || append_is_void(&s->append)
               ? remove_before(s, begin_epoch(s))
               : 0;
}

void snapshots_on_gap(void *arg)
{
    struct snapshots *s = arg;
    int error = remove_before(s, begin_epoch(s));

    snapshots_want_anew(s);
    if (error != 0) {
        log_error("snapshot, cannot remove %s, which must not be loaded (%s): tried again each "
                  "second",
                  s->path, strerror(error));
    }
}

void snapshots_retry_removal(struct snapshots *s)
{
    if (remove_before(s, atomic_load(&s->base.now)) == 0) {
        log_notice("snapshot, removed %s at a retry", s->path);
    }
}

/* ---- flushes ----------------------------------------------------------------------------- */

/* The log has the flushes, or else the file goes. True: it was done. */
static bool end_flush(struct snapshots *s, enum flush_duty duty, uint64_t epoch)
{
    if (duty == FLUSH_IS_LOGGED && append_make_durable(&s->append)) {
        return true;
    }
    int error = remove_before(s, duty == FLUSH_IS_LOGGED ? begin_epoch(s) : epoch);
    if (error != 0) {
        log_error("snapshot, cannot remove %s after a flush (%s): retried each second", s->path,
                  strerror(error));
    }
    return error == 0;
}

enum snapshots_removal snapshots_note_flush(struct snapshots *s, struct late_ask *ask)
{
    enum flush_duty duty = FLUSH_IS_LOGGED;
    uint64_t epoch = 0;

    if (keeper_state(s) == KEEPER_OFF) {
        return SNAPSHOTS_REMOVED;
    }
    if (!append_has_flushes(&s->append)) {
        duty = FLUSH_REMOVES;
        epoch = begin_epoch(s);
        snapshots_want_anew(s);
        if (base_file_kind(&s->base) == BASE_NONE) {
            append_base_changed(&s->append, epoch);
            return SNAPSHOTS_REMOVED;
        }
    }
    pthread_mutex_lock(&s->mutex);
    bool is_later = s->order == KEEPER_GOES_ON;
    if (is_later) {
        asks_add(&s->flush_asks, ask);
        s->flush_next = duty > s->flush_next ? duty : s->flush_next;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->mutex);
    if (is_later) {
        return SNAPSHOTS_LATER;
    }
    return end_flush(s, duty, epoch) ? SNAPSHOTS_REMOVED : SNAPSHOTS_KEPT;
}

void snapshots_note_followed_flush(struct snapshots *s)
{
    if (keeper_state(s) != KEEPER_OFF && !append_has_flushes(&s->append)) {
        snapshots_on_gap(s);
    }
}

void snapshots_note_full_sync(struct snapshots *s)
{
    if (keeper_state(s) != KEEPER_OFF && append_is_used(&s->append)) {
        snapshots_on_gap(s);
    }
}

/*
 * Do the removals that the flushes until now require, for all waiting callers. Under the mutex,
 * which is released meanwhile.
 */
static void run_flushes(struct snapshots *s)
{
    uint64_t epoch = atomic_load(&s->base.now); /* that of each of them, or a later one */

    s->flush_now = s->flush_next;
    s->flush_next = FLUSH_NONE;
    s->flush_asks_now = s->flush_asks;
    s->flush_asks = NULL;
    pthread_mutex_unlock(&s->mutex);
    bool is_done = end_flush(s, s->flush_now, epoch);
    pthread_mutex_lock(&s->mutex);
    s->flush_now = FLUSH_NONE;
    asks_answer(&s->flush_asks_now, is_done);
    pthread_cond_broadcast(&s->changed);
}

/* Wait for work, or until the removal of a void file must be retried. Under the mutex. */
static void wait_retrying(struct snapshots *s)
{
    const struct timespec until = cond_after(RETRY_MS);

    if (pthread_cond_timedwait(&s->changed, &s->mutex, &until) == ETIMEDOUT &&
        s->flush_next == FLUSH_NONE && base_file_kind(&s->base) == BASE_VOID) {
        pthread_mutex_unlock(&s->mutex);
        snapshots_retry_removal(s);
        pthread_mutex_lock(&s->mutex);
    }
}

static void flushes_run(void *arg)
{
    struct snapshots *s = arg;

    pthread_mutex_lock(&s->mutex);
    while (s->flush_next != FLUSH_NONE ||
           (keeper_state(s) != KEEPER_ENDED && keeper_state(s) != KEEPER_OFF)) {
        if (s->flush_next != FLUSH_NONE) {
            run_flushes(s);
        } else if (base_file_kind(&s->base) == BASE_VOID) {
            wait_retrying(s);
        } else {
            pthread_cond_wait(&s->changed, &s->mutex);
        }
    }
    pthread_mutex_unlock(&s->mutex);
}

const struct thread_kind snapshots_flusher = {.name = "snapshot flush", .run = flushes_run};
