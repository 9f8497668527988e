/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storing what was read: see apply.h.
 */
#include "lib/snapshot/apply.h"

#include <string.h>
#include <time.h>

#include "lib/base/context.h"
#include "lib/base/rcu.h"
#include "lib/engine/engine.h"
#include "lib/engine/flush.h"
#include "lib/engine/prefix.h"
#include "lib/log/keyset.h"
#include "lib/store/body.h"
#include "lib/store/erase.h"
#include "lib/store/find.h"
#include "lib/store/store.h"

/* Longest time that an item waits for room, while the reclaimer makes some. */
#define WAIT_MAX_MS 5000

/* ---- one item ---------------------------------------------------------------------------- */

static void count(_Atomic uint64_t *word, uint64_t n)
{
    atomic_fetch_add_explicit(word, n, memory_order_relaxed);
}

static bool is_states(const struct apply *a)
{
    return a->mode != APPLY_ITEMS;
}

static bool is_following(const struct apply *a)
{
    return a->mode == APPLY_FOLLOWS;
}

static bool is_stopped(const struct apply *a)
{
    return a->is_stopped(a->arg);
}

static void keep_up(const struct apply *a)
{
    if (a->keep_up != NULL) {
        a->keep_up(a->arg, a->now);
    }
}

static bool goes_on(const struct apply *a)
{
    return is_following(a) || !is_stopped(a);
}

/*
 * The deadline by the engine's clock. A file may hold any number. A deadline before the clock's
 * start becomes its first millisecond. Returns false if the deadline is too late to represent:
 * the item then has none.
 */
static bool deadline_of(const struct apply *a, const struct snap_item *it, msec_t *deadline)
{
    if (__builtin_sub_overflow(it->deadline, a->to_unix_ms, deadline)) {
        *deadline = a->to_unix_ms > 0 ? 0 : MSEC_NEVER;
    }
    *deadline = *deadline > 0 ? *deadline : 1;
    return *deadline != MSEC_NEVER;
}

/* Is the item to be stored? If so *st and *kept are filled in, except for the value. */
static bool prepare(struct apply *a, const struct snap_item *it, uint64_t hash,
                    struct store *st, struct store_kept *kept)
{
    const struct engine *e = a->engine;
    const struct keyset *dropped = a->dropped;
    msec_t deadline = MSEC_NEVER;

    if (dropped != NULL && keyset_has(dropped, keyset_hash(dropped, it->key))) {
        count(&a->counts->changed, 1);
        return false;
    }
    if (it->deadline != SNAP_DEADLINE_NEVER) {
        if (!deadline_of(a, it, &deadline) || (deadline <= a->now && !is_following(a))) {
            count(&a->counts->expired, 1);
            return false;
        }
    }
    if (it->key.len + it->value_len > e->item_bytes_max) {
        count(&a->counts->refused, 1);
        return false;
    }
    /* Half of the representable time, so that it does not wrap soon after. */
    uint32_t idle_s = it->idle_s < ACCESS_IDLE_MAX_S / 2 ? it->idle_s : ACCESS_IDLE_MAX_S / 2;
    *kept = (struct store_kept){
        .marks =
            (uint16_t)((a->marks_stale || (it->marks & SNAP_STALE) != 0 ? SHAPE_STALE : 0) |
                       ((it->marks & SNAP_WON) != 0 && !a->marks_stale ? SHAPE_WON : 0)),
        .yields_use = a->keeps_use,
        .heat = it->heat,
        .access_s = (uint32_t)(a->now / 1000) > idle_s ? (uint32_t)(a->now / 1000) - idle_s : 1,
    };
    *st = (struct store){
        .mode = is_states(a) ? STORE_SET : STORE_ADD,
        .hash = hash,
        .key = it->key,
        .flags = it->client_flags,
        .deadline = deadline,
        .cas_new = it->cas != 0 ? it->cas : 1,
        .kept = kept,
        .may_wait = true,
        .takes_due = is_following(a),
    };
    if (it->cas > a->cas_max && it->cas < ITEM_CAS_DRAWN_MAX) {
        a->cas_max = it->cas;
    }
    return true;
}

