/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread of a worker. A turn of its loop: timers, then before_block (due background work;
 * it decides whether the loop may block), then events (sockets, mailbox), then after_events
 * (connections that were read are served, those that yielded get their turn, then tasks, and
 * one slice of background work).
 *
 * Stopping: see worker.h. Draining ends when the last connection is closed. A client that does
 * not read its answers is disconnected after WORKER_DRAIN_MS.
 */
#include "daemon/worker/worker.h"

#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/insight.h"
#include "lib/base/mem.h"

/* Number of descriptors allowed for in addition to those of clients. */
#define DESCRIPTORS_MORE 1022u

/* Pause between two slices in which connections move away (BUDGET_slice_us each). */
#define DEAL_REST_MS 1u

static struct worker *worker_of(void *receiver)
{
    struct worker *w = receiver;

    must(w->magic == WORKER_MAGIC);
    return w;
}

/* ---- turns of the loop ------------------------------------------------------------------- */

static void on_no_block(uv_idle_t *idle)
{
    /* It only has to be active: then the loop does not block. */
    (void)idle;
}

static bool has_nothing(const struct worker *w)
{
    return w->conn_count == 0 && w->home_count == 0 && !w->crew->duties->has_datagrams(w) &&
           w->deferred_batches == 0 && w->later_count == 0 &&
           list_is_empty(&w->tasks.waiting) && roster_is_quiet(&w->crew->roster, w->id);
}

/* The worker serves nothing: release the memory that it does not need. */
static void rest(struct worker *w)
{
    cron_rest(w);
    mem_discard(w->rbuf, WORKER_RBUF_BYTES);
    mem_discard(w->obuf, WORKER_OBUF_BYTES);
    loop_rest(&w->loop);
    tls_worker_rest(&w->tls);
    thread_discard_stack(&w->thread);
    mem_rest_thread();
}

static void set_role(struct worker *w, enum worker_role role)
{
    if (roster_role(&w->crew->roster, w->id) == role) {
        return;
    }
    roster_set_role(&w->crew->roster, w->id, role);
    if (role == WORKER_PARKED) {
        debug_must(w->holders.bytes == 0 && w->ready_count == 0);
        rest(w);
    }
    if (roster_is_settled(&w->crew->roster)) {
        log_notice("workers, inactive workers are parked");
    }
}

/* Does nothing: a timer that fires makes the loop call deal() before it blocks again. */
static void on_deal_rest(uv_timer_t *timer)
{
    (void)timer;
}

/*
 * Move objects that no longer belong to this worker, a portion at a time: see roster.h. It
 * pauses between portions, because receiving a connection takes about as much work as sending
 * it. Without pauses the requests of both workers would wait until all were moved.
 */
static void deal_out(struct worker *w)
{
    const struct worker_duties *duties = w->crew->duties;

    if (w->is_stopping) {
        w->deals &= (uint8_t)~DEALS_OUT;
        return;
    }
    if (uv_is_active((const uv_handle_t *)&w->deal_rest)) {
        return;
    }
    cron_give_homes(w);
    duties->give_datagrams(w);
    bool has_more = duties->give_conns(w);
    if (w->id < roster_active(&w->crew->roster)) {
        w->deals &= has_more ? (uint8_t)UINT8_MAX : (uint8_t)~DEALS_OUT;
        set_role(w, WORKER_ACTIVE);
    } else {
        /* Checked again after each turn: an object may have arrived, or may be movable now. */
        set_role(w, !has_more && has_nothing(w) ? WORKER_PARKED : WORKER_LEAVING);
    }
    if (has_more) {
        uv_update_time(&w->loop);
        uv_timer_start(&w->deal_rest, on_deal_rest, DEAL_REST_MS, 0);
    }
}

/* Do the work of all bits of w->deals. True: there is more to do at once. */
static MF_NOINLINE bool deal(struct worker *w)
{
    if ((w->deals & DEALS_OUT) != 0) {
        deal_out(w);
    }
    return (w->deals & DEALS_WEIGHED) != 0 && w->crew->duties->balance(w);
}

static void on_before_block(uv_prepare_t *prepare)
{
    struct worker *w = worker_of(prepare->data);
    bool has_work = cron_before_block(w);
    bool is_spinning = uv_is_active((uv_handle_t *)&w->no_block) != 0;

    watch_wake_main(w);
    insight_begin_loop(w);
    if (MF_UNLIKELY(w->deals != 0)) {
        has_work |= deal(w);
    }
    if ((has_work || w->ready_count > 0 || !list_is_empty(&w->tasks.waiting)) != is_spinning) {
        if (is_spinning) {
            uv_idle_stop(&w->no_block);
        } else {
            uv_idle_start(&w->no_block, on_no_block);
        }
    }
}

