/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns; see turn.h. On the worker of the client.
 *
 * Fairness. memcached interrupts a connection after -R requests. Here a turn is bounded by its
 * one read anyway, and interrupting it costs a copy of the rest. So a yield is counted at every
 * -R requests with input left, but the turn is interrupted only after 20 times as much work (a
 * unit for each key and each 4 KiB of output: well under a millisecond at the default), and
 * only if other connections are ready: in the round, in the queue, or readable according to one
 * non-blocking system call. Then the client is queued after them. Other clients wait for at
 * most one such portion of a client that pipelines endlessly; a client that is alone, or does
 * not exceed the portion, pays nothing.
 */
#include "daemon/command/turn.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "daemon/command/observe.h"
#include "daemon/command/timing.h"
#include "daemon/options/settings.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/worker.h"
#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/num.h"
#include "lib/base/rcu.h"
#include "lib/memory/room_make.h"
#include "lib/shard/changes.h"

/* Times up to this many seconds are counted from now, later ones are unix time. */
#define RELATIVE_MAX_S INT64_C(2592000) /* 30 days */

/*
 * Times are rounded down to milliseconds: an item stored late in one would expire up to a
 * millisecond before its time to live is over. One is added to relative times to prevent that.
 * Unix times are exact: the clock's milliseconds begin with those of the wall clock.
 */
#define ROUNDING_MS 1

static MF_INLINE void send_output(struct turn *t);

/* ---- sections ---------------------------------------------------------------------------- */

void turn_read_clock(struct turn *t)
{
    must_be_worker(t->w);
    t->now = worker_now(t->w);
    t->now_s = (uint32_t)((uint64_t)t->now / 1000);
    heat_rules_clock(&t->e->heat, t->now_s);
}

void turn_enter_section(struct turn *t)
{
    must_not_be_reading();
    turn_read_clock(t);
    t->observed = observe_flags(t->w);
    room_defer();
    rcu_begin();
    t->route = router_read(&t->e->router);
}

bool turn_leave_section(struct turn *t)
{
    must_be_worker(t->w);
    must_be_reading();
    if (t->out.value_left > 0) {
        turn_flush(t); /* a value can only be sent in the section it was found in */
        if (t->is_halted) {
            return false;
        }
    }
    turn_tally(t); /* statistics and their reset see the requests before them */
    rcu_end();
    (void)room_settle();
    return true;
}

/* ---- life -------------------------------------------------------------------------------- */

void turn_begin(struct turn *t, struct worker *w)
{
    must_be_worker(w);
    t->w = w;
    t->e = w->engine;
    t->insight = w->insight.on;
    t->hides_cas = w->settings->no_cas;
    t->is_followed = false;
    w->gate = gate_read(&w->crew->gate);
    if (MF_UNLIKELY((w->gate & GATE_LOG) != 0)) {
        w->changes_seen = changes_made(); /* by work in the background */
    }
    memset(&t->tally, 0, sizeof(t->tally));
    out_init(&t->out, w->obuf, WORKER_OBUF_BYTES);
    turn_enter_section(t);
}

void turn_renew(struct turn *t)
{
    must_be_worker(t->w);
    debug_must(out_left(&t->out) == 0);
    rcu_end();
    (void)room_settle();
    turn_enter_section(t);
}

void turn_take(struct turn *t, struct client *c)
{
    must_be_worker(t->w);
    must_be_reading();
    t->client = c;
    t->waiter = t->w->copy_owner == NULL || t->w->copy_owner == c ? &t->w->copy_waiter : NULL;
    t->may_wait = false;
    t->is_halted = false;
    t->is_broken = false;
    t->is_bulk = false;
    t->is_placeable = false;
    t->requests = 0;
    t->units = 0;
    t->first_unit = 0;
    t->unit_limit = MF_LIKELY(t->w->loop_units < BUDGET_loop_units) ? turn_share_units(t->w)
                                                                    : BUDGET_light_units;
    t->rest = span_of(NULL, 0);
}

uint64_t turn_share_units(const struct worker *w)
{
    must_be_worker(w);
    return (uint64_t)setting_get(w->settings, reqs_per_event) * BUDGET_share_units;
}

/* Count each time the limit of -R was reached with input left. */
static void count_yields(struct turn *t, bool has_more)
{
    uint32_t limit = setting_get(t->w->settings, reqs_per_event);

    if (MF_UNLIKELY(t->requests >= limit)) {
        ctr_add(&t->w->counters, CTR_conn_yields,
                t->requests / limit - (t->requests % limit == 0 && !has_more));
    }
}

void turn_pass(struct turn *t, bool has_more)
{
    must_be_worker(t->w);
    send_output(t);
    count_yields(t, has_more);
}

/*
 * Memory that waits for the reclaimer's grace period, milliseconds away, leaves the CPU cache,
 * and stores meanwhile use other memory that is not cached: megabytes if values are large. So a
 * worker that has read much tries to complete a grace period itself.
 */
