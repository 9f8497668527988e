/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All workers together; see crew.h.
 */
#include "daemon/worker/crew.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/base/log.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* ---- start and stop ---------------------------------------------------------------------- */

void crew_drain(struct crew *crew)
{
    must_be_main();
    if (crew->is_draining) {
        return;
    }
    crew->is_draining = true;
    roster_stay(&crew->roster);
    atomic_store(&crew->undrained, roster_created(&crew->roster));
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        worker_stop(&crew->workers[i]);
    }
}

void crew_hurry(struct crew *crew)
{
    must_be_main();
    if (!crew->is_draining || crew->is_hurried) {
        return;
    }
    crew->is_hurried = true;
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        worker_hurry(&crew->workers[i]);
    }
}

void crew_worker_drained(struct crew *crew)
{
    must_be_a_worker();
    if (atomic_fetch_sub(&crew->undrained, 1) == 1 && crew->drained_message.fn != NULL) {
        mailbox_post(&crew->main_mailbox, &crew->drained_message);
    }
}

static void on_logged(void *arg)
{
    struct crew *crew = arg;

    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        worker_tell_logged(&crew->workers[i]);
    }
}

/* A shard_wake_fn. A home worker checks its own shards before it sleeps, so it is not woken. */
static void wake_home(void *arg, uint32_t shard)
{
    struct crew *crew = arg;
    struct worker *home = &crew->workers[roster_home(&crew->roster, shard)];

    if (context_self() != home) {
        worker_poke(home);
    }
}

/*
 * No connection is left, so every sum over connections must be zero, even if connections have
 * moved between workers.
 */
static void check_accounts(struct crew *crew)
{
    const struct roster *r = &crew->roster;

    for (uint32_t i = 0; i < roster_created(r); i++) {
        debug_must(roster_conns(r, i) == 0 && roster_is_quiet(r, i));
        debug_must(crew->workers[i].holders.bytes == 0 && crew->workers[i].holders.told == 0);
    }
    debug_must(roster_conns_moving(r) == 0);
    debug_must(atomic_load(&crew->conns_open) == 0 && atomic_load(&crew->conns_local) == 0);
    debug_must(atomic_load(&crew->conns_control) == 0 && atomic_load(&crew->conns_beyond) == 0);
    debug_must(atomic_load(&crew->held_bytes) == 0 && atomic_load(&crew->upload_bytes) == 0);
    debug_must(addresses_are_none(&crew->access.addresses));
    debug_must(atomic_load(&crew->restorer) == NULL);
}

/* Each step is done for all workers before the next one: see worker.h. */
void crew_stop(struct crew *crew)
{
    must_be_main();
    crew_drain(crew);
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        worker_wait_drained(&crew->workers[i]);
    }
    check_accounts(crew);
    access_stop_threads(&crew->access);
    snapshots_tell_logged(&crew->snapshots, NULL, NULL);
    engine_wake_homes(&crew->engine, NULL, NULL);
    moving_log_end(crew);
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        worker_end(&crew->workers[i]);
    }
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        worker_join(&crew->workers[i]);
    }
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        worker_release(&crew->workers[i]);
    }
    mem_free(crew->workers);
    crew->workers = NULL;
    memset(&crew->roster, 0, sizeof(crew->roster));
}

