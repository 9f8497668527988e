/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading a file into an engine: see load.h. Each thread has blocks of its own; their items are
 * stored in batches whose cache misses overlap.
 */
#include "lib/snapshot/load.h"

#include <string.h>
#include <time.h>

#include "lib/base/budgets.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/rcu.h"
#include "lib/base/thread.h"
#include "lib/engine/body.h"
#include "lib/engine/erase.h"
#include "lib/engine/find.h"
#include "lib/engine/flush.h"
#include "lib/engine/store.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"
#include "lib/snapshot/keychain.h"
#include "lib/snapshot/scan.h"

#define THREADS_MAX 16
#define BATCH       32

/* So long an item waits for room, while the reclaimer makes some. */
#define WAIT_MAX_MS 5000

/*
 * A cas from here on was chosen by a client who wants to see what happens: no others follow it.
 */
#define CAS_SANE_MAX ((uint64_t)1 << 62)

struct loader {
    struct load *load;
    struct scan *scan;
    struct snap_opener opener;
    struct thread thread;
    msec_t now;
    uint64_t cas_max;
    int64_t flush_at; /* the earliest that was met, unix ms; INT64_MAX: none */
    /* a batch: spans lie in the block that is open */
    unsigned n;
    uint64_t hash[BATCH];
    struct snap_item item[BATCH];
    /* a value in parts */
    struct body *body;
    struct snap_item large;
    char key[ITEM_KEY_MAX];
    bool is_passed_over; /* its parts are read for nothing */
    /* of a log */
    bool is_log;
    const struct keyset *dropped; /* [borrowed] keys that are not loaded; NULL: none */
};

/* ---- one item ---------------------------------------------------------------------------- */

static void count(_Atomic uint64_t *word, uint64_t n)
{
    atomic_fetch_add_explicit(word, n, memory_order_relaxed);
}

/* Is it to be stored? If so *st and *kept are filled, but for the value. */
static bool prepare(struct loader *l, const struct snap_item *it, uint64_t hash,
                    struct store *st, struct store_kept *kept)
{
    const struct engine *e = l->load->engine;
    const struct keyset *dropped = l->dropped;
    msec_t deadline = MSEC_NEVER;

    if (dropped != NULL && keyset_has(dropped, keyset_hash(dropped, it->key))) {
        count(&l->load->changed, 1);
        return false;
    }
    if (it->deadline != SNAP_DEADLINE_NEVER) {
        /* Any number may stand in a file. */
        if (__builtin_sub_overflow(it->deadline, l->load->to_unix_ms, &deadline) ||
            deadline <= l->now || deadline == MSEC_NEVER) {
            count(&l->load->expired, 1);
            return false;
        }
    }
    if (it->key.len + it->value_len > e->item_bytes_max) {
        count(&l->load->refused, 1);
        return false;
    }
    *kept = (struct store_kept){
        .marks =
            (uint16_t)((l->load->marks_stale || (it->marks & SNAP_STALE) != 0 ? SHAPE_STALE
                                                                              : 0) |
                       ((it->marks & SNAP_WON) != 0 && !l->load->marks_stale ? SHAPE_WON : 0)),
        .heat = it->heat,
        .access_s =
            (uint32_t)(l->now / 1000) > it->idle_s ? (uint32_t)(l->now / 1000) - it->idle_s : 1,
    };
    *st = (struct store){
        .mode = l->is_log ? STORE_SET : STORE_ADD,
        .hash = hash,
        .key = it->key,
        .flags = it->client_flags,
        .deadline = deadline,
        .cas_new = it->cas != 0 ? it->cas : 1,
        .kept = kept,
        .may_wait = true,
    };
    if (it->cas > l->cas_max && it->cas < CAS_SANE_MAX) {
        l->cas_max = it->cas;
    }
    return true;
}

/* Workers are not there yet: resize indexes in their place. Context: outside a section. */
static void keep_up(struct loader *l)
{
    struct engine *e = l->load->engine;

    if (l->load->is_beside || pthread_mutex_trylock(&l->load->upkeep) != 0) {
        return;
    }
    for (uint32_t i = 0; i < e->shard_count; i++) {
        if (shard_wants_work(e->shards[i])) {
            shard_maintain(e->shards[i], l->now, BUDGET_run_us);
        }
    }
    pthread_mutex_unlock(&l->load->upkeep);
}

