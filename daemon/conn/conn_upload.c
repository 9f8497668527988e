/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Uploads: receiving large values, on the worker of the connection. Bytes that arrived with the
 * command line are copied; the rest is read directly into the value's segments. Then the line
 * end, if the protocol has one, is checked and the value is stored. Bytes after the value are
 * read into the worker's buffer by the same system call.
 *
 * All uploads together hold at most a quarter of -m (at least two items of maximum size).
 * Beyond that they queue, and only the first one continues (upload_line.h). When half of that
 * is in use, uploads that are too slow are dropped, the slowest first, so that a client which
 * announces much and sends little does not delay others.
 */
#include "daemon/conn/conn_steps.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/base/prefetch.h"
#include "daemon/command/exec.h"
#include "daemon/command/guard.h"
#include "daemon/command/timing.h"
#include "daemon/conn/conn_upload_parts.h"
#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"
#include "lib/store/body.h"

/* Largest value that memcached receives in one piece. */
#define EARLY_MAX_BYTES (512u << 10)

uint64_t upload_held_by_all(const struct worker *w)
{
    int64_t held = atomic_load_explicit(&w->crew->upload_bytes, memory_order_relaxed);

    return held > 0 ? (uint64_t)held : 0;
}

uint64_t upload_held_max(const struct worker *w)
{
    int64_t limit = budget_limit(&w->engine->budget);
    uint64_t quarter = (uint64_t)limit / 4;
    uint64_t two = 2 * w->settings->item_size_max;

    return quarter > two ? quarter : two;
}

/* Have the uploads reached their memory limit? */
static bool is_full(const struct worker *w)
{
    return upload_held_by_all(w) > upload_held_max(w);
}

/* Update the count of memory that the body holds; 0 when it is released. */
static void count_held(const struct conn *c)
{
    struct upload *u = c->upload;
    size_t held = u->body != NULL ? body_held_bytes(u->body) : 0;

    if (held != u->held) {
        ctr_add(&c->worker->counters, CTR_body_pending_bytes,
                (uint64_t)held - (uint64_t)u->held);
        atomic_fetch_add_explicit(&c->worker->crew->upload_bytes,
                                  (int64_t)held - (int64_t)u->held, memory_order_relaxed);
        u->held = held;
    }
}

/*
 * The upload waits for others to finish. There is no time limit while some finish: there may be
 * many, and slow ones are dropped.
 */
static enum outcome wait_in_line(struct conn *c, bool may_wait)
{
    struct upload *u = c->upload;
    uint32_t moves =
        atomic_load_explicit(&c->worker->crew->uploads.moves, memory_order_relaxed);

    if (!may_wait && moves == u->moves) {
        return OUT_NO_MEMORY;
    }
    if (!may_wait) {
        u->moves = moves;
        c->wait_since = conn_wait_now();
    }
    return OUT_WAIT;
}

/* body_room() within the memory limit of uploads. */
enum outcome upload_find_room(struct conn *c, bool may_wait, char **to, size_t *room)
{
    struct upload *u = c->upload;
    struct worker *w = c->worker;

    if (!body_next_is_held(u->body) &&
        !upload_line_lets(&w->crew->uploads, &u->place, w, is_full(w))) {
        /* The upload that it waits for may be later in the shard's queue. */
        line_leave(&u->waiter);
        return wait_in_line(c, may_wait);
    }
    enum outcome outcome = body_room(u->body, may_wait, to, room);
    count_held(c);
    return outcome;
}

void upload_take_ahead(struct conn *c)
{
    if (!is_full(c->worker)) {
        body_take_ahead(c->upload->body);
        count_held(c);
    }
}

void upload_give_ahead(struct conn *c)
{
    body_give_ahead(c->upload->body);
    count_held(c);
}

/* n bytes have arrived. The next wait may take a second again. */
void upload_note_filled(struct conn *c, size_t n)
{
    body_filled(c->upload->body, n);
    count_held(c);
    if (conn_is_waiting(c)) {
        c->wait_since = conn_wait_now();
    }
}

int64_t upload_received(const struct upload *u)
{
    return (int64_t)(u->len - (u->body != NULL ? body_missing(u->body) : 0));
}

