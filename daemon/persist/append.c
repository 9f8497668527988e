/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of changes since the snapshot: see append.h.
 */
#include "daemon/persist/append.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "lib/base/hash.h"
#include "lib/engine/engine.h"

/* Maximum number of logs for one snapshot. Each start adds one; then a new snapshot is made. */
#define LOGS_MAX 16

void append_init(struct append *a, struct settings *settings, struct gate *gate,
                 const char *dir, const char *name, struct base_file *base,
                 void (*on_gap)(void *arg), void *arg)
{
    *a = (struct append){.settings = settings,
                         .gate = gate,
                         .dir = dir,
                         .name = name,
                         .base = base,
                         .on_gap = on_gap,
                         .arg = arg,
                         .chain_read = {.io = &io_system, .dir = dir, .base = name},
                         .mode = setting_get(settings, appendonly)};
    pthread_mutex_init(&a->telling, NULL);
}

/* ---- at the start ------------------------------------------------------------------------ */

static void tell_fault(const struct append *a, enum keychain_end end)
{
    const struct keychain *c = &a->chain_read;
    char text[SNAP_FAULT_TEXT_MAX];
    char name[KEYCHAIN_NAME_MAX];

    keychain_name(name, a->name, c->number);
    switch (end) {
    case KEYCHAIN_MISSING:
        log_error("snapshot, not loaded because %s/%s is missing", a->dir, name);
        break;
    case KEYCHAIN_FOREIGN:
        log_error("snapshot, %s/%s belongs to another snapshot", a->dir, name);
        break;
    case KEYCHAIN_BAD:
        log_error("snapshot, %s/%s: %s", a->dir, name, snap_fault_text(&c->fault, text));
        break;
    default:
        log_error("snapshot, cannot read the logs (out of memory)");
        break;
    }
}

enum load_end append_read(struct append *a, const struct snap_header *h, struct load *l)
{
    struct keychain *c = &a->chain_read;
    char name[KEYCHAIN_NAME_MAX];

    c->may_cut = a->settings->aof_load_truncated;
    enum keychain_end end = keychain_read(c, h);
    if (end != KEYCHAIN_DONE) {
        tell_fault(a, end);
        keychain_fini(c);
        l->fault = c->fault;
        return end == KEYCHAIN_NO_MEMORY ? LOAD_NO_MEMORY : LOAD_BAD;
    }
    if (c->cut_bytes != 0) {
        keychain_name(name, a->name, c->number);
        log_warn("snapshot, the last %" PRIu64
                 " bytes of %s/%s were incomplete and are cut off (aof_load_truncated)",
                 c->cut_bytes, a->dir, name);
    }
    if (c->logs != 0 && !c->is_sealed) {
        log_notice(
            "snapshot, the last log was not closed: the server was killed, or the file was "
            "truncated");
    }
    if (c->keys != 0) {
        log_notice("snapshot, %" PRIu64 " logs have %" PRIu64
                   " changed keys, which are not loaded",
                   c->logs, c->keys);
    }
    if (c->has_states) {
        log_notice("snapshot, %" PRIu64 " logs have %" PRIu64
                   " changes, which are loaded after it",
                   c->logs, c->states);
    }
    l->chain = c->logs != 0 ? c : NULL;
    l->unix_floor_ms = c->unix_ms;
    return LOAD_DONE;
}

int64_t append_written_s(const struct append *a, const struct snap_header *h)
{
    char path[PATH_MAX];
    uint64_t highest;
    uint64_t count;
    struct stat st;

    return h->log != 0 && keychain_find(a->dir, a->name, &highest, &count) == 0 &&
                   highest >= h->log && keychain_path(&a->chain_read, highest, path) &&
                   stat(path, &st) == 0
               ? st.st_mtime
               : 0;
}

static void on_gap(void *arg, int error)
{
    struct append *a = arg;

    if (error == KEYLOG_GAP_FLUSH) {
        log_error(
            "snapshot, flushed while its log was being started: it is removed and saved again");
    } else if (error != 0) {
        log_error("snapshot, cannot write its log (%s): it is removed and saved again",
                  strerror(error));
    } else {
        log_error("snapshot, its log could not be written as fast as changes were made: it is "
                  "removed and saved again");
    }
    a->on_gap(a->arg);
}

