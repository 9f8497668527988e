/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data kept for clients between turns; see client.h.
 */
#include "daemon/command/client.h"

#include "daemon/access/auth_sasl.h"
#include "daemon/persist/append.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/watch.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"
#include "lib/engine/guarding.h"

struct kept *client_keep(struct client *c)
{
    struct kept *k = c->kept;

    must_be_a_worker();
    if (k == NULL && (k = mem_zalloc(sizeof(*k))) != NULL) {
        k->client = c;
        outq_init(&k->outq);
        holder_init(&k->holder, &c->io);
        k->holder.is_apart = c->follows;
        c->kept = k;
    }
    return k;
}

void client_follow(struct client *c, struct worker *w)
{
    must_be_worker(w);
    c->follows = true;
    c->origin = crew_move_beyond(w->crew, c->origin);
    if (c->kept != NULL) {
        holder_set_apart(w, &c->kept->holder);
    }
}

void client_drop_kept(struct client *c)
{
    struct kept *k = c->kept;

    must_be_a_worker();
    if (k != NULL && outq_is_empty(&k->outq) && k->holder.bytes == 0 && !k->dump.is_active &&
        !k->rest.is_active && !pace_is_listed(&k->pin.pace)) {
        mem_free(k);
        c->kept = NULL;
    }
}

bool client_append(struct client *c, const char *bytes, size_t n)
{
    struct kept *k = client_keep(c);

    must_be_a_worker();
    return k != NULL && outq_append(&k->outq, bytes, n);
}

bool client_hold(struct client *c, struct worker *w)
{
    uint64_t ticket = 0;

    must_be_worker(w);
    if (c->log_state == LOG_CHANGED) {
        ticket = append_ask(&w->crew->snapshots.append);
        c->log_state = ticket != 0 ? LOG_HELD : LOG_CLEAN;
    }
    if (ticket != 0) {
        w->hold_ticket = ticket;
    }
    return ticket != 0;
}

void *client_wait_begin(struct client *c, struct worker *w, size_t bytes,
                        void (*on_answer)(struct message *m, void *receiver))
{
    struct client_wait *wait = mem_zalloc(bytes);

    must_be_worker(w);
    if (wait != NULL) {
        wait->ask.answer.fn = on_answer;
        wait->ask.to = &w->mailbox;
        client_expect(c, &wait->late);
    }
    return wait;
}

void client_wait_cancel(struct client *c, void *wait)
{
    must_be_a_worker();
    if (wait != NULL) {
        c->late = NULL;
        mem_free(wait);
    }
}

/* Set the bytes of input and output that the client keeps. False: it exceeds the limit. */
static bool count(struct kept *k, struct worker *w, size_t in_bytes, size_t out_bytes)
{
    size_t before = k->holder.bytes;

    k->out_bytes = out_bytes;
    holder_set(w, &k->holder, in_bytes, out_bytes);
    return k->holder.bytes <= before || !holder_has_too_much(w, &k->holder);
}

bool client_count_output(struct client *c, struct worker *w)
{
    struct kept *k = c->kept;

    must_be_worker(w);
    if (k == NULL) {
        return true;
    }
    size_t in_bytes = k->holder.bytes - k->out_bytes;
    size_t held = outq_held_bytes(&k->outq);
    ctr_add(&w->counters, CTR_out_pending_bytes, (uint64_t)held - (uint64_t)k->out_bytes);
    return count(k, w, in_bytes, held);
}

bool client_count_input(struct client *c, struct worker *w, size_t bytes)
{
    struct kept *k = bytes > 0 ? client_keep(c) : c->kept;

    must_be_worker(w);
    if (k == NULL) {
        return bytes == 0;
    }
    size_t before = k->holder.bytes - k->out_bytes;
    ctr_add(&w->counters, CTR_in_pending_bytes, (uint64_t)bytes - (uint64_t)before);
    return count(k, w, bytes, k->out_bytes);
}

/* Add its bytes to the accounts of the worker; sign -1: subtract them. */
static void count_pending(const struct kept *k, struct worker *w, uint64_t times)
{
    ctr_add(&w->counters, CTR_out_pending_bytes, (uint64_t)k->out_bytes * times);
    ctr_add(&w->counters, CTR_in_pending_bytes,
            (uint64_t)(k->holder.bytes - k->out_bytes) * times);
}

bool client_may_leave(const struct client *c, const struct worker *w)
{
    must_be_worker(w);
    return (c->service == NULL || c->service->leave != NULL) &&
           (c->late == NULL || c->late->relay != NULL) && w->copy_owner != c;
}

bool client_leave(struct client *c, struct worker *w)
{
    must_be_worker(w);
    debug_must(client_may_leave(c, w));
    if (c->service != NULL && !c->service->leave(c->service)) {
        return false;
    }
    if (c->late != NULL) {
        relay_leave(c->late->relay);
    }
    if (c->watcher != NULL) {
        watch_leave(c->watcher);
    }
    if (c->kept != NULL) {
        pace_end(&c->kept->pin.pace);
        count_pending(c->kept, w, (uint64_t)-1);
        holder_leave(w, &c->kept->holder);
    }
    return true;
}

void client_join(struct client *c, struct worker *w)
{
    must_be_worker(w);
    io_join(&c->io, &w->tls);
    if (c->service != NULL) {
        c->service->join(c->service, w);
    }
    if (c->late != NULL) {
        relay_join(c->late->relay, &w->mailbox);
    }
    if (c->watcher != NULL) {
        watch_join(c->watcher, w);
    }
    if (c->kept != NULL) {
        count_pending(c->kept, w, 1);
        holder_join(w, &c->kept->holder);
    }
}

/* Its connection closes: release the kept data. */
static void drop_all(struct client *c, struct worker *w)
{
    if (c->kept != NULL) {
        pace_end(&c->kept->pin.pace);
        outq_fini(&c->kept->outq);
        (void)client_count_output(c, w);
        (void)client_count_input(c, w, 0);
        mem_free(c->kept);
        c->kept = NULL;
    }
}

bool client_restores(const struct client *c, const struct worker *w)
{
    must_be_worker(w);
    return atomic_load_explicit(&w->crew->restorer, memory_order_relaxed) == c;
}

void client_end_restore(const struct client *c, struct worker *w)
{
    must_be_worker(w);
    if (client_restores(c, w)) {
        atomic_store_explicit(&w->crew->restorer, NULL, memory_order_relaxed);
        guarding_end(w->engine, &w->crew->restored);
    }
}

void client_fini(struct client *c, struct worker *w)
{
    must_be_worker(w);
    watch_remove(&c->watcher);
    client_end_service(c);
    client_end_restore(c, w);
    io_close(&c->io);
    drop_all(c, w);
    mem_free(c->timed);
    c->timed = NULL;
    exchange_destroy(c->exchange);
    c->exchange = NULL;
    mem_free(c->user);
    c->user = NULL;
    if (c->late != NULL) {
        c->late->client = NULL;
        atomic_store_explicit(&c->late->is_left, true, memory_order_relaxed);
        client_has_taken(c); /* or never will */
        c->late = NULL;
    }
}
