/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One turn of a connection: parse what there is, execute it in order, send the replies. Runs
 * on the connection's worker, by itself or in a round with others (conn_round.c). A read-side
 * section spans the requests and their replies, so values are sent from where they are stored
 * and the order of reads and writes is program order.
 *
 * Fairness. memcached cuts a connection off after -R requests. Here a turn is bounded by its
 * one read anyway, and cutting it costs a copy of the rest. So at every -R requests with
 * input left a yield is counted, but only at 20 times as much work (keys, and 4 KiB of output
 * each: well under a millisecond at the default) the rest is kept and the connection queues up
 * behind the others, if there are any: in its round, in the queue, or, which the kernel is
 * asked in one call without waiting, ready to be read. A neighbour of a client that pipelines
 * without end waits for one such portion, and a client alone, or one that does not exceed it,
 * never pays.
 */
#include "daemon/conn/conn_round.h"

#include <string.h>
#include <sys/epoll.h>

#include "daemon/command/exec_bin.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"
#include "lib/base/counters.h"
#include "lib/base/rcu.h"

/* A turn is cut after so many times -R units of work, if others are ready. */
#define TURN_UNITS 20u

/* Output sent, in bytes, that makes a unit of work. */
#define UNIT_SHIFT 12

/*
 * What reply bytes may wait in all, and as much again of requests behind them, if an eighth of
 * -m is less; dealt evenly to the workers.
 */
#define PENDING_MIN_BYTES (64u << 20)

/* ---- output ------------------------------------------------------------------------------ */

uint64_t conn_pending_max(const struct worker *w)
{
    int64_t limit = atomic_load_explicit(&w->engine->budget.limit_bytes, memory_order_relaxed);
    uint64_t eighth = (uint64_t)limit / 8;

    return (eighth > PENDING_MIN_BYTES ? eighth : PENDING_MIN_BYTES) / w->engine->shard_count;
}

bool conn_count_output(struct conn *c)
{
    struct worker *w = c->worker;
    size_t held = outq_held_bytes(&c->outq);
    bool grew = held > c->held_bytes;

    ctr_add(&w->counters, CTR_out_pending_bytes, (uint64_t)held - (uint64_t)c->held_bytes);
    c->held_bytes = held;
    return !grew || ctr_get(&w->counters, CTR_out_pending_bytes) <= conn_pending_max(w);
}

/* The socket did not take all: what is left goes to the queue. */
static void keep_output(struct turn *t)
{
    t->is_halted = true;
    if (!outq_keep(&t->conn->outq, &t->out)) {
        ctr_add(&t->w->counters, CTR_response_obj_oom, 1);
        t->is_broken = true;
    } else if (!conn_count_output(t->conn)) {
        ctr_add(&t->w->counters, CTR_slow_drops, 1);
        t->is_broken = true;
    }
}

void turn_flush(struct turn *t)
{
    uint64_t written = 0;
    enum send_status status;

    exec_tally(t); /* who has the reply finds it counted, on whatever connection he asks */
    if (out_left(&t->out) == 0) {
        return;
    }
    if (MF_UNLIKELY(t->conn == NULL)) {
        /* A datagram's reply is sent as a whole, and this one is longer than any may be. */
        out_init(&t->out, t->out.base, t->out.cap);
        t->is_halted = true;
        return;
    }
    if (!t->is_broken) {
        if (!outq_is_empty(&t->conn->outq)) {
            keep_output(t);
        } else {
            status = out_send(&t->out, &t->conn->io, &written);
            if (status == SEND_BLOCKED) {
                keep_output(t);
            } else if (status == SEND_BROKEN) {
                t->is_halted = true;
                t->is_broken = true;
            }
        }
    }
    out_clear(&t->out);
    t->units += written >> UNIT_SHIFT;
    ctr_add(&t->w->counters, CTR_bytes_written, written);
}