int crew_start(struct crew *crew)
{
    const struct settings *set = crew->settings;
    const uint32_t active = setting_get(set, threads);
    /* No worker can be created once privileges are dropped. */
    const uint32_t count =
        set->drop_privileges && set->max_threads > active ? set->max_threads : active;

    must_be_main();
    must(crew->workers == NULL && crew->duties != NULL);
    list_init(&crew->uploads.places);
    must(count <= WORKERS_MAX && crew->engine.shard_count <= WORKERS_MAX);
    for (uint32_t i = 0; i < crew->engine.shard_count; i++) {
        roster_move_in(&crew->roster, i, i % active);
    }
    crew->homes = crew->engine.shard_count;
    roster_set_active(&crew->roster, active);
    /* The array never moves. Pages of workers that are never created are never touched. */
    crew->workers = mem_alloc_aligned(WORKERS_MAX * sizeof(*crew->workers), 64);
    if (crew->workers == NULL) {
        log_error("server, cannot start workers (out of memory)");
        return EX_OSERR;
    }
    for (uint32_t i = 0; i < count; i++) {
        memset(&crew->workers[i], 0, sizeof(crew->workers[i]));
        int err = worker_start(&crew->workers[i], crew, i);

        if (err != 0) {
            log_error("server, cannot start worker %u (%s)", (unsigned)i, uv_strerror(err));
            crew_stop(crew);
            return EX_OSERR;
        }
        pin_worker(&crew->workers[i]);
        atomic_store_explicit(&crew->roster.created, i + 1, memory_order_release);
    }
    engine_wake_homes(&crew->engine, wake_home, crew);
    moving_log(crew);
    crew_poke_all(crew); /* items that were taken over may exceed the limit */
    snapshots_tell_logged(&crew->snapshots, on_logged, crew);
    return 0;
}

void crew_set_active(struct crew *crew, uint32_t count)
{
    must_be_main();
    must(count > 0 && count <= roster_created(&crew->roster));
    if (count != roster_active(&crew->roster)) {
        log_notice("workers, %u of %u are active", (unsigned)count,
                   (unsigned)roster_created(&crew->roster));
        atomic_store(&crew->roster.has_leaving, count < roster_active(&crew->roster));
    }
    roster_set_active(&crew->roster, count);
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        notice_post(&crew->workers[i].deal, &crew->workers[i].mailbox);
    }
}

bool crew_have_workers(struct crew *crew, uint32_t count, char *why)
{
    const uint32_t before = roster_created(&crew->roster);
    int err = 0;
    uint32_t n;

    must_be_main();
    must(count <= WORKERS_MAX);
    if (crew->is_draining) {
        snprintf(why, OPTION_TEXT_BYTES, "the server is stopping");
        return false;
    }
    if (count > before && crew->settings->drop_privileges) {
        snprintf(
            why, OPTION_TEXT_BYTES,
            "no thread can be made once privileges are dropped: there are %u (max_threads)",
            (unsigned)before);
        return false;
    }
    for (n = before; n < count && err == 0; n++) {
        memset(&crew->workers[n], 0, sizeof(crew->workers[n]));
        err = worker_start(&crew->workers[n], crew, n);
        if (err == 0) {
            pin_worker(&crew->workers[n]);
        }
    }
    if (err == 0) {
        if (count > before) {
            atomic_store_explicit(&crew->roster.created, count, memory_order_release);
        }
        if (!watch_add_workers(crew)) {
            snprintf(why, OPTION_TEXT_BYTES, "no memory for events of watch");
            return false;
        }
        return true;
    }
    snprintf(why, OPTION_TEXT_BYTES, "cannot start worker %u (%s)", (unsigned)(n - 1),
             uv_strerror(err));
    for (n--; n > before; n--) {
        worker_undo(&crew->workers[n - 1]);
    }
    return false;
}

/* ---- requests to main -------------------------------------------------------------------- */

void crew_request_stop(struct crew *crew, enum crew_stop how)
{
    uint32_t wanted = atomic_load(&crew->stop_wanted);

    while (wanted < (uint32_t)how &&
           !atomic_compare_exchange_weak(&crew->stop_wanted, &wanted, (uint32_t)how)) {
    }
    notice_post(&crew->stop, &crew->main_mailbox);
}

void crew_request_upgrade(struct crew *crew, struct span program)
{
    must(program.len < sizeof(crew->upgrade_program));
    if (notice_claim(&crew->upgrade)) {
        memcpy(crew->upgrade_program, program.ptr, program.len);
        crew->upgrade_program[program.len] = '\0';
        mailbox_post(&crew->main_mailbox, &crew->upgrade.message);
    }
}

