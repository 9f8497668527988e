/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry of watchers, on any worker, and the formatting of lines, on main; see watch.h.
 *
 * Waking. A worker that has logged an event posts one message to main before it blocks. Main
 * takes the notice before it reads the rings, so it misses no event. It processes a bounded
 * number of events per turn, so that accepting continues, and pokes the workers whose watchers
 * got lines.
 *
 * Releasing. A watcher belongs to its worker until its connection closes; then a message takes
 * it to main. Only main clears slots, so it is not using the watcher at that moment.
 */
#include "daemon/worker/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/worker/crew.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* Events that main turns into lines in one turn, and of one worker at a time. */
#define EVENTS_A_TURN   512u
#define EVENTS_A_WORKER 64u

#define SKIPPED_LINE_MAX 48

/* ---- the registry ------------------------------------------------------------------------ */

/*
 * The set of watched streams may have changed: publish it for threads that log events. A thread
 * that sees it late logs an event that no client watches. Context: under the lock.
 */
static void publish_streams(struct watch *watch)
{
    uint32_t streams = 0;
    uint32_t kinds = 0;

    for (unsigned i = 0; i < WATCHER_SLOTS; i++) {
        const struct watcher *x = atomic_load_explicit(&watch->slots[i], memory_order_relaxed);

        streams |= x != NULL ? x->streams : 0;
    }
    kinds |= (streams & WATCH_EVICTIONS) != 0 ? 1u << SHARD_EVICTED : 0;
    kinds |= (streams & WATCH_EXPIRATIONS) != 0 ? SHARD_EXPIRED_KINDS : 0;
    atomic_store_explicit(&watch->streams, streams, memory_order_release);
    kinds |= (streams & WATCH_DELETIONS) != 0 ? 1u << SHARD_FLUSHED : 0;
    engine_observe(&watch->crew->engine, kinds);
}

/* Create the rings of all workers; they are never released. Context: under the lock. */
static bool make_rings(struct crew *crew)
{
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        struct worker *w = &crew->workers[i];
        struct byte_ring *ring;

        if (atomic_load_explicit(&w->watch_ring, memory_order_relaxed) != NULL) {
            continue;
        }
        ring = mem_alloc_aligned(sizeof(*ring), 64);
        if (ring == NULL || !byte_ring_init(ring, crew->settings->worker_logbuf_size)) {
            mem_free(ring);
            return false;
        }
        atomic_store_explicit(&w->watch_ring, ring, memory_order_release);
    }
    return true;
}

bool watch_add_workers(struct crew *crew)
{
    struct watch *watch = &crew->watch;
    bool is_done;

    must_be_main();
    pthread_mutex_lock(&watch->lock);
    is_done =
        atomic_load_explicit(&watch->streams, memory_order_relaxed) == 0 || make_rings(crew);
    pthread_mutex_unlock(&watch->lock);
    return is_done;
}

static void watcher_destroy(struct watcher **x)
{
    byte_ring_fini(&(*x)->text);
    mem_free(*x);
    *x = NULL;
}

/* The connection of a watcher was closed. Context: main. */
static void on_gone(struct message *m, void *receiver)
{
    struct watcher *x = MF_OUTER(m, struct watcher, gone_message);
    struct watch *watch = x->watch;

    must_be_main();
    (void)receiver;
    pthread_mutex_lock(&watch->lock);
    atomic_store_explicit(&watch->slots[x->slot], NULL, memory_order_relaxed);
    publish_streams(watch);
    pthread_mutex_unlock(&watch->lock);
    atomic_fetch_sub_explicit(&watch->count, 1, memory_order_relaxed);
    watcher_destroy(&x);
}

static struct watcher *watcher_create(struct worker *w, struct client *c, uint32_t streams)
{
    struct watcher *x = mem_alloc_aligned(sizeof(*x), 64);

    if (x == NULL) {
        return NULL;
    }
    memset(x, 0, sizeof(*x));
    x->watch = &w->crew->watch;
    atomic_init(&x->worker, w);
    x->client = c;
    x->streams = streams;
    x->gone_message.fn = on_gone;
    if (!byte_ring_init(&x->text, w->settings->watcher_logbuf_size)) {
        mem_free(x);
        return NULL;
    }
    return x;
}

/* One of the first `count` slots. Context: under the lock. */
static bool take_slot(struct watch *watch, struct watcher *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (atomic_load_explicit(&watch->slots[i], memory_order_relaxed) == NULL) {
            x->slot = i;
            x->gid_first = atomic_load_explicit(&watch->gid, memory_order_relaxed) + 1;
            atomic_store_explicit(&watch->slots[i], x, memory_order_release);
            publish_streams(watch);
            return true;
        }
    }
    return false;
}

enum watch_added watch_add(struct worker *w, struct client *c, uint32_t streams, bool is_local,
                           struct watcher **out)
{
    const uint32_t slots = is_local ? WATCHER_SLOTS : WATCHERS_MAX;
    struct watch *watch = &w->crew->watch;
    struct watcher *x = watcher_create(w, c, streams);
    enum watch_added added = WATCH_NO_MEMORY;

    must_be_worker(w);
    if (x == NULL) {
        return added;
    }
    pthread_mutex_lock(&watch->lock);
    if (make_rings(w->crew)) {
        added = take_slot(watch, x, slots) ? WATCH_ADDED : WATCH_TOO_MANY;
    }
    pthread_mutex_unlock(&watch->lock);
    if (added != WATCH_ADDED) {
        watcher_destroy(&x);
        return added;
    }
    atomic_fetch_add_explicit(&watch->count, 1, memory_order_relaxed);
    x->next = w->watchers;
    w->watchers = x;
    *out = x;
    return added;
}

