/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The snapshot of the data in a file: see snapshots.h.
 */
#include "daemon/persist/snapshots.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/persist/snapshots_parts.h"
#include "lib/base/check.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/log/logfill.h"
#include "lib/snapshot/behind.h"

/* A flush voids a save in progress. Maximum number of attempts. */
#define TRIES 3

/* After a failed save, the rules do not start another one for this long. */
#define BACK_OFF_MS 60000

/* The thread's nice value is higher than the process's by this, so that requests go first. */
#define NICE_STEP 5

/* Intervals of lines for the service manager, and of checks of the rules. */
#define TELL_MS  500
#define RULES_MS 1000

#define LINE_MAX_BYTES 128

/* A stopping server waits this long for a flush, so that it can be answered. */
#define STOP_WAIT_MS 400

static enum base_kind base_kind(const struct snapshots *s)
{
    return base_file_kind(&s->base);
}

/* ---- the state --------------------------------------------------------------------------- */

static bool is_loading(const struct snapshots *s)
{
    return keeper_state(s) == KEEPER_LOADING || keeper_state(s) == KEEPER_BESIDE;
}

static bool is_saving(const struct snapshots *s)
{
    return keeper_state(s) == KEEPER_FIRST_SAVE || keeper_state(s) == KEEPER_SAVING ||
           keeper_state(s) == KEEPER_ENDING;
}

static bool wants(const struct snapshots *s, enum keeper_wants bit)
{
    return (s->wants & bit) != 0;
}

#define MAY_BE(name) (1u << KEEPER_##name)

/* Under the mutex, or while there is no thread. */
static void keeper_move(struct snapshots *s, enum keeper_state to)
{
    /* The states that may follow each state. */
    static const uint16_t next_states[] = {
        [KEEPER_OFF] = MAY_BE(LOADING) | MAY_BE(STARTING),
        [KEEPER_LOADING] = MAY_BE(STARTING) | MAY_BE(OFF),
        [KEEPER_STARTING] = MAY_BE(FIRST_SAVE) | MAY_BE(BESIDE) | MAY_BE(SERVING) | MAY_BE(OFF),
        [KEEPER_FIRST_SAVE] = MAY_BE(STARTING),
        [KEEPER_BESIDE] = MAY_BE(SERVING),
        [KEEPER_SERVING] = MAY_BE(SAVING) | MAY_BE(ENDING),
        [KEEPER_SAVING] = MAY_BE(SERVING),
        [KEEPER_ENDING] = MAY_BE(ENDING) | MAY_BE(ENDED),
        [KEEPER_ENDED] = MAY_BE(OFF),
    };

    debug_must((next_states[keeper_state(s)] & 1u << to) != 0);
    atomic_store(&s->state, to);
}

/* Wait for a condition, a while at most. Under the mutex. */
static void wait_for(struct snapshots *s, pthread_cond_t *cond, long ms)
{
    const struct timespec until = cond_after(ms);

    pthread_cond_timedwait(cond, &s->mutex, &until);
}

/* ---- saving ------------------------------------------------------------------------------ */

static const char *end_text(const struct snapshots *s, enum save_end end)
{
    switch (end) {
    case SAVE_DONE:
        return "done";
    case SAVE_STOPPED:
        return "cancelled";
    case SAVE_FLUSHED:
        return "everything was flushed meanwhile, again and again";
    case SAVE_NO_MEMORY:
        return "out of memory";
    case SAVE_FAILED:
        return strerror(s->save.error);
    }
    unreachable();
}

/* One save, which a flush may make void. Context: the thread. */
static enum save_end save_anew(struct snapshots *s)
{
    enum save_end end = SAVE_FLUSHED;

    for (int i = 0; i < TRIES && end == SAVE_FLUSHED; i++) {
        int error = 0;

        if (snapshots_are_less(s)) {
            return SAVE_STOPPED;
        }
        if (append_is_used(&s->append)) {
            error = snapshots_clear(s);
        }
        s->save_epoch = atomic_load(&s->base.now);
        if (error == 0) {
            error = append_before_save(&s->append, &s->save, s->save_epoch);
        }
        if (error == ENOBUFS && i + 1 < TRIES) {
            continue; /* a flush, or a gap, ended the log while the next one was started */
        }
        if (error != 0) {
            s->save.error = error;
            return SAVE_FAILED;
        }
        end = save_run(&s->save);
    }
    if (end == SAVE_DONE) {
        append_after_save(&s->append, &s->save);
    }
    return end;
}

