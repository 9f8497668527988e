/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replication: see replication.h.
 *
 * The thread sleeps while the server is a primary. While it is a replica the thread runs
 * sessions with the primary (role.h), with pauses between those that fail.
 */
#include "daemon/replica/replication.h"

#include <string.h>
#include <sysexits.h>

#include "daemon/base/log.h"
#include "daemon/options/settings.h"
#include "daemon/replica/role.h"
#include "daemon/worker/crew.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/engine/engine.h"
#include "lib/engine/flush.h"

/* Interval of checks of min_replicas_to_write, while it is set. */
#define FEW_CHECK_MS 100

/* ---- roles ------------------------------------------------------------------------------- */

/* From a primary to a replica. */
static void demote(struct replication *r, bool hands_over)
{
    if (hands_over) {
        follower_note_heard(r->follower); /* what is here is what the new primary has */
    }
    replication_enter(r, hands_over ? REPL_CUT : REPL_CONNECTING, "follows another server");
    pthread_mutex_lock(&r->mutex);
    waits_end(r); /* by the offsets of this history */
    pthread_mutex_unlock(&r->mutex);
    follower_begin_whole(r->follower);
    replication_drop_readers(r);
    role_end_recording(r);
    engine_follow_due(&r->crew->engine, DUE_NOTHING);
}

static bool is_stopping(struct replication *r)
{
    pthread_mutex_lock(&r->mutex);
    bool is = r->is_stopping;
    pthread_mutex_unlock(&r->mutex);
    return is;
}

/*
 * Flush all items: they are inconsistent, and must not be served. False: the server stops, and
 * they were not flushed.
 */
static bool forget_all(struct replication *r)
{
    struct engine *e = &r->crew->engine;
    const struct timespec pause = {.tv_nsec = COND_NS_PER_MS};
    const msec_t now = clock_now(&e->clock);

    while (engine_flush(e, now, now, false) != OUT_OK) {
        if (is_stopping(r)) {
            return false;
        }
        grace_ask(reclaim_grace(e->reclaimer), GRACE_HURRY);
        nanosleep(&pause, NULL);
    }
    return true;
}

/* Turn a replica into a primary. A server that stops may remain a replica. */
static void promote(struct replication *r)
{
    struct engine *e = &r->crew->engine;
    const bool is_whole = atomic_load(&r->is_whole);
    /*
     * Items dropped here for lack of room have no record: no replica may continue from this
     * history.
     */
    const bool goes_on = is_whole && !follower_has_lost(r->follower);
    struct backlog_name fresh = {.id = replid_draw()};
    struct backlog_name name;

    if (replication_state(r) == REPL_ONLINE) {
        replication_enter(r, REPL_CUT, "is being promoted");
    }
    if (!role_drop_syncs(r)) {
        return; /* a worker may still read what follower_leave() releases */
    }
    uint64_t cas_max = follower_leave(r->follower);
    if (goes_on) {
        backlog_get_name(r->backlog, &name);
        if (name.epoch < r->seen_epoch) {
            name.epoch = r->seen_epoch;
            replication_drop_readers(r);
            backlog_take_over(r->backlog, &name);
        }
        backlog_promote(r->backlog, &fresh.id, clock_now(&e->clock) + r->to_unix_ms);
    } else {
        replication_drop_readers(r);
        backlog_get_name(r->backlog, &fresh);
        fresh = (struct backlog_name){
            .id = replid_draw(),
            .epoch = (fresh.epoch > r->seen_epoch ? fresh.epoch : r->seen_epoch) + 1};
        backlog_take_over(r->backlog, &fresh);
    }
    if (!is_whole) {
        if (!forget_all(r)) {
            return;
        }
        snapshots_note_followed_flush(&r->crew->snapshots);
    }
    engine_raise_cas(e, cas_max);
    engine_follow_due(e, MSEC_NEVER);
    pthread_mutex_lock(&r->control);
    bool records = role_begin_recording(r, goes_on);
    pthread_mutex_unlock(&r->control);
    if (!records) {
        log_error("replication, no memory to record changes: replicas will be sent everything");
    }
    atomic_store(&r->is_whole, true);
    pthread_mutex_lock(&r->mutex);
    r->counts.promotions++;
    waits_check_few(r);
    pthread_mutex_unlock(&r->mutex);
    replication_enter(r, REPL_PRIMARY,
                      is_whole ? "promoted"
                               : "promoted empty, because its full sync was incomplete");
}