static void check_drained(struct worker *w)
{
    if (w->conn_count == 0 && w->deferred_batches == 0 && w->later_count == 0 &&
        roster_is_quiet(&w->crew->roster, w->id) && w->phase < WORKER_DRAINED) {
        uv_timer_stop(&w->drain_timer);
        w->phase = WORKER_DRAINED;
        crew_worker_drained(w->crew);
        uv_sem_post(&w->drained);
    }
}

static void on_after_events(uv_check_t *check)
{
    struct worker *w = worker_of(check->data);

    w->crew->duties->serve_round(w);
    if (w->ready_count > 0) {
        w->crew->duties->serve_ready(w);
    }
    if (MF_UNLIKELY(!list_is_empty(&w->tasks.waiting))) {
        tasks_run(w);
    }
    w->tasks.spent_us = 0;
    w->loop_units = 0;
    w->adopted_count = 0;
    cron_after_events(w);
    if (w->is_stopping) {
        check_drained(w);
    }
}

/* Before messages run, input that was read is served. */
static void before_messages(void *receiver)
{
    struct worker *w = worker_of(receiver);

    insight_note_event(w); /* they may take long */
    w->crew->duties->serve_round(w);
}

/* ---- stopping ---------------------------------------------------------------------------- */

static void drain_overdue(struct worker *w)
{
    if (w->phase < WORKER_OVERDUE) {
        w->phase = WORKER_OVERDUE;
        w->crew->duties->drain(w);
    }
}

static void on_drain_check(uv_timer_t *timer)
{
    struct worker *w = worker_of(timer->data);

    uint64_t passed = uv_now(&w->loop) - w->drain_began;

    if (passed >= WORKER_DRAIN_MS) {
        drain_overdue(w);
        return;
    }
    if (passed >= WORKER_ANSWER_MS && w->phase == WORKER_DRAINING) {
        w->phase = WORKER_FINISHING;
    }
    w->crew->duties->check_drain(w);
}

static void on_hurry(struct message *m, void *receiver)
{
    (void)m;
    drain_overdue(worker_of(receiver));
}

static void on_drain(struct message *m, void *receiver)
{
    struct worker *w = worker_of(receiver);

    (void)m;
    w->is_stopping = true;
    w->phase = WORKER_DRAINING;
    w->crew->duties->close_datagrams(w);
    uv_update_time(&w->loop);
    w->drain_began = uv_now(&w->loop);
    uv_timer_start(&w->drain_timer, on_drain_check, WORKER_DRAIN_CHECK_MS,
                   WORKER_DRAIN_CHECK_MS);
    w->crew->duties->drain(w);
    /*
     * Connections close in later turns. If there are none, on_after_events() finds it drained.
     */
}

static void close_handles(struct worker *w)
{
    w->phase = WORKER_ENDING;
    cron_stop(w);
    uv_close((uv_handle_t *)&w->before_block, NULL);
    uv_close((uv_handle_t *)&w->after_events, NULL);
    uv_close((uv_handle_t *)&w->no_block, NULL);
    uv_close((uv_handle_t *)&w->drain_timer, NULL);
    uv_close((uv_handle_t *)&w->deal_rest, NULL);
    mailbox_close(&w->mailbox);
}

static void on_end(struct message *m, void *receiver)
{
    (void)m;
    close_handles(worker_of(receiver));
}

static void on_farewell(struct message *m, void *receiver)
{
    struct worker *w = (struct worker *)receiver;

    must_be_worker(w);
    (void)m;
    notice_taken(&w->farewell);
    w->farewells = atomic_load(&w->crew->farewells);
    w->crew->duties->close_clients(w);
}

static void on_deal(struct message *m, void *receiver)
{
    struct worker *w = worker_of(receiver);

    (void)m;
    notice_taken(&w->deal);
    w->deals |= DEALS_OUT; /* before the loop blocks */
    w->crew->duties->begin_deal(w);
}

static void on_balance(struct message *m, void *receiver)
{
    struct worker *w = worker_of(receiver);
    const struct balance_order order = w->balance_order;

    (void)m;
    notice_taken(&w->balance); /* from here on main may write the next one */
    w->crew->duties->obey_balance(w, &order);
}

static void on_doubt(struct message *m, void *receiver)
{
    struct worker *w = worker_of(receiver);

    (void)m;
    notice_taken(&w->doubt);
    w->doubts = atomic_load(&w->crew->doubts);
    w->crew->duties->doubt_logins(w);
}

static void on_retry(struct message *m, void *receiver)
{
    struct worker *w = worker_of(receiver);

    (void)m;
    notice_taken(&w->retry);
    w->crew->duties->retry_waiting(w, false);
}