/* The way in which changes wait for the log. */
static uint32_t hold_of(const struct append *a)
{
    bool is_always = setting_get(a->settings, appendfsync) == APPEND_ALWAYS;

    if (!append_is_used(a) || (!is_always && !atomic_load(&a->is_behind))) {
        return 0;
    }
    return is_always && base_file_kind(a->base) == BASE_VOID && !append_is_logging(a)
               ? GATE_LOG_VOID
               : GATE_LOG_HOLDS;
}

/* Set how changes wait. That depends on several values, which several threads change. */
static void update_hold(struct append *a)
{
    pthread_mutex_lock(&a->telling);
    gate_set(a->gate, GATE_LOG, hold_of(a));
    pthread_mutex_unlock(&a->telling);
}

static void on_behind(void *arg, bool is_behind)
{
    struct append *a = arg;

    atomic_store(&a->is_behind, is_behind);
    update_hold(a);
}

static void on_slow(void *arg, uint64_t ms)
{
    (void)arg;
    log_warn("snapshot, the disk needed %" PRIu64 " ms for a write or sync of its log", ms);
}

static void on_done(void *arg)
{
    struct append *a = arg;

    pthread_mutex_lock(&a->telling);
    if (a->on_done != NULL) {
        a->on_done(a->done_arg);
    }
    pthread_mutex_unlock(&a->telling);
}

void append_tell(struct append *a, void (*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&a->telling);
    a->on_done = fn;
    a->done_arg = arg;
    pthread_mutex_unlock(&a->telling);
}

uint64_t append_ask(const struct append *a)
{
    return a->log != NULL ? keylog_ask(a->log) : 0;
}

bool append_is_done(const struct append *a, uint64_t ticket)
{
    return a->log == NULL || keylog_is_done(a->log, ticket);
}

static bool start_log(struct append *a, int64_t base_offset_ms)
{
    const struct keylog_config cfg = {
        .engine = a->engine,
        .io = &io_system,
        .dir = a->dir,
        .base = a->name,
        .base_offset_ms = base_offset_ms,
        .on_gap = on_gap,
        .on_slow = on_slow,
        .on_behind = on_behind,
        .on_done = on_done,
        .arg = a,
    };

    if (keylog_start(&a->log, &cfg, (enum keylog_sync)setting_get(a->settings, appendfsync)) !=
        MF_OK) {
        log_error("snapshot, cannot start the threads of its log");
        return false;
    }
    return true;
}

static enum keylog_mode mode_of(const struct append *a)
{
    return atomic_load(&a->mode) == APPEND_FULL ? KEYLOG_FULL : KEYLOG_KEYS;
}

bool append_begin(struct append *a, struct engine *engine, const struct snap_header *header,
                  bool goes_on, uint64_t base_bytes, int64_t base_offset_ms)
{
    bool has_chain = header != NULL && header->log != 0;
    uint64_t logs = a->chain_read.logs;
    uint64_t count;

    keychain_fini(&a->chain_read);
    a->engine = engine;
    a->chain = has_chain ? header->chain : hash_random_seed();
    int error = keychain_find(a->dir, a->name, &a->next, &count);
    if (error != 0) {
        log_error("snapshot, cannot read the folder %s (%s)", a->dir, strerror(error));
        return false;
    }
    a->next++;
    if (has_chain && header->log >= a->next) {
        a->next = header->log;
    }
    /* The threads are there in any case: later none can be made. */
    bool is_started = start_log(a, base_offset_ms);
    update_hold(a);
    if (!append_is_used(a)) {
        return true;
    }
    if (!is_started || !has_chain || !goes_on) {
        return false;
    }
    a->first = header->log;
    error = keylog_rotate(a->log, mode_of(a), a->chain, a->next, 0);
    if (error != 0) {
        log_error("snapshot, cannot start its log (%s)", strerror(error));
        return false;
    }
    a->next++;
    atomic_store(&a->base->logged, atomic_load(&a->mode));
    atomic_store(&a->base->bytes, base_bytes);
    atomic_store(&a->base->log_mark, -(int64_t)a->chain_read.bytes);
    return logs < LOGS_MAX;
}