/* Wait for the reclaimer. False: the longest time has passed. Context: outside a section. */
static bool wait_for_room(struct apply *a, unsigned *waits)
{
    const struct timespec ms = {.tv_nsec = 1000 * 1000};

    if (++*waits > WAIT_MAX_MS || is_stopped(a)) {
        return false;
    }
    grace_ask(reclaim_grace(a->engine->reclaimer), GRACE_HURRY);
    nanosleep(&ms, NULL);
    keep_up(a);
    a->now = clock_now(&a->engine->clock);
    return true;
}

/* A state read from a log is not stored, so an older one must not stay either. Read side. */
static void forget(struct apply *a, uint64_t hash, struct span key)
{
    if (is_states(a)) {
        (void)engine_delete(a->engine, hash, key, 0, a->now);
    }
}

/* Context: read side. */
static void note_stored(struct apply *a, enum outcome out, uint64_t hash, struct span key)
{
    if (out == OUT_STORED) {
        count(is_states(a) ? &a->counts->states : &a->counts->items, 1);
    } else if (out != OUT_NOT_STORED) {
        count(&a->counts->refused, 1);
        forget(a, hash, key);
    }
}

/* ---- batches ----------------------------------------------------------------------------- */

/* Store what was gathered from `from` on, in one section. Returns where it must wait, or n. */
static unsigned store_some(struct apply *a, unsigned from)
{
    struct engine *e = a->engine;
    unsigned i;

    rcu_begin();
    const struct route *rt = router_read(&e->router);
    for (i = from; i < a->n; i++) {
        engine_prefetch_bucket(rt, a->hash[i]);
    }
    engine_prefetch_items(rt, &a->hash[from], sizeof(a->hash[0]), a->n - from);
    for (i = from; i < a->n; i++) {
        struct store_kept kept;
        struct store st;

        if ((a->item[i].marks & SNAP_GONE) != 0) {
            count(&a->counts->states, 1);
            forget(a, a->hash[i], a->item[i].key);
            continue;
        }
        if (!prepare(a, &a->item[i], a->hash[i], &st, &kept)) {
            forget(a, a->hash[i], a->item[i].key);
            continue;
        }
        st.value = a->item[i].value;
        enum outcome out = engine_store(e, &st, a->now);
        if (out == OUT_WAIT) {
            break;
        }
        note_stored(a, out, a->hash[i], a->item[i].key);
    }
    rcu_end();
    return i;
}

/* There is no room for the next one. */
static void apply_refuse(struct apply *a, unsigned at)
{
    count(&a->counts->refused, 1);
    rcu_begin();
    forget(a, a->hash[at], a->item[at].key);
    rcu_end();
}

static void store_batch(struct apply *a)
{
    unsigned waits = 0;
    unsigned at = 0;

    a->now = clock_now(&a->engine->clock);
    keep_up(a);
    for (;;) {
        unsigned next = store_some(a, at);

        if (next == a->n) {
            break;
        }
        waits = next != at ? 0 : waits;
        at = next;
        if (!wait_for_room(a, &waits)) {
            apply_refuse(a, at++);
        }
    }
    a->n = 0;
}

static bool on_item(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    struct apply *a = arg;

    (void)b;
    a->hash[a->n] = engine_hash(a->engine, it->key.ptr, it->key.len);
    a->item[a->n++] = *it;
    if (a->n == APPLY_BATCH) {
        store_batch(a);
    }
    return goes_on(a);
}

void apply_rest(struct apply *a)
{
    must_not_be_reading();
    if (a->n != 0) {
        store_batch(a);
    }
}

/* at: by the engine's clock; what has passed is now. */
static bool flush_at(struct apply *a, msec_t at)
{
    unsigned waits = 0;

    must_not_be_reading();
    a->now = clock_now(&a->engine->clock);
    while (engine_flush(a->engine, at > a->now ? at : a->now, a->now, true) != OUT_OK) {
        if (!wait_for_room(a, &waits)) {
            return false;
        }
    }
    return true;
}

bool apply_flush(struct apply *a)
{
    return flush_at(a, 0);
}

bool apply_flush_at(struct apply *a, int64_t at_unix_ms)
{
    msec_t at = 0;

    apply_rest(a);
    if (at_unix_ms != 0 && __builtin_sub_overflow(at_unix_ms, a->to_unix_ms, &at)) {
        at = a->to_unix_ms > 0 ? 0 : MSEC_NEVER - 1;
    }
    return flush_at(a, at < MSEC_NEVER ? at : MSEC_NEVER - 1);
}