/* Note how it ended. Under the mutex. */
static void note_end(struct snapshots *s, enum save_end end, uint64_t changes, int64_t began)
{
    s->last.was_good = end == SAVE_DONE || end == SAVE_STOPPED;
    s->last.saved_ms = (uint64_t)(clock_mono_ms() - began);
    s->last.failures += end != SAVE_DONE && end != SAVE_STOPPED;
    s->last.flushed += end == SAVE_FLUSHED;
    if (end == SAVE_DONE) {
        s->last.saves++;
        s->last.saved_unix_s = s->save.unix_ms / 1000;
        s->last.saved_items = atomic_load(&s->save.items);
        s->last.saved_bytes = atomic_load(&s->save.bytes);
        s->last.saved_expired = atomic_load(&s->save.expired);
        s->last.saved_left_out = atomic_load(&s->save.left_out);
        s->changes_base = changes;
        s->began_ms = began;
    }
}

/*
 * Save in the state `during`, and answer all waiting clients. Under the mutex, which is
 * released meanwhile.
 */
static void save_now(struct snapshots *s, enum keeper_state during)
{
    uint64_t changes = engine_changes(s->engine);
    int64_t began = clock_mono_ms();
    enum keeper_state before = keeper_state(s);
    bool wanted_anew = wants(s, KEEPER_WANTS_ANEW);

    s->asks_now = s->asks;
    s->asks = NULL;
    s->wants &= ~(KEEPER_WANTS_SAVE | KEEPER_WANTS_ANEW);
    keeper_move(s, during);
    s->tried_ms = began;
    atomic_store(&s->save.is_to_stop, false);
    s->save.behind = s->behind;
    snapshots_set_rate(s);
    pthread_mutex_unlock(&s->mutex);
    enum save_end end = save_anew(s);
    pthread_mutex_lock(&s->mutex);
    keeper_move(s, before);
    if (end != SAVE_DONE && (wanted_anew || !append_is_logging(&s->append))) {
        s->wants |= KEEPER_WANTS_ANEW;
    }
    note_end(s, end, changes, began);
    asks_answer(&s->asks_now, end == SAVE_DONE);
    if (end == SAVE_DONE) {
        log_notice("snapshot, saved %s: %" PRIu64 " items, %" PRIu64 " bytes, %" PRIu64 " ms",
                   s->path, s->last.saved_items, s->last.saved_bytes, s->last.saved_ms);
    } else if (end == SAVE_STOPPED) {
        log_notice("snapshot, the save was cancelled");
    } else {
        log_error("snapshot, cannot save %s (%s)%s", s->path, end_text(s, end),
                  access(s->path, F_OK) == 0 ? "; an older file stays" : "");
    }
}

/* Notify those that wait for the save that begins next that there is none. Under the mutex. */
static void drop_asked(struct snapshots *s)
{
    s->wants &= ~KEEPER_WANTS_SAVE;
    asks_answer(&s->asks, false);
}

/* Has a rule been met? Under the mutex. */
static bool is_due(const struct snapshots *s)
{
    int64_t now = clock_mono_ms();

    if (snapshots_are_less(s)) {
        return false;
    }
    if (base_kind(s) == BASE_KEPT || (!s->last.was_good && now - s->tried_ms < BACK_OFF_MS)) {
        return false;
    }
    if (append_is_used(&s->append) && base_kind(s) == BASE_VOID) {
        return false; /* until it is removed no log can begin */
    }
    return wants(s, KEEPER_WANTS_ANEW) || append_is_long(&s->append) ||
           save_rules_met(&s->rules, (uint64_t)(now - s->began_ms) / 1000,
                          engine_changes(s->engine) - s->changes_base);
}

/* ---- the log, at the start and when options change --------------------------------------- */

/* Has an item of the file found no room? The log has no record of its deletion. */
static bool has_left_out(const struct snapshots *s)
{
    return atomic_load(&s->load.counts.refused) != 0 ||
           engine_counter(s->engine, CTR_evictions) != 0;
}

