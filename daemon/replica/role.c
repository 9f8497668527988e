/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of the server, and what follows from it: see role.h.
 */
#include "daemon/replica/role.h"

#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/options/settings.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"

/* ---- states ------------------------------------------------------------------------------ */

/* What each state is called, and means for requests. */
static const struct {
    const char *text;
    uint32_t gate;
} states[REPL_STATE_COUNT] = {
    [REPL_PRIMARY] = {"primary", 0},
    [REPL_CONNECTING] = {"connecting", GATE_READ_ONLY | GATE_MISSES},
    [REPL_SYNCING] = {"syncing", GATE_READ_ONLY | GATE_MISSES},
    [REPL_CATCHING_UP] = {"catching_up", GATE_READ_ONLY | GATE_MISSES},
    [REPL_ONLINE] = {"online", GATE_READ_ONLY},
    [REPL_CUT] = {"cut", GATE_READ_ONLY},
    [REPL_STALE] = {"stale", GATE_READ_ONLY | GATE_MISSES},
};

#define GATE_ROLE ((uint32_t)GATE_READ_ONLY | GATE_MISSES | GATE_ELSEWHERE)

const char *repl_state_text(enum repl_state state)
{
    must((unsigned)state < REPL_STATE_COUNT);
    return states[state].text;
}

bool repl_is_consistent(enum repl_state state)
{
    return state == REPL_ONLINE || state == REPL_CUT || state == REPL_STALE;
}

enum repl_state replication_state(const struct replication *r)
{
    return (enum repl_state)atomic_load_explicit(&r->state, memory_order_relaxed);
}

bool replication_is_replica(const struct replication *r)
{
    return replication_state(r) != REPL_PRIMARY;
}

void role_set_gate(struct replication *r)
{
    const enum repl_state state = replication_state(r);
    const bool serves = state == REPL_PRIMARY || setting_get(r->crew->settings, replica_reads);

    gate_set(&r->crew->gate, GATE_ROLE, states[state].gate | (serves ? 0 : GATE_ELSEWHERE));
}

void role_set_state(struct replication *r, enum repl_state state, const char *why)
{
    pthread_mutex_lock(&r->mutex);
    atomic_store(&r->state, (uint32_t)state);
    snprintf(r->why, sizeof(r->why), "%s", why);
    role_set_gate(r);
    pthread_mutex_unlock(&r->mutex);
}

void replication_enter(struct replication *r, enum repl_state state, const char *why)
{
    enum repl_state before = replication_state(r);

    must_not_be_reading();
    if (before == state) {
        return;
    }
    role_set_state(r, state, why);
    crew_settle(r->crew);
    log_notice("replication, %s -> %s (%s)", states[before].text, states[state].text, why);
}

/* ---- recording --------------------------------------------------------------------------- */

/* repl_backlog_size, within the bounds that its description names. */
static uint64_t backlog_bytes_wanted(const struct settings *s)
{
    const uint64_t limit = setting_get(s, memory_limit_bytes);
    uint64_t bytes = setting_get(s, repl_backlog_size);

    if (bytes == 0) {
        return backlog_default_bytes(limit);
    }
    bytes = bytes < limit / 2 ? bytes : limit / 2;
    return bytes > SHIPPER_BACKLOG_MIN ? bytes : SHIPPER_BACKLOG_MIN;
}

bool replication_reserve(struct replication *r)
{
    return backlog_bytes(r->backlog) != 0 ||
           backlog_reserve(r->backlog, backlog_bytes_wanted(r->crew->settings));
}

bool role_begin_recording(struct replication *r, bool goes_on)
{
    struct engine *e = &r->crew->engine;
    struct backlog_name name;

    if (r->records) {
        return true;
    }
    must_not_be_reading();
    if (!replication_reserve(r)) {
        return false;
    }
    backlog_get_name(r->backlog, &name);
    if (name.epoch == 0) {
        /* It is followed from now on; a server that starts again without items is not. */
        name.epoch = 1;
        backlog_take_over(r->backlog, &name);
    }
    if (!goes_on) {
        r->to_unix_ms = clock_unix_offset_ms(&e->clock);
    }
    struct shipper_role role =
        (struct shipper_role){.to_unix_ms = r->to_unix_ms, .continues = goes_on};
    r->records = shipper_begin(r->shipper, &role) == MF_OK;
    return r->records;
}

bool role_has_more(struct replication *r)
{
    struct shipper_info info;

    shipper_info(r->shipper, &info);
    return r->has_more || info.left_out != 0;
}

void role_end_recording(struct replication *r)
{
    bool has_history = r->records;
    uint64_t offset;

    pthread_mutex_lock(&r->control);
    if (r->records) {
        (void)shipper_mark(r->shipper, &offset);
        shipper_end(r->shipper);
        r->records = false;
        has_history = !role_has_more(r);
        r->has_more = false;
    }
    if (!has_history) {
        /* The items belong to no history. */
        const struct backlog_name none = {.id = replid_draw()};

        backlog_take_over(r->backlog, &none);
    }
    pthread_mutex_unlock(&r->control);
}

void replication_tell_one(struct replica *x)
{
    if (notice_claim(&x->more)) {
        relay_post(&x->relay, &x->more.message);
    }
}

void replication_tell(struct replication *r)
{
    struct replica *x;

    pthread_mutex_lock(&r->mutex);
    LIST_EACH (x, &r->links, struct replica, link) {
        replication_tell_one(x);
    }
    waits_check(r);
    pthread_cond_broadcast(&r->progress);
    pthread_mutex_unlock(&r->mutex);
}

void role_on_more(void *arg)
{
    replication_tell(arg);
}

void replication_drop_readers(struct replication *r)
{
    shipper_drop_all(r->shipper);
    replication_tell(r);
    pthread_mutex_lock(&r->mutex);
    while ((r->readers > 0 || r->syncs > 0) && !r->is_stopping) {
        pthread_cond_wait(&r->detached, &r->mutex);
    }
    pthread_mutex_unlock(&r->mutex);
}

bool role_drop_syncs(struct replication *r)
{
    replication_tell(r);
    pthread_mutex_lock(&r->mutex);
    while (r->syncs > 0 && !r->is_stopping) {
        pthread_cond_wait(&r->detached, &r->mutex);
    }
    bool is_none = r->syncs == 0;
    pthread_mutex_unlock(&r->mutex);
    return is_none;
}

bool replication_is_changed(struct replication *r)
{
    pthread_mutex_lock(&r->mutex);
    bool is = r->is_changed || r->is_stopping;
    pthread_mutex_unlock(&r->mutex);
    return is;
}