enum handover_state crew_look_upgrade(struct crew *crew, char why[HANDOVER_WHY_BYTES])
{
    /* In this order: main stores the state before it takes the posted request. */
    const bool is_posted = atomic_load(&crew->upgrade.is_posted);
    const enum handover_state state = handover_look(&crew->handover, why);

    return is_posted ? HANDOVER_ASKED : state;
}

void crew_ask_main(struct crew *crew, struct main_ask *ask)
{
    must_be_a_worker();
    ask->message.fn = crew->on_ask;
    mailbox_post(&crew->main_mailbox, &ask->message);
}

/* The separate count of connections of this kind; NULL: none. */
static _Atomic uint32_t *count_of_kind(struct crew *crew, const struct conn_origin *origin)
{
    if (origin->is_control) {
        return &crew->conns_control;
    }
    if (origin->is_beyond) {
        return &crew->conns_beyond;
    }
    return origin->transport == CONN_UNIX ? &crew->conns_local : NULL;
}

bool crew_take_beyond(struct crew *crew)
{
    uint32_t taken = atomic_load(&crew->conns_beyond);

    while (taken < crew->settings->replica_conns) {
        if (atomic_compare_exchange_weak(&crew->conns_beyond, &taken, taken + 1)) {
            return true;
        }
    }
    return false;
}

/* A place for a connection is free again: wake main if it waits for one. */
static void tell_room(struct crew *crew)
{
    if (atomic_load(&crew->wants_room) && atomic_exchange(&crew->wants_room, false)) {
        notice_post(&crew->room, &crew->main_mailbox);
    }
}

const struct conn_origin *crew_move_beyond(struct crew *crew, const struct conn_origin *origin)
{
    must_be_a_worker();
    if (origin->beyond == NULL || !crew_take_beyond(crew)) {
        return origin;
    }
    tell_room(crew);
    return origin->beyond;
}

void crew_conn_opened(struct worker *w, const struct conn_origin *origin)
{
    struct crew *crew = w->crew;
    _Atomic uint32_t *count = count_of_kind(crew, origin);

    must_be_main();
    atomic_fetch_add(&crew->conns_open, 1);
    roster_add_conn(&crew->roster, w->id);
    if (count != NULL && !origin->is_beyond) {
        atomic_fetch_add(count, 1);
    }
}

void crew_conn_closed(struct worker *w, const struct conn_origin *origin)
{
    struct crew *crew = w->crew;
    _Atomic uint32_t *count = count_of_kind(crew, origin);

    if (count != NULL) {
        atomic_fetch_sub(count, 1); /* first: there are never too many of the others */
    }
    uint32_t before = atomic_fetch_sub(&crew->conns_open, 1);
    roster_remove_conn(&crew->roster, w->id);

    must_be_worker(w);
    must(before > 0);
    tell_room(crew);
}

void crew_options_changed(struct crew *crew)
{
    crew_poke_all(crew);
    pthread_mutex_lock(&crew->live.lock); /* two workers may change options at a time */
    engine_options_changed(&crew->engine);
    pthread_mutex_unlock(&crew->live.lock);
    snapshots_options_changed(&crew->snapshots);
    exports_options_changed(&crew->exports);
    if (crew->on_options != NULL) {
        crew->on_options(crew);
    }
    if (crew->room.message.fn != NULL) {
        notice_post(&crew->room, &crew->main_mailbox); /* -c may be higher */
    }
}

/* ---- all workers ------------------------------------------------------------------------- */

void crew_doubt_logins(struct crew *crew)
{
    must_be_main();
    atomic_fetch_add(&crew->doubts, 1);
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        notice_post(&crew->workers[i].doubt, &crew->workers[i].mailbox);
    }
}

void crew_poke_all(struct crew *crew)
{
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        worker_poke(&crew->workers[i]);
    }
}
