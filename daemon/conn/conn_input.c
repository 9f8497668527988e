/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading from a connection, on its worker: one read per turn into the worker's shared buffer,
 * after the input of others for the same round. The connection keeps the beginning of an
 * incomplete request, which is put in front of the next read. So an idle connection has no
 * buffer.
 *
 * The protocol limits the kept input: a line (TEXT_UNENDED_MAX, lines of keys
 * TEXT_GET_LINE_MAX) or a small value. Long lines are read directly after the kept input, so
 * that they are not copied again with each read, and not parsed again before their end has
 * arrived.
 */
#include "daemon/conn/conn_steps.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/conn/conn_execute.h"
#include "daemon/worker/insight.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "proto/text_parse.h"

/* A longer tail is not moved, and more is read after it. */
#define MOVE_MAX_BYTES (64u * 1024)

/* If one connection sent this many bytes, the round is served at once. */
#define AT_ONCE_BYTES (8u * 1024)

/* Room after a value for the client's next request. */
#define NEXT_LINE_BYTES 4096u

/* Bytes read at once after a long tail. */
#define LONG_READ_BYTES (64u * 1024)

static ssize_t read_some(struct conn *c, char *to, size_t n)
{
    insight_note_event(c->worker);
    ssize_t got = TEMP_FAILURE_RETRY(io_read(&c->client.io, to, n));
    if (got > 0) {
        ctr_add(&c->worker->counters, CTR_bytes_read, (uint64_t)got);
        c->is_saturated = (size_t)got == n;
    } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
        /*
         * End or error. All earlier input was executed: the kept input is an incomplete
         * request, and nothing is read while replies wait.
         */
        c->close_reason = got == 0 ? CLOSE_NORMAL : CLOSE_ERROR;
        conn_close(c);
    }
    return got;
}

static void discard(struct conn *c)
{
    must_be_worker(c->worker);
    ssize_t n = read_some(c, c->worker->rbuf, WORKER_RBUF_BYTES);
    conn_count_work(c, n > 0 ? (size_t)n : 0);
}

/* Can parsing have a result now, with n new bytes after a tail that had none? */
static bool is_worth_parsing(const struct conn *c, size_t tail, const char *fresh, size_t n)
{
    size_t total = tail + n;

    if (c->need > 0) {
        return total >= c->need;
    }
    if (tail == 0 || c->upload != NULL || c->swallow > 0 || client_needs_login(&c->client) ||
        c->protocol == PROTOCOL_BINARY) {
        return true;
    }
    if (total > (tail > TEXT_UNENDED_MAX ? TEXT_GET_LINE_MAX : TEXT_UNENDED_MAX) || tail < 8) {
        return true;
    }
    return c->reads_little || memchr(fresh, '\n', n) != NULL;
}

static void close_out_of_memory(struct conn *c)
{
    ctr_add(&c->worker->counters, CTR_read_buf_oom, 1);
    conn_close(c);
}

/* The maximum length of the kept input before it is parsed; more than is kept now. */
static size_t kept_most(const struct conn *c)
{
    return c->need > buf_len(&c->in) ? c->need + NEXT_LINE_BYTES : SIZE_MAX;
}

/*
 * Number of bytes of `room` to read after a tail. If the connection reads little: the missing
 * bytes of the tail's request, and a few more.
 */
static inline size_t read_most(const struct conn *c, size_t tail, size_t room)
{
    size_t little = CONN_READ_LITTLE_BYTES + (c->need > tail ? c->need - tail : 0);

    return c->reads_little && room > little ? little : room;
}

/* Make room for n more bytes of a tail, and for further ones that are certain to come. */
static bool reserve(struct conn *c, size_t n)
{
    return buf_reserve_within(&c->in, n, kept_most(c));
}

/* More of a request came, but not its end. */
static void note_part(struct conn *c)
{
    c->client.since_ns = 0; /* its time begins with its last bytes */
    c->last_active = worker_now(c->worker);
}

/* Read after a long tail. */
static void read_long(struct conn *c)
{
    size_t tail = buf_len(&c->in);
    size_t most = kept_most(c) - tail;
    size_t room = read_most(c, tail, most < LONG_READ_BYTES ? most : LONG_READ_BYTES);

    if (!reserve(c, room) || !conn_count_kept(c, 0)) {
        close_out_of_memory(c);
        return;
    }
    ssize_t n = read_some(c, buf_end(&c->in), room);
    if (n <= 0) {
        return;
    }
    c->in.end += (size_t)n;
    conn_count_work(c, (size_t)n);
    holder_sent(c->worker, &c->client.kept->holder, (size_t)n);
    if (is_worth_parsing(c, tail, buf_end(&c->in) - n, (size_t)n)) {
        conn_execute_kept(c);
    } else {
        note_part(c);
        conn_settle(c);
    }
}

static void read_requests(struct conn *c)
{
    struct worker *w = c->worker;
    size_t tail = buf_len(&c->in);
    struct round *r = w->conns->round;

    must_be_worker(c->worker);
    if (tail > MOVE_MAX_BYTES) {
        conn_round_run(w);
        read_long(c);
        return;
    }
    if (round_is_full(r)) {
        conn_round_run(w);
    }
    char *p = w->rbuf + r->filled;
    size_t room = read_most(c, tail, WORKER_RBUF_BYTES - r->filled - tail);
    if (MF_UNLIKELY(client_needs_login(&c->client))) {
        room = room < CONN_AUTH_READ_BYTES ? room : CONN_AUTH_READ_BYTES;
    }
    ssize_t n = read_some(c, p + tail, room);
    if (n <= 0) {
        c->client.since_ns = 0;
        return;
    }
    if (tail > 0) {
        if (!is_worth_parsing(c, tail, p + tail, (size_t)n)) {
            note_part(c);
            conn_count_work(c, (size_t)n);
            if (!reserve(c, (size_t)n) || !buf_append(&c->in, p + tail, (size_t)n) ||
                !conn_count_kept(c, (size_t)n)) {
                close_out_of_memory(c);
            }
            return;
        }
        memcpy(p, buf_begin(&c->in), tail);
        buf_clear(&c->in);
    }
    round_add(c, p, tail + (size_t)n);
    if (tail + (size_t)n >= AT_ONCE_BYTES || c->reads_little || c->is_saturated) {
        conn_round_run(w);
        if (!conn_is_closed(c) && c->is_saturated && conn_upload_wants_read(c)) {
            conn_upload_read(c);
        }
    }
}

void conn_input(struct conn *c)
{
    must_be_worker(c->worker);
    if (MF_UNLIKELY(c->client.watcher != NULL)) {
        conn_round_run(c->worker); /* its input is in the buffer */
        discard(c);
    } else if (conn_upload_wants_read(c)) {
        conn_round_run(c->worker);
        conn_upload_read(c);
    } else {
        read_requests(c);
    }
}

void conn_input_alone(struct conn *c)
{
    must_be_worker(c->worker);
    conn_input(c);
    conn_round_run(c->worker);
    conn_settle(c); /* not every way through reading settles it */
}