void conn_upload_drop(struct conn *c)
{
    struct upload *u = c->upload;

    must_be_worker(c->worker);
    if (u != NULL) {
        pace_end(&u->pace);
        body_abort(&u->body);
        count_held(c);
        upload_line_leave(&c->worker->crew->uploads, &u->place);
        mem_free(u);
        c->upload = NULL;
    }
}

/* Account for an answered store. */
static void note_answered(struct turn *t, const struct request *r)
{
    if (t->insight != 0) {
        timing_count(t, r);
    }
}

/* Answer that the value cannot be stored, and discard its remaining `rest` bytes on arrival. */
static void fail_store(struct turn *t, const struct request *r, uint64_t rest)
{
    exec_store_refused(t, r, REPLY_NO_MEMORY_STORE);
    turn_conn(t)->swallow = rest;
}

/*
 * A partially received value cannot be stored. As in memcached, the old value of the key is
 * then deleted if the new one has up to half a megabyte, and kept if the new one is longer
 * (memcached allocates longer values while it reads them). The old value is also kept if the
 * upload was shed.
 */
static void fail_midway(struct turn *t)
{
    struct conn *c = turn_conn(t);
    const struct upload *u = c->upload;
    const struct request *r = &u->req;
    uint64_t rest = body_missing(u->body) + request_value_end(r);

    exec_store_refused(t, r,
                       !u->is_shed && u->len <= EARLY_MAX_BYTES ? REPLY_NO_MEMORY_STORE
                                                                : REPLY_NO_MEMORY_READ);
    note_answered(t, r);
    c->swallow = rest;
    conn_upload_drop(c);
}

/*
 * After a directly placed value did not arrive completely, this many values are not placed
 * directly.
 */
#define PLACE_REST 16

bool conn_upload_expects_place(struct conn *c)
{
    must_be_worker(c->worker);
    if (c->place_rest > 0) {
        c->place_rest--;
    }
    /* TLS delivers bytes in records, so little would be saved. */
    return c->place_rest == 0 && c->client.io.tls == NULL;
}

bool conn_upload_may_place(const struct turn *t, const struct request *r)
{
    const struct conn *c = turn_conn(t);

    must_be_in_turn(t);
    /* If the last read got less than it asked for, the socket is empty. */
    if (c->client.io.tls != NULL || !c->is_saturated || c->place_rest != 0 ||
        r->value_len <= EXEC_PLACE_BYTES || !engine_may_place(t->e, r->value_len)) {
        return false;
    }
    return !is_full(t->w);
}

/* Callback of the struct waiter of an upload. */
static void wake_upload(struct waiter *waiter)
{
    worker_retry(MF_OUTER(waiter, struct upload, waiter)->conn->worker);
}

static struct upload *upload_create(struct turn *t, const struct request *r, bool may_place)
{
    size_t args_len = r->cls == CLASS_META ? r->args.len : 0;
    struct upload *u = mem_alloc(sizeof(*u) + args_len);

    if (u == NULL) {
        return NULL;
    }
    must(r->key.len <= sizeof(u->key));
    u->req = *r;
    memcpy(u->key, r->key.ptr, r->key.len);
    u->req.key.ptr = u->key;
    if (args_len > 0) {
        memcpy(u->args, r->args.ptr, args_len);
    }
    u->req.args = span_of(u->args, args_len);
    u->req.hash = engine_hash(t->e, u->key, r->key.len);
    engine_prefetch_bucket(t->route, u->req.hash);
    u->conn = turn_conn(t);
    u->len = r->value_len;
    u->held = 0;
    u->waiter = (struct waiter){.wake = wake_upload};
    u->place = (struct upload_place){.worker = NULL};
    u->moves = 0;
    u->may_place = may_place;
    u->is_shed = false;
    u->body = body_begin(t->e, u->req.hash, u->len);
    if (u->body == NULL) {
        mem_free(u);
        return NULL;
    }
    body_wait_in_line(u->body, &u->waiter, false);
    u->pace = (struct pace){.bytes = 0}; /* in no list */
    pace_note(&t->w->conns->uploads, &u->pace, t->now, 0);
    cron_in(t->w, CRON_PACE, CONN_PACE_UPLOADS_MS);
    return u;
}

