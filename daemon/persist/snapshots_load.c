/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The snapshot's file at the start: opened, loaded, put aside: see snapshots_parts.h.
 */
#include "daemon/persist/snapshots_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/engine/flush.h"
#include "lib/format/newfile.h"
#include "lib/log/keychain.h"

/* Maximum number of rejected files kept under other names. */
#define BAD_MAX 99u

/* ---- files that are not loaded ----------------------------------------------------------- */

/* A name that no file has: NAME.bad, NAME.2.bad and so on. False: there are BAD_MAX. */
static bool choose_bad(const struct snapshots *s, char bad[PATH_MAX])
{
    char path[2 * PATH_MAX];

    for (unsigned i = 1; i <= BAD_MAX; i++) {
        if (i == 1) {
            snprintf(bad, PATH_MAX, "%s.bad", s->name);
        } else {
            snprintf(bad, PATH_MAX, "%s.%u.bad", s->name, i);
        }
        snprintf(path, sizeof(path), "%s/%s", s->settings->dir, bad);
        if (access(path, F_OK) != 0) {
            return true;
        }
    }
    return false;
}

bool snapshots_keep_as_bad(const struct snapshots *s)
{
    const char *dir = s->settings->dir;
    char bad[PATH_MAX];
    int error = EEXIST;

    if (choose_bad(s, bad)) {
        /* Its logs first: if that is interrupted, the next start continues the renaming. */
        error = keychain_rename(&io_system, dir, s->name, bad);
        error = error == 0 ? newfile_rename(&io_system, dir, s->name, bad) : error;
        if (error != 0) {
            (void)keychain_rename(&io_system, dir, bad, s->name);
        }
    }
    if (error != 0) {
        log_error("snapshot, cannot rename %s (%s)", s->path, strerror(error));
    } else {
        log_notice("snapshot, kept the file and its logs as %s/%s", dir, bad);
    }
    return error == 0;
}

/*
 * The file, or one of its logs, was not loaded because of this fault. What cannot be read now
 * may be readable once rights or the disk are repaired, so the server does not start, and
 * nothing replaces it. A damaged file is renamed, unless the options are strict. Returns 0 or
 * the exit status.
 */
static int reject_file(const struct snapshots *s, const struct snap_fault *fault)
{
    if (fault->kind == SNAP_FAULT_READ) {
        log_error("snapshot, the server does not start: what cannot be read would be replaced "
                  "(load=no starts without it)");
        return EX_DATAERR;
    }
    if (snapshots_are_strict(s->settings)) {
        return EX_DATAERR;
    }
    return snapshots_keep_as_bad(s) ? 0 : EX_CANTCREAT;
}

/* ---- opening ----------------------------------------------------------------------------- */

/* Is the file that was opened to be loaded? */
static bool is_wanted(struct snapshots *s)
{
    const struct settings *set = s->settings;
    int64_t logged_s = append_written_s(&s->append, &s->file.header);
    int64_t age_s = s->file.header.unix_ms / 1000;

    age_s = clock_real_ns() / 1000000000 - (age_s > logged_s ? age_s : logged_s);
    if (set->load_max_age != 0 && age_s > (int64_t)set->load_max_age) {
        log_notice("snapshot, not loaded because %s is %" PRId64 " seconds old (load_max_age)",
                   s->path, age_s);
        s->last.load = SNAPSHOTS_TOO_OLD;
        load_close(&s->file);
        return false;
    }
    return true;
}

uint64_t snapshots_open(struct snapshots *s, struct settings *settings, struct gate *gate,
                        int *status)
{
    char text[SNAP_FAULT_TEXT_MAX];

    must_be_main();
    memset(s, 0, sizeof(*s));
    s->settings = settings;
    s->file.fd = -1;
    s->last.was_good = true;
    *status = 0;
    if (settings->dir == NULL) {
        return 0;
    }
    *status = snapshots_find(settings, &s->name, s->path);
    if (*status != 0) {
        return 0;
    }
    s->claim = snapshots_claim(settings, s->name, s->path);
    if (s->claim < 0) {
        *status = EX_CANTCREAT;
        return 0;
    }
    save_rules_parse(settings->save_rules, &s->rules);
    append_init(&s->append, settings, gate, settings->dir, s->name, &s->base, snapshots_on_gap,
                s);
    s->base.kind = BASE_GOOD; /* there may be one */
    if (settings->load == LOAD_NO) {
        return 0;
    }
    if (load_open(&s->file, s->path)) {
        return is_wanted(s) ? s->file.header.items : 0;
    }
    if (snapshots_is_none(&s->file)) {
        log_notice("snapshot, %s does not exist: starts empty", s->path);
        s->last.load = SNAPSHOTS_NO_FILE;
        return 0;
    }
    log_error("snapshot, %s: %s", s->path, snap_fault_text(&s->file.fault, text));
    *status = reject_file(s, &s->file.fault);
    s->last.load = SNAPSHOTS_BAD;
    return 0;
}

