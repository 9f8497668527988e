/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies on their way to a socket; see outq.h. Runs on the worker of the connection. A value
 * is never copied while the socket takes it. How much may wait is decided by the connection.
 */
#include "daemon/net/outq.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "daemon/base/prefetch.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/*
 * Parts of one sendmsg(). At 32 KiB, the smallest segment, they add up to 2 MiB: no socket
 * takes more.
 */
#define IOV_PARTS 64u

/* If less of a value than this is left, it is copied: a pin could keep much dead memory. */
#define COPY_MAX_BYTES (32u * 1024)

/* A queue's memory is a multiple of this. */
#define GRAIN_BYTES 1024u

void out_value(struct out *o, const struct shard *shard, const struct item *item)
{
    must_be_reading();
    debug_must(o->value_left == 0);
    value_walk_begin(&o->walk, shard, item);
    o->part = span_of(NULL, 0);
    o->mark = o->len;
    o->value_left = o->walk.left;
}

/* The end of the bytes before the value. */
static size_t head_end(const struct out *o)
{
    return o->value_left > 0 ? o->mark : o->len;
}

/* Collect what is to be sent next; *total is its length. Does not change o. */
static unsigned gather(const struct out *o, struct iovec iov[IOV_PARTS], size_t *total)
{
    struct value_walk walk = o->walk;
    struct span part = o->part;
    size_t left = o->value_left;
    size_t head = head_end(o) - o->sent;
    unsigned n = 0;

    *total = head;
    if (head > 0) {
        iov[n++] = (struct iovec){o->base + o->sent, head};
    }
    while (left > 0 && n < IOV_PARTS) {
        if (part.len == 0 && !value_walk_next(&walk, &part)) {
            unreachable();
        }
        size_t take = part.len < left ? part.len : left;
        if (*total < PREFETCH_MAX_BYTES) {
            prefetch_to_read(part.ptr, take);
        }
        iov[n++] = (struct iovec){(char *)(uintptr_t)part.ptr, take};
        *total += take;
        left -= take;
        part.len = 0;
    }
    if (left == 0 && o->value_left > 0 && o->len > o->mark && n < IOV_PARTS) {
        iov[n++] = (struct iovec){o->base + o->mark, o->len - o->mark};
        *total += o->len - o->mark;
    }
    return n;
}

/* Fetch the next part of the value into o->part, unless it has one; there is one. */
static void next_part(struct out *o)
{
    if (o->part.len == 0) {
        o->part_is_pinnable = value_walk_has_segments(&o->walk);
        if (!value_walk_next(&o->walk, &o->part)) {
            unreachable();
        }
    }
}

/* Note that the first n bytes of what is left were sent. */
static void advance(struct out *o, size_t n)
{
    size_t head = head_end(o) - o->sent;
    size_t take = n < head ? n : head;

    o->sent += take;
    n -= take;
    while (n > 0 && o->value_left > 0) {
        next_part(o);
        take = n < o->part.len ? n : o->part.len;
        o->part.ptr += take;
        o->part.len -= take;
        o->value_left -= take;
        n -= take;
    }
    o->sent += n;
    must(o->sent <= o->len);
}

/* Offer what is left to the socket once. */
static ssize_t send_parts(const struct out *o, struct io *io, size_t *total)
{
    struct iovec iov[IOV_PARTS];
    unsigned n = gather(o, iov, total);

    return io_sendv(io, iov, n);
}

enum send_status out_send(struct out *o, struct io *io, uint64_t *written)
{
    must_be_a_worker();
    while (out_left(o) > 0) {
        size_t total = o->len - o->sent;
        ssize_t n = o->value_left == 0 ? io_send(io, o->base + o->sent, total)
                                       : send_parts(o, io, &total);

        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return errno == EAGAIN || errno == EWOULDBLOCK ? SEND_BLOCKED : SEND_BROKEN;
        }
        *written += (uint64_t)n;
        if (MF_LIKELY((size_t)n == out_left(o))) {
            o->sent = o->len;
            o->value_left = 0;
            o->part = span_of(NULL, 0);
            break;
        }
        advance(o, (size_t)n);
        if ((size_t)n < total) {
            /* A short count means a full socket: another try would only cost a call. */
            return SEND_BLOCKED;
        }
    }
    return SEND_ALL;
}

void outq_init(struct outq *q)
{
    must_be_a_worker();
    out_init(&q->out, NULL, 0);
    q->is_pinned = false;
}

void outq_fini(struct outq *q)
{
    must_be_a_worker();
    if (q->is_pinned) {
        value_unpin(&q->pin);
    }
    mem_free(q->out.base);
    outq_init(q);
}