/* ---- the thread -------------------------------------------------------------------------- */

/*
 * Sleep until something is to be done, or this long; negative: for ever. A replica asks for a
 * failover within its session. Under the mutex.
 */
static void rest(struct replication *r, int64_t ms)
{
    const struct timespec until = cond_after(ms > 0 ? ms : 0);

    while (!r->is_changed && !r->is_woken && !r->is_stopping &&
           (replication_is_replica(r) || r->failover.state == FAILOVER_NONE)) {
        if (ms < 0) {
            pthread_cond_wait(&r->wake, &r->mutex);
        } else if (pthread_cond_timedwait(&r->wake, &r->mutex, &until) != 0) {
            break;
        }
    }
}

void replication_ask(struct replication *r, struct late_ask *ask)
{
    const bool follows = replication_is_wanted(r->crew->settings);

    pthread_mutex_lock(&r->mutex);
    asks_add(&r->asks, ask);
    if (r->is_stopping || follows == replication_is_replica(r)) {
        asks_answer(&r->asks, true); /* else the thread does */
    }
    pthread_mutex_unlock(&r->mutex);
}

static bool wants_failover(struct replication *r)
{
    enum failover_state state = failover_state(r);

    return state == FAILOVER_WANTED || state == FAILOVER_OVER;
}

/* Change the role because the options request it, or at the end of a failover. */
static void change_role(struct replication *r, bool follows)
{
    const enum failover_state failover = failover_state(r);
    const bool hands_over =
        failover == FAILOVER_GIVEN || (!follows && failover != FAILOVER_NONE);

    if (follows) {
        demote(r, failover == FAILOVER_GIVEN);
    } else {
        promote(r);
    }
    if (failover != FAILOVER_NONE) {
        failover_end(r, hands_over ? NULL : "another server is followed");
    }
    if (follows && (hands_over || !setting_get(r->crew->settings, replica_reads))) {
        crew_close_clients(r->crew); /* so that they find the primary */
    }
}

static void run_replication(void *arg)
{
    struct replication *r = arg;

    pthread_mutex_lock(&r->mutex);
    while (!r->is_stopping) {
        const bool is_changed = r->is_changed;
        const bool is_forced = r->is_forced;
        int64_t pause_ms = -1;

        r->is_changed = false;
        r->is_forced = false;
        r->is_woken = false;
        follower_resume_waits(r->follower);
        pthread_mutex_unlock(&r->mutex);
        bool follows = is_changed ? follower_retarget(r->follower, is_forced)
                                  : follower_has_target(r->follower);
        if (follows != replication_is_replica(r)) {
            change_role(r, follows);
        } else if (!follows && failover_state(r) == FAILOVER_GIVEN) {
            /* The role was handed over, but the options name no server to follow. */
            failover_end(r, "the options make this server the primary");
        }
        pthread_mutex_lock(&r->mutex);
        if (!r->is_changed) {
            asks_answer(&r->asks, true);
        }
        waits_check_few(r);
        pthread_mutex_unlock(&r->mutex);
        if (follows) {
            pause_ms = follower_run(r->follower);
        } else if (wants_failover(r) && failover_run(r)) {
            pause_ms = 0; /* the role is another one now */
        } else if (setting_get(r->crew->settings, min_replicas_to_write) > 0) {
            pause_ms = FEW_CHECK_MS;
        }
        pthread_mutex_lock(&r->mutex);
        rest(r, pause_ms);
    }
    asks_answer(&r->asks, true);
    pthread_mutex_unlock(&r->mutex);
    failover_stop(r);
}

static const struct thread_kind replication_kind = {
    .name = "replication", .run = run_replication, .reads = true};

/* ---- the process ------------------------------------------------------------------------- */

static void replication_release(struct replication *r)
{
    follower_destroy(&r->follower);
    backlog_destroy(&r->backlog);
    pthread_cond_destroy(&r->progress);
    pthread_cond_destroy(&r->detached);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->mutex);
    pthread_mutex_destroy(&r->control);
}

/* Continue the history of the previous process; a replica's history is that of its primary. */
static void resume_primary(struct replication *r, const struct repl_record *record)
{
    struct backlog_name name = record->name;
    const struct replid next = replid_draw();

    if (record->was_replica) {
        if (name.epoch < record->seen_epoch) {
            name.epoch = record->seen_epoch;
            backlog_take_over(r->backlog, &name);
        }
        if (record->has_lost) {
            name = (struct backlog_name){.id = next, .epoch = name.epoch + 1};
            backlog_take_over(r->backlog, &name);
        } else {
            backlog_promote(r->backlog, &next, 0);
        }
        engine_raise_cas(&r->crew->engine, 0);
    }
    if (!role_begin_recording(r, true)) {
        log_error("replication, no memory to record changes: replicas will be sent everything");
    }
}