/* Must a first file be saved before the server serves, because answered changes must last? */
static bool is_saved_first(const struct snapshots *s)
{
    return setting_get(s->settings, appendonly) == APPEND_FULL;
}

/*
 * Does the file, which was not loaded, have the state of the items that were taken over? With
 * its log it does, until the first client is served.
 */
static bool is_as_left(struct snapshots *s)
{
    return s->last.load == SNAPSHOTS_PASSED_OVER && is_saved_first(s) &&
           append_is_left(&s->append, &s->file.header, s->left);
}

/*
 * Start the log. A file to which the log does not belong is removed. If the file was not loaded
 * completely, or has the state that was not loaded, it is removed only when another one is
 * saved, provided that no client is served before. Returns whether the file lacks the state of
 * some items. Context: the thread.
 */
static bool begin_log(struct snapshots *s)
{
    bool is_loaded = s->last.load == SNAPSHOTS_LOADED;
    bool stays = is_as_left(s);
    bool is_partial, is_begun;

    is_partial = stays || (is_loaded && has_left_out(s));
    stays = stays || (is_loaded && (!is_partial || is_saved_first(s)));
    is_begun = append_begin(&s->append, s->engine,
                            is_loaded || stays || s->load.is_beside ? &s->file.header : NULL,
                            stays, s->file.bytes,
                            is_loaded ? s->load.to_unix_ms
                            : stays   ? LOGFILL_OFFSET_UNKNOWN
                                      : 0);
    if (is_loaded && append_is_used(&s->append) && !load_flush_again(&s->load)) {
        is_begun = false; /* the log lacks a flush, so there has to be another snapshot */
    }
    if (is_begun && (!is_partial || !append_is_used(&s->append))) {
        return is_partial;
    }
    if (s->last.load != SNAPSHOTS_LOADED && s->last.load != SNAPSHOTS_PASSED_OVER &&
        access(s->path, F_OK) == 0 && !snapshots_keep_as_bad(s)) {
        s->status = EX_CANTCREAT; /* neither may the file be loaded, nor be lost */
        return is_partial;
    }
    if (!append_is_logging(&s->append)) {
        snapshots_on_gap(s);
    }
    snapshots_want_anew(s);
    return is_partial;
}

/*
 * The first save, before the server serves. If there is none, a file that is partial (see
 * begin_log()) cannot stay. Under the mutex, which is released meanwhile.
 */
static void save_first(struct snapshots *s, bool is_partial)
{
    save_now(s, KEEPER_FIRST_SAVE);
    if (is_partial && s->last.saves == 0 && s->order == KEEPER_GOES_ON) {
        pthread_mutex_unlock(&s->mutex);
        snapshots_on_gap(s);
        pthread_mutex_lock(&s->mutex);
        save_now(s, KEEPER_FIRST_SAVE); /* there may be room now */
    }
}

/*
 * Start keeping a log with the next snapshot. Until that has its name, the present log
 * continues from the present snapshot: so a crash loses no logged change. If the present file
 * was neither loaded nor saved here, it has other logs, and is renamed.
 */
static void want_log(struct snapshots *s)
{
    bool is_known = s->last.load == SNAPSHOTS_LOADED || s->last.saves != 0;

    if (!is_known && access(s->path, F_OK) == 0) {
        (void)snapshots_keep_as_bad(s);
    }
    snapshots_want_anew(s);
}

/*
 * Stop logging. Without its log a snapshot would restore deleted items, so the snapshot is
 * removed before the log.
 */
static void end_log(struct snapshots *s)
{
    if (append_is_whole(&s->append) || base_kind(s) == BASE_VOID) {
        snapshots_on_gap(s);
    }
    if (base_kind(s) != BASE_VOID) {
        append_end_use(&s->append);
    }
}

/* Must a log be started, or ended? Not before a void file was removed. Under the mutex. */
static bool has_log_to_change(const struct snapshots *s)
{
    return wants(s, KEEPER_WANTS_OPTIONS) ||
           (append_is_unwanted(&s->append) && base_kind(s) != BASE_VOID);
}