enum turn_stop conn_upload_begin(struct turn *t, const struct request *r, bool may_place)
{
    struct conn *c = turn_conn(t);

    must_be_in_turn(t);
    c->upload = upload_create(t, r, may_place);
    if (c->upload == NULL) {
        fail_store(t, r, r->value_len + request_value_end(r));
        note_answered(t, r);
    }
    t->may_wait = true;
    return TURN_GOES_ON;
}

/* Copy bytes of the value that are already in the buffer. */
static enum turn_stop copy_in(struct turn *t, struct upload *u, const char *p, size_t len,
                              size_t *used)
{
    size_t pos = 0;

    while (pos < len && body_missing(u->body) > 0) {
        char *to;
        size_t room;
        enum outcome outcome = upload_find_room(turn_conn(t), t->may_wait, &to, &room);

        if (outcome == OUT_WAIT) {
            *used = pos;
            return TURN_WAITS;
        }
        if (outcome != OUT_OK) {
            *used = pos;
            fail_midway(t);
            return TURN_GOES_ON;
        }
        room = room < len - pos ? room : len - pos;
        memcpy(to, p + pos, room);
        upload_note_filled(turn_conn(t), room);
        pos += room;
        t->may_wait = true;
    }
    if (u->pace.bytes == 0) {
        /* Bytes that came with the line say nothing about the client's pace. */
        pace_note(&t->w->conns->uploads, &u->pace, t->now, upload_received(u));
    }
    *used = pos;
    return TURN_GOES_ON;
}

/*
 * Read the rest of a placed body directly into its blocks, and any bytes that follow into the
 * buffer after the input, all of which has been consumed. Context: in the section of the turn.
 */
static void read_placed(struct turn *t, struct lot *lot, struct upload *u, char *behind)
{
    struct iovec iov[BODY_PLACES_MAX + 1];
    struct conn *c = turn_conn(t);
    size_t missing = body_missing(u->body);
    unsigned places = body_places(u->body, iov);

    iov[places] = (struct iovec){behind, CONN_READ_LITTLE_BYTES};
    if (lot->behind < CONN_READ_LITTLE_BYTES) {
        iov[places].iov_len = lot->behind;
    }
    size_t asked = missing + iov[places].iov_len;
    for (unsigned i = 0; i < places; i++) {
        prefetch_to_write(iov[i].iov_base, iov[i].iov_len);
    }
    c->is_saturated = false;
    ssize_t n = TEMP_FAILURE_RETRY(io_readv(&c->client.io, iov, places + 1));
    if (n <= 0) {
        return; /* the next read finds the same condition */
    }
    ctr_add(&t->w->counters, CTR_bytes_read, (uint64_t)n);
    conn_count_work(c, (size_t)n);
    c->is_saturated = (size_t)n == asked;
    if ((size_t)n > missing) {
        lot->grown = (size_t)n - missing;
        lot->behind -= lot->grown;
        turn_read_clock(t);
    }
    upload_note_filled(c, (size_t)n - lot->grown);
}

/* The section ends before the body is complete, so the body cannot stay placed. */
static void unplace(struct turn *t, struct upload *u)
{
    if (body_missing(u->body) > 0) {
        turn_conn(t)->place_rest = PLACE_REST;
    }
    if (!body_unplace(u->body)) {
        fail_midway(t);
        return;
    }
    count_held(turn_conn(t));
}

/* A waiting store may have made progress: its slot has moved, and it is copied in parts. */
static void note_waits(struct conn *c)
{
    size_t before = c->upload->held;

    count_held(c);
    if (c->upload->held > before && conn_is_waiting(c)) {
        c->wait_since = conn_wait_now();
    }
}

/* The value is complete; p points to the bytes that terminate it. */
static enum turn_stop store_whole(struct turn *t, struct upload *u, const char *p)
{
    enum reply why = guard_ask_gate(t); /* it may have changed since the value started */

