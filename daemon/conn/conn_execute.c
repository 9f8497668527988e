/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Input to turns: the input of a connection is parsed and executed in order, alone or in a
 * round with others (conn_round.c). On the connection's worker.
 *
 * A connection may have pending work before its next request can be parsed: the rest of a get
 * line, a dump, a large value, bytes to be dropped, its authentication (conn_has_pending()).
 * Then batches of requests follow, and after a batch possibly an incomplete request.
 */
#include "daemon/conn/conn_execute.h"

#include "daemon/command/exec.h"
#include "daemon/command/timing.h"
#include "daemon/conn/conn_steps.h"
#include "daemon/options/settings.h"
#include "lib/base/budgets.h"
#include "lib/base/context.h"

/* ---- batches ----------------------------------------------------------------------------- */

/* Record where a get line was interrupted, and the number of consumed bytes. */
static size_t remember_rest(struct turn *t, const struct request *r, const char *p,
                            size_t line_end)
{
    struct kept *k = client_keep(t->client);
    size_t at = (size_t)(t->rest.ptr - p);

    if (k == NULL) {
        t->is_broken = true; /* its keys that were answered may not be answered again */
        return at;
    }
    k->rest = (struct get_rest){
        .keys_bytes = t->rest.len,
        .line_bytes = line_end - at,
        .exptime = r->exptime,
        .command = r->command,
        .wants_cas = r->wants_cas,
        .is_active = true,
    };
    return at;
}

/*
 * Number of consumed bytes of a batch whose first byte is at p, when a step of it that begins
 * at `begin` stops the turn.
 */
static size_t stopped_at(struct turn *t, const struct step *s, const char *p, const char *begin,
                         enum turn_stop stop)
{
    if (stop == TURN_CLOSES || stop == TURN_ASKED || stop == TURN_LOGS_IN ||
        stop == TURN_LASTS || stop == TURN_STREAMS) {
        return (size_t)(s->end - p);
    }
    if (s->req.cls == CLASS_GET) {
        return remember_rest(t, &s->req, p, (size_t)(s->end - p));
    }
    return (size_t)(begin - p);
}

/* Its answer may come later. */
static void note_stopped(struct turn *t, const struct step *s, enum turn_stop stop)
{
    if (stop == TURN_ASKED || stop == TURN_LOGS_IN || stop == TURN_LASTS) {
        timing_late(t, &s->req);
    }
}