void snapshots_pass_over(struct snapshots *s, uint32_t left)
{
    must_be_main();
    if (s->file.fd >= 0 || s->last.load == SNAPSHOTS_TOO_OLD) {
        load_close(&s->file);
        s->last.load = SNAPSHOTS_PASSED_OVER;
        s->left = left;
        log_notice("snapshot, %s is not loaded: the items are there (memory_file)", s->path);
    }
}

/* Are there logs of the file? They replace older states of keys. */
static bool has_logs(const struct snapshots *s)
{
    const uint64_t first = s->file.header.log;
    uint64_t highest;
    uint64_t count;

    return first != 0 && (keychain_find(s->settings->dir, s->name, &highest, &count) != 0 ||
                          highest >= first);
}

void snapshots_prepare_load(struct snapshots *s)
{
    s->load.engine = s->engine;
    s->load.file = &s->file;
    s->load.threads = setting_get(s->settings, threads);
    s->load.marks_stale = s->settings->load_stale;
    if (s->file.fd < 0 || !s->settings->load_async) {
        return;
    }
    if (has_logs(s) || setting_get(s->settings, appendonly) != APPEND_OFF) {
        log_notice("snapshot, has a log or will get one: loads it before serving (load_async)");
    } else if (load_beside(&s->load)) {
        s->load.threads = 1; /* requests go first */
    } else {
        log_notice("snapshot, no memory to load it while serving: loads it before serving");
    }
}

/* ---- loading ----------------------------------------------------------------------------- */

/*
 * The file, or one of its logs, was not read completely: rename it, or end the start. Returns
 * false if it was not renamed, and must not be replaced.
 */
static bool put_aside(struct snapshots *s, enum load_end end)
{
    if (s->load.is_beside) {
        return snapshots_keep_as_bad(s); /* clients are served already */
    }
    s->status = end == LOAD_NO_MEMORY ? EX_OSERR : reject_file(s, &s->load.fault);
    return s->status == 0;
}

/* Handle the result of loading the file. Context: the thread. */
static enum snapshots_load judge(struct snapshots *s, enum load_end end)
{
    char text[SNAP_FAULT_TEXT_MAX];
    uint64_t items = atomic_load(&s->load.counts.items);

    if (s->load.behind_ms >= 1000) {
        log_warn("snapshot, the clock is %" PRId64 " seconds behind %s: deadlines count from "
                 "the time in that",
                 s->load.behind_ms / 1000, s->path);
    }
    switch (end) {
    case LOAD_DONE:
        log_notice("snapshot, loaded %s: %" PRIu64 " items, %" PRIu64 " had expired, %" PRIu64
                   " did not fit",
                   s->path, items, atomic_load(&s->load.counts.expired),
                   atomic_load(&s->load.counts.refused));
        return SNAPSHOTS_LOADED;
    case LOAD_FLUSHED:
        log_notice("snapshot, everything was flushed while %s was loaded", s->path);
        return SNAPSHOTS_FLUSHED;
    case LOAD_STOPPED:
        log_notice("snapshot, loading was stopped after %" PRIu64 " items", items);
        return SNAPSHOTS_NOT_LOADED;
    case LOAD_BAD:
        log_error("snapshot, %s: %s", s->path, snap_fault_text(&s->load.fault, text));
        break;
    case LOAD_NO_MEMORY:
        log_error("snapshot, %s: out of memory", s->path);
        break;
    }
    if (s->settings->load == LOAD_SALVAGE && end == LOAD_BAD &&
        s->load.fault.kind != SNAP_FAULT_READ) {
        log_notice("snapshot, recovered %" PRIu64 " items before the damage", items);
        return SNAPSHOTS_SALVAGED;
    }
    return SNAPSHOTS_BAD;
}

void snapshots_load_now(struct snapshots *s)
{
    int64_t began = clock_mono_ms();
    enum snapshots_load load = SNAPSHOTS_BAD;
    enum load_end end = append_read(&s->append, &s->file.header, &s->load);

    if (end == LOAD_DONE) {
        end = load_run(&s->load);
        load = judge(s, end);
    } else if (s->load.is_beside) {
        guarding_end(s->engine, &s->load.guard);
    }
    load_close(&s->file);
    bool is_kept = (end == LOAD_BAD || end == LOAD_NO_MEMORY) && !put_aside(s, end);
    if (end == LOAD_STOPPED || is_kept) {
        snapshots_keep(s);
    }
    if (load == SNAPSHOTS_BAD) {
        /* All or nothing, unless load=salvage. */
        engine_flush(s->engine, clock_now(&s->engine->clock), clock_now(&s->engine->clock),
                     false);
    }
    pthread_mutex_lock(&s->mutex);
    s->last.load = load;
    s->last.load_ms = (uint64_t)(clock_mono_ms() - began);
    s->changes_base = engine_changes(s->engine);
    pthread_mutex_unlock(&s->mutex);
}
