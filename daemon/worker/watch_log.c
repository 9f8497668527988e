/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The producers' side of watch.h. Runs on workers, also inside a shard: it copies the event
 * into the worker's ring, and wakes main at most.
 */
#include "daemon/worker/watch.h"

#include "daemon/base/slab_class.h"
#include "daemon/worker/crew.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/*
 * The engine reports events on the thread that is in the shard; only events on workers are
 * logged, each to the worker's own ring.
 */
static _Thread_local struct worker *this_worker;

void watch_this_thread(struct worker *w)
{
    must_be_a_worker();
    this_worker = w;
}

void watch_log(struct worker *w, struct watch_event *e, struct span key)
{
    struct byte_ring *ring = atomic_load_explicit(&w->watch_ring, memory_order_acquire);
    struct watch *watch = &w->crew->watch;

    must_be_a_worker();
    must(key.len <= ITEM_KEY_MAX);
    if (ring == NULL) {
        return; /* nothing is watched: rings are made before a stream is published */
    }
    e->gid = atomic_fetch_add_explicit(&watch->gid, 1, memory_order_relaxed) + 1;
    e->time_us = clock_real_ns() / 1000;
    e->key_len = (uint8_t)key.len;
    if (!byte_ring_put(ring, span_of(e, sizeof(*e)), key)) {
        ctr_add(&w->counters, CTR_log_worker_dropped, 1);
        return;
    }
    ctr_add(&w->counters, CTR_log_worker_written, 1);
    if (byte_ring_len(ring) > ring->size / 2) {
        watch_wake_main(w); /* otherwise once in a turn of the loop */
    }
}

static enum watch_kind kind_of(enum shard_event_kind kind)
{
    return kind == SHARD_EVICTED   ? WATCH_EVICTED
           : kind == SHARD_FLUSHED ? WATCH_DELETED
                                   : WATCH_EXPIRED;
}

static const char *found_by(enum shard_event_kind kind)
{
    return kind == SHARD_EXPIRED_ACTIVE ? "active"
           : kind == SHARD_EXPIRED_LAZY ? "lazy"
                                        : "reclaim";
}

void watch_on_engine_event(void *arg, const struct shard_event *ev)
{
    struct worker *w = this_worker;
    const struct item *it = ev->item;
    msec_t deadline = item_deadline(it);
    uint32_t now_s = (uint32_t)((uint64_t)ev->now / 1000);
    struct watch_event e = {
        .kind = kind_of(ev->kind),
        .class_id = SLAB_CLASS_OURS,
        .fd = -1,
        .size = item_len(it),
        .was_fetched = item_was_fetched(it),
    };

    (void)arg;
    if (w == NULL) {
        return;
    }
    if (e.kind == WATCH_EVICTED) {
        e.ttl_ms = deadline == MSEC_NEVER ? -1 : deadline - ev->now;
        e.idle_s = item_idle_s(it, now_s);
    } else if (e.kind == WATCH_DELETED) {
        e.command = "flush_prefix";
    } else {
        e.command = found_by(ev->kind);
        e.late_ms = ev->now > deadline ? ev->now - deadline : 0;
    }
    watch_log(w, &e, span_of(item_key(it), it->key_len));
}
