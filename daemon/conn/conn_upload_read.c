/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn_steps.h. On the worker of the connection.
 */
#include "daemon/conn/conn_steps.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/base/prefetch.h"
#include "daemon/conn/conn_upload_parts.h"
#include "daemon/worker/insight.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/* Maximum bytes read before other connections get their turn. */
#define READ_TURN_BYTES (1u << 20)

/*
 * Bytes of a segment that are prefetched before a read into it. This saves one percent of a set
 * of 1 MB; prefetching more does not help.
 */
#define SEGMENT_AHEAD (32u << 10)

/*
 * After a read of this many bytes the rest of a value of up to BODY_PLACE_MAX has probably
 * arrived too, and is read without waiting for an event. For longer values this would only make
 * reads shorter: a value of 500,000 bytes would cost 5 % more.
 */
#define READ_AGAIN_BYTES (16u << 10)

/*
 * While uploads hold more than half of their limit, each must receive this fraction of its
 * value per second, or LEAST_MAX_BYTES if that is less. A slower upload is shed after
 * PATIENCE_MS, or after HURRY_MS when there is hardly any room left.
 */
#define LEAST_SHARE     16
#define LEAST_MAX_BYTES (64 << 10)
#define PATIENCE_MS     1000
#define HURRY_MS        250

/* Maximum uploads shed in one check. */
#define SHED_MAX 64

/* If checks are further apart than this, the server was slow, not its clients. */
#define AWAY_MS 500

/* Abort it with an error; a client that does not read its replies either is disconnected. */
static void shed(struct conn *c)
{
    ctr_add(&c->worker->counters, CTR_bodies_shed, 1);
    if (client_has_output(&c->client)) {
        conn_close(c);
        return;
    }
    c->upload->is_shed = true;
    conn_execute(c, INPUT_READ, c->worker->rbuf, 0);
}

/* Has it received too little since its mark, in `patience` milliseconds or more? */
static bool is_too_slow(const struct upload *u, msec_t patience)
{
    int64_t least = (int64_t)u->len / LEAST_SHARE;

    least = least < LEAST_MAX_BYTES ? least : LEAST_MAX_BYTES;
    return (upload_received(u) - u->pace.bytes) * 1000 < least * patience;
}

static void check_slowest(struct worker *w, struct upload *u, msec_t now, msec_t patience)
{
    struct conn *c = u->conn;
    /* In these cases the upload waits for the server, not for its client. */
    bool is_held_up =
        client_has_output(&c->client) ? c->client.log_state == LOG_HELD : conn_is_kept(c);

    if (is_held_up || !is_too_slow(u, patience)) {
        pace_note(&w->conns->uploads, &u->pace, now, upload_received(u));
    } else {
        shed(c);
    }
}

bool conn_upload_check(struct worker *w, msec_t now)
{
    uint64_t max = upload_held_max(w);
    msec_t patience = upload_held_by_all(w) > max - max / 8 ? HURRY_MS : PATIENCE_MS;
    bool was_away = now - w->conns->uploads_checked > AWAY_MS;

    must_be_worker(w);
    must_not_be_reading();
    w->conns->uploads_checked = now;
    for (unsigned n = 0; n < SHED_MAX && !was_away; n++) {
        struct pace *p = pace_slowest(&w->conns->uploads);

        if (p == NULL || upload_held_by_all(w) <= max / 2 || now - p->since < patience) {
            break;
        }
        check_slowest(w, MF_OUTER(p, struct upload, pace), now, patience);
    }
    return pace_slowest(&w->conns->uploads) != NULL;
}

/* Is the value complete, so that nothing more is read before it is stored? */
static bool is_whole(const struct conn *c)
{
    return body_missing(c->upload->body) == 0 && request_value_end(&c->upload->req) == 0;
}

/*
 * Read once, into the body's segments and then into the worker's buffer. expects_much: more is
 * probably available than one segment can take. False: nothing more to read in this turn.
 */
static bool read_once(struct conn *c, bool may_wait, bool expects_much, size_t *past)
{
    struct worker *w = c->worker;
    struct upload *u = c->upload;
    struct iovec iov[BODY_PLACES_MAX + 1];
    size_t missing = body_missing(u->body);
    size_t asked = 0;
    size_t room;
    ssize_t n;
    char *to;
    enum outcome outcome = upload_find_room(c, may_wait, &to, &room);

    *past = 0;
    insight_note_event(w);
    if (outcome != OUT_OK) {
        /* Nothing was read. An empty turn sees the same, and waits or answers. */
        conn_execute(c, INPUT_READ, w->rbuf, 0);
        return false;
    }
    if (conn_is_waiting(c)) {
        pace_note(&w->conns->uploads, &u->pace, worker_now(w),
                  upload_received(u)); /* counted from now */
        conn_wait_end(c);
    }
    c->then = CONN_INPUT;
    if (expects_much && c->client.io.tls == NULL) {
        upload_take_ahead(c);
    }
    c->is_saturated = false;
    unsigned places = body_places(u->body, iov);
    if (places == 0) {
        iov[places++] = (struct iovec){to, room}; /* the part that goes into pieces */
    }
    for (unsigned i = 0; i < places; i++) {
        asked += iov[i].iov_len;
    }
    prefetch_to_write(to, room < SEGMENT_AHEAD ? room : SEGMENT_AHEAD);
    if (asked == missing) {
        iov[places].iov_base = w->rbuf;
        iov[places].iov_len = c->reads_little ? CONN_READ_LITTLE_BYTES : WORKER_RBUF_BYTES;
        asked += iov[places++].iov_len;
    }
    n = TEMP_FAILURE_RETRY(io_readv(&c->client.io, iov, places));
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
            c->close_reason = n == 0 ? CLOSE_NORMAL : CLOSE_ERROR;
            conn_close(c);
        }
        return false;
    }
    ctr_add(&w->counters, CTR_bytes_read, (uint64_t)n);
    conn_count_work(c, (size_t)n);
    c->is_light = false;
    c->last_active = worker_now(w);
    if ((size_t)n > missing) {
        *past = (size_t)n - missing;
    }
    upload_note_filled(c, (size_t)n - *past);
    c->is_saturated = (size_t)n == asked;
    return c->is_saturated || (n >= (ssize_t)READ_AGAIN_BYTES && u->len <= BODY_PLACE_MAX);
}

/*
 * Are its segments full, and may the part for pieces have arrived? That part is read in a turn,
 * directly into the pieces.
 */
static bool may_place_rest(const struct conn *c)
{
    return c->place_rest == 0 && c->client.io.tls == NULL && body_is_at_pieces(c->upload->body);
}

void conn_upload_read(struct conn *c)
{
    struct worker *w = c->worker;
    bool may_wait = conn_may_wait(c);
    size_t before = body_missing(c->upload->body);
    bool expects_much = c->is_saturated;
    bool goes_on = true;
    size_t past = 0;

    must_be_worker(c->worker);
    must_not_be_reading();
    while (goes_on && conn_upload_wants_read(c) &&
           before - body_missing(c->upload->body) < READ_TURN_BYTES) {
        goes_on = read_once(c, may_wait, expects_much, &past);
        expects_much = goes_on;
        may_wait = true;
        if (conn_is_closed(c) || c->upload == NULL) {
            return;
        }
        if (goes_on && may_place_rest(c)) {
            c->upload->may_place = true;
            conn_execute(c, INPUT_READ, w->rbuf, 0);
            return;
        }
    }
    upload_give_ahead(c);
    if (past > 0 || is_whole(c)) {
        conn_execute(c, INPUT_READ, w->rbuf, past);
    } else {
        conn_settle(c);
    }
}
