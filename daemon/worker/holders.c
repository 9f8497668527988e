/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory kept by connections; see holders.h. On their worker.
 */
#include "daemon/worker/holders.h"

#include <stdatomic.h>

#include "daemon/net/conn_io.h"
#include "daemon/worker/crew.h"
#include "lib/base/check.h"
#include "lib/base/context.h"

/* The default limit. With its overhead it is well below 48 MiB. */
#define LIMIT_BYTES ((int64_t)24 << 20)

/* One connection may keep a quarter of the limit, but always at least this much. */
#define SHARE_MIN_BYTES ((size_t)1 << 20)

/*
 * A worker adds its bytes to the common sum in steps of this size, which is the maximum error
 * of the sum for each worker.
 */
#define TELL_BYTES ((int64_t)32 << 10)

/* A connection counts as moving if it sends at least this many bytes in a millisecond. */
#define LEAST_RATE 1

/*
 * A connection that sent more may pause for as long as the surplus lasts, but at most this
 * long.
 */
#define PAUSE_MS 5000

/* A connection without progress for this long may be closed when much memory is kept. */
#define STALLED_MS 5000

/* A new holder of output is not judged by its peer's speed before this time. */
#define SLACK_MS 1000

/*
 * While much memory is kept, but less than the limit, stalled connections are searched at this
 * interval.
 */
#define LOOK_MS 100

/* Maximum connections examined in one search, and in each list when burdens are compared. */
#define LOOKS      64u
#define LIST_LOOKS 16u

int64_t holders_limit_bytes(const struct worker *w)
{
    uint64_t limit = setting_get(w->settings, read_buf_mem_limit_bytes);

    return limit > 0 ? (int64_t)limit : LIMIT_BYTES;
}

static int64_t much_bytes(const struct worker *w)
{
    return holders_limit_bytes(w) / 4 * 3;
}

/* Bytes kept by all workers. */
static int64_t kept_by_all(const struct worker *w)
{
    int64_t told = atomic_load_explicit(&w->crew->held_bytes, memory_order_relaxed);

    return told + w->holders.bytes - w->holders.told;
}

/* Index of the list for a holder of `bytes` bytes (one list per power of two). */
static unsigned class_of(size_t bytes)
{
    unsigned log = 63 - (unsigned)__builtin_clzll(bytes);

    return log < HOLDER_CLASSES ? log : HOLDER_CLASSES - 1;
}

/* The first of a list; NULL: it is empty. */
static struct holder *first_of(const struct list *l)
{
    return LIST_FIRST(l, struct holder, link);
}

/* ---- accounts ---------------------------------------------------------------------------- */

void holders_init(struct holders *h)
{
    for (unsigned i = 0; i < HOLDER_CLASSES; i++) {
        list_init(&h->list[i]);
    }
}

void holder_init(struct holder *x, struct io *io)
{
    must_be_a_worker();
    *x = (struct holder){.io = io, .unsent = -1};
}

static void add_bytes(struct worker *w, int64_t n)
{
    struct holders *h = &w->holders;

    h->bytes += n;
    int64_t untold = h->bytes - h->told;
    if (untold >= TELL_BYTES || -untold >= TELL_BYTES || h->bytes == 0) {
        atomic_fetch_add_explicit(&w->crew->held_bytes, untold, memory_order_relaxed);
        h->told = h->bytes;
    }
}

static void note_crowd(struct worker *w)
{
    struct holders *h = &w->holders;
    int64_t kept = kept_by_all(w);

    if (MF_UNLIKELY(kept > much_bytes(w))) {
        h->is_crowded |= kept > holders_limit_bytes(w) || w->now - h->looked >= LOOK_MS;
    }
}

static void note_output(const struct worker *w, struct holder *x, bool has_output)
{
    if (!has_output) {
        x->unsent = -1;
    } else if (x->unsent < 0) {
        x->unsent = (int64_t)io_unsent(x->io);
        x->out_since = w->now;
        x->taken = 0;
    }
}

void holder_set(struct worker *w, struct holder *x, size_t in_bytes, size_t out_bytes)
{
    size_t bytes = in_bytes + out_bytes;
    size_t before = x->bytes;

    must_be_worker(w);
    note_output(w, x, out_bytes > 0);
    if (bytes == before || x->is_apart) {
        x->bytes = bytes;
        return;
    }
    bool is_other = before == 0 || bytes == 0 || class_of(bytes) != class_of(before);
    if (is_other && before > 0) {
        list_remove(&x->link);
    }
    x->bytes = bytes;
    if (is_other && bytes > 0) {
        x->since = w->now;
        if (before == 0) {
            x->moves_until = w->now;
        }
        list_append(&w->holders.list[class_of(bytes)], &x->link);
    }
    add_bytes(w, (int64_t)bytes - (int64_t)before);
    if (bytes > before) {
        note_crowd(w);
    }
}

void holder_leave(struct worker *w, struct holder *x)
{
    must_be_worker(w);
    if (!x->is_apart && x->bytes > 0) {
        list_remove(&x->link);
        add_bytes(w, -(int64_t)x->bytes);
    }
}

void holder_join(struct worker *w, struct holder *x)
{
    must_be_worker(w);
    if (!x->is_apart && x->bytes > 0) {
        x->since = w->now;
        list_append(&w->holders.list[class_of(x->bytes)], &x->link);
        add_bytes(w, (int64_t)x->bytes);
        note_crowd(w);
    }
}

