/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands under the name of the snapshot's file: see snapshot_file.h.
 */
#include "daemon/worker/snapshot_file.h"

#include <errno.h>
#include <string.h>

#include "daemon/base/log.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"
#include "lib/snapshot/newfile.h"

/* A stop waits so long for a flush, so that it can be answered. */
#define STOP_WAIT_MS 400

/* Between two tries to remove a void file. */
#define RETRY_MS 1000

void snapshots_answer(struct snapshots_ask *asks, bool is_done)
{
    while (asks != NULL) {
        struct snapshots_ask *ask = asks;

        asks = ask->next;
        ask->is_done = is_done;
        mailbox_post(ask->to, &ask->answer);
    }
}

/* ---- saves ------------------------------------------------------------------------------- */

bool snapshot_file_name(struct snapshot_file *f, uint64_t epoch)
{
    uint32_t before = BASE_NONE;

    must_not_be_reading();
    pthread_mutex_lock(&f->base.naming);
    /* In this order: a flush that sees no file has begun an epoch that is seen here. */
    atomic_compare_exchange_strong(&f->base.kind, &before, BASE_GOOD);
    if (snapshot_file_is_void(f, epoch) || !append_is_logging(f->append)) {
        atomic_store(&f->base.kind, before);
        pthread_mutex_unlock(&f->base.naming);
        return false;
    }
    return true;
}

void snapshot_file_named(struct snapshot_file *f, uint64_t epoch, bool is_named)
{
    if (is_named) {
        f->base.epoch = epoch;
        if (base_file_kind(&f->base) == BASE_VOID) {
            atomic_store(&f->base.kind, BASE_GOOD); /* the void one was replaced */
            append_forget(f->append, epoch);
        }
    }
    pthread_mutex_unlock(&f->base.naming);
}

void snapshot_file_keep(struct snapshot_file *f)
{
    uint32_t before = BASE_GOOD;

    pthread_mutex_lock(&f->base.naming);
    atomic_compare_exchange_strong(&f->base.kind, &before, BASE_KEPT);
    pthread_mutex_unlock(&f->base.naming);
}

/* ---- removals ---------------------------------------------------------------------------- */

/* No file of an epoch before this is to be loaded. Takes the disk's time. Returns an errno. */
static int remove_before(struct snapshot_file *f, uint64_t epoch)
{
    int error = 0;

    must_not_be_reading();
    pthread_mutex_lock(&f->base.naming);
    if (base_file_kind(&f->base) != BASE_NONE && f->base.epoch < epoch) {
        error = newfile_remove(&io_system, f->dir, f->name);
        atomic_store(&f->base.kind, error != 0 ? BASE_VOID : BASE_NONE);
    }
    if (base_file_kind(&f->base) == BASE_VOID) {
        append_void(f->append);
    } else {
        append_forget(f->append, epoch);
    }
    pthread_mutex_unlock(&f->base.naming);
    if (error != 0) {
        pthread_mutex_lock(&f->mutex);
        pthread_cond_broadcast(&f->changed); /* the thread is to try again */
        pthread_mutex_unlock(&f->mutex);
    }
    return error;
}

static uint64_t begin_epoch(struct snapshot_file *f)
{
    return atomic_fetch_add(&f->base.now, 1) + 1;
}

int snapshot_file_remove(struct snapshot_file *f)
{
    return remove_before(f, begin_epoch(f));
}

int snapshot_file_clear(struct snapshot_file *f)
{
    if (base_file_kind(&f->base) == BASE_VOID || append_is_void(f->append)) {
        return snapshot_file_remove(f);
    }
    return 0;
}

/* True: it is gone. */
static bool remove_flushed(struct snapshot_file *f, uint64_t epoch)
{
    int error = remove_before(f, epoch);

    if (error != 0) {
        log_error("snapshot, cannot remove %s after a flush (%s): tried again each second",
                  f->path, strerror(error));
    }
    return error == 0;
}

/* The log has it, or else the file goes. True: it was done. */
static bool end_flush(struct snapshot_file *f, bool must_go, uint64_t epoch)
{
    if (!must_go && append_make_durable(f->append)) {
        return true;
    }
    return remove_flushed(f, must_go ? epoch : begin_epoch(f));
}

enum snapshots_removal snapshot_file_flush(struct snapshot_file *f, struct snapshots_ask *ask)
{
    bool is_logged = append_has_flushes(f->append);
    uint64_t epoch = is_logged ? 0 : begin_epoch(f);
    bool is_later;