/* Make room for n more bytes, after dropping the bytes that were sent. */
static bool outq_reserve(struct outq *q, size_t n)
{
    struct out *o = &q->out;
    size_t want = o->len - o->sent + n;

    if (o->sent > 0) {
        memmove(o->base, o->base + o->sent, o->len - o->sent);
        o->mark -= o->mark < o->sent ? o->mark : o->sent;
        o->len -= o->sent;
        o->sent = 0;
    }
    if (want <= o->cap) {
        return true;
    }
    want = (want + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
    char *base = mem_realloc(o->base, want);
    if (base == NULL) {
        return false;
    }
    o->base = base;
    o->cap = want;
    return true;
}

/* Copy bytes for which there is room. */
static void outq_put(struct out *to, const char *bytes, size_t n)
{
    must(n <= to->cap - to->len);
    if (n > 0) {
        memcpy(to->base + to->len, bytes, n);
        to->len += n;
    }
}

bool outq_append(struct outq *q, const char *bytes, size_t n)
{
    must_be_a_worker();
    if (n > 0 && !outq_reserve(q, n)) {
        return false;
    }
    outq_put(&q->out, bytes, n);
    return true;
}

/* Copy all that is left of o's value. There is room. */
static void copy_value(struct out *to, struct out *o)
{
    while (o->value_left > 0) {
        next_part(o);
        outq_put(to, o->part.ptr, o->part.len);
        o->value_left -= o->part.len;
        o->part.len = 0;
    }
}

/*
 * Is the rest of the value, except its last pieces, in whole segments, and worth a pin? What is
 * pinned in all has a bound; beyond it values are copied, and count as output that waits.
 */
static bool is_pinnable(const struct out *o)
{
    if (o->value_left <= COPY_MAX_BYTES) {
        return false;
    }
    return ((o->part.len > 0 && o->part_is_pinnable) || value_walk_has_segments(&o->walk)) &&
           value_may_pin(&o->walk);
}

/* Pin the whole segments that are left of o's value, and copy the pieces after them. */
static void pin_value(struct outq *q, struct out *o, size_t tail)
{
    struct out *to = &q->out;

    q->pin = value_pin(&o->walk);
    q->is_pinned = true;
    to->mark = to->len;
    to->part = o->part;
    to->walk = o->walk;
    to->part_is_pinnable = o->part_is_pinnable;
    to->value_left = o->value_left - tail;
    value_walk_copy_tail(&o->walk, MF_AT(to->base, to->len));
    to->len += tail;
    o->value_left = 0;
}

bool outq_keep(struct outq *q, struct out *o)
{
    size_t head = head_end(o) - o->sent;
    size_t after = o->value_left > 0 ? o->len - o->mark : 0;
    size_t tail = 0;
    bool is_copy = true;

    must_be_a_worker();
    debug_must(o->value_left == 0 || rcu_is_reading());
    if (o->value_left > 0) {
        must(outq_is_empty(q));
        is_copy = !is_pinnable(o);
        tail = is_copy ? o->value_left : value_walk_tail(&o->walk);
    }
    if (!outq_reserve(q, head + tail + after)) {
        return false;
    }
    outq_put(&q->out, o->base + o->sent, head);
    if (o->value_left > 0) {
        if (is_copy) {
            copy_value(&q->out, o);
        } else {
            pin_value(q, o, tail);
        }
        outq_put(&q->out, o->base + o->mark, after);
    }
    out_clear(o);
    return true;
}

bool outq_copy(const struct outq *q, struct buf *to)
{
    struct out o = q->out;
    const size_t end = head_end(&o);

    must_be_a_worker();
    if (!buf_reserve(to, out_left(&o))) {
        return false;
    }
    /* There is room for all of it from here on. */
    (void)buf_append(to, o.base + o.sent, end - o.sent);
    while (o.value_left > 0) {
        next_part(&o);
        (void)buf_append(to, o.part.ptr, o.part.len);
        o.value_left -= o.part.len;
        o.part.len = 0;
    }
    return buf_append(to, o.base + end, o.len - end);
}

enum send_status outq_send(struct outq *q, struct io *io, uint64_t *written)
{
    must_be_a_worker();
    enum send_status status = out_send(&q->out, io, written);
    if (q->is_pinned && q->out.value_left == 0) {
        value_unpin(&q->pin);
        q->is_pinned = false;
    }
    if (status == SEND_ALL) {
        outq_fini(q);
    }
    return status;
}