void holder_set_apart(struct worker *w, struct holder *x)
{
    holder_leave(w, x);
    x->is_apart = true;
}

static void add_moved(struct holder *x, uint64_t bytes, msec_t since, msec_t now)
{
    msec_t most = now + PAUSE_MS;

    if (x->moves_until < since) {
        x->moves_until = since;
    }
    x->moves_until += (msec_t)(bytes / LEAST_RATE);
    if (x->moves_until > most) {
        x->moves_until = most;
    }
}

/* The peer has read at least a byte: the connection makes progress. */
static void add_taken(struct holder *x, uint64_t bytes, msec_t since, msec_t now)
{
    add_moved(x, bytes, since, now);
    if (x->moves_until < now) {
        x->moves_until = now;
    }
}

void holder_sent(const struct worker *w, struct holder *x, uint64_t bytes)
{
    must_be_worker(w);
    add_moved(x, bytes, w->now, w->now);
}

void holder_wrote(const struct worker *w, struct holder *x, uint64_t bytes)
{
    must_be_worker(w);
    if (bytes > 0) {
        add_taken(x, bytes, w->now, w->now);
        if (x->unsent >= 0) {
            x->unsent += (int64_t)bytes;
        }
    }
}

bool holder_has_too_much(const struct worker *w, const struct holder *x)
{
    size_t share = (size_t)holders_limit_bytes(w) / 4;

    must_be_worker(w);
    return !x->is_apart && x->bytes > (share > SHARE_MIN_BYTES ? share : SHARE_MIN_BYTES);
}

bool holders_are_many(const struct worker *w)
{
    must_be_worker(w);
    return kept_by_all(w) > much_bytes(w);
}

/* ---- choosing connections to close ------------------------------------------------------- */

/* Time since its last progress. Detects bytes that its peer has read since the last check. */
static msec_t paused_ms(struct holder *x, msec_t now)
{
    if (x->unsent >= 0) {
        int64_t unsent = (int64_t)io_unsent(x->io);

        if (x->unsent > unsent) {
            x->taken += (uint64_t)(x->unsent - unsent);
            add_taken(x, (uint64_t)(x->unsent - unsent), x->since, now);
        }
        x->unsent = unsent;
    }
    return now - x->moves_until;
}

/* Keep it open, and examine it again after the others of its list. */
static void look_later(struct holders *h, struct holder *x, msec_t now)
{
    x->since = now;
    list_append(&h->list[class_of(x->bytes)], &x->link);
}

/* The largest holder that has not moved for long; among equals the one examined first. */
static struct holder *find_stalled(struct holders *h, msec_t now)
{
    unsigned looks = 0;

    for (unsigned i = HOLDER_CLASSES; i-- > 0;) {
        struct holder *x;

        while ((x = first_of(&h->list[i])) != NULL && now - x->since >= STALLED_MS &&
               looks++ < LOOKS) {
            if (paused_ms(x, now) >= STALLED_MS) {
                return x;
            }
            look_later(h, x, now);
        }
    }
    return NULL;
}

/*
 * The burden of a holder: its size times the milliseconds since its last progress. If it keeps
 * output, its size times the average milliseconds that its peer has needed per byte. So a peer
 * that reads nothing has a higher burden than a very slow one, which has a higher burden than a
 * moderately slow one.
 */
static double burden(struct holder *x, msec_t now)
{
    double size = (double)((uint64_t)1 << class_of(x->bytes));
    msec_t ms = paused_ms(x, now);

    if (x->unsent >= 0 && now - x->out_since >= SLACK_MS) {
        return size * (double)(now - x->out_since) / (double)(x->taken > 0 ? x->taken : 1);
    }
    return x->unsent >= 0 || ms < 1 ? size : size * (double)ms;
}

/*
 * The holder with the highest burden. Among equal ones it is the one without progress for the
 * longest time, so that clients which still send can finish. Finds one if any memory is kept
 * here: memory must be bounded even if all connections make progress.
 */
static struct holder *find_burden(struct holders *h, msec_t now)
{
    struct holder *worst = NULL;
    double most = 0;
    unsigned looks = 0;

    for (unsigned i = HOLDER_CLASSES; i-- > 0;) {
        const struct holder *first = first_of(&h->list[i]);

        for (unsigned n = 0; n < LIST_LOOKS && looks < LOOKS; n++, looks++) {
            struct holder *x = first_of(&h->list[i]);

            if (x == NULL || (n > 0 && x == first)) {
                break;
            }
            double weight = burden(x, now);
            if (worst == NULL || weight > most ||
                (weight >= most && x->moves_until < worst->moves_until)) {
                worst = x;
                most = weight;
            }
            look_later(h, x, now);
        }
    }
    return worst;
}

struct holder *holders_victim(struct worker *w, msec_t now)
{
    struct holders *h = &w->holders;

    must_be_worker(w);
    must_not_be_reading();
    h->looked = now;
    if (!holders_are_many(w)) {
        return NULL;
    }
    struct holder *x = find_stalled(h, now);
    if (x != NULL || kept_by_all(w) <= holders_limit_bytes(w)) {
        return x;
    }
    /* If another worker keeps more than its part, it closes one of its own connections. */
    if (h->bytes <= holders_limit_bytes(w) / roster_active(&w->crew->roster)) {
        return NULL;
    }
    return find_burden(h, now);
}
