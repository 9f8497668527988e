/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeding a sink: see feed.h. The stream begins before the walk visits the first item, so a
 * change is either seen by the walk or has a record. No slot moves from before the stream
 * begins, so the record of a key is in the ring of the shard where the walk visits the key. An
 * overrun of the rings, or a flush while the stream begins, restarts both. Records of keys that
 * the walk has yet to visit are skipped, so an overrun needs changes that come faster than they
 * can be shipped.
 */
#include "lib/ship/feed.h"

#include <time.h>

#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/ship/stream.h"
#include "lib/ship/walk.h"

/*
 * While changes arrive, the thread polls the rings once a millisecond. After POLLS polls
 * without a change it sleeps until a writer wakes it.
 */
#define POLL_NS  1000000L
#define POLLS    16u
#define SLEEP_US ((usec_t)10000000)

struct feed {
    struct engine *engine;  /* [borrowed] */
    struct feed_config cfg; /* [const] */
    uint64_t ticket;        /* of its job in the feeder's queue */
    struct stream stream;
    struct walk walk; /* its ship callbacks are used for changes, too */
    unsigned polls;   /* since the last change was found */
    bool has_noted;   /* since the walk was over: see completes_often */
    /* [atomic] */
    _Atomic bool is_stopping;
    _Atomic bool is_walking;
    _Atomic bool is_complete; /* ops->complete() was called */
    _Atomic bool is_over;
    _Atomic uint64_t begun;
    _Atomic uint64_t overruns;
    _Atomic uint64_t left_out;
};

static bool is_stopping(const struct feed *f)
{
    return atomic_load_explicit(&f->is_stopping, memory_order_acquire);
}

static void set_walking(struct feed *f, bool is_walking)
{
    atomic_store_explicit(&f->is_walking, is_walking, memory_order_relaxed);
}

static bool is_walking(const struct feed *f)
{
    return atomic_load_explicit(&f->is_walking, memory_order_relaxed);
}

/*
 * Make the sink drop everything, and begin the walk. Returns false if the sink wants no more.
 */
static bool begin(struct feed *f)
{
    atomic_store_explicit(&f->is_complete, false, memory_order_relaxed);
    f->has_noted = false;
    if (!walk_begin(&f->walk, f->engine, f->cfg.ops, f->cfg.arg, &f->is_stopping)) {
        return false;
    }
    set_walking(f, true);
    if (!f->cfg.ops->begin(f->cfg.arg)) {
        return false;
    }
    stream_skip(&f->stream);
    atomic_fetch_add_explicit(&f->begun, 1, memory_order_relaxed);
    return true;
}

static bool is_complete(const struct feed *f)
{
    return atomic_load_explicit(&f->is_complete, memory_order_acquire);
}

static bool complete(struct feed *f)
{
    bool is_wanted = f->cfg.ops->complete(f->cfg.arg);

    atomic_store_explicit(&f->is_complete, true, memory_order_release);
    return is_wanted;
}

static void end_walk(struct feed *f)
{
    if (is_walking(f)) {
        set_walking(f, false);
        walk_end(&f->walk);
    }
}

static void sleep_a_little(struct feed *f)
{
    struct changes_bell *bell = &f->engine->bell;
    const struct timespec poll = {0, POLL_NS};

    if (f->polls < POLLS || stream_is_held(&f->stream) || f->cfg.completes_often) {
        f->polls++;
        (void)nanosleep(&poll, NULL);
        return;
    }

    uint32_t rings = bell_listen(bell);

    if (stream_lag(&f->stream) == 0 && !is_stopping(f)) {
        bell_sleep(bell, rings, SLEEP_US);
    }
    f->polls = 0;
}

static bool may_begin_again(struct feed *f, enum stream_state state)
{
    uint64_t overruns = atomic_load_explicit(&f->overruns, memory_order_relaxed);

    overruns += state == STREAM_OVERRUN;
    atomic_store_explicit(&f->overruns, overruns, memory_order_relaxed);
    return f->cfg.overruns_max == 0 || overruns < f->cfg.overruns_max;
}

