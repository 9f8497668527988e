/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replicas of this server, on the workers of their clients: see replication.h.
 */
#include <inttypes.h>

#include "daemon/base/log.h"
#include "daemon/replica/role.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/replica/fullsync.h"

/* Is what is here worth following? */
static bool may_be_followed(const struct replication *r)
{
    enum repl_state state = replication_state(r);

    return state == REPL_PRIMARY || state == REPL_ONLINE;
}

/* Refuse a replica. Logged once for each reason, because a refused replica retries. */
static void replica_refuse(struct replication *r, const struct replica *x,
                           struct repl_greeting *g, const char *why)
{
    pthread_mutex_lock(&r->mutex);
    r->counts.sync_refused++;
    bool is_other = r->refused_why != why;
    r->refused_why = why;
    pthread_mutex_unlock(&r->mutex);
    if (is_other) {
        log_warn("replication, refused a replica at %s: %s", x->peer, why);
    }
    g->answer = REPL_REFUSED;
    g->why = why;
}

/* This process, and those that it follows. */
static void put_path(struct replication *r, char path[REPL_PATH_BYTES])
{
    replid_format(&r->run, path);
    if (replication_is_replica(r)) {
        path[REPLID_CHARS] = ',';
        follower_path(r->follower, path + REPLID_CHARS + 1);
    }
}

/* A replica has connected again: mark the earlier links of its process. Under the mutex. */
static void supersede(struct replication *r, const struct replid *run)
{
    struct replica *x;

    LIST_EACH (x, &r->links, struct replica, link) {
        if (replid_equal(&x->run, run)) {
            x->is_superseded = true;
            failover_note_gone(r, x);
            replication_tell_one(x);
        }
    }
}

/* Under `control`. */
static void answer(struct replication *r, struct replica *x, const struct backlog_name *has,
                   struct repl_greeting *g)
{
    backlog_get_name(r->backlog, &g->name);
    g->now_ms = clock_now(&r->crew->engine.clock) + r->to_unix_ms;
    if (has->epoch > g->name.epoch) {
        replica_refuse(r, x, g, "the epoch of this server is lower");
        return;
    }
    g->answer = REPL_FULL;
    g->why = "it has no items of this history";
    if (!replid_is_none(&has->id)) {
        enum backlog_answer a = shipper_attach(r->shipper, &has->id, has->offset, &x->reader);

        if (a == BACKLOG_CONTINUES) {
            g->answer = REPL_CONTINUES;
        } else if (a == BACKLOG_BUSY) {
            replica_refuse(r, x, g, backlog_answer_text(a));
            return;
        }
        g->why = backlog_answer_text(a);
    }
    g->end = backlog_end(r->backlog);
    put_path(r, g->path);
    pthread_mutex_lock(&r->mutex);
    x->acked = has->offset;
    x->acked_ms = clock_now(&r->crew->engine.clock);
    r->counts.sync_partial += g->answer == REPL_CONTINUES;
    r->counts.sync_full += g->answer == REPL_FULL;
    r->readers += x->reader != NULL;
    r->count++;
    list_append(&r->links, &x->link);
    pthread_mutex_unlock(&r->mutex);
    if (g->answer == REPL_CONTINUES) {
        log_notice_limited(
            "replication, replica at %s connected, continues from offset %" PRIu64, x->peer,
            has->offset);
    } else {
        log_notice_limited("replication, replica at %s connected, needs a full sync: %s",
                           x->peer, g->why);
    }
}

/* Is there no place for another replica? A dead link of the same process is closed first. */
static bool is_full(struct replication *r, const struct replica *x)
{
    pthread_mutex_lock(&r->mutex);
    supersede(r, &x->run);
    bool is = r->count >= SHIPPER_READERS_MAX;
    pthread_mutex_unlock(&r->mutex);
    return is;
}

void replication_greet(struct replication *r, struct replica *x, const struct backlog_name *has,
                       struct repl_greeting *g)
{
    const char *why = NULL;

    must_be_a_worker();
    must_not_be_reading();
    *g = (struct repl_greeting){.answer = REPL_REFUSED};
    if (!may_be_followed(r)) {
        why = "this replica is not in sync with its primary";
    }
    /* The thread that changes the role may hold `control` while it waits for a worker. */
    if (why == NULL && pthread_mutex_trylock(&r->control) != 0) {
        why = "the role of this server is about to change";
    }
    if (why != NULL) {
        replica_refuse(r, x, g, why);
        return;
    }
    if (is_full(r, x)) {
        replica_refuse(r, x, g, backlog_answer_text(BACKLOG_BUSY));
    } else if (replication_state(r) == REPL_PRIMARY && !role_begin_recording(r, false)) {
        replica_refuse(r, x, g, "no memory to record changes");
    } else {
        answer(r, x, has, g);
    }
    pthread_mutex_unlock(&r->control);
}