static MF_NOINLINE void try_grace(struct worker *w, uint64_t bytes_read)
{
    w->grace_mark = bytes_read;
    w->grace_step =
        engine_try_grace(w->engine) ? WORKER_GRACE_STEP_BYTES : WORKER_GRACE_AGAIN_BYTES;
}

void turn_end(struct turn *t)
{
    struct worker *w = t->w;
    uint64_t bytes_read = ctr_get(&w->counters, CTR_bytes_read);

    must_be_worker(w);
    debug_must(out_left(&t->out) == 0);
    rcu_end();
    if (room_settle()) {
        w->grace_mark = bytes_read;
    } else if (MF_UNLIKELY(bytes_read - w->grace_mark >= w->grace_step)) {
        try_grace(w, bytes_read);
    }
}

bool turn_others_are_ready(struct turn *t)
{
    struct epoll_event ev[2];

    must_be_worker(t->w);
    if (t->client == NULL) {
        return true;
    }
    t->unit_limit = t->units + turn_share_units(t->w);
    if (t->is_followed || t->w->ready_count > 0 || !list_is_empty(&t->w->tasks.waiting)) {
        return true;
    }
    /*
     * libuv's descriptors are level-triggered: events that it has not served yet in this round
     * are still reported here, and this call does not consume them.
     */
    int n = epoll_wait(uv_backend_fd(&t->w->loop), ev, 2, 0);
    for (int i = 0; i < n; i++) {
        if (ev[i].data.fd != t->client->io.fd) {
            return true;
        }
    }
    return false;
}

void turn_tally(struct turn *t)
{
    struct counters *c = &t->w->counters;

    must_be_worker(t->w);
    if (t->tally.stores > 0) {
        ctr_add(c, CTR_cmd_set, t->tally.stores);
    }
    ctr_add(c, CTR_cmd_get, t->tally.gets);
    ctr_add(c, CTR_get_hits, t->tally.hits);
    if (t->tally.misses > 0) {
        ctr_add(c, CTR_get_misses, t->tally.misses);
        ctr_add(c, CTR_get_expired, t->tally.expired);
        ctr_add(c, CTR_get_flushed, t->tally.flushed);
    }
    memset(&t->tally, 0, sizeof(t->tally));
}

bool turn_has_extensions(const struct turn *t)
{
    must_be_worker(t->w);
    return t->client != NULL ? t->client->has_extensions : t->w->settings->extensions;
}

/* ---- times ------------------------------------------------------------------------------- */

msec_t turn_deadline_after(const struct turn *t, int64_t ms)
{
    msec_t deadline;

    must_be_worker(t->w);
    if (ms <= 0) {
        return t->now;
    }
    return __builtin_add_overflow(t->now + ROUNDING_MS, ms, &deadline) ? MSEC_NEVER : deadline;
}

msec_t turn_deadline_at(const struct turn *t, int64_t unix_ms)
{
    msec_t deadline = clock_add_ms(unix_ms, -clock_unix_offset_ms(&t->e->clock));

    must_be_worker(t->w);
    return deadline > t->now ? deadline : t->now;
}

msec_t turn_deadline_ms(const struct turn *t, int64_t exptime_ms)
{
    must_be_worker(t->w);
    if (exptime_ms == 0) {
        return MSEC_NEVER;
    }
    return exptime_ms <= RELATIVE_MAX_S * 1000 ? turn_deadline_after(t, exptime_ms)
                                               : turn_deadline_at(t, exptime_ms);
}

msec_t turn_deadline(const struct turn *t, int64_t exptime)
{
    must_be_worker(t->w);
    if (MF_LIKELY((uint64_t)exptime - 1 < RELATIVE_MAX_S)) {
        return t->now + ROUNDING_MS + exptime * 1000;
    }
    if (exptime < 0) {
        return t->now;
    }
    return exptime > INT64_MAX / 1000 ? MSEC_NEVER : turn_deadline_ms(t, exptime * 1000);
}

msec_t turn_flush_at(const struct turn *t, int64_t delay)
{
    if (delay <= 0) {
        return t->now;
    }
    msec_t deadline = turn_deadline(t, delay);
    return delay <= RELATIVE_MAX_S ? deadline - ROUNDING_MS : deadline;
}

/* Mixes the bits of x: neighbours become unrelated numbers. */
static uint64_t mix(uint64_t x)
{
    return num_random(&x);
}

msec_t turn_jitter(const struct turn *t, uint64_t hash, msec_t deadline, uint32_t pct)
{
    msec_t ttl = deadline - t->now - ROUNDING_MS;

    must_be_worker(t->w);
    if (pct == 0 || deadline == MSEC_NEVER || ttl <= 1) {
        return deadline;
    }
    /* At least a millisecond is left. */
    unsigned __int128 spread =
        (unsigned __int128)(uint64_t)(ttl - (pct >= 100)) * pct / 100 + 1;
    return deadline - (msec_t)(mix(hash ^ mix((uint64_t)t->now)) * spread >> 64);
}

msec_t turn_store_deadline(const struct turn *t, uint64_t hash, int64_t exptime)
{
    return turn_jitter(t, hash, turn_deadline(t, exptime),
                       setting_get(t->w->settings, ttl_jitter));
}