static bool is_stopped(const struct loader *l)
{
    return atomic_load_explicit(&l->load->is_to_stop, memory_order_relaxed) ||
           (l->load->is_beside &&
            atomic_load_explicit(&l->load->guard.is_void, memory_order_relaxed));
}

/* Wait for the reclaimer. False: it has been long enough. Context: outside a section. */
static bool wait_for_room(struct loader *l, unsigned *waits)
{
    const struct timespec ms = {.tv_nsec = 1000 * 1000};

    if (++*waits > WAIT_MAX_MS || is_stopped(l)) {
        return false;
    }
    grace_ask(reclaim_grace(l->load->engine->reclaimer), GRACE_HURRY);
    nanosleep(&ms, NULL);
    keep_up(l);
    l->now = clock_now(&l->load->engine->clock);
    return true;
}

/* The state that is read from a log is not stored: nor must an older one stay. Read side. */
static void forget(struct loader *l, uint64_t hash, struct span key)
{
    if (l->is_log) {
        (void)engine_delete(l->load->engine, hash, key, 0, l->now);
    }
}

/* Context: read side. */
static void note_stored(struct loader *l, enum outcome out, uint64_t hash, struct span key)
{
    if (out == OUT_STORED) {
        count(l->is_log ? &l->load->states : &l->load->items, 1);
    } else if (out != OUT_NOT_STORED) {
        count(&l->load->refused, 1);
        forget(l, hash, key);
    }
}

/* ---- batches ----------------------------------------------------------------------------- */

/* Store what was gathered from `from` on, in one section. Returns where it must wait, or n. */
static unsigned store_some(struct loader *l, unsigned from)
{
    struct engine *e = l->load->engine;
    const struct route *rt;
    unsigned i;

    rcu_begin();
    rt = router_read(&e->router);
    for (i = from; i < l->n; i++) {
        engine_prefetch_bucket(rt, l->hash[i]);
    }
    for (i = from; i < l->n; i++) {
        struct store_kept kept;
        struct store st;
        enum outcome out;

        if ((l->item[i].marks & SNAP_GONE) != 0) {
            count(&l->load->states, 1);
            forget(l, l->hash[i], l->item[i].key);
            continue;
        }
        if (!prepare(l, &l->item[i], l->hash[i], &st, &kept)) {
            forget(l, l->hash[i], l->item[i].key);
            continue;
        }
        st.value = l->item[i].value;
        out = engine_store(e, &st, l->now);
        if (out == OUT_WAIT) {
            break;
        }
        note_stored(l, out, l->hash[i], l->item[i].key);
    }
    rcu_end();
    return i;
}

/* There is no room for the next one. */
static void refuse(struct loader *l, unsigned at)
{
    count(&l->load->refused, 1);
    rcu_begin();
    forget(l, l->hash[at], l->item[at].key);
    rcu_end();
}

static void store_batch(struct loader *l)
{
    unsigned waits = 0;
    unsigned at = 0;

    l->now = clock_now(&l->load->engine->clock);
    keep_up(l);
    for (;;) {
        unsigned next = store_some(l, at);

        if (next == l->n) {
            break;
        }
        waits = next != at ? 0 : waits;
        at = next;
        if (!wait_for_room(l, &waits)) {
            refuse(l, at++);
        }
    }
    l->n = 0;
}

static bool on_item(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    struct loader *l = arg;

    (void)b;
    l->hash[l->n] = engine_hash(l->load->engine, it->key.ptr, it->key.len);
    l->item[l->n++] = *it;
    if (l->n == BATCH) {
        store_batch(l);
    }
    return !is_stopped(l);
}

static void on_block(void *arg, const struct snap_block *b)
{
    struct loader *l = arg;

    if (l->n != 0) {
        store_batch(l);
    }
    count(&l->load->bytes, SNAP_BLOCK_BYTES + b->stored);
}

/*
 * What the file says of flushes: one that has come since, or is to come; the earliest counts.
 * Beside requests those may have asked for another one.
 */
