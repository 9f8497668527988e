/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Full sync, on the primary: see fullsync.h.
 *
 * The feed calls on_complete() whenever all earlier changes have been shipped. The first such
 * call asks for a mark. A later call attaches a reader at the mark. After that one more call
 * has to come: all changes made before the mark was placed have been shipped by then. In that
 * call nothing more is shipped, and the second mark is awaited. Meanwhile nothing reads the
 * stream after the first mark. If that would block the shipper, both marks are released and
 * taken again.
 */
#include "lib/replica/fullsync.h"

#include <time.h>

#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/engine/flush.h"
#include "lib/format/shipping.h"
#include "lib/replica/applier.h"
#include "lib/ship/feed.h"
#include "lib/snapshot/save.h"

/* Number of marks that are taken before the sync is given up. */
#define MARKS_MAX 100u

/* The interval of polls for progress. */
#define LOOK_NS 1000000L

/* The state of the marks, during and after the walk. */
enum syncing_state {
    SYNCING_WALK,   /* no mark was asked for */
    SYNCING_ASKED,  /* the first one */
    SYNCING_MARKED, /* it is placed, and a reader is attached there */
};

struct syncing {
    struct shipping shipping; /* the first member: it is what the feed's callbacks get */
    struct fullsync *sync;
    struct snap_encoder encoder;
    struct ship_ops ops; /* those of shipping, and a feed's */
    bool has_encoder;
    bool is_broken; /* a write has failed */
    uint64_t bytes; /* written */
    struct rate rate;
    enum syncing_state state;
    uint64_t ticket; /* of the mark that was asked for last */
    unsigned marks;
    enum fullsync_end end; /* DONE: once the feed is over */
};

static struct syncing *syncing_of(void *arg)
{
    return arg;
}

static bool is_stopped(const struct syncing *y)
{
    return atomic_load_explicit(&y->sync->is_to_stop, memory_order_relaxed);
}

static int64_t unix_now(const struct syncing *y)
{
    return clock_unix_ms(&y->sync->engine->clock);
}

/* End the sync. Returns the value with which a callback ends the feed. */
static bool end_with(struct syncing *y, enum fullsync_end end)
{
    y->end = end;
    return false;
}

static bool write_bytes(void *arg, const void *bytes, size_t n)
{
    struct syncing *y = arg;

    y->is_broken |= !y->sync->write(y->sync->write_arg, bytes, n);
    y->bytes += y->is_broken ? 0 : n;
    atomic_store_explicit(&y->sync->bytes, y->bytes, memory_order_relaxed);
    return !y->is_broken;
}

/* ---- the feed's callbacks ---------------------------------------------------------------- */

/* Is more wanted? */
static bool goes_on(struct syncing *y)
{
    if (y->is_broken) {
        return end_with(y, FULLSYNC_CLIENT_GONE);
    }
    return !is_stopped(y) || end_with(y, FULLSYNC_STOPPED);
}

/* Of struct shipping. A block is empty when a value in parts begins. */
static bool on_rest(void *arg)
{
    struct syncing *y = arg;

    if (!y->shipping.is_in_value) {
        snap_encoder_send(&y->encoder, unix_now(y));
    }
    rate_keep(&y->rate, y->bytes, &y->sync->rate_max, &y->sync->is_to_stop);
    return goes_on(y);
}

static bool begin_encoder(struct syncing *y)
{
    const struct engine *e = y->sync->engine;
    struct snap_header h = {.unix_ms = unix_now(y),
                            .flags = SNAP_IS_LOG,
                            .items = engine_counter(e, CTR_curr_items),
                            .bytes = engine_counter(e, CTR_item_bytes)};

    y->has_encoder = snap_encoder_begin(&y->encoder, write_bytes, y, &h, false);
    return y->has_encoder ||
           end_with(y, y->is_broken ? FULLSYNC_CLIENT_GONE : FULLSYNC_NO_MEMORY);
}

/* The mark is no longer wanted. */
static void unmark(struct syncing *y)
{
    shipper_detach(&y->sync->reader);
    y->state = SYNCING_WALK;
}

static bool on_begin(void *arg)
{
    struct syncing *y = syncing_of(arg);

    atomic_fetch_add_explicit(&y->sync->walks, 1, memory_order_relaxed);
    unmark(y);
    if (!y->has_encoder) {
        return begin_encoder(y);
    }
    snap_put_flush(&y->encoder, 0, unix_now(y)); /* forget what came before */
    return goes_on(y);
}

/* A flush that waits for its instant may be older than the feed and the mark. */
static void put_flush_to_come(struct syncing *y)
{
    msec_t at = engine_flush_to_come(y->sync->engine);

    if (at != MSEC_NEVER) {
        snap_put_flush(&y->encoder, clock_add_ms(at, y->sync->to_unix_ms), unix_now(y));
    }
}

static uint64_t ask(struct syncing *y)
{
    uint64_t ticket = 0;

    if (y->sync->applier == NULL) {
        ticket = shipper_ask(y->sync->shipper);
        shipper_hurry(y->sync->shipper, ticket);
    }
    return ticket;
}

/* Is the mark placed? What a replica has applied is in its backlog at once. */
static bool is_placed(const struct syncing *y, uint64_t ticket, uint64_t *offset)
{
    if (y->sync->applier == NULL) {
        return shipper_is_done(y->sync->shipper, ticket, offset);
    }
    *offset = applier_mark(y->sync->applier);
    return true;
}