/*
 * Whole milliseconds left: the current one is not counted, except as the last one of an item
 * that still exists. So a new item shows the requested time to live, and none shows more.
 */
int64_t turn_ms_left(const struct turn *t, msec_t deadline)
{
    msec_t left = deadline - t->now;

    if (deadline == MSEC_NEVER) {
        return -1;
    }
    if (left <= 0) {
        return 0;
    }
    return left > ROUNDING_MS ? left - ROUNDING_MS : left;
}

int64_t turn_unix_ms(const struct turn *t, msec_t deadline)
{
    must_be_worker(t->w);
    return clock_to_unix_ms(&t->e->clock, deadline);
}

/* ---- output ------------------------------------------------------------------------------ */

/*
 * Composed bytes can be sent outside of a section too, but a value only in the section in which
 * it was found.
 */
static inline void must_be_able_to_send(const struct turn *t)
{
    must_be_worker(t->w);
    debug_must(t->out.value_left == 0 || rcu_is_reading());
}

/* The socket did not accept all bytes: queue the rest. */
static void keep_output(struct turn *t)
{
    struct kept *k = client_keep(t->client);

    t->is_halted = true;
    if (k == NULL || !outq_keep(&k->outq, &t->out)) {
        ctr_add(&t->w->counters, CTR_response_obj_oom, 1);
        t->is_broken = true;
    } else if (!client_count_output(t->client, t->w)) {
        ctr_add(&t->w->counters, CTR_slow_drops, 1);
        t->is_broken = true;
    }
}

/* Has its client changed anything? Others of the same round have not. */
static MF_NOINLINE void note_changes(struct turn *t)
{
    uint64_t made = changes_made();

    if (made != t->w->changes_seen) {
        t->client->log_state = LOG_CHANGED;
    }
    t->w->changes_seen = made;
}

/* Is there a change that must not be acknowledged before the log has it? */
static MF_NOINLINE bool hold_output(struct turn *t)
{
    note_changes(t);
    return client_hold(t->client, t->w);
}

static MF_INLINE void send_output(struct turn *t)
{
    uint64_t written = 0;

    must_be_able_to_send(t);
    turn_tally(t); /* first: a client that has the reply finds it counted on any connection */
    if (out_left(&t->out) == 0) {
        if (MF_UNLIKELY((t->w->gate & GATE_LOG) != 0) && t->client != NULL) {
            /* A later reply may imply that all earlier changes are done. */
            if (t->client->log_state == LOG_HELD) {
                (void)hold_output(t);
            } else {
                note_changes(t);
            }
        }
        return;
    }
    if (MF_UNLIKELY(t->client == NULL)) {
        /* A datagram's reply is sent as a whole, and this one is longer than any may be. */
        out_init(&t->out, t->out.base, t->out.cap);
        t->is_halted = true;
        return;
    }
    if (!t->is_broken) {
        if ((MF_UNLIKELY((t->w->gate & GATE_LOG) != 0) && hold_output(t)) ||
            client_has_output(t->client)) {
            keep_output(t);
        } else {
            enum send_status status = out_send(&t->out, &t->client->io, &written);

            if (status == SEND_BLOCKED) {
                keep_output(t);
            } else if (status == SEND_BROKEN) {
                t->is_halted = true;
                t->is_broken = true;
            }
        }
    }
    out_clear(&t->out);
    t->units += written / COST_UNIT_BYTES;
    ctr_add(&t->w->counters, CTR_bytes_written, written);
}

void turn_flush(struct turn *t)
{
    must_be_worker(t->w);
    send_output(t);
    if (t->insight != 0) {
        timing_sent(t);
    }
}

void turn_emit(struct turn *t, const char *bytes, size_t n)
{
    must_be_able_to_send(t);
    while (n > 0) {
        size_t room = t->out.cap - t->out.len;
        size_t take = n < room ? n : room;

        memcpy(t->out.base + t->out.len, bytes, take);
        t->out.len += take;
        bytes += take;
        n -= take;
        if (n > 0) {
            turn_flush(t);
        }
    }
}

enum turn_stop turn_line(struct turn *t, const char *fmt, ...)
{
    char *line = turn_room(t, TURN_LINE_MAX);

    MF_FORMAT(line, TURN_LINE_MAX, fmt);
    t->out.len += strlen(line);
    return TURN_GOES_ON;
}

bool turn_has_room_for_value(struct turn *t, size_t n)
{
    must_be_reading();
    if (t->out.value_left > 0) {
        turn_flush(t);
    }
    if (!t->is_halted) {
        (void)turn_room(t, n);
    }
    return !t->is_halted;
}

void turn_bin_reply(struct turn *t, const struct request *r, enum bin_reply reply, uint64_t cas)
{
    must_be_able_to_send(t);
    if (reply != BIN_REPLY_OK || !r->noreply) {
        t->out.len += bin_compose_reply(turn_room(t, BIN_REPLY_MAX), r, reply, cas);
    }
}