/* Identifies the end of a log; not 0. */
static uint32_t number_of_end(uint64_t chain, uint64_t log)
{
    uint32_t number = (uint32_t)hash_key(chain, &log, sizeof(log));

    return number != 0 ? number : 1;
}

bool append_is_left(struct append *a, const struct snap_header *h, uint32_t left)
{
    struct keychain *c = &a->chain_read;
    uint64_t highest;
    uint64_t count;

    if (left == 0 || (h->flags & SNAP_HAS_LOG) == 0 ||
        keychain_find(a->dir, a->name, &highest, &count) != 0 ||
        number_of_end(h->chain, highest) != left) {
        return false;
    }
    c->may_cut = false; /* it was ended well */
    bool is_left = keychain_read(c, h) == KEYCHAIN_DONE;
    if (!is_left) {
        keychain_fini(c); /* append_read() may follow */
    }
    c->logs = c->keys = c->states = 0; /* nothing of it is loaded */
    return is_left;
}

uint32_t append_end(struct append *a)
{
    uint32_t left = 0;

    if (a->log != NULL && append_is_used(a) && keylog_is_on(a->log)) {
        struct keylog_info info;

        keylog_look(a->log, &info);
        left = number_of_end(a->chain, info.number);
    }
    keylog_stop(&a->log); /* its last write may fail: then the snapshot is removed */
    pthread_mutex_destroy(&a->telling);
    return base_file_kind(a->base) == BASE_GOOD ? left : 0;
}

/* ---- saves ------------------------------------------------------------------------------- */

static uint64_t written(const struct append *a)
{
    struct keylog_info info;

    keylog_look(a->log, &info);
    return info.all_bytes;
}

int append_before_save(struct append *a, struct save *s, uint64_t epoch)
{
    s->flags = 0;
    s->chain = a->chain;
    s->log = a->next; /* the first that may belong to it: if no log is written, the next one */
    if (!append_is_used(a)) {
        return 0;
    }
    if (a->log == NULL) {
        return ENOMEM; /* its threads could not be started */
    }
    if (!keylog_is_on(a->log)) {
        /* An existing snapshot has had changes that are in no log. */
        atomic_store(&a->base->logged, APPEND_OFF);
        if (base_file_kind(a->base) == BASE_NONE) {
            /* No snapshot needs these logs, and their room on the disk may be needed. */
            (void)keychain_remove(&io_system, a->dir, a->name, a->next);
        }
    }
    int error = keylog_rotate(a->log, mode_of(a), a->chain, a->next, epoch);
    s->flags = SNAP_HAS_LOG;
    a->written_mark = written(a);
    a->next += error == 0;
    return error;
}

void append_after_save(struct append *a, const struct save *s)
{
    int error = keychain_remove(&io_system, a->dir, a->name, s->log);

    if (error != 0) {
        log_error("snapshot, cannot remove old logs in %s (%s)", a->dir, strerror(error));
    }
    if (a->log != NULL) {
        keylog_base(a->log, s->to_unix_ms);
    }
    a->first = s->log;
    atomic_store(&a->base->bytes, atomic_load(&s->bytes));
    atomic_store(&a->base->log_mark, (int64_t)a->written_mark);
    atomic_store(&a->base->logged, atomic_load(&a->mode));
}

bool append_is_unwanted(const struct append *a)
{
    return append_is_used(a) && setting_get(a->settings, appendonly) == APPEND_OFF;
}

/* Flushes from now on do not count as logged. */
static void forget_flushes(struct append *a)
{
    if (atomic_load(&a->base->logged) == APPEND_FULL) {
        atomic_store(&a->base->logged, APPEND_KEYS);
    }
    (void)append_make_durable(a); /* with the flushes that were requested earlier */
}

