/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of live options; see crew.h. The new values are first parsed into a copy of the
 * settings. Then come the steps that can fail, and last the stores, which cannot fail.
 */
#include "daemon/worker/crew.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/version.h"
#include "daemon/options/cpu_list.h"
#include "daemon/options/options.h"
#include "daemon/options/options_value.h"
#include "lib/base/context.h"
#include "lib/reshard/reshard.h"

void live_init(struct crew *crew)
{
    must_be_main();
    pthread_mutex_init(&crew->live.lock, NULL);
    options_copy_live(&crew->live.given, crew->settings);
}

/* ---- what may fail ----------------------------------------------------------------------- */

static bool live_refuse(struct live_refusal *refusal, enum option_id id, const char *why)
{
    refusal->id = id;
    snprintf(refusal->why, sizeof(refusal->why), "%s", why);
    return false;
}

/* Rules between an option and options that are fixed at the start. */
static bool check_rules(struct crew *crew, const struct settings *wanted, enum option_id id,
                        struct live_refusal *refusal)
{
    if (id == OPTION_detail_enabled && setting_get(wanted, detail_enabled) &&
        crew->settings->no_dump) {
        return live_refuse(refusal, id, "not allowed: -X was given");
    }
    if (id == OPTION_memory_limit_bytes &&
        !options_fit_items(crew->settings, setting_get(wanted, memory_limit_bytes))) {
        return live_refuse(refusal, id, "is less than twice the size of the largest item (-I)");
    }
    if (id == OPTION_threads && setting_get(wanted, threads) < crew->settings->napi_ids) {
        return live_refuse(refusal, id, "is less than napi_ids");
    }
    if (id == OPTION_worker_cpus &&
        !cpu_list_is_usable(wanted, refusal->why, sizeof(refusal->why))) {
        refusal->id = id;
        return false;
    }
    if (id == OPTION_appendonly && setting_get(wanted, appendonly) != APPEND_OFF &&
        !snapshots_may_log(&crew->snapshots)) {
        return live_refuse(refusal, id, "needs a folder (dir)");
    }
    if (id == OPTION_replica_tls && setting_get(wanted, replica_tls) && !BUILT_WITH_TLS) {
        return live_refuse(refusal, id, "this server is not built with TLS support");
    }
    refusal->id = id;
    return crew->prepare_option == NULL || crew->prepare_option(crew, wanted, id, refusal->why);
}