/* Set the role at the start, before any client is served. */
static void begin_role(struct replication *r, const struct repl_record *record)
{
    struct engine *e = &r->crew->engine;
    struct backlog_name name;

    backlog_get_name(r->backlog, &name);
    name.epoch = 0;
    if (record != NULL) {
        name = record->name;
        r->to_unix_ms = record->to_unix_ms;
        r->seen_epoch = record->seen_epoch > name.epoch ? record->seen_epoch : name.epoch;
        r->has_more = record->has_lost && !record->was_replica;
    }
    if (r->has_more && replication_is_wanted(r->crew->settings)) {
        r->has_more = false;
        name.epoch = 0; /* no partial sync */
    }
    backlog_take_over(r->backlog, &name);
    if (follower_retarget(r->follower, false)) {
        /* What a replica has left is of one moment. */
        role_set_state(r, record != NULL ? REPL_STALE : REPL_CONNECTING, "configured");
        if (record != NULL) {
            follower_resume(r->follower, &record->name.id);
        }
        engine_follow_due(e, DUE_NOTHING);
        follower_begin_whole(r->follower);
        if (record != NULL && record->has_lost) {
            follower_note_lost(r->follower);
        }
    } else if (record != NULL) {
        resume_primary(r, record);
    }
    atomic_store(&r->is_whole, true);
    r->is_changed = true; /* the thread looks */
}

int replication_start(struct replication *r, struct crew *crew,
                      const struct repl_record *record)
{
    struct shipper_config cfg = {.engine = &crew->engine, .on_more = role_on_more, .arg = r};

    must_be_main();
    *r = (struct replication){.crew = crew, .run = replid_draw()};
    pthread_mutex_init(&r->control, NULL);
    pthread_mutex_init(&r->mutex, NULL);
    cond_init(&r->wake);
    cond_init(&r->detached);
    cond_init(&r->progress);
    list_init(&r->links);
    list_init(&r->waits);
    r->backlog = backlog_create(&crew->engine.budget);
    r->follower = r->backlog != NULL ? follower_create(r) : NULL;
    cfg.backlog = r->backlog;
    if (r->follower == NULL || shipper_start(&r->shipper, &cfg) != MF_OK) {
        log_error("replication, cannot start its threads");
        replication_release(r);
        return EX_OSERR;
    }
    r->is_there = true;
    begin_role(r, record);
    return 0;
}

int replication_begin(struct replication *r)
{
    must_be_main();
    if (thread_start(&r->thread, &replication_kind, r) != 0) {
        log_error("replication, cannot start its thread");
        return EX_OSERR;
    }
    return 0;
}

void replication_end(struct replication *r)
{
    must_be_main();
    if (!r->is_there) {
        return;
    }
    pthread_mutex_lock(&r->mutex);
    r->is_stopping = true;
    pthread_cond_broadcast(&r->wake);
    pthread_cond_broadcast(&r->detached);
    pthread_cond_broadcast(&r->progress);
    follower_interrupt(r->follower);
    pthread_mutex_unlock(&r->mutex);
    thread_join(&r->thread);
}

bool replication_stop(struct replication *r, struct repl_record *record)
{
    const bool is_whole = !r->is_there || atomic_load(&r->is_whole);
    uint64_t offset;

    must_be_main();
    memset(record, 0, sizeof(*record));
    if (!r->is_there) {
        return true;
    }
    if (r->records) {
        (void)shipper_mark(r->shipper, &offset);
        shipper_end(r->shipper);
    }
    if (is_whole && (r->records || replication_is_replica(r))) {
        record->bytes = sizeof(*record);
        record->was_replica = replication_is_replica(r);
        record->has_lost =
            record->was_replica ? follower_has_lost(r->follower) : role_has_more(r);
        follower_get_name(r->follower, &record->name);
        record->to_unix_ms = r->to_unix_ms;
        record->seen_epoch = r->seen_epoch;
    }
    shipper_stop(&r->shipper);
    replication_release(r);
    r->is_there = false;
    return is_whole;
}

