/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What connections keep; see holders.h. On their worker.
 */
#include "daemon/worker/holders.h"

#include <stdatomic.h>

#include "daemon/net/conn_io.h"
#include "daemon/worker/crew.h"
#include "lib/base/check.h"
#include "lib/base/context.h"

/* The limit if none is given: with what it costs besides, well below 48 MiB. */
#define LIMIT_BYTES ((int64_t)24 << 20)

/* One connection may keep a quarter of the limit, and always so much. */
#define SHARE_MIN_BYTES ((size_t)1 << 20)

/* The sum of all workers is as exact as this, for each of them. */
#define TELL_BYTES ((int64_t)32 << 10)

/* Who moves less than so many bytes in a millisecond does not move. */
#define LEAST_RATE 1

/* Who moved more may pause for it, but no longer than this. */
#define PAUSE_MS 5000

/* Who does not move for so long may go: when much is kept, and when too much is. */
#define STALLED_MS 5000
#define SLACK_MS   1000

/* While much is kept, but not too much, those that do not move are looked for so often. */
#define LOOK_MS 100

/* Connections looked at in one search, in one ring of it when the greatest is looked for. */
#define LOOKS      64u
#define RING_LOOKS 16u

static int64_t limit_bytes(const struct worker *w)
{
    uint64_t limit = w->settings->read_buf_mem_limit_bytes;

    return limit > 0 ? (int64_t)limit : LIMIT_BYTES;
}

static int64_t much_bytes(const struct worker *w)
{
    return limit_bytes(w) / 4 * 3;
}

/* What all workers keep. */
static int64_t kept_by_all(const struct worker *w)
{
    int64_t told = atomic_load_explicit(&w->crew->held_bytes, memory_order_relaxed);

    return told + w->holders.bytes - w->holders.told;
}

/* ---- rings ------------------------------------------------------------------------------- */

static unsigned class_of(size_t bytes)
{
    unsigned log = 63 - (unsigned)__builtin_clzll(bytes);

    return log < HOLDER_CLASSES ? log : HOLDER_CLASSES - 1;
}

static void ring_append(struct holder **ring, struct holder *x)
{
    if (*ring == NULL) {
        x->next = x;
        x->prev = x;
        *ring = x;
    } else {
        x->next = *ring;
        x->prev = (*ring)->prev;
        x->prev->next = x;
        (*ring)->prev = x;
    }
}

static void ring_remove(struct holder **ring, struct holder *x)
{
    if (x->next == x) {
        *ring = NULL;
    } else {
        x->prev->next = x->next;
        x->next->prev = x->prev;
        if (*ring == x) {
            *ring = x->next;
        }
    }
}

/* ---- accounts ---------------------------------------------------------------------------- */

void holder_init(struct holder *x, struct io *io)
{
    must_be_a_worker();
    *x = (struct holder){.io = io, .unsent = -1};
}

static void add_bytes(struct worker *w, int64_t n)
{
    struct holders *h = &w->holders;
    int64_t untold;

    h->bytes += n;
    untold = h->bytes - h->told;
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
        h->is_crowded |= kept > limit_bytes(w) || w->now - h->looked >= LOOK_MS;
    }
}

bool holder_set(struct worker *w, struct holder *x, size_t bytes)
{
    struct holder **rings = w->holders.ring;
    size_t before = x->bytes;
    bool is_other;

    must_be_worker(w);
    if (bytes == before) {
        return false;
    }
    is_other = before == 0 || bytes == 0 || class_of(bytes) != class_of(before);
    if (is_other && before > 0) {
        ring_remove(&rings[class_of(before)], x);
    }
    x->bytes = bytes;
    if (is_other && bytes > 0) {
        x->since = w->now;
        x->unsent = -1;
        if (before == 0) {
            x->moves_until = w->now;
        }
        ring_append(&rings[class_of(bytes)], x);
    }
    add_bytes(w, (int64_t)bytes - (int64_t)before);
    if (bytes > before) {
        note_crowd(w);
    }
    return is_other && bytes > 0;
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

void holder_moved(const struct worker *w, struct holder *x, uint64_t bytes)
{
    must_be_worker(w);
    add_moved(x, bytes, w->now, w->now);
}

bool holder_has_too_much(const struct worker *w, const struct holder *x)
{
    size_t share = (size_t)limit_bytes(w) / 4;

    must_be_worker(w);
    return x->bytes > (share > SHARE_MIN_BYTES ? share : SHARE_MIN_BYTES);
}

bool holders_are_many(const struct worker *w)
{
    must_be_worker(w);
    return kept_by_all(w) > much_bytes(w);
}

/* ---- who has to go ----------------------------------------------------------------------- */

/*
 * For how long has it not moved? What its peer took unseen, since it was looked at last, is
 * found now.
 */
static msec_t paused_ms(struct holder *x, msec_t now)
{
    int64_t unsent = (int64_t)io_unsent(x->io);

    if (x->unsent > unsent) {
        add_moved(x, (uint64_t)(x->unsent - unsent), x->since, now);
    }
    x->unsent = unsent;
    return now - x->moves_until;
}

/* It stays: look at it again after the others of its ring. */
static void look_later(struct holders *h, struct holder *x, msec_t now)
{
    struct holder **ring = &h->ring[class_of(x->bytes)];

    x->since = now;
    ring_remove(ring, x);
    ring_append(ring, x);
}

/* The greatest that has not moved for long; of such the one that was looked at first. */
static struct holder *find_stalled(struct holders *h, msec_t now)
{
    unsigned looks = 0;

    for (unsigned i = HOLDER_CLASSES; i-- > 0;) {
        struct holder *x;

        while ((x = h->ring[i]) != NULL && now - x->since >= STALLED_MS && looks++ < LOOKS) {
            if (paused_ms(x, now) >= STALLED_MS) {
                return x;
            }
            look_later(h, x, now);
        }
    }
    return NULL;
}

/*
 * The greatest that has not moved for a while. If there is none, the greatest of all: memory
 * has to be bounded.
 */
static struct holder *find_greatest(struct holders *h, msec_t now)
{
    struct holder *greatest = NULL;
    unsigned looks = 0;

    for (unsigned i = HOLDER_CLASSES; i-- > 0;) {
        struct holder *x = h->ring[i];

        if (greatest == NULL) {
            greatest = x;
        }
        for (unsigned n = 0; x != NULL && n < RING_LOOKS && looks < LOOKS; n++, looks++) {
            if (paused_ms(x, now) >= SLACK_MS) {
                return x;
            }
            x = x->next != h->ring[i] ? x->next : NULL;
        }
    }
    return greatest;
}

struct holder *holders_victim(struct worker *w, msec_t now)
{
    struct holders *h = &w->holders;
    struct holder *x;

    must_be_worker(w);
    must_not_be_reading();
    h->looked = now;
    if (!holders_are_many(w)) {
        return NULL;
    }
    x = find_stalled(h, now);
    if (x != NULL || kept_by_all(w) <= limit_bytes(w)) {
        return x;
    }
    /* Another worker may keep more than its part: it was asked, and finds its own. */
    if (h->bytes <= limit_bytes(w) / w->crew->worker_count) {
        return NULL;
    }
    return find_greatest(h, now);
}