bool append_change(struct append *a)
{
    uint32_t wanted = (uint32_t)setting_get(a->settings, appendonly);

    if (a->log == NULL || wanted == APPEND_OFF || wanted == atomic_load(&a->mode)) {
        return false;
    }
    forget_flushes(a);
    atomic_store(&a->mode, wanted);
    update_hold(a);
    log_notice("snapshot, a log of %s is kept from the next one on",
               wanted == APPEND_FULL ? "states" : "keys");
    return true;
}

void append_end_use(struct append *a)
{
    forget_flushes(a);
    atomic_store(&a->mode, APPEND_OFF);
    if (a->log != NULL) {
        keylog_forget(a->log, UINT64_MAX);
    }
    update_hold(a);
    if (base_file_kind(a->base) == BASE_NONE) {
        (void)keychain_remove(&io_system, a->dir, a->name, a->next);
    }
    log_notice("snapshot, changes are no longer logged");
}

void append_set_sync(struct append *a)
{
    if (a->log != NULL) {
        keylog_set_sync(a->log, (enum keylog_sync)setting_get(a->settings, appendfsync));
        update_hold(a);
    }
}

bool append_is_logging(const struct append *a)
{
    return !append_is_used(a) || (a->log != NULL && keylog_is_on(a->log));
}

bool append_is_whole(const struct append *a)
{
    return atomic_load(&a->base->logged) != APPEND_OFF && a->log != NULL &&
           keylog_is_on(a->log);
}

bool append_lacks_log(const struct append *a)
{
    char path[PATH_MAX];

    for (uint64_t number = a->first; number < a->next; number++) {
        if (keychain_path(&a->chain_read, number, path) && access(path, F_OK) != 0 &&
            errno == ENOENT) {
            return true;
        }
    }
    return false;
}

bool append_has_flushes(const struct append *a)
{
    return atomic_load(&a->base->logged) == APPEND_FULL && keylog_is_on(a->log);
}

bool append_make_durable(struct append *a)
{
    return a->log != NULL && atomic_load(&a->mode) == APPEND_FULL &&
           keylog_make_durable(a->log);
}

void append_base_changed(struct append *a, uint64_t epoch)
{
    if (a->log == NULL) {
        return;
    }
    if (base_file_kind(a->base) == BASE_VOID) {
        keylog_void(a->log);
        update_hold(a);
    } else {
        update_hold(a); /* first, as the next call may release waiting connections */
        keylog_forget(a->log, epoch);
    }
}

bool append_is_void(const struct append *a)
{
    return a->log != NULL && keylog_is_void(a->log);
}

static uint64_t log_bytes(const struct append *a)
{
    return (uint64_t)((int64_t)written(a) - atomic_load(&a->base->log_mark));
}

bool append_is_long(const struct append *a)
{
    uint64_t pct = setting_get(a->settings, auto_aof_rewrite_percentage);
    uint64_t base = atomic_load(&a->base->bytes);

    if (a->log == NULL || pct == 0 || !keylog_is_on(a->log)) {
        return false;
    }
    uint64_t bytes = log_bytes(a);
    return base + bytes >= setting_get(a->settings, auto_aof_rewrite_min_size) &&
           bytes / pct >= base / 100;
}

void append_look(const struct append *a, struct append_info *info)
{
    *info = (struct append_info){.log = {.was_good = true}};
    if (a->log != NULL && append_is_used(a)) {
        info->is_enabled = true;
        info->is_whole = append_is_whole(a) && base_file_kind(a->base) == BASE_GOOD;
        keylog_look(a->log, &info->log);
        info->base_bytes = info->log.is_on ? atomic_load(&a->base->bytes) : 0;
        info->log_bytes = info->log.is_on ? log_bytes(a) : 0;
    }
    info->load_keys = a->chain_read.keys;
    info->load_states = a->chain_read.states;
    info->load_logs = a->chain_read.logs;
    info->load_cut = a->chain_read.cut_bytes;
}
