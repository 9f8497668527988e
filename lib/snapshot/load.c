/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading a file into an engine: see load.h. Each thread loads different blocks; the items are
 * stored in batches whose cache misses overlap.
 */
#include "lib/snapshot/load.h"

#include <string.h>

#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/base/thread.h"
#include "lib/engine/engine.h"
#include "lib/engine/flush.h"
#include "lib/format/scan.h"
#include "lib/log/keychain.h"
#include "lib/shard/upkeep.h"

#define THREADS_MAX 16

struct loader {
    struct apply apply; /* must be the first member: the scan's callbacks get it */
    struct load *load;
    struct scan *scan;
    struct snap_opener opener;
    struct thread thread;
    int64_t flush_at; /* the earliest that was met, unix ms; INT64_MAX: none */
};

static struct loader *loader_of(void *arg)
{
    return (struct loader *)arg;
}

/* ---- for apply.h ------------------------------------------------------------------------- */

static void count(_Atomic uint64_t *word, uint64_t n)
{
    atomic_fetch_add_explicit(word, n, memory_order_relaxed);
}

/* There are no workers yet: resize indexes for them. Context: outside a section. */
static void keep_up(void *arg, msec_t now)
{
    struct load *load = arg;
    struct engine *e = load->engine;

    if (load->is_beside || pthread_mutex_trylock(&load->upkeep) != 0) {
        return;
    }
    for (uint32_t i = 0; i < e->shard_count; i++) {
        if (shard_wants_work(e->shards[i])) {
            shard_maintain(e->shards[i], now, BUDGET_run_us);
        }
    }
    pthread_mutex_unlock(&load->upkeep);
}

static bool is_stopped(void *arg)
{
    const struct load *load = arg;

    return atomic_load_explicit(&load->is_to_stop, memory_order_relaxed) ||
           (load->is_beside &&
            atomic_load_explicit(&load->guard.is_void, memory_order_relaxed));
}

/* ---- blocks ------------------------------------------------------------------------------ */

static void on_block(void *arg, const struct snap_block *b)
{
    struct loader *l = loader_of(arg);

    apply_rest(&l->apply);
    count(&l->load->bytes, SNAP_BLOCK_BYTES + b->stored);
}

/*
 * A flush of the file that has come due since, or is pending; the earliest counts. When loading
 * beside requests, these may have scheduled another one.
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
            atomic_store_explicit(&load->counts.items, 0, memory_order_relaxed);
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
 * A flush in a log: one that took place here (0), or a future one that replaces the previous
 * future one. If its instant has passed by now, a later record of the log has it, or it came
 * due after the end of the log.
 */
static bool on_logged_flush(struct loader *l, int64_t at_unix_ms)
{
    l->load->flush_unix_ms = at_unix_ms != 0 ? at_unix_ms : INT64_MAX;
    return at_unix_ms != 0 || apply_flush(&l->apply);
}

/*
 * The flush record precedes all items. When loading beside requests the flush is passed to the
 * engine at once. What requests have stored until then is flushed together with what was
 * loaded.
 */
static bool on_flush(void *arg, int64_t at_unix_ms)
{
    struct loader *l = loader_of(arg);

    if (l->apply.mode == APPLY_STATES) {
        return on_logged_flush(l, at_unix_ms);
    }
    if (l->load->is_beside) {
        flush(l->load, at_unix_ms);
        return !is_stopped(l->load);
    }
    l->flush_at = at_unix_ms < l->flush_at ? at_unix_ms : l->flush_at;
    return true;
}

/* Only a log has it. */
static bool on_prefix(void *arg, struct span prefix)
{
    struct loader *l = loader_of(arg);

    return l->apply.mode != APPLY_STATES || apply_flush_prefix(&l->apply, prefix);
}

/* ---- threads ----------------------------------------------------------------------------- */

static void work(struct loader *l)
{
    struct scan_sink sink = apply_sink(&l->apply);

    sink.flush = on_flush;
    sink.prefix = on_prefix;
    sink.block = on_block;
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
    l->apply = (struct apply){
        .engine = load->engine,
        .counts = &load->counts,
        .marks_stale = load->marks_stale,
        .to_unix_ms = load->to_unix_ms,
        .dropped = load->chain != NULL ? &load->chain->set : NULL,
        .is_stopped = is_stopped,
        .keep_up = keep_up,
        .arg = load,
    };
    return snap_opener_init(&l->opener);
}

/*
 * Remaining lifetimes are counted from the present by the wall clock. If that is earlier than
 * the latest time in file and logs, they are counted from the latter: the clock was wrong then
 * or is wrong now, and no item may live longer than its remaining lifetime.
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
 * The engine draws cas values above all that were loaded, and above those of lost items, which
 * clients may still have.
 */
static void raise_cas(const struct load *load, uint64_t past)
{
    struct engine *e = load->engine;
    uint64_t drawn = engine_cas_past(clock_unix_ms(&e->clock) + load->behind_ms);

    engine_raise_cas(e, past > drawn ? past : drawn);
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
        cas_max = all[i].apply.cas_max > cas_max ? all[i].apply.cas_max : cas_max;
        snap_opener_fini(&all[i].opener);
    }
    if (!load->is_beside) {
        raise_cas(load, cas_max);
    }
    load->flush_unix_ms = flush_at;
    load->fault = scan.fault;
    enum load_end end = scan.is_whole                  ? LOAD_DONE
                        : scan.fault.kind != SNAP_FINE ? LOAD_BAD
                                                       : LOAD_STOPPED;
    if (load->is_beside && atomic_load_explicit(&load->guard.is_void, memory_order_relaxed)) {
        end = LOAD_FLUSHED;
    }
    scan_fini(&scan);
    mem_free(all);
    return end;
}

/* ---- logs -------------------------------------------------------------------------------- */

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
        l->apply.mode = APPLY_STATES;
        if (f->header.log > load->chain->last_keys) {
            l->apply.dropped = NULL;
        }
        work(l);
        snap_opener_fini(&l->opener);
        raise_cas(load, l->apply.cas_max);
        if (scan.fault.kind != SNAP_FINE) {
            end = snap_is_end_of_log(&scan.reader, &scan.fault) ? LOAD_DONE : LOAD_BAD;
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

        if (!keychain_path(c, n, path) || !load_open_any(&f, path, O_RDONLY)) {
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
 * Apply the logs to what was loaded, even if that is only the part before some damage. Unless
 * all logs are read, no item stays: it might be an older state.
 */
static enum load_end load_later(struct load *load, enum load_end end)
{
    const struct snap_fault fault = load->fault;
    enum load_end logs_end = load_logs(load);

    if (logs_end != LOAD_DONE) {
        msec_t now = clock_now(&load->engine->clock);

        atomic_store_explicit(&load->counts.items, 0, memory_order_relaxed);
        return engine_flush(load->engine, now, now, false) == OUT_OK ? logs_end
                                                                     : LOAD_NO_MEMORY;
    }
    load->fault = fault;
    return end;
}

enum load_end load_run(struct load *load)
{
    set_clock(load);
    pthread_mutex_init(&load->upkeep, NULL);
    load->flush_at = MSEC_NEVER;
    load->flush_unix_ms = INT64_MAX;
    enum load_end end = load_all(load);
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
