/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See live.h. A change is read into settings of its own first; then what can fail is done, and
 * then the stores, which cannot.
 */
#include "daemon/worker/live.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/version.h"
#include "daemon/options/options_check.h"
#include "daemon/options/options_passed.h"
#include "daemon/options/options_value.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/engine/share.h"

void live_init(struct crew *crew)
{
    must_be_main();
    pthread_mutex_init(&crew->live.lock, NULL);
    options_copy_live(&crew->live.given, crew->settings);
}

/* ---- what may fail ----------------------------------------------------------------------- */

static bool refuse(struct live_refusal *refusal, enum option_id id, const char *why)
{
    refusal->id = id;
    snprintf(refusal->why, sizeof(refusal->why), "%s", why);
    return false;
}

/* Rules between an option and what the server was started with. */
static bool check_rules(struct crew *crew, const struct settings *wanted, enum option_id id,
                        struct live_refusal *refusal)
{
    if (id == OPTION_detail_enabled && setting_get(wanted, detail_enabled) &&
        crew->settings->no_dump) {
        return refuse(refusal, id, "not allowed: -X was given");
    }
    if (id == OPTION_memory_limit_bytes &&
        !options_fit_items(crew->settings, setting_get(wanted, memory_limit_bytes))) {
        return refuse(refusal, id, "is less than twice the size of the largest item (-I)");
    }
    if (id == OPTION_threads) {
        const uint64_t limit = setting_get(crew->settings, memory_limit_bytes);
        const uint32_t least = share_shards_least(limit);

        if (share_shards_for(setting_get(wanted, threads), limit) < least) {
            snprintf(refusal->why, sizeof(refusal->why), "-m %" PRIu64 " needs %u or more",
                     limit >> 20, (unsigned)least);
            refusal->id = id;
            return false;
        }
    }
    if (id == OPTION_appendonly && setting_get(wanted, appendonly) != APPEND_OFF &&
        !snapshots_may_log(&crew->snapshots)) {
        return refuse(refusal, id, "needs a folder (dir)");
    }
    if (id == OPTION_replica_tls && setting_get(wanted, replica_tls) && !BUILT_WITH_TLS) {
        return refuse(refusal, id, "this server is not built with TLS support");
    }
    refusal->id = id;
    return crew->prepare_option == NULL || crew->prepare_option(crew, wanted, id, refusal->why);
}

/* The limit is the last that may fail, and is reached when this returns true. */
static bool take_limit(struct crew *crew, const struct settings *wanted,
                       struct live_refusal *refusal)
{
    const uint64_t bytes = setting_get(wanted, memory_limit_bytes);

    if (bytes == setting_get(crew->settings, memory_limit_bytes) ||
        engine_set_limit(&crew->engine, bytes)) {
        return true;
    }
    return refuse(refusal, OPTION_memory_limit_bytes, "out of bounds or unable to adjust");
}

/* ---- changes ----------------------------------------------------------------------------- */

bool live_is_for_main(const enum option_id *ids, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (ids[i] == OPTION_threads) {
            return true;
        }
    }
    return false;
}

/*
 * If the number of workers is one of them, make those that there are not yet, outside the lock
 * because it takes a while. False: that cannot be.
 */
static bool make_workers(struct crew *crew, const struct settings *wanted,
                         const enum option_id *ids, unsigned count,
                         struct live_refusal *refusal)
{
    if (!live_is_for_main(ids, count)) {
        return true;
    }
    must_be_main();
    refusal->id = OPTION_threads;
    return check_rules(crew, wanted, OPTION_threads, refusal) &&
           crew_have_workers(crew, setting_get(wanted, threads), refusal->why);
}

/* These options were changed: tell the threads that use them. */
static void tell(struct crew *crew, const enum option_id *ids, unsigned count)
{
    if (live_is_for_main(ids, count)) {
        crew_set_active(crew, setting_get(crew->settings, threads));
    }
    crew_options_changed(crew);
}

/*
 * Do what `wanted` says of these options. False: nothing was changed. The caller has the lock.
 */
static bool apply(struct crew *crew, const struct settings *wanted, const enum option_id *ids,
                  unsigned count, struct live_refusal *refusal)
{
    for (unsigned i = 0; i < count; i++) {
        if (!check_rules(crew, wanted, ids[i], refusal)) {
            return false;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        if (ids[i] == OPTION_memory_limit_bytes && !take_limit(crew, wanted, refusal)) {
            return false;
        }
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
                return refuse(refusal, ids[k], "is given twice");
            }
        }
        ids[i] = changes[i].id;
    }
    return true;
}

bool live_set(struct crew *crew, const struct live_change *changes, unsigned count,
              struct live_refusal *refusal)
{
    enum option_id ids[LIVE_CHANGES_MAX];
    struct settings wanted;
    bool is_done;

    must(count <= LIVE_CHANGES_MAX);
    must_not_be_reading();
    memset(&wanted, 0, sizeof(wanted));
    if (!read_changes(changes, count, &wanted, ids, refusal) ||
        !make_workers(crew, &wanted, ids, count, refusal)) {
        return false;
    }
    pthread_mutex_lock(&crew->live.lock);
    is_done = apply(crew, &wanted, ids, count, refusal);
    pthread_mutex_unlock(&crew->live.lock);
    if (is_done) {
        tell(crew, ids, count);
    }
    return is_done;
}

bool live_reset(struct crew *crew, const enum option_id *ids, unsigned count,
                struct live_refusal *refusal)
{
    bool is_done;

    must_not_be_reading();
    for (unsigned i = 0; i < count; i++) {
        refusal->id = ids[i];
        if (!option_is_live(ids[i], refusal->why)) {
            return false;
        }
    }
    /* Only main writes them, and threads are its to change. */
    if (!make_workers(crew, &crew->live.given, ids, count, refusal)) {
        return false;
    }
    pthread_mutex_lock(&crew->live.lock);
    is_done = apply(crew, &crew->live.given, ids, count, refusal);
    pthread_mutex_unlock(&crew->live.lock);
    if (is_done) {
        tell(crew, ids, count);
    }
    return is_done;
}

bool live_take(struct crew *crew, const struct settings *fresh, enum option_id *ids,
               unsigned *count, struct live_refusal *refusal)
{
    bool is_done;

    must_be_main();
    *count = options_differing(&crew->live.given, fresh, true, ids);
    if (!make_workers(crew, fresh, ids, *count, refusal)) {
        return false;
    }
    pthread_mutex_lock(&crew->live.lock);
    is_done = apply(crew, fresh, ids, *count, refusal);
    if (is_done) {
        options_copy_live(&crew->live.given, fresh);
    }
    pthread_mutex_unlock(&crew->live.lock);
    if (is_done && *count > 0) {
        tell(crew, ids, *count);
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
    bool is_done;

    must_be_main();
    pthread_mutex_lock(&crew->live.lock);
    is_done = options_passed_write(out, &crew->live.given, crew->settings);
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
    }
    pthread_mutex_unlock(&crew->live.lock);
    return is_done;
}
