/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slow readers of large values; see conn_steps.h.
 *
 * A pin costs nothing while its value is alive. When the value is deleted or overwritten, its
 * memory cannot be reused until the reader is done. At most an eighth of -m may be such memory.
 * If there is more, readers that received nothing for STALLED_MS are disconnected, a few at a
 * time: their memory is released after a moment, and may suffice. The slowest are disconnected
 * first: those with the lowest rate since they were first checked. Among those that received
 * nothing, the ones without progress for longest are first. A reader that makes progress stays
 * connected.
 *
 * Progress is measured by bytes that have left the socket, not by bytes written to it: the
 * socket becomes writable only when a third of its buffer is empty, and for a slow but active
 * reader that takes much longer than STALLED_MS. The unsent bytes (SIOCOUTQ) are queried only
 * for readers that exist for more than one check, and for those without progress for STALLED_MS
 * while there is too much pinned memory.
 */
#include "daemon/conn/conn_steps.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "lib/base/context.h"
#include "lib/base/counters.h"

#define STALLED_MS 5000

/*
 * Maximum readers examined in one check, and the fraction of stalled ones that is disconnected.
 */
#define LOOKS_MAX 256u
#define CUT_SHARE 16u

/* A stalled reader, and its earlier rate in bytes per millisecond. */
struct stalled {
    struct kept *kept;
    double rate;
};

static struct kept *kept_of(struct pace *p)
{
    return MF_OUTER(p, struct kept, pin.pace);
}

void conn_pin_wrote(struct kept *k, uint64_t bytes)
{
    must_be_a_worker();
    k->pin.sent += bytes;
    if (!k->outq.is_pinned) {
        pace_end(&k->pin.pace);
    }
}

/*
 * Bytes that the peer has received since the pin began, minus the socket's content at that
 * time. *is_all: the socket is empty, so the peer waits for us.
 */
static int64_t taken(const struct kept *k, bool *is_all)
{
    int queued = 0;

    *is_all = ioctl(k->client->io.fd, SIOCOUTQ, &queued) == 0 && queued == 0;
    return (int64_t)k->pin.sent - queued;
}

/* Measure the progress of readers that are new since the last check. */
static void look_at_new(struct worker *w, msec_t now)
{
    for (unsigned n = 0; n < LOOKS_MAX; n++) {
        struct pace *p = pace_slowest(&w->conns->pins_new);
        bool is_all;

        if (p == NULL) {
            break;
        }
        struct kept *k = kept_of(p);
        k->pin.seen = now;
        k->pin.seen_bytes = taken(k, &is_all);
        pace_note(&w->conns->pins, p, now, k->pin.seen_bytes);
    }
}

/* Fill in the readers that stalled over dead memory; the others move to the end of the list. */
static unsigned find_stalled(struct worker *w, msec_t now, struct stalled out[LOOKS_MAX])
{
    struct pace *p = pace_slowest(&w->conns->pins);
    unsigned n = 0;

    for (unsigned i = 0; i < LOOKS_MAX && p != NULL && now - p->since >= STALLED_MS; i++) {
        struct kept *k = kept_of(p);
        bool is_all;
        int64_t at = taken(k, &is_all);

        struct pace *next = pace_next(&w->conns->pins, p);
        if (is_all || at > p->bytes || !value_pin_is_dead(&k->outq.pin)) {
            pace_note(&w->conns->pins, p, now, at);
        } else {
            out[n++] = (struct stalled){k, (double)(at - k->pin.seen_bytes) /
                                               (double)(now - k->pin.seen)};
        }
        p = next;
    }
    return n;
}

/* The slowest; of several the first, which has stalled for longest. */
static struct stalled *find_slowest(struct stalled *s, unsigned n)
{
    struct stalled *least = NULL;

    for (unsigned i = 0; i < n; i++) {
        if (s[i].kept != NULL && (least == NULL || s[i].rate < least->rate)) {
            least = &s[i];
        }
    }
    return least;
}

bool conn_pin_has_any(const struct worker *w)
{
    must_be_worker(w);
    return pace_slowest(&w->conns->pins) != NULL || pace_slowest(&w->conns->pins_new) != NULL;
}

void conn_pin_check(struct worker *w, msec_t now)
{
    struct stalled stalled[LOOKS_MAX];

    must_be_worker(w);
    must_not_be_reading();
    look_at_new(w, now);
    uint64_t excess = value_pinned_excess(w->engine->shards[0]);
    if (excess > 0) {
        unsigned n = find_stalled(w, now, stalled);
        unsigned cuts = n > 0 ? 1 + n / CUT_SHARE : 0;

        for (uint64_t gone = 0; cuts > 0 && gone < excess; cuts--) {
            struct stalled *s = find_slowest(stalled, n);

            gone += (uint64_t)s->kept->outq.pin.bytes;
            ctr_add(&w->counters, CTR_slow_drops, 1);
            conn_close(conn_of_client(s->kept->client));
            s->kept = NULL;
        }
    }
}