static void on_logged(struct message *m, void *receiver)
{
    struct worker *w = worker_of(receiver);

    (void)m;
    notice_taken(&w->logged);
    w->crew->duties->release_held(w);
}

void worker_tell_logged(struct worker *w)
{
    if (atomic_load(&w->awaits_log)) {
        notice_post(&w->logged, &w->mailbox);
    }
}

/* struct waiter of a worker. */
static void wake_copy(struct waiter *waiter)
{
    worker_retry(MF_OUTER(waiter, struct worker, copy_waiter));
}

static void on_poke(struct message *m, void *receiver)
{
    struct worker *w = worker_of(receiver);

    (void)m;
    notice_taken(&w->poke);
    cron_poked(w);
    w->crew->duties->shed(w);
    w->crew->duties->serve_watchers(w);
}

/* ---- the loop and its thread ------------------------------------------------------------- */

/* Make the handles of the loop. On failure the caller runs the loop, which closes them. */
static int open_handles(struct worker *w)
{
    int err = mailbox_init(&w->mailbox, &w->loop, w);

    if (err != 0) {
        return err;
    }
    /* These cannot fail. */
    uv_prepare_init(&w->loop, &w->before_block);
    uv_check_init(&w->loop, &w->after_events);
    uv_idle_init(&w->loop, &w->no_block);
    uv_timer_init(&w->loop, &w->drain_timer);
    uv_timer_init(&w->loop, &w->deal_rest);
    mailbox_run_before(&w->mailbox, before_messages);
    w->before_block.data = w;
    w->after_events.data = w;
    w->no_block.data = w;
    w->drain_timer.data = w;
    uv_prepare_start(&w->before_block, on_before_block);
    uv_check_start(&w->after_events, on_after_events);
    return 0;
}

/* For must_be_home(). */
static bool is_home_of(const void *worker, const void *shard)
{
    const struct worker *w = worker;
    bool is = false;

    for (uint32_t i = 0; i < w->home_count; i++) {
        is |= w->homes[i]->shard == shard;
    }
    return is;
}

/* Run the loop to its end, and release the worker's objects. */
static void run_loop(struct worker *w)
{
    uv_run(&w->loop, UV_RUN_DEFAULT);
    cron_destroy(w);
    w->crew->duties->end(w);
}

/*
 * Make the loop and its handles. The calling thread acts as the worker, which has no thread
 * yet.
 */
static int open_loop(struct worker *w)
{
    int err = uv_loop_init(&w->loop);

    if (err != 0) {
        return err;
    }
    if (!w->crew->duties->begin(w)) {
        err = UV_ENOMEM;
        goto fail_loop;
    }
    err = cron_start(w);
    if (err != 0) {
        goto fail_duties;
    }
    err = open_handles(w);
    if (err != 0) {
        goto fail_cron;
    }
    loop_provide(&w->loop, setting_get(w->settings, conn_limit) + DESCRIPTORS_MORE);
    worker_now(w);
    return 0;

fail_cron:
    cron_stop(w);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    cron_destroy(w);
fail_duties:
    w->crew->duties->end(w);
fail_loop:
    uv_loop_close(&w->loop);
    return err;
}

static void thread_main(void *arg)
{
    struct worker *w = worker_of(arg);

    snprintf(w->note, sizeof(w->note), "worker %u", (unsigned)w->id);
    check_note(w->note);
    context_set_thread(THREAD_WORKER, w, is_home_of);
    watch_this_thread(w);
    run_loop(w);
}

static const struct thread_kind worker_kind = {
    .name = "mayfly-w", .run = thread_main, .role = THREAD_WORKER, .reads = true};

/* ---- main's side ------------------------------------------------------------------------- */

static void release_ring(struct worker *w)
{
    struct byte_ring *ring = atomic_load_explicit(&w->watch_ring, memory_order_relaxed);

    if (ring != NULL) {
        byte_ring_fini(ring);
        mem_free(ring);
    }
}

static void release_buffers(struct worker *w)
{
    mem_free(w->insight.hotkeys);
    mem_unmap(w->insight.latency, sizeof(*w->insight.latency));
    mem_free(w->obuf);
    mem_free(w->rbuf);
    for (uint32_t i = 0; i < w->home_count; i++) {
        mem_free(w->homes[i]);
    }
    mem_free(w->homes);
    w->homes = NULL;
    w->home_count = 0;
    w->insight.hotkeys = NULL;
    w->insight.latency = NULL;
    w->obuf = NULL;
    w->rbuf = NULL;
}

/* Release the objects created by worker_init(), and the ring of watchers. */
static void release_parts(struct worker *w)
{
    uv_sem_destroy(&w->settled);
    uv_sem_destroy(&w->drained);
    tls_worker_fini(&w->tls);
    release_ring(w);
    release_buffers(w);
}