    if (MF_UNLIKELY(why == REPLY_FAILOVER)) {
        return TURN_WAITS;
    }
    if (MF_UNLIKELY(why != REPLY_NONE)) {
        u->req.refusal = why;
        u->req.cls = u->req.cls == CLASS_BINARY ? CLASS_BINARY_REFUSED : CLASS_REFUSED;
        (void)exec_refused(t, &u->req);
    } else if (request_value_end(&u->req) > 0 && (p[0] != '\r' || p[1] != '\n')) {
        exec_store_refused(t, &u->req, REPLY_BAD_CHUNK);
    } else {
        enum turn_stop stop = exec_store_body(t, &u->req, &u->body);

        if (stop == TURN_WAITS) {
            note_waits(turn_conn(t));
        }
        if (stop != TURN_GOES_ON) {
            return stop;
        }
    }
    note_answered(t, &u->req);
    conn_upload_drop(turn_conn(t));
    t->requests++;
    t->units++;
    return TURN_GOES_ON;
}

/* No bytes have arrived: is there room for more? */
static enum turn_stop wait_for_room(struct turn *t, struct upload *u)
{
    enum outcome outcome = OUT_OK;
    size_t room;
    char *to;

    if (!u->is_shed && body_missing(u->body) > 0) {
        outcome = upload_find_room(turn_conn(t), t->may_wait, &to, &room);
    }
    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    if (outcome != OUT_OK || u->is_shed) {
        fail_midway(t);
    }
    return TURN_GOES_ON;
}

/*
 * The rest of the value may have arrived already: try to read it into its place. False if that
 * is not possible. *len grows by the bytes read after the input.
 */
static bool take_placed(struct turn *t, struct lot *lot, struct upload *u, const char *p,
                        size_t *len, size_t *used)
{
    size_t value_end = request_value_end(&u->req);

    /* While the gate blocks changes, the value could not be stored in this section. */
    if (lot->behind < value_end || *len >= body_missing(u->body) ||
        guard_ask_gate(t) != REPLY_NONE || !exec_place(t, &u->req, u->body)) {
        return false;
    }
    (void)copy_in(t, u, p, *len, used); /* copies all: there is room for the whole value */
    read_placed(t, lot, u, t->w->rbuf + (WORKER_RBUF_BYTES - lot->behind));
    *len += lot->grown;
    if (body_missing(u->body) > 0 || *len - *used < value_end) {
        unplace(t, u);
    } else {
        ctr_add(&t->w->counters, CTR_bodies_placed, 1);
    }
    return true;
}

enum turn_stop conn_upload_take(struct turn *t, struct lot *lot, const char *p, size_t len,
                                size_t *used)
{
    struct conn *c = turn_conn(t);
    struct upload *u = c->upload;
    enum turn_stop stop = TURN_GOES_ON;
    bool may_place = u->may_place;

    must_be_in_turn(t);
    u->may_place = false;
    if (!may_place || !take_placed(t, lot, u, p, &len, used)) {
        stop = len > 0 ? copy_in(t, u, p, len, used) : wait_for_room(t, u);
    }
    if (stop != TURN_GOES_ON || c->upload == NULL) {
        return stop;
    }
    size_t value_end = request_value_end(&u->req);
    if (body_missing(u->body) > 0 || len - *used < value_end) {
        return TURN_DRY;
    }
    stop = store_whole(t, u, p + *used);
    if (stop == TURN_GOES_ON) {
        *used += value_end;
        t->may_wait = true;
    }
    return stop;
}

const struct waiter *conn_upload_waiter(const struct conn *c)
{
    must_be_worker(c->worker);
    return c->upload != NULL ? &c->upload->waiter : NULL;
}

bool conn_upload_has_place(const struct conn *c)
{
    must_be_worker(c->worker);
    return c->upload != NULL && c->upload->place.worker != NULL;
}

void conn_upload_leave_lines(struct conn *c)
{
    must_be_worker(c->worker);
    if (c->upload != NULL) {
        line_leave(&c->upload->waiter);
    }
    if (conn_upload_has_place(c)) {
        upload_line_leave(&c->worker->crew->uploads, &c->upload->place);
    }
}

bool conn_upload_wants_read(const struct conn *c)
{
    must_be_worker(c->worker);
    return c->upload != NULL && buf_len(&c->in) == 0 && !client_has_output(&c->client) &&
           body_missing(c->upload->body) > 0;
}