/* Make the thread check the options. Under the mutex, as that ends the interruption. */
static void interrupt(struct replication *r)
{
    r->is_changed = true;
    follower_interrupt(r->follower);
    pthread_cond_broadcast(&r->wake);
}

void replication_force(struct replication *r)
{
    pthread_mutex_lock(&r->mutex);
    r->is_forced = true;
    interrupt(r);
    pthread_mutex_unlock(&r->mutex);
}

void replication_drain(struct replication *r)
{
    must_be_main();
    if (!r->is_there) {
        return;
    }
    pthread_mutex_lock(&r->mutex);
    r->is_draining = true;
    waits_end(r);
    pthread_mutex_unlock(&r->mutex);
    replication_tell(r);
}

void replication_options_changed(struct replication *r)
{
    if (!r->is_there) {
        return;
    }
    bool is_other = follower_is_other(r->follower);
    pthread_mutex_lock(&r->mutex);
    if (is_other) {
        interrupt(r);
    }
    waits_check_few(r);
    role_set_gate(r);   /* replica_reads */
    r->is_woken = true; /* min_replicas_to_write may have been set: start its checks */
    pthread_cond_broadcast(&r->wake);
    pthread_mutex_unlock(&r->mutex);
}

/* ---- observers --------------------------------------------------------------------------- */

static void look_at_primary(struct replication *r, struct repl_info *info)
{
    follower_look(r->follower, info);
    if (info->state == REPL_PRIMARY) {
        /* A primary has no lag: reset the figures of the server that it followed before. */
        info->lag_bytes = 0;
        info->silent_ms = -1;
        info->skew_ms = 0;
    } else if (!repl_is_consistent(info->state)) {
        info->lag_ms = -1;
    } else if (info->state != REPL_ONLINE || info->lag_bytes > 0) {
        info->lag_ms = info->level_ms;
    }
}

/* Under the mutex. */
static void look_at_replicas(struct replication *r, struct repl_info *info)
{
    const msec_t now = clock_now(&r->crew->engine.clock);
    const uint64_t end = info->name.offset;
    const struct replica *x;

    LIST_EACH (x, &r->links, struct replica, link) {
        struct replica_info *i = &info->replica[info->count++];

        *i = (struct replica_info){.is_online = x->reader != NULL,
                                   .acked = x->acked,
                                   .lag_bytes = end > x->acked ? end - x->acked : 0,
                                   .since_ms = now - x->acked_ms};
        memcpy(i->peer, x->peer, sizeof(i->peer));
        memcpy(i->address, x->address, sizeof(i->address));
        if (!i->is_online) {
            continue;
        }
        info->online++;
        if (i->lag_bytes > info->replicas_lag_bytes) {
            info->replicas_lag_bytes = i->lag_bytes;
        }
        if (i->since_ms > info->replicas_ack_ms) {
            info->replicas_ack_ms = i->since_ms;
        }
    }
}

static void look_at_sync(struct replication *r, struct repl_sync_info *sync)
{
    struct exports_info exports;

    exports_look(&r->crew->exports, &exports);
    if (exports.is_sync) {
        *sync = (struct repl_sync_info){true, exports.items, exports.items_total};
    }
}

void replication_look(struct replication *r, struct repl_info *info)
{
    *info = (struct repl_info){.state = replication_state(r), .silent_ms = -1, .level_ms = -1};
    if (!r->is_there) {
        return;
    }
    backlog_get_name(r->backlog, &info->name);
    if (!replid_is_none(&info->name.id)) {
        replid_format(&info->name.id, info->id);
    }
    if (!replid_is_none(&info->name.previous)) {
        replid_format(&info->name.previous, info->previous);
    }
    info->backlog_bytes = backlog_bytes(r->backlog);
    info->backlog_start = backlog_start(r->backlog);
    look_at_primary(r, info);
    shipper_info(r->shipper, &info->shipping);
    look_at_sync(r, &info->sync);
    info->has_few = (gate_read(&r->crew->gate) & (GATE_FEW | GATE_READ_ONLY)) == GATE_FEW;
    pthread_mutex_lock(&r->mutex);
    info->records = r->records;
    info->seen_epoch = r->seen_epoch;
    info->counts = r->counts;
    info->refused_why = r->refused_why;
    info->is_failing_over = r->failover.state != FAILOVER_NONE;
    memcpy(info->why, r->why, sizeof(info->why));
    look_at_replicas(r, info);
    pthread_mutex_unlock(&r->mutex);
}