    if (!is_logged && base_file_kind(&f->base) == BASE_NONE) {
        append_forget(f->append, epoch);
        return SNAPSHOTS_REMOVED;
    }
    pthread_mutex_lock(&f->mutex);
    is_later = !f->is_abandoned;
    if (is_later) {
        ask->next = f->asks;
        f->asks = ask;
        f->wants_removal = true;
        f->must_go = f->must_go || !is_logged;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->mutex);
    if (is_later) {
        return SNAPSHOTS_LATER;
    }
    return end_flush(f, !is_logged, epoch) ? SNAPSHOTS_REMOVED : SNAPSHOTS_KEPT;
}

/* One removal, for all who wait for it. Under the mutex, which is given up meanwhile. */
static void remove_now(struct snapshot_file *f)
{
    uint64_t epoch = snapshot_file_epoch(f); /* that of each of them, or a later one */
    bool must_go = f->must_go;
    bool is_gone;

    f->must_go = false;
    f->current = f->asks;
    f->asks = NULL;
    f->wants_removal = false;
    f->is_removing = true;
    pthread_mutex_unlock(&f->mutex);
    is_gone = end_flush(f, must_go, epoch);
    pthread_mutex_lock(&f->mutex);
    f->is_removing = false;
    snapshots_answer(f->current, is_gone);
    f->current = NULL;
    pthread_cond_broadcast(&f->changed);
}

/* Try again to remove a void file. */
static void retry(struct snapshot_file *f)
{
    if (remove_before(f, snapshot_file_epoch(f)) == 0) {
        log_notice("snapshot, removed %s, which could not be removed before", f->path);
    }
}

/* Wait until something is to be done, or a void file to be removed. Under the mutex. */
static void wait_retrying(struct snapshot_file *f)
{
    const struct timespec until = cond_after(RETRY_MS);

    if (pthread_cond_timedwait(&f->changed, &f->mutex, &until) == ETIMEDOUT &&
        !f->wants_removal && base_file_kind(&f->base) == BASE_VOID) {
        pthread_mutex_unlock(&f->mutex);
        retry(f);
        pthread_mutex_lock(&f->mutex);
    }
}

static void run(void *arg)
{
    struct snapshot_file *f = arg;

    pthread_mutex_lock(&f->mutex);
    while (f->wants_removal || !f->is_ending) {
        if (f->wants_removal) {
            remove_now(f);
        } else if (base_file_kind(&f->base) == BASE_VOID) {
            wait_retrying(f);
        } else {
            pthread_cond_wait(&f->changed, &f->mutex);
        }
    }
    pthread_mutex_unlock(&f->mutex);
}

static const struct thread_kind remover_kind = {.name = "snapshot flush", .run = run};

/* ---- start and stop ---------------------------------------------------------------------- */

void snapshot_file_init(struct snapshot_file *f, const char *dir, const char *name,
                        const char *path, struct append *append)
{
    must_be_main();
    *f = (struct snapshot_file){
        .dir = dir, .name = name, .path = path, .append = append, .base.kind = BASE_GOOD};
    pthread_mutex_init(&f->base.naming, NULL);
    pthread_mutex_init(&f->mutex, NULL);
    cond_init(&f->changed);
}

bool snapshot_file_start(struct snapshot_file *f)
{
    must_be_main();
    return thread_start(&f->thread, &remover_kind, f) == 0;
}

void snapshot_file_abandon(struct snapshot_file *f)
{
    const struct timespec until = cond_after(STOP_WAIT_MS);
    int error = 0;

    must_be_main();
    pthread_mutex_lock(&f->mutex);
    f->is_abandoned = true;
    while ((f->wants_removal || f->is_removing) && error == 0) {
        error = pthread_cond_timedwait(&f->changed, &f->mutex, &until);
    }
    snapshots_answer(f->asks, false);
    snapshots_answer(f->current, false);
    f->asks = NULL;
    f->current = NULL;
    pthread_mutex_unlock(&f->mutex);
}

void snapshot_file_stop(struct snapshot_file *f)
{
    must_be_main();
    if (f->thread.is_running) {
        pthread_mutex_lock(&f->mutex);
        f->is_ending = true;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->mutex);
        thread_join(&f->thread);
        if (base_file_kind(&f->base) == BASE_VOID) {
            retry(f);
        }
    }
}

void snapshot_file_fini(struct snapshot_file *f)
{
    must_be_main();
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->mutex);
    pthread_mutex_destroy(&f->base.naming);
}