/* `appendonly` may have changed. Under the mutex, which is released meanwhile. */
static void change_log(struct snapshots *s)
{
    s->wants &= ~KEEPER_WANTS_OPTIONS;
    pthread_mutex_unlock(&s->mutex);
    if (append_change(&s->append)) {
        want_log(s);
    } else if (append_is_unwanted(&s->append)) {
        end_log(s);
    }
    pthread_mutex_lock(&s->mutex);
}

/*
 * Was the file, or a log of it, removed by another program? Then a crash would lose everything,
 * so it is saved again. If the folder itself is missing no save can succeed, and a failed one
 * is not repeated for BACK_OFF_MS; the next write of the log detects that. Under the mutex,
 * which is released meanwhile.
 */
static void look_for_files(struct snapshots *s)
{
    if (wants(s, KEEPER_WANTS_ANEW) || !append_is_whole(&s->append)) {
        return;
    }
    pthread_mutex_unlock(&s->mutex);
    pthread_mutex_lock(&s->base.naming); /* held by removals of the server itself */
    bool is_missing =
        append_is_whole(&s->append) && base_kind(s) == BASE_GOOD &&
        ((access(s->path, F_OK) != 0 && errno == ENOENT) || append_lacks_log(&s->append)) &&
        access(s->settings->dir, F_OK) == 0;
    pthread_mutex_unlock(&s->base.naming);
    pthread_mutex_lock(&s->mutex);
    if (is_missing) {
        log_error("snapshot, %s or a log of it is missing: it is saved again", s->path);
        s->wants |= KEEPER_WANTS_ANEW;
    }
}

/* ---- the thread -------------------------------------------------------------------------- */

static void snapshots_run(void *arg)
{
    struct snapshots *s = arg;
    bool is_partial = false;

    if (s->thread.nice_error != 0) {
        log_debug("snapshot, cannot lower its priority (%s)", strerror(s->thread.nice_error));
    }
    s->behind = behind_create();
    if (keeper_state(s) == KEEPER_LOADING) {
        snapshots_load_now(s);
        pthread_mutex_lock(&s->mutex);
        keeper_move(s, KEEPER_STARTING);
        pthread_mutex_unlock(&s->mutex);
    }
    if (s->status == 0) {
        is_partial = begin_log(s);
    }
    pthread_mutex_lock(&s->mutex);
    if (wants(s, KEEPER_WANTS_ANEW) && is_saved_first(s)) {
        save_first(s, is_partial);
    }
    keeper_move(s, s->load.is_beside ? KEEPER_BESIDE : KEEPER_SERVING);
    pthread_cond_broadcast(&s->changed);
    if (keeper_state(s) == KEEPER_BESIDE) {
        pthread_mutex_unlock(&s->mutex);
        snapshots_load_now(s);
        pthread_mutex_lock(&s->mutex);
        keeper_move(s, KEEPER_SERVING);
        if (base_kind(s) == BASE_KEPT) {
            drop_asked(s); /* requests that came while it was loaded */
        }
    }
    while (s->order < KEEPER_ENDS) {
        if (has_log_to_change(s)) {
            change_log(s);
        } else if (s->order == KEEPER_GOES_ON && (wants(s, KEEPER_WANTS_SAVE) || is_due(s))) {
            save_now(s, KEEPER_SAVING);
        } else if (s->rules.count != 0 || append_is_used(&s->append)) {
            wait_for(s, &s->wake, RULES_MS);
            look_for_files(s);
        } else {
            pthread_cond_wait(&s->wake, &s->mutex);
        }
    }
    keeper_move(s, KEEPER_ENDING);
    if (s->order == KEEPER_SAVES_AND_ENDS && base_kind(s) == BASE_KEPT) {
        log_notice("snapshot, not saved: the file was not loaded completely");
        if (s->load.is_beside) {
            /* Keys of it that were deleted since would reappear. */
            snapshots_keep_as_bad(s);
        }
    } else if (s->order == KEEPER_SAVES_AND_ENDS) {
        s->save.is_direct = false; /* the next start reads it */
        save_now(s, KEEPER_ENDING);
    }
    keeper_move(s, KEEPER_ENDED);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    behind_destroy(&s->behind);
}

static const struct thread_kind snapshot_kind = {
    .name = "snapshot", .run = snapshots_run, .nicer = NICE_STEP, .reads = true};