void turn_emit(struct turn *t, const char *bytes, size_t n)
{
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

int turn_fd(const struct turn *t)
{
    return t->conn != NULL ? t->conn->io.fd : -1;
}

enum turn_stop turn_dump(struct turn *t, enum dump_format format, bool has_items)
{
    t->conn->dump =
        (struct dump){.format = (uint8_t)format, .is_empty = !has_items, .is_active = true};
    return TURN_LASTS;
}

bool turn_others_are_ready(struct turn *t)
{
    struct epoll_event ev[2];
    int n;

    t->unit_limit = t->units + (uint64_t)t->w->settings->reqs_per_event * TURN_UNITS;
    if (t->is_followed || t->w->ready_count > 0) {
        return true;
    }
    /*
     * libuv's descriptors are level-triggered and carry their number: what it has not served
     * yet in this round of events is still reported here, and asking takes nothing away from
     * it.
     */
    n = epoll_wait(uv_backend_fd(&t->w->loop), ev, 2, 0);
    for (int i = 0; i < n; i++) {
        if (ev[i].data.fd != t->conn->io.fd) {
            return true;
        }
    }
    return false;
}

/* ---- requests ---------------------------------------------------------------------------- */

void turn_read_clock(struct turn *t)
{
    t->now = worker_now(t->w);
    t->now_s = (uint32_t)((uint64_t)t->now / 1000);
}

/* Open a section, and see what is true from now on. */
static void open_section(struct turn *t)
{
    turn_read_clock(t);
    t->observed = observe_flags(t->w);
    rcu_begin();
    t->route = router_read(&t->e->router);
}

/* Remember where a get line was interrupted, and how much of the input is consumed. */
static size_t remember_rest(struct turn *t, const struct request *r, const char *p,
                            size_t line_end)
{
    struct get_rest *rest = &t->conn->rest;
    size_t at = (size_t)(t->rest.ptr - p);

    rest->keys_bytes = t->rest.len;
    rest->line_bytes = line_end - at;
    rest->exptime = r->exptime;
    rest->command = r->command;
    rest->wants_cas = r->wants_cas;
    rest->is_active = true;
    return at;
}

enum turn_stop turn_admin(struct turn *t, const struct request *r)
{
    enum turn_stop stop;

    if (t->out.value_left > 0) {
        turn_flush(t); /* a value can only be sent in the section it was found in */
        if (t->is_halted) {
            return TURN_BLOCKED;
        }
    }
    exec_tally(t); /* statistics and their reset see what came before them */
    rcu_end();
    if (r->command == CMD_STATS) {
        stop = conn_stats(t, r);
    } else {
        stop = r->cls == CLASS_ADMIN ? exec_admin(t, r) : exec_bin_admin(t, r);
    }
    open_section(t); /* it may have taken long, and switched what is observed */
    return stop;
}

/*
 * What is consumed of a batch whose first byte is at p when a step of it stops the turn; the
 * step begins at `begin`.
 */
static size_t stopped_at(struct turn *t, const struct step *s, const char *p, const char *begin,
                         enum turn_stop stop)
{
    if (stop == TURN_CLOSES || stop == TURN_ASKED || stop == TURN_LASTS ||
        stop == TURN_STREAMS) {
        return (size_t)(s->end - p);
    }
    if (s->req.cls == CLASS_GET) {
        return remember_rest(t, &s->req, p, (size_t)(s->end - p));
    }
    return (size_t)(begin - p);
}

/*
 * Execute a batch whose first byte is at p. *used is what was consumed of it. Not inlined:
 * together with run() the loop runs out of registers.
 */
static MF_NOINLINE enum turn_stop run_batch(struct turn *t, const struct batch *b,
                                            const char *p, size_t *used)
{
    const struct step *s = b->step;
    const struct step *end = s + b->n;
    const char *begin = p; /* of step s */
    enum turn_stop stop = TURN_GOES_ON;

    while (s < end) {
        stop = exec_request(t, &s->req);
        if (MF_UNLIKELY(stop != TURN_GOES_ON)) {
            t->requests += (uint32_t)(s - b->step);
            *used = stopped_at(t, s, p, begin, stop);
            return stop;
        }
        begin = s->end;
        s++;
        t->may_wait = true;
        t->units++;
        if (MF_UNLIKELY(t->is_halted)) {
            stop = TURN_BLOCKED;
            break;
        }
        if (MF_UNLIKELY(t->units >= t->unit_limit) && s < end && turn_others_are_ready(t)) {
            stop = TURN_YIELDS;
            break;
        }
    }
    t->requests += (uint32_t)(s - b->step);
    *used = (size_t)(begin - p);
    return stop;
}

/* ---- what is no whole request ------------------------------------------------------------ */

/* A storage command whose value is not all there. */
static enum turn_stop run_body(struct turn *t, struct batch *b, size_t len, size_t *used)
{
    struct conn *c = t->conn;
    size_t small_max = engine_small_max(t->e);
    size_t arrived = len - b->last_used;
    bool may_place = conn_upload_may_place(t, b->last);
    enum turn_stop stop;

    /*
     * A value that one read can bring waits in the connection's buffer until it is whole: it is
     * copied once into its pieces then, where a body would copy it there too. Unless it is
     * there to be read into them.
     */
    if (b->last->value_len <= small_max ||
        (b->last->value_len <= EXEC_BULK_BYTES && !may_place)) {
        c->need = b->last_used + b->last->value_len + request_value_end(b->last);
        return TURN_DRY;
    }
    /*
     * A body takes room as its bytes come, and counts as announced when it is begun: that is
     * believed only of who sent something of it.
     */
    if (arrived < small_max && !c->is_saturated) { /* never when it may be placed */
        t->is_bulk = true; /* larger than EXEC_BULK_BYTES, or it would have waited */
        return TURN_DRY;
    }
    stop = conn_upload_begin(t, b->last, may_place);
    if (stop == TURN_GOES_ON) {
        *used = b->last_used;
        t->requests++;
    }
    return stop;
}

/* A request that cannot be executed. */
static void answer_refused(struct turn *t, struct batch *b)
{
    if (t->conn->protocol == PROTOCOL_BINARY) {
        exec_bin_refused(t, b->last, b->bin_reply);
        return;
    }
    if (b->last->cls == CLASS_STORE) {
        /* Only what is too large is swallowed; with noreply the reply does not tell. */
        exec_store_failed(t, b->last, b->last->value_len > 0 ? REPLY_TOO_LARGE : b->reply);
    } else if (b->last->command == CMD_MS) {
        exec_store_failed(t, b->last, b->reply);
    }
    turn_reply(t, b->reply);
}

/* Nothing can be read behind it any more. */
static void answer_last(struct turn *t, struct batch *b)
{
    if (t->conn->protocol != PROTOCOL_BINARY) {
        turn_reply(t, b->reply);
    } else if (b->bin_reply != BIN_REPLY_OK) {
        exec_bin_reply(t, b->last, b->bin_reply, 0);
    }
}

/* What came behind the requests of a batch. *used: consumed of the len bytes there. */
static enum turn_stop run_last(struct turn *t, struct batch *b, size_t len, size_t *used)
{
    struct conn *c = t->conn;

    *used = 0;
    switch (b->status) {
    case PARSE_OK:
        break;
    case PARSE_MORE:
        c->need = b->last_used; /* of a line nobody knows it */
        return TURN_DRY;
    case PARSE_BODY:
        return run_body(t, b, len, used);
    case PARSE_REPLY:
        answer_refused(t, b);
        c->swallow = b->last->value_len;
        *used = b->last_used;
        t->requests++;
        t->units++;
        break;
    case PARSE_CLOSE:
        answer_last(t, b);
        *used = len;
        return TURN_CLOSES;
    }
    return TURN_GOES_ON;
}

/* Go on with the rest of a get line; its keys are at p. */
static enum turn_stop run_rest(struct turn *t, const char *p, size_t *used)
{
    struct get_rest *rest = &t->conn->rest;
    struct request r = {
        .exptime = rest->exptime,
        .command = rest->command,
        .cls = CLASS_GET,
        .wants_cas = rest->wants_cas,
    };
    size_t line_bytes = rest->line_bytes;
    enum turn_stop stop = exec_get_keys(t, &r, span_of(p, rest->keys_bytes));

    if (stop != TURN_GOES_ON) {
        *used = remember_rest(t, &r, p, line_bytes);
        return stop;
    }
    rest->is_active = false;
    t->may_wait = true;
    t->requests++;
    *used = line_bytes;
    return TURN_GOES_ON;
}

/* What is to be done before the next request can be parsed. */
static enum turn_stop run_pending(struct turn *t, const char *p, size_t len, size_t *used)
{
    struct conn *c = t->conn;

    *used = 0;
    if (c->rest.is_active) {
        return run_rest(t, p, used);
    }
    if (c->dump.is_active) {
        return dump_slice(t, &c->dump) ? TURN_GOES_ON : TURN_YIELDS;
    }
    if (c->upload != NULL) {
        return conn_upload_take(t, p, len, used);
    }
    if (c->swallow > 0) {
        *used = c->swallow < len ? (size_t)c->swallow : len;
        c->swallow -= *used;
        return TURN_GOES_ON;
    }
    return len > 0 ? conn_auth_take(t, p, len, used) : TURN_DRY;
}

/* Is the lot one whole request, the usual thing of a client that does not pipeline? */
static inline bool is_single(const struct lot *lot)
{
    const struct batch *b = &lot->batch;

    return lot->is_parsed && b->n == 1 && b->status == PARSE_OK &&
           b->step->end == lot->p + lot->len;
}

/* Execute it, with the result of run(). */
static inline enum turn_stop run_single(struct turn *t, const struct lot *lot, size_t *used)
{
    const struct step *s = lot->batch.step;
    enum turn_stop stop = exec_request(t, &s->req);

    if (MF_UNLIKELY(stop != TURN_GOES_ON)) {
        *used = stopped_at(t, s, lot->p, lot->p, stop);
        return stop;
    }
    t->requests++;
    t->units++;
    *used = lot->len;
    return MF_UNLIKELY(t->is_halted) ? TURN_BLOCKED : TURN_DRY;
}

/*
 * Execute as much of a lot as possible; *used is what was consumed of it. It grows by what is
 * read behind it.
 */
static enum turn_stop run(struct turn *t, struct lot *lot, size_t *used)
{
    struct conn *c = t->conn;
    struct batch *b = &lot->batch;
    bool is_parsed = lot->is_parsed;
    const char *p = lot->p;
    size_t len = lot->len;
    struct steps steps;
    size_t pos = 0;
    enum turn_stop stop = TURN_GOES_ON;

    for (;;) {
        size_t n;

        if (MF_UNLIKELY(conn_has_pending(c))) {
            stop = run_pending(t, p + pos, len - pos, &n);
            pos += n;
            len += t->grown;
            t->grown = 0;
            if (stop == TURN_GOES_ON && t->is_halted) {
                stop = TURN_BLOCKED;
            }
            /*
             * What came of it may want bytes itself: those of a value that failed are no
             * commands.
             */
            if (stop == TURN_GOES_ON && conn_has_pending(c) && pos < len) {
                continue;
            }
        }
        if (stop == TURN_GOES_ON && pos < len) {
            if (!is_parsed) {
                steps_clear(&steps);
                batch_parse(t, &c->protocol, &steps, b, p + pos, len - pos, true);
                steps_prefetch(t, &steps);
            }
            is_parsed = false;
            stop = run_batch(t, b, p + pos, &n);
            pos += n;
        } else if (stop == TURN_GOES_ON) {
            stop = TURN_DRY;
        }
        if (stop == TURN_GOES_ON && b->status != PARSE_OK) {
            stop = run_last(t, b, len - pos, &n);
            pos += n;
        }
        if (stop == TURN_GOES_ON && t->is_halted) {
            stop = TURN_BLOCKED;
        }
        if (stop == TURN_GOES_ON && MF_UNLIKELY(t->units >= t->unit_limit) && pos < len &&
            turn_others_are_ready(t)) {
            stop = TURN_YIELDS;
        }
        if (stop != TURN_GOES_ON) {
            lot->len = len;
            *used = pos;
            return stop;
        }
    }
}

/* ---- turns ------------------------------------------------------------------------------- */

void turn_begin(struct turn *t, struct worker *w)
{
    t->w = w;
    t->e = w->engine;
    t->hides_cas = w->settings->no_cas;
    t->is_followed = false;
    memset(&t->tally, 0, sizeof(t->tally));
    out_init(&t->out, w->obuf, WORKER_OBUF_BYTES);
    open_section(t);
}

void turn_renew(struct turn *t)
{
    rcu_end();
    open_section(t);
}

void turn_take(struct turn *t, struct conn *c)
{
    t->conn = c;
    t->may_wait = false;
    t->is_halted = false;
    t->is_broken = false;
    t->is_bulk = false;
    t->is_placeable = false;
    t->behind = 0;
    t->grown = 0;
    t->requests = 0;
    t->units = 0;
    t->unit_limit = (uint64_t)t->w->settings->reqs_per_event * TURN_UNITS;
    t->rest = span_of(NULL, 0);
}

/* Each time the limit of -R was met with input left counts. */
static void count_yields(struct turn *t, bool has_more)
{
    uint32_t limit = t->w->settings->reqs_per_event;

    if (MF_UNLIKELY(t->requests >= limit)) {
        ctr_add(&t->w->counters, CTR_conn_yields,
                t->requests / limit - (t->requests % limit == 0 && !has_more));
    }
}

/*
 * What waits for the reclaimer's period, milliseconds away, grows cold, and what is stored
 * meanwhile takes other memory, as cold: megabytes where values are large. So a worker that
 * was brought much tries to end a period by itself.
 */
static MF_NOINLINE void try_grace(struct worker *w, uint64_t bytes_read)
{
    w->grace_mark = bytes_read;
    if (engine_try_grace(w->engine)) {
        w->grace_step = WORKER_GRACE_STEP_BYTES;
    } else if (w->grace_step < WORKER_GRACE_STEP_MAX_BYTES) {
        w->grace_step *= 2;
    }
}

void turn_pass(struct turn *t, bool has_more)
{
    turn_flush(t);
    count_yields(t, has_more);
}

void turn_end(struct turn *t)
{
    struct worker *w = t->w;
    uint64_t bytes_read = ctr_get(&w->counters, CTR_bytes_read);

    rcu_end();
    if (MF_UNLIKELY(bytes_read - w->grace_mark >= w->grace_step)) {
        try_grace(w, bytes_read);
    }
}

static void note_stop(struct conn *c, enum turn_stop stop)
{
    bool was_waiting = c->is_waiting;

    c->is_kept = stop != TURN_DRY && stop != TURN_CLOSES && stop != TURN_STREAMS;
    c->is_waiting = stop == TURN_WAITS;
    if (c->is_waiting && !was_waiting) {
        c->wait_since = conn_wait_now();
        ctr_add(&c->worker->counters, CTR_room_waits, 1);
    }
    if (stop == TURN_CLOSES) {
        c->is_finishing = true;
    }
    if ((stop == TURN_YIELDS || stop == TURN_LASTS) && outq_is_empty(&c->outq)) {
        conn_ready_add(c);
    }
}

static inline bool keep_input(struct conn *c, const struct lot *lot, size_t used)
{
    if (MF_LIKELY(lot->kind == INPUT_READ && used == lot->len && c->in.cap == 0)) {
        return true;
    }
    return conn_keep_input(c, lot->kind, lot->p, lot->len, used);
}

void lot_execute(struct turn *t, struct lot *lot)
{
    struct conn *c = lot->conn;
    enum turn_stop stop;
    size_t used;

    debug_must(!c->is_closing && outq_is_empty(&c->outq));
    turn_take(t, c);
    t->may_wait = !c->is_waiting || conn_wait_now() - c->wait_since < CONN_ROOM_WAIT_MS;
    t->behind = lot->behind;
    c->last_active = t->now;
    c->need = 0;
    stop = MF_LIKELY(is_single(lot)) ? run_single(t, lot, &used) : run(t, lot, &used);
    used = stop == TURN_STREAMS ? lot->len : used;
    turn_pass(t, used < lot->len);
    c->reads_little = t->is_bulk || c->upload != NULL;
    if (MF_UNLIKELY(t->is_placeable)) {
        c->reads_little |= conn_upload_expects_place(c);
    }
    if (stop == TURN_WAITS && t->requests > 0) {
        /* If a store waits now it is another one, with a second of its own. */
        c->wait_since = conn_wait_now();
    }
    lot->is_lost = MF_UNLIKELY(t->is_broken) || !keep_input(c, lot, used);
    if (!lot->is_lost) {
        note_stop(c, stop);
    }
}

void lot_finish(const struct lot *lot)
{
    if (MF_UNLIKELY(lot->is_lost)) {
        conn_close(lot->conn);
    } else {
        conn_settle(lot->conn);
    }
}

void conn_execute(struct conn *c, enum input_kind kind, char *p, size_t len)
{
    struct turn t;
    struct lot lot;

    lot.conn = c;
    lot.p = p;
    lot.len = len;
    lot.kind = kind;
    lot.is_parsed = false;
    lot.behind = 0;
    if (kind == INPUT_READ) {
        lot.behind = (size_t)(c->worker->rbuf + WORKER_RBUF_BYTES - (p + len));
    }
    turn_begin(&t, c->worker);
    lot_execute(&t, &lot);
    turn_end(&t);
    lot_finish(&lot);
}

void conn_execute_kept(struct conn *c)
{
    conn_execute(c, INPUT_KEPT, buf_begin(&c->in), buf_len(&c->in));
}