/* Is complete() due? The walk is over, and earlier changes must have been shipped. */
static bool is_due(struct feed *f, enum stream_state state)
{
    if (!f->cfg.completes_often) {
        return state == STREAM_IDLE && !is_complete(f) && !stream_is_held(&f->stream);
    }
    if (!f->has_noted) {
        stream_note_written(&f->stream);
        f->has_noted = true;
        return false;
    }
    return stream_has_noted(&f->stream);
}

/* One round of both. False at the end. */
static bool feed_some(struct feed *f)
{
    enum stream_state state =
        stream_slice(&f->stream, &f->walk.ship, is_walking(f) ? &f->walk : NULL);

    atomic_store_explicit(&f->left_out, f->walk.ship.left_out, memory_order_relaxed);
    if (state == STREAM_REFUSED) {
        return false;
    }
    if (state == STREAM_OVERRUN || state == STREAM_FLUSHED) {
        end_walk(f);
        return may_begin_again(f, state) && begin(f);
    }
    /* What is stored after a flush is not shipped before it. */
    if (is_walking(f) && !stream_is_held(&f->stream)) {
        if (!walk_slice(&f->walk)) {
            end_walk(f);
        }
        return f->walk.state != WALK_REFUSED;
    }
    if (!is_walking(f) && is_due(f, state)) {
        if (!complete(f)) {
            return false;
        }
        f->has_noted = false;
    }
    if (state == STREAM_IDLE) {
        sleep_a_little(f);
    } else {
        f->polls = 0;
    }
    return true;
}

static void feed_run(void *arg)
{
    struct feed *f = arg;

    if (begin(f)) {
        while (!is_stopping(f) && feed_some(f)) {
        }
    }
    end_walk(f);
    atomic_store_explicit(&f->is_over, true, memory_order_release);
}

enum mf_err feed_start(struct feed **out, struct engine *e, const struct feed_config *cfg)
{
    struct feed *f = mem_zalloc(sizeof(*f));

    must_not_be_reading();
    *out = NULL;
    if (f == NULL) {
        return MF_ENOMEM;
    }
    f->engine = e;
    f->cfg = *cfg;
    if (stream_begin(&f->stream, e) != MF_OK) {
        mem_free(f);
        return MF_ENOMEM;
    }
    stream_record_expiries(&f->stream, !cfg->knows_expiry);
    f->ticket = standby_run(&e->feeder, feed_run, f);
    if (f->ticket == 0) {
        stream_end(&f->stream);
        mem_free(f);
        return MF_EBUSY;
    }
    *out = f;
    return MF_OK;
}

void feed_stop(struct feed **fp)
{
    struct feed *f = *fp;

    if (f == NULL) {
        return;
    }
    must_not_be_reading();
    atomic_store_explicit(&f->is_stopping, true, memory_order_release);
    bell_ring(&f->engine->bell);
    standby_wait(&f->engine->feeder, f->ticket);
    stream_end(&f->stream);
    mem_free(f);
    *fp = NULL;
}

static uint64_t read_count(const _Atomic uint64_t *n)
{
    return atomic_load_explicit(n, memory_order_relaxed);
}

void feed_info(const struct feed *f, struct feed_info *info)
{
    uint64_t lag = stream_lag(&f->stream); /* before whether it is complete */

    *info = (struct feed_info){
        .is_walking = is_walking(f),
        .is_complete = is_complete(f),
        .is_over = atomic_load_explicit(&f->is_over, memory_order_acquire),
        .keys_shipped = read_count(&f->walk.shipped),
        .keys_all = read_count(&f->walk.total),
        .records = read_count(&f->stream.records),
        .records_shipped = read_count(&f->stream.shipped),
        .lag_bytes = lag,
        .begun = read_count(&f->begun),
        .overruns = read_count(&f->overruns),
        .left_out = read_count(&f->left_out),
    };
}