/* run_batch(), compiled once for turns that measure and once for those that do not. */
static MF_INLINE enum turn_stop run_steps(struct turn *t, const struct batch *b, const char *p,
                                          size_t *used, bool is_timed)
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
            if (is_timed) {
                note_stopped(t, s, stop);
            }
            return stop;
        }
        if (is_timed) {
            timing_count(t, &s->req);
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

/* Not inlined: together with run_lot() the loop runs out of registers. */
static MF_NOINLINE enum turn_stop run_plain(struct turn *t, const struct batch *b,
                                            const char *p, size_t *used)
{
    return run_steps(t, b, p, used, false);
}

static MF_NOINLINE enum turn_stop run_timed(struct turn *t, const struct batch *b,
                                            const char *p, size_t *used)
{
    return run_steps(t, b, p, used, true);
}

/* Execute a batch whose first byte is at p. *used: consumed bytes. */
static inline enum turn_stop run_batch(struct turn *t, const struct batch *b, const char *p,
                                       size_t *used)
{
    return MF_UNLIKELY(t->insight != 0) ? run_timed(t, b, p, used) : run_plain(t, b, p, used);
}

/* Count a request that was executed alone. */
static inline void count_alone(struct turn *t, const struct request *r)
{
    if (t->insight != 0) {
        timing_count(t, r);
    }
}

/* ---- unfinished requests ----------------------------------------------------------------- */

/* A storage command whose value has not arrived completely. */
static enum turn_stop run_body(struct turn *t, struct lot *lot, size_t len, size_t *used)
{
    struct batch *b = &lot->batch;
    struct conn *c = turn_conn(t);
    size_t arrived = len - b->last_used;
    bool may_place = conn_upload_may_place(t, b->last);

    if (may_place && lot->behind < CONN_READ_LITTLE_BYTES) {
        /* The rest has no room in this buffer, but has room after the next read. */
        if (t->is_placeable && arrived <= CONN_READ_LITTLE_BYTES) {
            c->need = 0;
            return TURN_DRY;
        }
        may_place = false;
    }
    /*
     * A value that fits one read waits in the connection's buffer until it is complete. Then
     * it is copied once into its pieces, and a body would not save that copy. The exception is
     * a value that can be read directly into its pieces.
     */
    if (b->last->value_len <= ENGINE_SMALL_MAX ||
        (b->last->value_len <= EXEC_BULK_BYTES && !may_place)) {
        c->need = b->last_used + b->last->value_len + request_value_end(b->last);
        return TURN_DRY;
    }
    /*
     * A body takes room as its bytes arrive, but is charged with its announced length from the
     * start. So it is started only when some of its bytes have arrived.
     */
    if (arrived < ENGINE_SMALL_MAX && !c->is_saturated) { /* never when it may be placed */
        t->is_bulk = true; /* larger than EXEC_BULK_BYTES, or it would have waited */
        return TURN_DRY;
    }
    enum turn_stop stop = conn_upload_begin(t, b->last, may_place);
    if (stop == TURN_GOES_ON) {
        *used = b->last_used;
        t->requests++;
    }
    return stop;
}

/* A request that cannot be executed. */
static void answer_refused(struct turn *t, struct batch *b)
{
    if (turn_conn(t)->protocol == PROTOCOL_BINARY) {
        if (b->bin_reply == BIN_REPLY_TOO_LARGE) {
            exec_store_failed(t, b->last, REPLY_TOO_LARGE);
        }
        turn_bin_reply(t, b->last, b->bin_reply, 0);
        return;
    }
    if (b->last->cls == CLASS_STORE || b->last->command == CMD_MS) {
        exec_store_failed(t, b->last, b->reply);
    }
    (void)turn_answer(t, b->last, b->reply);
}

/* The parser closes the connection: nothing can be parsed after this. */
static void answer_last(struct turn *t, struct batch *b)
{
    if (turn_conn(t)->protocol != PROTOCOL_BINARY) {
        turn_reply(t, b->reply);
    } else if (b->bin_reply != BIN_REPLY_OK) {
        turn_bin_reply(t, b->last, b->bin_reply, 0);
    }
}

/* Process the bytes after the requests of a batch. *used: number of consumed bytes of len. */
static enum turn_stop run_last(struct turn *t, struct lot *lot, size_t len, size_t *used)
{
    struct batch *b = &lot->batch;
    struct conn *c = turn_conn(t);

    *used = 0;
    switch (b->status) {
    case PARSE_OK:
        break;
    case PARSE_MORE:
        c->need = b->last_used; /* 0 for a line: its length is not known */
        return TURN_DRY;
    case PARSE_BODY:
        return run_body(t, lot, len, used);
    case PARSE_REPLY:
        answer_refused(t, b);
        b->last->cls = CLASS_REFUSED; /* for the counters: its key was not looked up */
        count_alone(t, b->last);
        c->swallow = b->last->value_len;
        *used = b->last_used;
        t->requests++;
        t->units++;
        break;
    case PARSE_CLOSE:
        answer_last(t, b);
        if (c->close_reason != CLOSE_SHUTDOWN) {
            c->close_reason = CLOSE_REFUSED;
        }
        *used = len;
        return TURN_CLOSES;
    }
    return TURN_GOES_ON;
}

/* Continue the rest of a get line; its keys are at p. */
static enum turn_stop run_rest(struct turn *t, const char *p, size_t *used)
{
    struct get_rest *rest = &t->client->kept->rest;
    struct request r = {
        .exptime = rest->exptime,
        .command = rest->command,
        .cls = CLASS_GET,
        .wants_cas = rest->wants_cas,
    };
    size_t line_bytes = rest->line_bytes;
    const bool is_change = (request_needs(&r) & NEED_WRITE) != 0;
    const enum reply why = is_change ? guard_ask_gate(t) : REPLY_NONE;

    if (why == REPLY_FAILOVER) {
        return TURN_WAITS; /* as exec_refused() */
    }
    /* Items of earlier keys of the line may have been sent before the gate changed. */
    bool misses = why != REPLY_NONE || (t->w->gate & GATE_MISSES) != 0;
    enum turn_stop stop = exec_get_keys(t, &r, span_of(p, misses ? 0 : rest->keys_bytes));

    if (stop != TURN_GOES_ON) {
        *used = remember_rest(t, &r, p, line_bytes);
        return stop;
    }
    rest->is_active = false;
    count_alone(t, &r);
    t->may_wait = true;
    t->requests++;
    *used = line_bytes;
    return TURN_GOES_ON;
}

/* Continue the pending work before the next request can be parsed. */
static enum turn_stop run_pending(struct turn *t, struct lot *lot, const char *p, size_t len,
                                  size_t *used)
{
    struct conn *c = turn_conn(t);

    *used = 0;
    if (client_has_rest(&c->client)) {
        return run_rest(t, p, used);
    }
    if (client_dumps(&c->client)) {
        return dump_go_on(t, &c->client.kept->dump);
    }
    if (c->upload != NULL) {
        return conn_upload_take(t, lot, p, len, used);
    }
    if (c->swallow > 0) {
        *used = c->swallow < len ? (size_t)c->swallow : len;
        c->swallow -= *used;
        return TURN_GOES_ON;
    }
    return len > 0 ? conn_auth_take(t, p, len, used) : TURN_DRY;
}

/* Is the lot one whole request, as usual for a client that does not pipeline? */
static inline bool is_single(const struct lot *lot)
{
    const struct batch *b = &lot->batch;

    return lot->is_parsed && b->n == 1 && b->status == PARSE_OK &&
           b->step->end == lot->p + lot->len;
}

/* Execute it, with the result of run_lot(). */
static MF_INLINE enum turn_stop run_single(struct turn *t, const struct lot *lot, size_t *used,
                                           bool is_timed)
{
    const struct step *s = lot->batch.step;
    enum turn_stop stop = exec_request(t, &s->req);

    if (MF_UNLIKELY(stop != TURN_GOES_ON)) {
        *used = stopped_at(t, s, lot->p, lot->p, stop);
        if (is_timed) {
            note_stopped(t, s, stop);
        }
        return stop;
    }
    if (is_timed) {
        timing_count(t, &s->req);
    }
    t->requests++;
    t->units++;
    *used = lot->len;
    return MF_UNLIKELY(t->is_halted) ? TURN_BLOCKED : TURN_DRY;
}

/*
 * Execute as much of a lot as possible; *used: consumed bytes. The lot grows by bytes that are
 * read after it.
 */
static enum turn_stop run_lot(struct turn *t, struct lot *lot, size_t *used)
{
    struct conn *c = turn_conn(t);
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
            stop = run_pending(t, lot, MF_AT(p, pos), len - pos, &n);
            pos += n;
            len += lot->grown;
            lot->grown = 0;
            if (stop == TURN_GOES_ON && t->is_halted) {
                stop = TURN_BLOCKED;
            }
            /*
             * That may have left pending work: for example, the bytes of a value that failed
             * are not commands.
             */
            if (stop == TURN_GOES_ON && conn_has_pending(c) && pos < len) {
                continue;
            }
        }
        if (stop == TURN_GOES_ON && pos < len) {
            if (!is_parsed) {
                steps_clear(&steps);
                batch_parse(t, c, &steps, b, p + pos, len - pos, true);
                steps_prefetch(t, &steps);
                if (MF_UNLIKELY(guard_is_needed(t))) {
                    batch_guard(t, b);
                }
            }
            is_parsed = false;
            stop = run_batch(t, b, p + pos, &n);
            pos += n;
        } else if (stop == TURN_GOES_ON) {
            stop = TURN_DRY;
        }
        if (stop == TURN_GOES_ON && b->status != PARSE_OK) {
            stop = run_last(t, lot, len - pos, &n);
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

/* The event that the connection waits for after a turn that stopped like this. */
static const uint8_t state_after[] = {
    [TURN_DRY] = CONN_INPUT,   [TURN_BLOCKED] = CONN_TURN, [TURN_WAITS] = CONN_ROOM,
    [TURN_YIELDS] = CONN_TURN, [TURN_ASKED] = CONN_ANSWER, [TURN_LOGS_IN] = CONN_LOGIN,
    [TURN_LASTS] = CONN_TASK,  [TURN_QUEUES] = CONN_TASK,  [TURN_STREAMS] = CONN_INPUT,
    [TURN_CLOSES] = CONN_ENDS,
};

static void note_stop(struct conn *c, enum turn_stop stop)
{
    if (MF_UNLIKELY(stop == TURN_WAITS)) {
        conn_wait_begin(c);
    } else if (MF_UNLIKELY(conn_is_waiting(c))) {
        conn_wait_end(c);
    }
    c->then = state_after[stop];
}

static inline bool keep_input(struct conn *c, const struct lot *lot, size_t used)
{
    if (MF_LIKELY(lot->kind == INPUT_READ && used == lot->len && c->in.cap == 0)) {
        return true;
    }
    return conn_keep_input(c, lot->kind, lot->p, lot->len, used);
}

/* lot_execute(), compiled twice like run_batch(). */
static MF_INLINE void execute(struct turn *t, struct lot *lot, bool is_timed)
{
    struct conn *c = lot->conn;
    size_t used;

    debug_must(!conn_is_closed(c) && !client_has_output(&c->client));
    turn_take(t, &c->client);
    t->may_wait = conn_may_wait(c);
    c->last_active = t->now;
    c->need = 0;
    if (MF_UNLIKELY(guard_is_needed(t)) && lot->is_parsed) {
        batch_guard(t, &lot->batch);
    }
    if (is_timed) {
        timing_begin(t);
    }
    enum turn_stop stop = MF_LIKELY(is_single(lot)) ? run_single(t, lot, &used, is_timed)
                                                    : run_lot(t, lot, &used);
    used = stop == TURN_STREAMS ? lot->len : used;
    turn_pass(t, used < lot->len);
    if (is_timed) {
        timing_sent(t);
    }
    uint32_t units = (uint32_t)t->units + (uint32_t)(lot->len / COST_UNIT_BYTES);
    t->w->loop_units += units + COST_EVENT_UNITS;
    c->is_light = units < BUDGET_light_units;
    c->reads_little = t->is_bulk || c->upload != NULL;
    if (MF_UNLIKELY(t->is_placeable)) {
        c->reads_little |= conn_upload_expects_place(c);
    }
    if (stop == TURN_WAITS && t->requests > 0) {
        /* The waiting store is not the one that waited before: its own time limit begins. */
        c->wait_since = conn_wait_now();
    }
    lot->is_lost = MF_UNLIKELY(t->is_broken) || !keep_input(c, lot, used);
    note_stop(c, stop); /* also if it is lost: closing then ends its wait for room */
    if (is_timed) {
        timing_end(t, conn_is_kept(c), c->upload != NULL);
    }
}

/*
 * execute() in a turn that measures. While the work of connections is measured, the units of
 * this turn are added to the work of the connection.
 */
static MF_NOINLINE void execute_measured(struct turn *t, struct lot *lot)
{
    struct worker *w = t->w;
    const uint32_t before = w->loop_units;

    if ((t->insight & INSIGHT_WORK) == 0) {
        execute(t, lot, true);
        return;
    }
    t->insight &= ~(uint32_t)INSIGHT_WORK;
    w->insight.on &= ~(uint32_t)INSIGHT_WORK;
    lot_execute(t, lot);
    t->insight |= INSIGHT_WORK;
    w->insight.on |= INSIGHT_WORK;
    conn_weigh(lot->conn, w->loop_units - before);
}

void lot_execute(struct turn *t, struct lot *lot)
{
    must_be_in_turn(t);
    if (MF_UNLIKELY(t->insight != 0)) {
        execute_measured(t, lot);
    } else {
        execute(t, lot, false);
    }
}

void lot_finish(const struct lot *lot)
{
    must_be_worker(lot->conn->worker);
    must_not_be_reading();
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

    must_be_worker(c->worker);
    must_not_be_reading();
    lot_init(&lot, c, kind, p, len);
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
    must_be_worker(c->worker);
    must_not_be_reading();
    conn_execute(c, INPUT_KEPT, buf_begin(&c->in), buf_len(&c->in));
}

void conn_execute_task(struct task *task, struct worker *w)
{
    struct conn *c = conn_of_task(task);

    must_be_worker(w);
    must_not_be_reading();
    debug_must(conn_is_kept(c));
    conn_execute_kept(c);
}