bool replication_dismisses(struct replication *r, const struct replica *x)
{
    must_be_worker(x->worker);
    pthread_mutex_lock(&r->mutex);
    bool is = x->is_superseded;
    pthread_mutex_unlock(&r->mutex);
    return is || (x->reader == NULL && !may_be_followed(r));
}

bool replication_begin_sync(struct replication *r, struct fullsync *sync)
{
    sync->shipper = r->shipper;
    sync->to_unix_ms = atomic_load(&r->to_unix_ms);
    pthread_mutex_lock(&r->mutex);
    /* Checked under the mutex: while a sync is counted, the applier is not released. */
    bool is_good = may_be_followed(r);
    if (is_good && replication_is_replica(r)) {
        sync->applier = follower_applier(r->follower);
    }
    r->syncs += is_good;
    pthread_mutex_unlock(&r->mutex);
    return is_good;
}

void replication_end_sync(struct replication *r)
{
    pthread_mutex_lock(&r->mutex);
    r->syncs--;
    pthread_cond_broadcast(&r->detached);
    pthread_mutex_unlock(&r->mutex);
}

bool replication_has_lost(const struct replication *r)
{
    return replication_is_replica(r) && follower_has_lost(r->follower);
}

unsigned replication_clients(struct replication *r)
{
    if (!r->is_there) {
        return 0;
    }
    pthread_mutex_lock(&r->mutex);
    unsigned n = r->count;
    pthread_mutex_unlock(&r->mutex);
    return n;
}

void replication_attach(struct replication *r, struct replica *x, struct shipper_reader *reader)
{
    must_be_worker(x->worker);
    must(x->reader == NULL);
    pthread_mutex_lock(&r->mutex);
    x->reader = reader;
    x->acked = 0; /* until its first acknowledgement */
    x->acked_ms = clock_now(&r->crew->engine.clock);
    r->readers++;
    pthread_mutex_unlock(&r->mutex);
}

void replication_detach(struct replication *r, struct replica *x)
{
    struct shipper_reader *reader = x->reader;

    must_be_worker(x->worker);
    if (reader == NULL) {
        return;
    }
    shipper_detach(&reader);
    pthread_mutex_lock(&r->mutex);
    x->reader = NULL;
    r->readers--;
    pthread_cond_broadcast(&r->detached);
    pthread_mutex_unlock(&r->mutex);
}

void replication_ack(struct replication *r, struct replica *x, uint64_t offset)
{
    must_be_worker(x->worker);
    shipper_ack(x->reader, offset);
    pthread_mutex_lock(&r->mutex);
    x->acked = offset;
    x->acked_ms = clock_now(&r->crew->engine.clock);
    failover_note_ack(r, x);
    waits_check(r);
    if ((gate_read(&r->crew->gate) & GATE_FEW) != 0) {
        waits_check_few(r);
    }
    pthread_mutex_unlock(&r->mutex);
}

void replication_leave(struct replication *r, struct replica *x)
{
    must_be_worker(x->worker);
    replication_detach(r, x);
    pthread_mutex_lock(&r->mutex);
    bool has_followed = list_has_link(&x->link);
    if (has_followed) {
        list_remove(&x->link);
        r->count--;
        failover_note_gone(r, x);
    }
    pthread_mutex_unlock(&r->mutex);
    if (has_followed) {
        log_notice_limited("replication, replica at %s disconnected", x->peer);
    }
}

void replication_ping(struct replication *r, struct repl_ping *p, bool is_idle)
{
    struct shipper_level level = {.due_gone = DUE_NOTHING};

    must_be_a_worker();
    if (replication_is_replica(r)) {
        pthread_mutex_lock(&r->mutex);
        level = r->level;
        pthread_mutex_unlock(&r->mutex);
    } else if (shipper_level(r->shipper, &level) && is_idle) {
        (void)shipper_ask(r->shipper);
    }
    *p = (struct repl_ping){
        .now_ms = clock_now(&r->crew->engine.clock) + r->to_unix_ms,
        .wall_ms = clock_unix_ms(&r->crew->engine.clock),
        .end = backlog_end(r->backlog),
        .due_offset = level.offset,
        .due_ms = level.due_gone,
    };
}