static bool names(const enum option_id *ids, unsigned count, enum option_id id)
{
    for (unsigned i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Message: no number of shards works with the limit, or not the present number. */
#define LIMIT_IS_OUT "out of bounds or unable to adjust"

/* The limit on memory and the number of shards, which depend on each other. */
struct size {
    uint64_t limit;
    uint32_t shards;   /* 0: unchanged */
    enum option_id by; /* the option that has changed the number */
};

static struct size size_wanted(const struct crew *crew, const struct settings *wanted,
                               const enum option_id *ids, unsigned count)
{
    const bool has_shards = names(ids, count, OPTION_shards);
    const bool has_threads = names(ids, count, OPTION_threads);
    const struct settings *now = crew->settings;
    const uint32_t shards = setting_get(has_shards ? wanted : now, shards);
    const uint32_t threads = setting_get(has_threads ? wanted : now, threads);
    struct size size = {.limit = setting_get(now, memory_limit_bytes)};

    if (names(ids, count, OPTION_memory_limit_bytes)) {
        size.limit = setting_get(wanted, memory_limit_bytes);
    }
    /* If the address space is limited, the present shards can hold less than the limit. */
    if (has_shards ||
        (has_threads && shards == 0 && engine_range(&crew->engine) >= size.limit)) {
        size.shards = shards_wanted(crew, shards, threads, size.limit);
        size.by = has_shards ? OPTION_shards : OPTION_threads;
    }
    return size;
}

static bool check_size(struct crew *crew, const struct size *size, struct live_refusal *refusal)
{
    uint32_t least;
    uint32_t most;

    if (size->shards == 0) {
        return true;
    }
    engine_shard_bounds(&crew->engine, size->limit, &least, &most);
    if (least > most) {
        return live_refuse(refusal, OPTION_memory_limit_bytes, LIMIT_IS_OUT);
    }
    refusal->id = size->by;
    return shards_may_be(crew, size->shards, size->limit, refusal->why);
}

static bool take_limit(struct crew *crew, uint64_t limit, struct live_refusal *refusal)
{
    return engine_set_limit(&crew->engine, limit) ||
           live_refuse(refusal, OPTION_memory_limit_bytes, LIMIT_IS_OUT);
}

static bool take_shards(struct crew *crew, const struct size *size,
                        struct live_refusal *refusal)
{
    refusal->id = size->by;
    return shards_set(crew, size->shards, refusal->why);
}

/*
 * Set the memory limit and the number of shards. This is the last step that may fail. The
 * order is chosen so that the first new value works with the old value of the second. If the
 * second fails, the first is restored.
 */
static bool take_size(struct crew *crew, const struct size *size, struct live_refusal *refusal)
{
    const uint64_t limit = setting_get(crew->settings, memory_limit_bytes);
    struct live_refusal other;
    struct size before = {.limit = limit};
    struct reshard_info info;

    if (size->shards == 0) {
        return size->limit == limit || take_limit(crew, size->limit, refusal);
    }
    if (size->limit == limit) {
        return take_shards(crew, size, refusal);
    }
    engine_reshard_info(&crew->engine, &info);
    before.shards = info.wanted;
    if (shards_may_be(crew, size->shards, limit, refusal->why)) {
        if (!take_shards(crew, size, refusal)) {
            return false;
        }
        if (!take_limit(crew, size->limit, refusal)) {
            (void)take_shards(crew, &before, &other);
            return false;
        }
        return true;
    }
    if (!take_limit(crew, size->limit, refusal)) {
        return false;
    }
    if (!take_shards(crew, size, refusal)) {
        (void)take_limit(crew, limit, &other);
        return false;
    }
    return true;
}

/* ---- changes ----------------------------------------------------------------------------- */

bool live_is_for_main(const enum option_id *ids, unsigned count)
{
    return names(ids, count, OPTION_threads) || names(ids, count, OPTION_shards) ||
           names(ids, count, OPTION_move_cpu_pct) || names(ids, count, OPTION_worker_cpus);
}

/*
 * If the number of workers is among the options, create missing workers, outside the lock
 * because it takes a while. Returns false if that fails.
 */
static bool make_workers(struct crew *crew, const struct settings *wanted,
                         const enum option_id *ids, unsigned count,
                         struct live_refusal *refusal)
{
    const struct size size = size_wanted(crew, wanted, ids, count);

    if (!names(ids, count, OPTION_threads)) {
        return true;
    }
    must_be_main();
    refusal->id = OPTION_threads;
    return check_size(crew, &size, refusal) &&
           check_rules(crew, wanted, OPTION_threads, refusal) &&
           crew_have_workers(crew, setting_get(wanted, threads), refusal->why);
}

/* These options were changed: notify the threads that use them. */
static void live_tell(struct crew *crew, const enum option_id *ids, unsigned count)
{
    if (names(ids, count, OPTION_threads)) {
        crew_set_active(crew, setting_get(crew->settings, threads));
    }
    if (names(ids, count, OPTION_worker_cpus)) {
        pin_workers(crew);
    }
    if (names(ids, count, OPTION_move_cpu_pct)) {
        engine_set_move_cpu_pct(&crew->engine, setting_get(crew->settings, move_cpu_pct));
    }
    crew_options_changed(crew);
}

/*
 * Apply these options of `wanted`. On failure returns false, and nothing was changed. The
 * caller has the lock.
 */
static bool apply(struct crew *crew, const struct settings *wanted, const enum option_id *ids,
                  unsigned count, struct live_refusal *refusal)
{
    const struct size size = size_wanted(crew, wanted, ids, count);

    for (unsigned i = 0; i < count; i++) {
        if (!check_rules(crew, wanted, ids[i], refusal)) {
            return false;
        }
    }
    if (!check_size(crew, &size, refusal) || !take_size(crew, &size, refusal)) {
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        option_copy(crew->settings, wanted, ids[i]);
    }
    return true;
}

/* Read the changes. False: one of them cannot be. */
static bool read_changes(const struct live_change *changes, unsigned count,
                         struct settings *wanted, enum option_id *ids,
                         struct live_refusal *refusal)
{
    for (unsigned i = 0; i < count; i++) {
        refusal->id = changes[i].id;
        if (!option_change(wanted, changes[i].id, changes[i].value, refusal->why)) {
            return false;
        }
        for (unsigned k = 0; k < i; k++) {
            if (ids[k] == changes[i].id) {
                return live_refuse(refusal, ids[k], "is given twice");
            }
        }
        ids[i] = changes[i].id;
    }
    return true;
}

/* Compute the numbers of options that are shares of the machine. False: one has none. */
static bool settle_shares(struct settings *wanted, const enum option_id *ids, unsigned count,
                          struct live_refusal *refusal)
{
    return options_settle_shares(wanted, &refusal->id, refusal->why) ||
           !names(ids, count, refusal->id);
}

/* Set these options to their values in `wanted`; is_given: all of them are given by files. */
static bool change(struct crew *crew, const struct settings *wanted, const enum option_id *ids,
                   unsigned count, bool is_given, struct live_refusal *refusal)
{
    if (!make_workers(crew, wanted, ids, count, refusal)) {
        return false;
    }
    pthread_mutex_lock(&crew->live.lock);
    bool is_done = apply(crew, wanted, ids, count, refusal);
    if (is_done && is_given) {
        options_copy_live(&crew->live.given, wanted);
    }
    pthread_mutex_unlock(&crew->live.lock);
    if (is_done && count > 0) {
        live_tell(crew, ids, count);
    }
    return is_done;
}

bool live_set(struct crew *crew, const struct live_change *changes, unsigned count,
              struct live_refusal *refusal)
{
    enum option_id ids[LIVE_CHANGES_MAX];
    struct settings wanted;

    must(count <= LIVE_CHANGES_MAX);
    must_not_be_reading();
    live_copy(crew, &wanted);
    return read_changes(changes, count, &wanted, ids, refusal) &&
           settle_shares(&wanted, ids, count, refusal) &&
           change(crew, &wanted, ids, count, false, refusal);
}

bool live_reset(struct crew *crew, const enum option_id *ids, unsigned count,
                struct live_refusal *refusal)
{
    struct settings wanted = {0};

    must_not_be_reading();
    for (unsigned i = 0; i < count; i++) {
        refusal->id = ids[i];
        if (!option_is_live(ids[i], refusal->why)) {
            return false;
        }
    }
    pthread_mutex_lock(&crew->live.lock);
    options_copy_live(&wanted, &crew->live.given);
    pthread_mutex_unlock(&crew->live.lock);
    return settle_shares(&wanted, ids, count, refusal) &&
           change(crew, &wanted, ids, count, false, refusal);
}

bool live_take(struct crew *crew, const struct settings *fresh, enum option_id *ids,
               unsigned *count, struct live_refusal *refusal)
{
    must_be_main();
    *count = options_differing(&crew->live.given, fresh, true, ids);
    return change(crew, fresh, ids, *count, true, refusal);
}

/* Is the option set to the same share in both, but with another number? */
static bool differs(const struct settings *now, const struct settings *wanted,
                    enum option_id id)
{
    return setting_share(now, id) != 0 && setting_share(now, id) == setting_share(wanted, id) &&
           (id == OPTION_threads ? setting_get(now, threads) != setting_get(wanted, threads)
                                 : setting_get(now, memory_limit_bytes) !=
                                       setting_get(wanted, memory_limit_bytes));
}

/*
 * Must the number of shards be recomputed? That is so if shards=0, and the wanted number
 * cannot work with the limit.
 */
static bool needs_other_shards(struct crew *crew, const struct settings *wanted)
{
    struct reshard_info info;

    engine_reshard_info(&crew->engine, &info);
    return setting_get(wanted, shards) == 0 &&
           !engine_bears(&crew->engine, info.wanted, setting_get(wanted, memory_limit_bytes));
}

bool live_follow(struct crew *crew, enum option_id id, bool *is_new,
                 struct live_refusal *refusal)
{
    enum option_id ids[] = {id, OPTION_shards};
    unsigned count = 1;
    struct settings wanted;
    bool is_done = true;

    must_be_main();
    live_copy(crew, &wanted);
    if (!settle_shares(&wanted, &id, 1, refusal)) {
        return false;
    }
    *is_new = differs(crew->settings, &wanted, id);
    if (!*is_new) {
        return true;
    }
    count += id == OPTION_memory_limit_bytes && needs_other_shards(crew, &wanted);
    if (!make_workers(crew, &wanted, ids, count, refusal)) {
        return false;
    }
    pthread_mutex_lock(&crew->live.lock);
    *is_new = differs(crew->settings, &wanted, id); /* a worker may have changed it */
    if (*is_new) {
        is_done = apply(crew, &wanted, ids, count, refusal);
    }
    pthread_mutex_unlock(&crew->live.lock);
    if (is_done && *is_new) {
        live_tell(crew, ids, count);
    }
    return is_done;
}

void live_note_given(struct crew *crew, const struct settings *given)
{
    must_be_main();
    pthread_mutex_lock(&crew->live.lock);
    options_copy_live(&crew->live.given, given);
    pthread_mutex_unlock(&crew->live.lock);
}

void live_copy(struct crew *crew, struct settings *out)
{
    must_not_be_reading();
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&crew->live.lock);
    options_copy_live(out, crew->settings);
    pthread_mutex_unlock(&crew->live.lock);
}

bool live_pass(struct crew *crew, struct buf *out)
{
    must_be_main();
    pthread_mutex_lock(&crew->live.lock);
    bool is_done = options_passed_write(out, &crew->live.given, crew->settings);
    pthread_mutex_unlock(&crew->live.lock);
    return is_done;
}

bool live_set_limit(struct crew *crew, uint64_t bytes)
{
    bool is_done;

    must_not_be_reading();
    pthread_mutex_lock(&crew->live.lock);
    is_done =
        options_fit_items(crew->settings, bytes) && engine_set_limit(&crew->engine, bytes);
    if (is_done) {
        setting_set(crew->settings, memory_limit_bytes, bytes);
        setting_set_share(crew->settings, OPTION_memory_limit_bytes, 0);
    }
    pthread_mutex_unlock(&crew->live.lock);
    return is_done;
}

void live_note_cancel(struct crew *crew)
{
    struct reshard_info info;

    must_be_main();
    engine_reshard_info(&crew->engine, &info);
    if (info.state != RESHARD_CANCELLED) {
        return; /* the wanted number has changed since */
    }
    pthread_mutex_lock(&crew->live.lock);
    bool differs = setting_get(crew->settings, shards) != info.wanted;
    setting_set(crew->settings, shards, info.wanted);
    pthread_mutex_unlock(&crew->live.lock);
    if (differs) {
        log_notice("options, shards is now %u (moves cancel)", (unsigned)info.wanted);
    }
}
