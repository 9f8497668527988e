/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exports of the data to clients: see exports.h.
 */
#include "daemon/persist/exports.h"

#include <errno.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "lib/base/clock.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"

/*
 * A client that takes fewer bytes than this in a second, over more than a minute, is closed: an
 * export holds back moves of slots while it is in a shard.
 */
#define STALL_MS    60000
#define LEAST_BYTES (64 << 10)

/* As that of snapshots: requests go first. */
#define NICE_STEP 5

/* Maximum stall after a portion of len bytes that took this long. */
static int64_t patience_after(const struct exports *x, int64_t took_ms, size_t len)
{
    int64_t most = atomic_load(&x->stall_ms);
    int64_t left =
        x->patience_ms - took_ms + (int64_t)len * 1000 / atomic_load(&x->least_bytes);

    return left > most ? most : left > 0 ? left : 0;
}

/* Hand a portion over, and wait until it was taken. False: it was not. */
static bool hand_over(struct exports *x, const char *bytes, size_t len)
{
    struct export *e = x->current;
    const msec_t began = clock_mono_ms();

    memcpy(e->buffer + EXPORT_HEAD_MAX, bytes, len);
    e->len = len;
    if (handoff_give(&e->handed)) {
        relay_post(&e->relay, &e->portion);
    }
    x->error = handoff_wait(&e->handed, 0, x->patience_ms);
    x->patience_ms = patience_after(x, clock_mono_ms() - began, len);
    return x->error == 0;
}

/* snap_write_fn of an export. */
static bool write_bytes(void *arg, const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n != 0) {
        size_t len = n < EXPORT_PORTION_MAX ? n : EXPORT_PORTION_MAX;

        if (!hand_over(arg, p, len)) {
            return false;
        }
        p += len;
        n -= len;
    }
    return true;
}

static enum export_end how_ended(int error, enum save_end end)
{
    if (error != 0) {
        return error == ECANCELED ? EXPORT_STOPPED : EXPORT_STALLED;
    }
    switch (end) {
    case SAVE_DONE:
        return EXPORT_DONE;
    case SAVE_FLUSHED:
        return EXPORT_FLUSHED;
    case SAVE_STOPPED:
        return EXPORT_STOPPED;
    case SAVE_FAILED:
    case SAVE_NO_MEMORY:
        return EXPORT_FAILED;
    }
    unreachable();
}

static enum export_end how_sync_ended(int error, enum fullsync_end end)
{
    switch (end) {
    case FULLSYNC_DONE:
        return EXPORT_DONE;
    case FULLSYNC_STOPPED:
        return EXPORT_STOPPED;
    case FULLSYNC_CLIENT_GONE:
        return error == ECANCELED ? EXPORT_STOPPED : EXPORT_STALLED;
    case FULLSYNC_BUSY:
        return EXPORT_BUSY;
    case FULLSYNC_NO_MEMORY:
        return EXPORT_FAILED;
    case FULLSYNC_LOST:
        return EXPORT_LOST;
    }
    unreachable();
}

/* Under the mutex. */
static void set_rate(struct exports *x)
{
    const uint64_t rate = (uint64_t)setting_get(x->settings, save_rate) << 20;

    atomic_store(&x->save.rate_max, rate);
    if (x->current != NULL) {
        atomic_store(&x->current->sync.rate_max, rate);
    }
}

void exports_options_changed(struct exports *x)
{
    if (x->is_there) {
        pthread_mutex_lock(&x->mutex);
        set_rate(x);
        pthread_mutex_unlock(&x->mutex);
    }
}