/* ---- start and stop ---------------------------------------------------------------------- */

/* A line for the service manager: the progress of the load, or of the save. */
static void put_progress(const struct snapshots *s, char line[LINE_MAX_BYTES])
{
    if (is_loading(s)) {
        snprintf(line, LINE_MAX_BYTES, "loading a snapshot: %" PRIu64 " of %" PRIu64 " items",
                 atomic_load(&s->load.counts.items), s->file.header.items);
    } else {
        snprintf(line, LINE_MAX_BYTES, "saving a snapshot: %" PRIu64 " of %" PRIu64 " items",
                 atomic_load(&s->save.items), atomic_load(&s->save.items_total));
    }
}

/* Wait for the load, and for the first save if there is one. Under the mutex. */
static void wait_loaded(struct snapshots *s, bool (*tell)(const char *line))
{
    char line[LINE_MAX_BYTES];

    while (keeper_state(s) < KEEPER_BESIDE) {
        wait_for(s, &s->changed, TELL_MS);
        put_progress(s, line);
        /* A stop ends a load only without a log: that would lack deaths of unloaded items. */
        if ((is_loading(s) || is_saving(s)) && tell(line) && !append_is_used(&s->append)) {
            atomic_store(&s->load.is_to_stop, true);
        }
    }
}

int snapshots_start(struct snapshots *s, struct engine *engine, bool (*tell)(const char *line))
{
    must_be_main();
    if (s->name == NULL) {
        return 0; /* without `dir` */
    }
    s->engine = engine;
    s->save.engine = engine;
    s->save.io = &io_system;
    s->save.dir = s->settings->dir;
    s->save.name = s->name;
    s->save.is_direct = true;
    s->save.is_packed = s->settings->rdbcompression != 0;
    s->save.is_void = snapshots_is_outdated;
    s->save.before_naming = snapshots_before_naming;
    s->save.after_naming = snapshots_after_naming;
    s->save.arg = s;
    s->began_ms = clock_mono_ms();
    snapshots_prepare_load(s);
    pthread_mutex_init(&s->base.naming, NULL);
    pthread_mutex_init(&s->mutex, NULL);
    cond_init(&s->wake);
    cond_init(&s->changed);
    keeper_move(s, s->file.fd >= 0 && !s->load.is_beside ? KEEPER_LOADING : KEEPER_STARTING);
    if (thread_start(&s->flusher, &snapshots_flusher, s) != 0 ||
        thread_start(&s->thread, &snapshot_kind, s) != 0) {
        log_error("snapshot, cannot start its threads");
        if (s->load.is_beside) {
            guarding_end(engine, &s->load.guard);
        }
        pthread_mutex_lock(&s->mutex);
        keeper_move(s, KEEPER_OFF);
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->mutex);
        thread_join(&s->flusher);
        return EX_OSERR;
    }
    pthread_mutex_lock(&s->mutex);
    wait_loaded(s, tell);
    int status = s->status;
    pthread_mutex_unlock(&s->mutex);
    return status;
}

void snapshots_abandon(struct snapshots *s)
{
    const struct timespec until = cond_after(STOP_WAIT_MS);
    int error = 0;

    must_be_main();
    if (!s->thread.is_running) {
        return;
    }
    pthread_mutex_lock(&s->mutex);
    if (s->order < KEEPER_BEGINS_NO_SAVE) {
        s->order = KEEPER_BEGINS_NO_SAVE;
    }
    save_stop(&s->save);
    drop_asked(s);
    asks_answer(&s->asks_now, false);
    while ((s->flush_next != FLUSH_NONE || s->flush_now != FLUSH_NONE) && error == 0) {
        error = pthread_cond_timedwait(&s->changed, &s->mutex, &until);
    }
    asks_answer(&s->flush_asks, false);
    asks_answer(&s->flush_asks_now, false);
    pthread_mutex_unlock(&s->mutex);
}