static void flush(struct load *load, int64_t at_unix_ms)
{
    struct engine *e = load->engine;
    msec_t now = clock_now(&e->clock);
    msec_t at;

    if (__builtin_sub_overflow(at_unix_ms, load->to_unix_ms, &at)) {
        at = now;
    }
    pthread_mutex_lock(&load->upkeep);
    if (at < load->flush_at) {
        if (at <= now) {
            atomic_store_explicit(&load->items, 0, memory_order_relaxed);
        }
        engine_flush_old(e, at, load->flush_at, now);
        load->flush_at = at;
        if (at <= now && load->is_beside) {
            atomic_store_explicit(&load->guard.is_void, true, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&load->upkeep);
}

/*
 * In a log: one that took place here, or one that is to come instead of what was to come. If
 * that has passed by now, it was carried out further on in the log, or behind its end.
 */
static bool on_logged_flush(struct loader *l, int64_t at_unix_ms)
{
    struct engine *e = l->load->engine;
    unsigned waits = 0;

    if (at_unix_ms != 0) {
        l->load->flush_unix_ms = at_unix_ms;
        return true;
    }
    l->load->flush_unix_ms = INT64_MAX;
    l->now = clock_now(&e->clock);
    while (engine_flush(e, l->now, l->now, true) != OUT_OK) {
        if (!wait_for_room(l, &waits)) {
            return false;
        }
    }
    return true;
}

/*
 * It stands before all items, so beside requests it happens at once, and what is stored until
 * then goes with what is loaded.
 */
static bool on_flush(void *arg, int64_t at_unix_ms)
{
    struct loader *l = arg;

    if (l->is_log) {
        return on_logged_flush(l, at_unix_ms);
    }
    if (l->load->is_beside) {
        flush(l->load, at_unix_ms);
        return !is_stopped(l);
    }
    l->flush_at = at_unix_ms < l->flush_at ? at_unix_ms : l->flush_at;
    return true;
}

/* ---- values in parts --------------------------------------------------------------------- */

/* These bytes are the next of the body. False: there is no room for it. */
static bool feed(struct loader *l, struct span bytes)
{
    unsigned waits = 0;

    while (bytes.len != 0) {
        enum outcome out;
        size_t n = 0;
        char *room;

        out = body_room(l->body, true, &room, &n);
        if (out == OUT_WAIT && wait_for_room(l, &waits)) {
            continue;
        }
        if (out != OUT_OK) {
            return false;
        }
        n = n < bytes.len ? n : bytes.len;
        memcpy(room, bytes.ptr, n);
        body_filled(l->body, n);
        bytes = span_of(bytes.ptr + n, bytes.len - n);
    }
    return true;
}

static void pass_over(struct loader *l)
{
    body_abort(&l->body);
    l->is_passed_over = true;
}

static bool on_value_part(void *arg, struct span bytes)
{
    struct loader *l = arg;

    if (!l->is_passed_over && !feed(l, bytes)) {
        count(&l->load->refused, 1);
        pass_over(l);
    }
    return !is_stopped(l);
}

static bool on_value_begin(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    struct loader *l = arg;
    struct store_kept kept;
    struct store st;

    (void)b;
    l->now = clock_now(&l->load->engine->clock);
    l->large = *it;
    memcpy(l->key, it->key.ptr, it->key.len);
    l->large.key.ptr = l->key;
    l->is_passed_over =
        !prepare(l, it, engine_hash(l->load->engine, it->key.ptr, it->key.len), &st, &kept);
    if (!l->is_passed_over && it->value_len <= ENGINE_SMALL_MAX) {
        /* No encoder makes parts of so short a value. */
        count(&l->load->refused, 1);
        l->is_passed_over = true;
    }
    if (!l->is_passed_over) {
        rcu_begin();
        l->body = body_begin(l->load->engine, st.hash, it->value_len);
        rcu_end();
        if (l->body == NULL) {
            count(&l->load->refused, 1);
            l->is_passed_over = true;
        }
    }
    return on_value_part(l, it->value);
}

/* The value in parts is not stored: as forget(). */
static void forget_large(struct loader *l)
{
    rcu_begin();
    forget(l, engine_hash(l->load->engine, l->key, l->large.key.len), l->large.key);
    rcu_end();
}

static bool on_value_end(void *arg)
{
    struct loader *l = arg;
    struct engine *e = l->load->engine;
    enum outcome out = OUT_WAIT;
    struct store_kept kept;
    struct store st;
    unsigned waits = 0;

    if (l->is_passed_over) {
        forget_large(l);
        return true;
    }
    do {
        l->now = clock_now(&e->clock);
        if (!prepare(l, &l->large, engine_hash(e, l->key, l->large.key.len), &st, &kept)) {
            out = OUT_NOT_STORED;
            break;
        }
        st.body = &l->body;
        rcu_begin();
        out = engine_store(e, &st, l->now);
        if (out != OUT_WAIT) {
            note_stored(l, out, st.hash, st.key);
            rcu_end();
            break;
        }
        rcu_end();
    } while (wait_for_room(l, &waits));
    count(&l->load->refused, out == OUT_WAIT);
    if (out != OUT_STORED) {
        forget_large(l);
    }
    body_abort(&l->body);
    return !is_stopped(l);
}

static void on_value_drop(void *arg)
{
    body_abort(&((struct loader *)arg)->body);
}

static void on_value_cut(void *arg)
{
    on_value_drop(arg);
    forget_large(arg);
}

/* ---- threads ----------------------------------------------------------------------------- */

static void work(struct loader *l)
{
    const struct scan_sink sink = {
        .arg = l,
        .item = on_item,
        .value_begin = on_value_begin,
        .value_part = on_value_part,
        .value_end = on_value_end,
        .value_drop = on_value_drop,
        .value_cut = on_value_cut,
        .flush = on_flush,
        .block = on_block,
    };

    scan_run(l->scan, &l->opener, &sink);
}

static void run_thread(void *arg)
{
    struct loader *l = arg;

    guard_set_loader(l->load->is_beside);
    work(l);
}

static const struct thread_kind loader_kind = {
    .name = "snapshot load", .run = run_thread, .reads = true};

static bool start(struct loader *l, struct load *load, struct scan *scan)
{
    memset(l, 0, sizeof(*l));
    l->load = load;
    l->scan = scan;
    l->flush_at = INT64_MAX;
    l->dropped = load->chain != NULL ? &load->chain->set : NULL;
    return snap_opener_init(&l->opener);
}

/*
 * Times are counted from now by the wall clock, but from the latest one that file and logs know
 * if the clock says less: it was wrong then or is now, and nothing is to live longer than was
 * left of it.
 */
static void set_clock(struct load *load)
{
    const struct clock *clock = &load->engine->clock;
    int64_t known = load->file->header.unix_ms;
    int64_t now = clock_unix_ms(clock);

    known = known > load->unix_floor_ms ? known : load->unix_floor_ms;
    load->to_unix_ms = clock_unix_offset_ms(clock);
    load->behind_ms = 0;
    if (known > now) {
        load->behind_ms = known - now;
        load->to_unix_ms += load->behind_ms;
    }
}

/*
 * Values of the engine come after those that were loaded, and after those that were lost since,
 * which clients may have.
 */
static void raise_cas(const struct load *load, uint64_t past)
{
    struct engine *e = load->engine;
    uint64_t next = atomic_load_explicit(&e->group.cas_next, memory_order_relaxed);
    uint64_t drawn = engine_cas_past(clock_unix_ms(&e->clock) + load->behind_ms);

    past = past > drawn ? past : drawn;
    if (next <= past) {
        atomic_store_explicit(&e->group.cas_next, past + 1, memory_order_relaxed);
    }
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_enter(e->shards[i]);
        keyspace_draw_cas(e->shards[i]);
        shard_leave(e->shards[i]);
    }
}

bool load_beside(struct load *load)
{
    struct engine *e = load->engine;

    if (guarding_begin(e, &load->guard, load->file->header.items, false) != GUARDING_ON) {
        return false;
    }
    load->is_beside = true;
    set_clock(load);
    raise_cas(load, 0);
    return true;
}

static enum load_end load_all(struct load *load)
{
    unsigned wanted = load->threads < THREADS_MAX ? load->threads : THREADS_MAX;
    struct loader *all = mem_alloc(THREADS_MAX * sizeof(*all));
    int64_t flush_at = INT64_MAX;
    uint64_t cas_max = 0;
    unsigned n = 0;
    struct scan scan;
    enum load_end end;

    must_not_be_reading();
    if (all == NULL) {
        return LOAD_NO_MEMORY;
    }
    count(&load->bytes, SNAP_HEADER_BYTES);
    if (!scan_init(&scan, load_read, load->file) || !start(&all[0], load, &scan)) {
        load->fault = scan.fault;
        scan_fini(&scan);
        mem_free(all);
        return load->fault.kind != SNAP_FINE ? LOAD_BAD : LOAD_NO_MEMORY;
    }
    for (n = 1; n < wanted; n++) {
        /* Fewer threads do as well. */
        if (!start(&all[n], load, &scan)) {
            break;
        }
        if (thread_start(&all[n].thread, &loader_kind, &all[n]) != 0) {
            snap_opener_fini(&all[n].opener);
            break;
        }
    }
    guard_set_loader(load->is_beside);
    work(&all[0]);
    guard_set_loader(false);
    for (unsigned i = 0; i < n; i++) {
        thread_join(&all[i].thread); /* the first is the caller */
        flush_at = all[i].flush_at < flush_at ? all[i].flush_at : flush_at;
        cas_max = all[i].cas_max > cas_max ? all[i].cas_max : cas_max;
        snap_opener_fini(&all[i].opener);
    }
    if (!load->is_beside) {
        raise_cas(load, cas_max);
    }
    load->flush_unix_ms = flush_at;
    load->fault = scan.fault;
    end = scan.is_whole ? LOAD_DONE : scan.fault.kind != SNAP_FINE ? LOAD_BAD : LOAD_STOPPED;
    if (load->is_beside && atomic_load_explicit(&load->guard.is_void, memory_order_relaxed)) {
        end = LOAD_FLUSHED;
    }
    scan_fini(&scan);
    mem_free(all);
    return end;
}

/* ---- logs -------------------------------------------------------------------------------- */

/* A log has no END: it is whole where a block would begin, or a value would go on. */
static bool is_end_of_log(struct load_file *f, const struct snap_fault *fault)
{
    char byte;

    return fault->kind == SNAP_FAULT_CUT && load_read(f, &byte, 1, fault->offset) == 0;
}

/* Its states, one after the other. */
static enum load_end load_states(struct load *load, struct load_file *f, struct loader *l)
{
    enum load_end end = LOAD_STOPPED;
    struct scan scan;

    if (!scan_init(&scan, load_read, f)) {
        load->fault = scan.fault;
        end = LOAD_BAD;
    } else if (!start(l, load, &scan)) {
        end = LOAD_NO_MEMORY;
    } else {
        l->is_log = true;
        l->dropped = f->header.log <= load->chain->last_keys ? l->dropped : NULL;
        work(l);
        snap_opener_fini(&l->opener);
        raise_cas(load, l->cas_max);
        if (scan.fault.kind != SNAP_FINE) {
            end = is_end_of_log(f, &scan.fault) ? LOAD_DONE : LOAD_BAD;
            load->fault = scan.fault;
        }
    }
    scan_fini(&scan);
    return end;
}

static enum load_end load_logs(struct load *load)
{
    struct loader *l = mem_alloc(sizeof(*l));
    enum load_end end = l != NULL ? LOAD_DONE : LOAD_NO_MEMORY;
    const struct keychain *c = load->chain;

    for (uint64_t n = c->first; end == LOAD_DONE && n <= c->number; n++) {
        struct load_file f;
        char path[PATH_MAX];

        if (!keychain_path(c, n, path) || !load_open_any(&f, path)) {
            load->fault = f.fault;
            end = LOAD_BAD;
            break;
        }
        end = load_states(load, &f, l);
        load_close(&f);
    }
    mem_free(l);
    return end;
}

/*
 * What the logs say of what was loaded, also if that is only what stood before some damage.
 * Unless all of it was read nothing stays: older states would.
 */
static enum load_end load_later(struct load *load, enum load_end end)
{
    const struct snap_fault fault = load->fault;
    enum load_end logs_end = load_logs(load);

    if (logs_end != LOAD_DONE) {
        msec_t now = clock_now(&load->engine->clock);

        atomic_store_explicit(&load->items, 0, memory_order_relaxed);
        return engine_flush(load->engine, now, now, false) == OUT_OK ? logs_end
                                                                     : LOAD_NO_MEMORY;
    }
    load->fault = fault;
    return end;
}

enum load_end load_run(struct load *load)
{
    enum load_end end;

    set_clock(load);
    pthread_mutex_init(&load->upkeep, NULL);
    load->flush_at = MSEC_NEVER;
    load->flush_unix_ms = INT64_MAX;
    end = load_all(load);
    if ((end == LOAD_DONE || end == LOAD_BAD) && load->chain != NULL &&
        load->chain->has_states) {
        end = load_later(load, end);
    }
    if (load->flush_unix_ms != INT64_MAX) {
        flush(load, load->flush_unix_ms);
    }
    pthread_mutex_destroy(&load->upkeep);
    if (load->is_beside) {
        guarding_end(load->engine, &load->guard);
    }
    return end;
}

bool load_flush_again(const struct load *load)
{
    struct engine *e = load->engine;

    return load->flush_at == MSEC_NEVER ||
           engine_flush_old(e, load->flush_at, load->flush_at, clock_now(&e->clock)) == OUT_OK;
}