void worker_release(struct worker *w)
{
    int err = uv_loop_close(&w->loop);

    must_be_main();
    must(err == 0);
    release_parts(w);
}

/* Make the homes that the crew's table assigns to this worker. */
static bool make_homes(struct worker *w)
{
    const struct engine *e = w->engine;

    w->homes = mem_zalloc(WORKERS_MAX * sizeof(*w->homes));
    for (uint32_t i = 0; w->homes != NULL && i < e->shard_count; i++) {
        struct home *h;

        if (roster_home(&w->crew->roster, i) != w->id) {
            continue;
        }
        h = mem_zalloc(sizeof(*h));
        if (h == NULL) {
            return false;
        }
        home_init(h, w, e->shards[i]);
        w->homes[w->home_count++] = h;
    }
    return w->homes != NULL;
}

static int worker_init(struct worker *w, struct crew *crew, uint32_t id)
{
    w->magic = WORKER_MAGIC;
    w->id = id;
    w->crew = crew;
    w->engine = &crew->engine;
    heat_user_init(&w->heat, &crew->engine.heat, w->id);
    w->settings = crew->settings;
    w->grace_step = WORKER_GRACE_STEP_BYTES;
    list_init(&w->tasks.waiting);
    holders_init(&w->holders);
    w->drain_message.fn = on_drain;
    w->hurry_message.fn = on_hurry;
    w->end_message.fn = on_end;
    notice_init(&w->poke, on_poke);
    notice_init(&w->deal, on_deal);
    notice_init(&w->balance, on_balance);
    notice_init(&w->doubt, on_doubt);
    notice_init(&w->farewell, on_farewell);
    notice_init(&w->retry, on_retry);
    notice_init(&w->logged, on_logged);
    w->copy_waiter.wake = wake_copy;
    pulse_init(&w->pulse);
    w->deals = id >= roster_active(&crew->roster) ? DEALS_OUT : 0; /* then it is parked */
    w->doubts = atomic_load(&crew->doubts);
    w->farewells = atomic_load(&crew->farewells);
    /* Whole pages, which are released while it is parked. */
    w->rbuf = mem_alloc_aligned(WORKER_RBUF_BYTES, 4096);
    w->obuf = mem_alloc_aligned(WORKER_OBUF_BYTES, 4096);
    w->insight.random = UINT64_C(0x9e3779b97f4a7c15) * (id + 1);
    w->insight.sample_left = UINT32_MAX;
    w->insight.readable_ns = 1; /* nothing is on before the loop runs */
    w->insight.latency = mem_map(sizeof(*w->insight.latency), MEM_PAGES_SMALL);
    if (!make_homes(w) || w->rbuf == NULL || w->obuf == NULL || w->insight.latency == NULL ||
        !tls_worker_init(&w->tls, w->settings, &w->counters) ||
        uv_sem_init(&w->drained, 0) != 0) {
        goto fail;
    }
    if (uv_sem_init(&w->settled, 0) != 0) {
        uv_sem_destroy(&w->drained);
        goto fail;
    }
    return 0;

fail:
    tls_worker_fini(&w->tls);
    release_buffers(w);
    return UV_ENOMEM;
}

int worker_start(struct worker *w, struct crew *crew, uint32_t id)
{
    const struct thread_context before = context_get();
    char name[THREAD_NAME_BYTES];
    int err = worker_init(w, crew, id);

    must_be_main();
    if (err != 0) {
        return err;
    }
    snprintf(name, sizeof(name), "mayfly-w%u", (unsigned)id);
    context_set_thread(THREAD_WORKER, w, is_home_of);
    err = open_loop(w);
    if (err != 0) {
        context_put(before);
        release_parts(w);
        return err;
    }
    err = thread_start_named(&w->thread, &worker_kind, name, w);
    if (err != 0) {
        close_handles(w);
        run_loop(w);
    }
    context_put(before);
    if (err != 0) {
        worker_release(w);
    }
    return uv_translate_sys_error(err);
}

/* No other thread knows of it: it has nothing, and its loop ends. */
void worker_undo(struct worker *w)
{
    worker_end(w);
    worker_join(w);
    worker_release(w);
}

void worker_stop(struct worker *w)
{
    must_be_main();
    mailbox_post(&w->mailbox, &w->drain_message);
}

void worker_hurry(struct worker *w)
{
    must_be_main();
    mailbox_post(&w->mailbox, &w->hurry_message);
}

void worker_wait_drained(struct worker *w)
{
    must_be_main();
    uv_sem_wait(&w->drained);
}

void worker_end(struct worker *w)
{
    must_be_main();
    mailbox_post(&w->mailbox, &w->end_message);
}

void worker_join(struct worker *w)
{
    must_be_main();
    thread_join(&w->thread);
}