uint32_t snapshots_stop(struct snapshots *s, bool saves, bool (*tell)(const char *line))
{
    char line[LINE_MAX_BYTES];

    must_be_main();
    if (!s->thread.is_running) {
        load_close(&s->file);
        return 0;
    }
    snapshots_abandon(s);
    pthread_mutex_lock(&s->mutex);
    s->order = saves ? KEEPER_SAVES_AND_ENDS : KEEPER_ENDS;
    if (!saves) {
        atomic_store(&s->load.is_to_stop, true);
    } /* otherwise the load is completed before the save */
    pthread_cond_signal(&s->wake);
    while (keeper_state(s) != KEEPER_ENDED) {
        wait_for(s, &s->changed, TELL_MS);
        put_progress(s, line);
        if (keeper_state(s) != KEEPER_ENDED && tell(line)) {
            atomic_store(&s->load.is_to_stop, true);
            save_stop(&s->save);
        }
    }
    pthread_mutex_unlock(&s->mutex);
    thread_join(&s->thread);
    thread_join(&s->flusher);
    if (base_kind(s) == BASE_VOID) {
        snapshots_retry_removal(s);
    }
    uint32_t left = append_end(&s->append);
    pthread_mutex_destroy(&s->base.naming);
    pthread_cond_destroy(&s->wake);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    keeper_move(s, KEEPER_OFF);
    return left;
}

/* ---- what is asked ----------------------------------------------------------------------- */

enum snapshots_asked snapshots_begin(struct snapshots *s, bool schedule, struct late_ask *ask)
{
    enum snapshots_asked asked = SNAPSHOTS_STARTED;

    if (!snapshots_is_on(s)) {
        return SNAPSHOTS_OFF;
    }
    pthread_mutex_lock(&s->mutex);
    if (s->order != KEEPER_GOES_ON) {
        asked = SNAPSHOTS_OFF;
    } else if (base_kind(s) == BASE_KEPT) {
        asked = SNAPSHOTS_REFUSED;
    } else if (is_saving(s) || wants(s, KEEPER_WANTS_SAVE)) {
        asked = schedule ? SNAPSHOTS_SCHEDULED : SNAPSHOTS_BUSY;
    }
    if (asked == SNAPSHOTS_STARTED || asked == SNAPSHOTS_SCHEDULED) {
        s->wants |= KEEPER_WANTS_SAVE;
        if (ask != NULL) {
            asks_add(&s->asks, ask);
        }
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->mutex);
    return asked;
}

bool snapshots_cancel(struct snapshots *s)
{
    bool is_any = false;

    if (snapshots_is_on(s)) {
        pthread_mutex_lock(&s->mutex);
        is_any = is_saving(s) || wants(s, KEEPER_WANTS_SAVE);
        if (is_saving(s)) {
            save_stop(&s->save);
        }
        drop_asked(s);
        pthread_mutex_unlock(&s->mutex);
    }
    return is_any;
}

void snapshots_look(struct snapshots *s, struct snapshots_info *info)
{
    if (!snapshots_is_on(s)) {
        *info = (struct snapshots_info){.was_good = true, .log.log.was_good = true};
        return;
    }
    pthread_mutex_lock(&s->mutex);
    *info = s->last;
    info->is_on = true;
    /* A save that is about to begin counts, so that a client that polls does not stop early. */
    info->is_saving = is_saving(s) || wants(s, KEEPER_WANTS_SAVE);
    info->items = is_saving(s) ? atomic_load(&s->save.items) : 0;
    info->items_total = is_saving(s) ? atomic_load(&s->save.items_total) : 0;
    info->is_loading = is_loading(s);
    info->is_scheduled = is_saving(s) && wants(s, KEEPER_WANTS_SAVE);
    info->changes = engine_changes(s->engine) - s->changes_base;
    pthread_mutex_unlock(&s->mutex);
    info->is_void = base_kind(s) == BASE_VOID;
    info->load_items = atomic_load(&s->load.counts.items);
    info->load_expired = atomic_load(&s->load.counts.expired);
    info->load_refused = atomic_load(&s->load.counts.refused);
    info->load_changed = atomic_load(&s->load.counts.changed);
    if (info->is_loading) {
        info->log = (struct append_info){.log = {.was_good = true}}; /* it is being read */
    } else {
        append_look(&s->append, &info->log);
    }
    info->load_gone = atomic_load(&s->load.guard.turned);
    info->load_total = info->is_loading ? s->file.header.items : 0;
}