void watch_leave(struct watcher *x)
{
    struct worker *w = atomic_load_explicit(&x->worker, memory_order_relaxed);
    struct watcher **at = &w->watchers;

    must_be_worker(w);
    while (*at != x) {
        at = &(*at)->next;
    }
    *at = x->next;
}

/*
 * Main puts lines into the ring and then reads which workers to notify. The caller reads the
 * ring after this call, so it finds lines for which main notified only the workers known
 * earlier.
 */
void watch_join(struct watcher *x, struct worker *w)
{
    must_be_worker(w);
    x->next = w->watchers;
    w->watchers = x;
    atomic_store_explicit(&x->worker, w, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

void watch_remove(struct watcher **x)
{
    must_be_a_worker();
    if (*x == NULL) {
        return;
    }
    struct worker *w = atomic_load_explicit(&(*x)->worker, memory_order_relaxed);
    watch_leave(*x);
    mailbox_post(&w->crew->main_mailbox, &(*x)->gone_message);
    *x = NULL;
}

/* ---- lines ------------------------------------------------------------------------------- */

/*
 * Give a line to a watcher, preceded by a line with the number of lines that it missed. If
 * there is no room, it misses this line too.
 */
static void give_line(struct watch *watch, struct watcher *x, struct span line)
{
    struct counters *c = &watch->crew->counters;
    char text[SKIPPED_LINE_MAX];
    struct span skipped = span_of(text, 0);

    if (x->skipped > 0) {
        skipped.len = (size_t)snprintf(text, sizeof(text), "skipped=%" PRIu64 "\n", x->skipped);
    }
    if (byte_ring_put(&x->text, skipped, line)) {
        x->skipped = 0;
        x->has_fresh = true;
        ctr_add(c, CTR_log_watcher_sent, 1);
    } else {
        x->skipped++;
        ctr_add(c, CTR_log_watcher_skipped, 1);
    }
}

/* Give an event to all watchers that want it; its line is made for the first of them. */
static void deal_event(struct watch *watch, const struct watch_event *e, struct span key)
{
    uint32_t stream = watch_kind_stream((enum watch_kind)e->kind);
    char line[WATCH_LINE_MAX];
    size_t len = 0;

    for (unsigned i = 0; i < WATCHER_SLOTS; i++) {
        struct watcher *x = atomic_load_explicit(&watch->slots[i], memory_order_acquire);

        if (x == NULL || (x->streams & stream) == 0 || e->gid < x->gid_first) {
            continue;
        }
        if (len == 0) {
            len = watch_line(line, e, key);
        }
        give_line(watch, x, span_of(line, len));
    }
}

/* Take up to `max` events of one worker; returns how many there were. */
static unsigned take_events(struct watch *watch, struct worker *w, unsigned max)
{
    struct byte_ring *ring = atomic_load_explicit(&w->watch_ring, memory_order_acquire);
    struct watch_event e;
    char key[ITEM_KEY_MAX];
    unsigned n = 0;

    while (ring != NULL && n < max && byte_ring_len(ring) > 0) {
        byte_ring_copy(ring, 0, &e, sizeof(e));
        byte_ring_copy(ring, sizeof(e), key, e.key_len);
        byte_ring_drop(ring, sizeof(e) + e.key_len);
        deal_event(watch, &e, span_of(key, e.key_len));
        n++;
    }
    return n;
}

/* Wake main, unless it was notified before: then it will still find the events. */
static void wake_main(struct watch *watch)
{
    notice_post(&watch->wake, &watch->crew->main_mailbox);
}

/* Poke the workers of watchers that got lines in this turn. */
static void poke_fresh(struct watch *watch)
{
    for (unsigned i = 0; i < WATCHER_SLOTS; i++) {
        struct watcher *x = atomic_load_explicit(&watch->slots[i], memory_order_acquire);

        if (x != NULL && x->has_fresh) {
            x->has_fresh = false;
            atomic_thread_fence(memory_order_seq_cst); /* see watch_join() */
            worker_poke(atomic_load_explicit(&x->worker, memory_order_relaxed));
        }
    }
}

/* A worker has logged events. Context: main. */
static void on_wake(struct message *m, void *receiver)
{
    struct watch *watch = MF_OUTER(m, struct watch, wake.message);
    struct crew *crew = watch->crew;
    unsigned total = 0;
    unsigned n;

    must_be_main();
    (void)receiver;
    notice_taken(&watch->wake);
    do {
        n = 0;
        for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
            n += take_events(watch, &crew->workers[i], EVENTS_A_WORKER);
        }
        total += n;
    } while (n > 0 && total < EVENTS_A_TURN);
    poke_fresh(watch);
    if (n > 0) {
        wake_main(watch);
    }
}

void watch_wake_main(struct worker *w)
{
    struct byte_ring *ring = atomic_load_explicit(&w->watch_ring, memory_order_acquire);

    must_be_worker(w);
    if (ring != NULL && byte_ring_len(ring) > 0) {
        wake_main(&w->crew->watch);
    }
}

/* ---- the whole --------------------------------------------------------------------------- */

void watch_init(struct watch *watch, struct crew *crew)
{
    must_be_main();
    watch->crew = crew;
    notice_init(&watch->wake, on_wake);
    pthread_mutex_init(&watch->lock, NULL);
}

void watch_fini(struct watch *watch)
{
    must_be_main();
    for (unsigned i = 0; i < WATCHER_SLOTS; i++) {
        must(atomic_load_explicit(&watch->slots[i], memory_order_relaxed) == NULL);
    }
    pthread_mutex_destroy(&watch->lock);
    watch->crew = NULL;
}