/* Under the mutex, which is released meanwhile. */
static void export_now(struct exports *x)
{
    struct export *e = x->current;

    x->is_begun = true;
    x->error = 0;
    x->patience_ms = atomic_load(&x->stall_ms);
    atomic_store(&x->save.is_to_stop, x->is_stopping);
    set_rate(x);
    if (e->is_sync) {
        e->sync.engine = x->save.engine;
        e->sync.write = write_bytes;
        e->sync.write_arg = x;
        atomic_store(&e->sync.is_to_stop, x->is_stopping);
    }
    pthread_mutex_unlock(&x->mutex);
    if (e->is_sync) {
        enum fullsync_end end = fullsync_run(&e->sync);

        e->end = how_sync_ended(x->error, end);
        e->items = atomic_load(&e->sync.items);
    } else {
        enum save_end end = save_run(&x->save);

        e->end = how_ended(x->error, end);
        e->items = atomic_load(&x->save.items);
    }
    pthread_mutex_lock(&x->mutex);
    x->done += e->end == EXPORT_DONE;
    x->failed += e->end != EXPORT_DONE;
    x->current = NULL;
    x->is_begun = false;
    relay_post(&e->relay, &e->over);
}

static void exports_run(void *arg)
{
    struct exports *x = arg;

    if (x->thread.nice_error != 0) {
        log_debug("export, cannot lower its priority (%s)", strerror(x->thread.nice_error));
    }
    pthread_mutex_lock(&x->mutex);
    while (!x->is_stopping || x->current != NULL) {
        if (x->current != NULL) {
            export_now(x);
        } else {
            pthread_cond_wait(&x->wake, &x->mutex);
        }
    }
    pthread_mutex_unlock(&x->mutex);
}

static const struct thread_kind export_kind = {
    .name = "export", .run = exports_run, .nicer = NICE_STEP, .reads = true};

int exports_start(struct exports *x, struct settings *settings, struct engine *engine)
{
    must_be_main();
    *x = (struct exports){
        .settings = settings, .stall_ms = STALL_MS, .least_bytes = LEAST_BYTES};
    x->save.engine = engine;
    x->save.write = write_bytes;
    x->save.write_arg = x;
    pthread_mutex_init(&x->mutex, NULL);
    cond_init(&x->wake);
    if (thread_start(&x->thread, &export_kind, x) != 0) {
        log_error("export, cannot start its thread");
        pthread_cond_destroy(&x->wake);
        pthread_mutex_destroy(&x->mutex);
        return EX_OSERR;
    }
    x->is_there = true;
    return 0;
}

void exports_stop(struct exports *x)
{
    must_be_main();
    if (!x->is_there || x->is_joined) {
        return;
    }
    pthread_mutex_lock(&x->mutex);
    x->is_stopping = true;
    save_stop(&x->save);
    if (x->current != NULL) {
        atomic_store(&x->current->sync.is_to_stop, true);
        handoff_close(&x->current->handed, ECANCELED);
    }
    pthread_cond_broadcast(&x->wake);
    pthread_mutex_unlock(&x->mutex);
    thread_join(&x->thread);
    x->is_joined = true;
}

bool exports_begin(struct exports *x, struct export *e, struct mailbox *to)
{
    if (!x->is_there) {
        return false;
    }
    pthread_mutex_lock(&x->mutex);
    bool is_free = x->current == NULL && !x->is_stopping;
    if (is_free) {
        handoff_init(&e->handed, 1, NULL, NULL);
        relay_init(&e->relay, to);
        x->current = e;
        pthread_cond_broadcast(&x->wake);
    }
    pthread_mutex_unlock(&x->mutex);
    return is_free;
}

void export_taken(struct export *e, bool is_there)
{
    handoff_done(&e->handed, is_there ? 0 : EPIPE);
}

void exports_look(struct exports *x, struct exports_info *info)
{
    *info = (struct exports_info){.done = 0};
    if (!x->is_there) {
        return;
    }
    pthread_mutex_lock(&x->mutex);
    info->is_busy = x->current != NULL;
    info->is_sync = x->current != NULL && x->current->is_sync;
    info->done = x->done;
    info->failed = x->failed;
    if (x->is_begun) {
        const struct export *e = x->current;

        info->items = atomic_load(e->is_sync ? &e->sync.items : &x->save.items);
        info->items_total =
            atomic_load(e->is_sync ? &e->sync.items_total : &x->save.items_total);
    }
    pthread_mutex_unlock(&x->mutex);
}
