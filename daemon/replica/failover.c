/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handing over to a replica: see role.h and replication.h.
 *
 * The primary holds changes, marks the end of the stream, and waits until the replica
 * acknowledges that end once more, so that it does not hand over to a replica that hangs. The
 * answer to the acknowledgement is the handover: from there on the replica is a primary, and
 * this server does not become one again by itself. If the acknowledgement does not come in
 * time, changes continue here.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/options/settings.h"
#include "daemon/replica/role.h"
#include "daemon/worker/crew.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"

/* ---- asking for one ---------------------------------------------------------------------- */

/* Answer the client that waits, if there is one. Under the mutex. */
static void answer(struct late_ask *ask, const char *why)
{
    if (ask != NULL) {
        ask->is_done = why == NULL;
        snprintf(ask->why, sizeof(ask->why), "%s", why != NULL ? why : "");
        mailbox_post(ask->to, &ask->answer);
    }
}

/*
 * Request a failover from the thread. Returns false if another is in progress. Under the mutex.
 */
static bool want(struct replication *r, const struct failover *f)
{
    if (r->failover.state != FAILOVER_NONE || r->is_stopping) {
        return false;
    }
    r->failover = *f;
    r->failover.state = FAILOVER_WANTED;
    r->failover.offset = UINT64_MAX;
    pthread_cond_broadcast(&r->wake);
    return true;
}

void replication_failover(struct replication *r, struct span address, int64_t limit_ms,
                          struct late_ask *ask)
{
    struct failover f = {.limit_ms = limit_ms, .ask = ask};

    must(address.len < sizeof(f.address));
    memcpy(f.address, address.ptr, address.len);
    pthread_mutex_lock(&r->mutex);
    enum repl_state state = replication_state(r);
    if (state != REPL_PRIMARY && state != REPL_ONLINE) {
        answer(ask, "there is no link to the primary");
    } else if (!want(r, &f)) {
        answer(ask, "another failover is under way");
    }
    pthread_mutex_unlock(&r->mutex);
}

bool replication_level(struct replication *r, int64_t limit_ms, struct late_ask *ask)
{
    const struct failover f = {.limit_ms = limit_ms, .is_stop = true, .ask = ask};

    must_be_main();
    pthread_mutex_lock(&r->mutex);
    bool is_begun = replication_state(r) == REPL_PRIMARY && r->readers > 0 && want(r, &f);
    pthread_mutex_unlock(&r->mutex);
    return is_begun;
}

const char *replication_ask_failover(struct replication *r, struct replica *x, int64_t limit_ms)
{
    const int64_t most_ms = setting_get(r->crew->settings, failover_timeout);
    const struct failover f = {.to = x, .limit_ms = limit_ms < most_ms ? limit_ms : most_ms};

    const char *why = NULL;

    must_be_worker(x->worker);
    pthread_mutex_lock(&r->mutex);
    if (replication_state(r) != REPL_PRIMARY) {
        why = "this is a replica";
    } else if (!want(r, &f)) {
        why = "another failover is under way";
    }
    pthread_mutex_unlock(&r->mutex);
    return why;
}

/* ---- at the primary ---------------------------------------------------------------------- */

/* The replica to hand over to; NULL: *why. Under the mutex. */
static struct replica *choose(struct replication *r, const char **why)
{
    const struct failover *f = &r->failover;
    struct replica *best = NULL;
    struct replica *x;

    *why = f->address[0] != '\0' ? "no online replica has that address"
                                 : "no online replica has a known address";
    LIST_EACH (x, &r->links, struct replica, link) {
        if (replica_is_online(x) && x->address[0] != '\0' && (f->to == NULL || f->to == x) &&
            (f->address[0] == '\0' || strcmp(f->address, x->address) == 0) &&
            (best == NULL || x->acked > best->acked)) {
            best = x;
        }
    }
    return best;
}

/* Hold changes. When the end of the stream is known, request acknowledgements from replicas. */
static void hold_and_mark(struct replication *r, const struct timespec *until)
{
    struct failover *f = &r->failover;
    uint64_t offset;
    bool is_done;

    gate_set(&r->crew->gate, GATE_PAUSED, GATE_PAUSED);
    crew_settle(r->crew);
    uint64_t ticket = shipper_ask(r->shipper);
    shipper_hurry(r->shipper, ticket);
    pthread_mutex_lock(&r->mutex);
    while (!(is_done = shipper_is_done(r->shipper, ticket, &offset)) &&
           f->state == FAILOVER_WAITS && !r->is_stopping &&
           pthread_cond_timedwait(&r->progress, &r->mutex, until) == 0) {
    }
    if (is_done) {
        f->offset = offset; /* only now: acknowledgements below it do not count */
    }
    pthread_mutex_unlock(&r->mutex);
    if (is_done) {
        replication_tell(r);
    }
}

void failover_note_ack(struct replication *r, const struct replica *x)
{
    struct failover *f = &r->failover;

    if (f->is_stop) {
        pthread_cond_broadcast(&r->progress);
    } else if (f->state == FAILOVER_WAITS && f->to == x && x->acked >= f->offset) {
        f->state = FAILOVER_READY;
        pthread_cond_broadcast(&r->progress);
    }
}

void failover_note_gone(struct replication *r, const struct replica *x)
{
    struct failover *f = &r->failover;

    if (f->to == x && f->state != FAILOVER_NONE && f->state != FAILOVER_GIVEN) {
        f->state = FAILOVER_OVER;
        pthread_cond_broadcast(&r->progress);
    }
}