bool apply_flush_prefix(struct apply *a, struct span prefix)
{
    unsigned waits = 0;
    enum outcome out;

    must_not_be_reading();
    apply_rest(a);
    while ((out = engine_flush_prefix(a->engine, prefix)) != OUT_OK) {
        /* Too many are being flushed: one of them ends, however large the index is. */
        waits = out == OUT_WAIT ? 0 : waits;
        if (!wait_for_room(a, &waits)) {
            return false;
        }
    }
    return true;
}

/* ---- values in parts --------------------------------------------------------------------- */

/* Append these bytes to the body. False: there is no room. */
static bool feed(struct apply *a, struct span bytes)
{
    unsigned waits = 0;

    while (bytes.len != 0) {
        size_t n = 0;
        char *room;
        enum outcome out = body_room(a->body, true, &room, &n);

        if (out == OUT_WAIT && wait_for_room(a, &waits)) {
            continue;
        }
        if (out != OUT_OK) {
            return false;
        }
        n = n < bytes.len ? n : bytes.len;
        memcpy(room, bytes.ptr, n);
        body_filled(a->body, n);
        bytes = span_of(bytes.ptr + n, bytes.len - n);
    }
    return true;
}

static bool on_value_part(void *arg, struct span bytes)
{
    struct apply *a = arg;

    if (!a->is_passed_over && !feed(a, bytes)) {
        count(&a->counts->refused, 1);
        body_abort(&a->body);
        a->is_passed_over = true;
    }
    return goes_on(a);
}

static bool on_value_begin(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    struct apply *a = arg;
    struct store_kept kept;
    struct store st;

    (void)b;
    a->now = clock_now(&a->engine->clock);
    a->large = *it;
    memcpy(a->key, it->key.ptr, it->key.len);
    a->large.key.ptr = a->key;
    a->is_passed_over =
        !prepare(a, it, engine_hash(a->engine, it->key.ptr, it->key.len), &st, &kept);
    if (!a->is_passed_over && it->value_len <= ENGINE_SMALL_MAX) {
        /* No encoder splits such a short value. */
        count(&a->counts->refused, 1);
        a->is_passed_over = true;
    }
    if (!a->is_passed_over) {
        rcu_begin();
        a->body = body_begin(a->engine, st.hash, it->value_len);
        rcu_end();
        if (a->body == NULL) {
            count(&a->counts->refused, 1);
            a->is_passed_over = true;
        }
    }
    return on_value_part(a, it->value);
}

/* The value in parts is not stored: as forget(). */
static void forget_large(struct apply *a)
{
    rcu_begin();
    forget(a, engine_hash(a->engine, a->key, a->large.key.len), a->large.key);
    rcu_end();
}

static bool on_value_end(void *arg)
{
    struct apply *a = arg;
    struct engine *e = a->engine;
    enum outcome out = OUT_WAIT;
    struct store_kept kept;
    struct store st;
    unsigned waits = 0;

    if (a->is_passed_over) {
        forget_large(a);
        return true;
    }
    do {
        a->now = clock_now(&e->clock);
        if (!prepare(a, &a->large, engine_hash(e, a->key, a->large.key.len), &st, &kept)) {
            out = OUT_NOT_STORED;
            break;
        }
        st.body = &a->body;
        rcu_begin();
        out = engine_store(e, &st, a->now);
        if (out != OUT_WAIT) {
            note_stored(a, out, st.hash, st.key);
            rcu_end();
            break;
        }
        rcu_end();
    } while (wait_for_room(a, &waits));
    count(&a->counts->refused, out == OUT_WAIT);
    if (out != OUT_STORED) {
        forget_large(a);
    }
    body_abort(&a->body);
    return goes_on(a);
}

static void on_value_drop(void *arg)
{
    body_abort(&((struct apply *)arg)->body);
}

static void on_value_cut(void *arg)
{
    on_value_drop(arg);
    forget_large(arg);
}

/* ---- the sink ---------------------------------------------------------------------------- */

struct scan_sink apply_sink(struct apply *a)
{
    return (struct scan_sink){
        .arg = a,
        .item = on_item,
        .value_begin = on_value_begin,
        .value_part = on_value_part,
        .value_end = on_value_end,
        .value_drop = on_value_drop,
        .value_cut = on_value_cut,
    };
}