static bool records(const struct syncing *y)
{
    struct shipper_info info;

    shipper_info(y->sync->shipper, &info);
    return info.records;
}

static bool ask_for_mark(struct syncing *y)
{
    if (++y->marks > MARKS_MAX) {
        return end_with(y, FULLSYNC_LOST);
    }
    y->ticket = ask(y);
    y->state = SYNCING_ASKED;
    return true;
}

/* Check whether the first mark has been placed. */
static bool look_for_mark(struct syncing *y)
{
    struct fullsync *s = y->sync;
    struct backlog_name name;

    if (!is_placed(y, y->ticket, &s->offset)) {
        return records(y) || end_with(y, FULLSYNC_LOST);
    }
    backlog_get_name(shipper_backlog(s->shipper), &name);
    switch (shipper_attach(s->shipper, &name.id, s->offset, &s->reader)) {
    case BACKLOG_CONTINUES:
        y->state = SYNCING_MARKED;
        return true;
    case BACKLOG_BUSY:
        return end_with(y, FULLSYNC_BUSY);
    case BACKLOG_NO_MEMORY:
        return end_with(y, FULLSYNC_NO_MEMORY);
    default:
        y->state = SYNCING_WALK; /* others read so fast that it is overwritten */
        return true;
    }
}

/* Is the idle reader about to block the shipper, or to be dropped? */
static bool is_in_the_way(const struct syncing *y)
{
    const struct backlog *b = shipper_backlog(y->sync->shipper);

    return shipper_is_dropped(y->sync->reader, NULL) ||
           backlog_end(b) - y->sync->offset > backlog_bytes(b) / 2;
}

/* Everything that was changed before the first mark is shipped: take the second one. */
static bool finish(struct syncing *y)
{
    const struct timespec look = {0, LOOK_NS};
    struct fullsync *s = y->sync;

    put_flush_to_come(y);
    snap_encoder_send(&y->encoder, unix_now(y));
    if (!goes_on(y)) {
        return false;
    }
    uint64_t ticket = ask(y);
    while (!is_placed(y, ticket, &s->serve_from)) {
        if (is_stopped(y)) {
            return end_with(y, FULLSYNC_STOPPED);
        }
        if (!records(y)) {
            return end_with(y, FULLSYNC_LOST);
        }
        if (is_in_the_way(y)) {
            unmark(y);
            return true;
        }
        nanosleep(&look, NULL);
    }
    if (shipper_is_dropped(s->reader, NULL)) {
        unmark(y);
        return true;
    }
    return end_with(y, FULLSYNC_DONE);
}

static bool on_complete(void *arg)
{
    struct syncing *y = syncing_of(arg);

    if (!goes_on(y)) {
        return false;
    }
    switch (y->state) {
    case SYNCING_WALK:
        return ask_for_mark(y);
    case SYNCING_ASKED:
        return look_for_mark(y);
    default:
        return finish(y);
    }
}

/* ---- the caller's thread ----------------------------------------------------------------- */

/* Wait until the feed is over, or is to be. */
static void wait_for_feed(struct syncing *y, struct feed *feed)
{
    const struct timespec look = {0, 5 * LOOK_NS};
    struct feed_info info;

    for (;;) {
        feed_info(feed, &info);
        atomic_store_explicit(&y->sync->items, info.keys_shipped, memory_order_relaxed);
        atomic_store_explicit(&y->sync->items_total, info.keys_all, memory_order_relaxed);
        if (info.is_over || is_stopped(y)) {
            y->sync->left_out = info.left_out;
            return;
        }
        nanosleep(&look, NULL);
    }
}

static enum fullsync_end run_feed(struct syncing *y)
{
    const struct feed_config cfg = {.ops = &y->ops,
                                    .arg = &y->shipping,
                                    .completes_often = true,
                                    .knows_expiry = true,
                                    .overruns_max = FULLSYNC_OVERRUNS_MAX};
    struct feed *feed;

    switch (feed_start(&feed, y->sync->engine, &cfg)) {
    case MF_OK:
        break;
    case MF_EBUSY:
        return FULLSYNC_BUSY;
    default:
        return FULLSYNC_NO_MEMORY;
    }
    wait_for_feed(y, feed);
    feed_stop(&feed);
    return y->end;
}

enum fullsync_end fullsync_run(struct fullsync *s)
{
    /* The result if the feed ends by itself: it was overrun too often. */
    struct syncing y = {.sync = s, .ops = shipping_ops, .end = FULLSYNC_LOST};

    must_not_be_reading();
    s->reader = NULL;
    y.shipping = (struct shipping){.encoder = &y.encoder,
                                   .engine = s->engine,
                                   .to_unix_ms = s->to_unix_ms,
                                   .rest = on_rest,
                                   .arg = &y};
    y.ops.begin = on_begin;
    y.ops.complete = on_complete;
    y.ops.takes_due = true;
    budget_add(&s->engine->budget, FULLSYNC_BYTES);
    enum fullsync_end end = run_feed(&y);
    if (end == FULLSYNC_LOST && is_stopped(&y)) {
        end = FULLSYNC_STOPPED;
    }
    if (end != FULLSYNC_DONE) {
        shipper_detach(&s->reader);
    }
    if (y.has_encoder) {
        snap_encoder_fini(&y.encoder);
    }
    budget_add(&s->engine->budget, -FULLSYNC_BYTES);
    return end;
}