bool replication_awaits(struct replication *r, const struct replica *x)
{
    const struct failover *f = &r->failover;

    must_be_worker(x->worker);
    pthread_mutex_lock(&r->mutex);
    bool awaits = f->state == FAILOVER_WAITS && f->offset != UINT64_MAX &&
                  (f->to == x || (f->is_stop && x->acked < f->offset));
    pthread_mutex_unlock(&r->mutex);
    return awaits;
}

bool replication_hands_over(struct replication *r, const struct replica *x)
{
    struct failover *f = &r->failover;

    must_be_worker(x->worker);
    pthread_mutex_lock(&r->mutex);
    bool is_given = f->state == FAILOVER_READY && f->to == x;
    if (is_given) {
        f->state = FAILOVER_GIVEN;
        pthread_cond_broadcast(&r->progress);
    }
    pthread_mutex_unlock(&r->mutex);
    return is_given;
}

/* Set the option `replicaof`, so that this server follows the new primary. */
static void follow(struct replication *r, const char *address)
{
    const struct live_change change = {.id = OPTION_replicaof, .value = address};
    struct live_refusal refusal;

    if (!live_set(r->crew, &change, 1, &refusal)) {
        log_error("replication, cannot follow %s: %s", address, refusal.why);
    }
}

/* Have all online replicas applied the whole stream? Under the mutex. */
static bool are_level(struct replication *r)
{
    const struct replica *x;

    LIST_EACH (x, &r->links, struct replica, link) {
        if (replica_is_online(x) && x->acked < r->failover.offset) {
            return false;
        }
    }
    return true;
}

/* The server stops: hold changes from here on, and wait until all online replicas catch up. */
static void level_all(struct replication *r)
{
    struct failover *f = &r->failover;

    pthread_mutex_lock(&r->mutex);
    struct timespec until = cond_after(f->limit_ms);
    f->state = FAILOVER_WAITS;
    pthread_mutex_unlock(&r->mutex);
    hold_and_mark(r, &until);
    pthread_mutex_lock(&r->mutex);
    while (!are_level(r) && !r->is_stopping &&
           pthread_cond_timedwait(&r->progress, &r->mutex, &until) == 0) {
    }
    answer(f->ask, NULL);
    *f = (struct failover){.state = FAILOVER_NONE};
    pthread_mutex_unlock(&r->mutex);
}

bool failover_run(struct replication *r)
{
    struct failover *f = &r->failover;
    char address[REPL_TARGET_MAX];
    const char *why = NULL;

    must_not_be_reading();
    if (f->is_stop) { /* constant while it is wanted */
        level_all(r);
        return false;
    }
    pthread_mutex_lock(&r->mutex);
    struct timespec until = cond_after(f->limit_ms);
    f->to = f->state == FAILOVER_WANTED ? choose(r, &why) : NULL;
    why = f->state == FAILOVER_WANTED ? why : "the link to the replica was cut";
    if (f->to != NULL) {
        f->state = FAILOVER_WAITS;
        memcpy(address, f->to->address, sizeof(address));
    }
    pthread_mutex_unlock(&r->mutex);
    if (f->to == NULL) {
        failover_end(r, why);
        return false;
    }
    hold_and_mark(r, &until);
    pthread_mutex_lock(&r->mutex);
    while ((f->state == FAILOVER_WAITS || f->state == FAILOVER_READY) && !r->is_stopping &&
           !r->is_changed && pthread_cond_timedwait(&r->progress, &r->mutex, &until) == 0) {
    }
    bool is_given = f->state == FAILOVER_GIVEN;
    why = f->state == FAILOVER_OVER ? "the link to the replica was cut"
                                    : "the replica did not catch up in time";
    if (!is_given) {
        f->state = FAILOVER_OVER;
    }
    pthread_mutex_unlock(&r->mutex);
    if (is_given) {
        follow(r, address);
        return true;
    }
    failover_end(r, why);
    return false;
}

enum failover_state failover_state(struct replication *r)
{
    pthread_mutex_lock(&r->mutex);
    enum failover_state state = r->failover.state;
    pthread_mutex_unlock(&r->mutex);
    return state;
}

void failover_stop(struct replication *r)
{
    struct failover *f = &r->failover;

    pthread_mutex_lock(&r->mutex);
    bool is_given = f->state == FAILOVER_GIVEN;
    if (is_given) {
        answer(f->ask, NULL); /* and what is held is not stored here any more */
        f->ask = NULL;
    }
    pthread_mutex_unlock(&r->mutex);
    if (!is_given) {
        replication_note_refused(r, "the server is stopping");
    }
}

void failover_end(struct replication *r, const char *why)
{
    struct failover *f = &r->failover;

    gate_set(&r->crew->gate, GATE_PAUSED, 0);
    pthread_mutex_lock(&r->mutex);
    if (why != NULL) {
        log_warn("replication, the failover was aborted: %s", why);
    }
    answer(f->ask, why);
    *f = (struct failover){.state = FAILOVER_NONE};
    pthread_mutex_unlock(&r->mutex);
}

/* ---- at the replica ---------------------------------------------------------------------- */

int64_t replication_wants_handover(struct replication *r)
{
    struct failover *f = &r->failover;
    int64_t limit_ms = 0;

    pthread_mutex_lock(&r->mutex);
    if (f->state == FAILOVER_WANTED) {
        f->state = FAILOVER_WAITS;
        limit_ms = f->limit_ms;
    }
    pthread_mutex_unlock(&r->mutex);
    return limit_ms;
}

void replication_take_over(struct replication *r)
{
    follow(r, "no");
}

void replication_note_refused(struct replication *r, const char *why)
{
    if (failover_state(r) != FAILOVER_NONE) {
        failover_end(r, why);
    }
}
