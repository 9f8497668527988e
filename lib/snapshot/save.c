/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saving an engine to a file: see save.h. The walk (lib/ship/walk.h) hands over at most what
 * fits a block, in a section; the block is written after it. So a save needs a block's memory,
 * two if it packs, and a slow disk holds nothing up but the save.
 */
#include "lib/snapshot/save.h"

#include <time.h>

#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/engine/flush.h"
#include "lib/format/encode.h"
#include "lib/format/newfile.h"
#include "lib/format/shipping.h"
#include "lib/ship/walk.h"
#include "lib/snapshot/behind.h"

struct saver {
    struct save *save;
    struct newfile file; /* unless save->write is set */
    uint64_t bytes;      /* written */
    bool is_broken;      /* a write has failed */
    struct snap_encoder encoder;
    struct walk walk;
    struct shipping shipping;
    struct rate rate;
    msec_t flush_at; /* the one that is in the file; MSEC_NEVER: none */
};

static bool write_bytes(void *arg, const void *bytes, size_t n)
{
    struct saver *s = arg;
    const struct save *save = s->save;

    if (save->write != NULL) {
        s->is_broken |= !save->write(save->write_arg, bytes, n);
    } else if (save->behind != NULL) {
        s->is_broken |= !behind_write(save->behind, bytes, n);
    } else {
        s->is_broken |= !newfile_write(&s->file, bytes, n);
    }
    s->bytes += s->is_broken ? 0 : n;
    atomic_store_explicit(&s->save->bytes, s->bytes, memory_order_relaxed);
    return !s->is_broken;
}

static int64_t unix_now(const struct saver *s)
{
    return clock_unix_ms(&s->save->engine->clock);
}

/* ---- what the walk hands over ------------------------------------------------------------ */

static bool is_void(const struct saver *s)
{
    return walk_was_flushed(&s->walk) ||
           (s->save->is_void != NULL && s->save->is_void(s->save->arg));
}

/* struct shipping. A block is empty when a value in parts begins: the walk rests before. */
static bool on_rest(void *arg)
{
    struct saver *s = arg;

    if (!s->shipping.is_in_value) {
        snap_encoder_send(&s->encoder, unix_now(s));
    }
    atomic_store_explicit(&s->save->items,
                          atomic_load_explicit(&s->walk.shipped, memory_order_relaxed),
                          memory_order_relaxed);
    rate_keep(&s->rate, s->bytes, &s->save->rate_max, &s->save->is_to_stop);
    return !s->is_broken && !is_void(s) &&
           !atomic_load_explicit(&s->save->is_to_stop, memory_order_relaxed);
}

/* ---- one file ---------------------------------------------------------------------------- */

/*
 * A pending flush_all is saved, so that it happens to the loaded items too. It precedes all
 * items, so that it survives if the end of the file is lost. It is repeated after them if the
 * pending flush has changed by then.
 */
static void put_flush(struct saver *s)
{
    msec_t at = engine_flush_to_come(s->save->engine);

    if (at != MSEC_NEVER && at != s->flush_at) {
        snap_put_flush(&s->encoder, clock_add_ms(at, s->shipping.to_unix_ms), unix_now(s));
    }
    s->flush_at = at;
}

static enum save_end why(const struct saver *s)
{
    if (s->is_broken) {
        return SAVE_FAILED;
    }
    return is_void(s) ? SAVE_FLUSHED : SAVE_STOPPED;
}

/* The walk is begun, the file is open, the encoder is ready. */
static enum save_end write_all(struct saver *s)
{
    put_flush(s);
    while (walk_slice(&s->walk)) {
    }
    atomic_store_explicit(&s->save->expired,
                          atomic_load_explicit(&s->walk.expired, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&s->save->left_out, s->walk.ship.left_out, memory_order_relaxed);
    if (s->walk.state != WALK_DONE) {
        return why(s);
    }
    put_flush(s);
    return !snap_encoder_end(&s->encoder, unix_now(s)) || is_void(s) ? why(s) : SAVE_DONE;
}

static enum save_end write_file(struct saver *s)
{
    struct save *save = s->save;
    struct snap_header h = {
        .unix_ms = save->unix_ms,
        .flags = save->flags,
        .chain = save->chain,
        .log = save->log,
        .items = atomic_load_explicit(&s->walk.total, memory_order_relaxed),
        .bytes = engine_counter(save->engine, CTR_item_bytes),
    };

    if (!snap_encoder_begin(&s->encoder, write_bytes, s, &h, save->is_packed)) {
        return s->is_broken ? SAVE_FAILED : SAVE_NO_MEMORY;
    }
    enum save_end end = write_all(s);
    snap_encoder_fini(&s->encoder);
    return end;
}

/* The file is complete: replace the old one. */
static enum save_end commit(struct saver *s)
{
    const struct save *save = s->save;

    if (!newfile_sync(&s->file)) {
        return SAVE_FAILED;
    }
    if (save->before_naming != NULL && !save->before_naming(save->arg)) {
        return SAVE_FLUSHED;
    }
    bool is_named = newfile_name(&s->file);
    if (save->after_naming != NULL) {
        save->after_naming(save->arg, is_named);
    }
    return is_named ? SAVE_DONE : SAVE_FAILED;
}

/*
 * Begin the file and start the thread that writes it. Returns false and sets save->error on
 * failure.
 */
static bool begin_file(struct saver *s)
{
    struct save *save = s->save;

    if (!newfile_begin(&s->file, save->io, save->dir, save->name)) {
        save->error = s->file.error;
        return false;
    }
    if (save->is_direct) {
        newfile_go_direct(&s->file);
    }
    if (save->behind != NULL) {
        behind_begin(save->behind, &s->file);
    }
    return true;
}

static enum save_end end_file(struct saver *s, enum save_end end)
{
    struct save *save = s->save;

    if (save->behind != NULL && !behind_end(save->behind) && end == SAVE_DONE) {
        end = SAVE_FAILED;
    }
    if (end == SAVE_DONE) {
        end = commit(s);
    }
    newfile_end(&s->file);
    save->error = s->file.error;
    return end;
}

enum save_end save_run(struct save *save)
{
    struct saver s = {.save = save, .flush_at = MSEC_NEVER};

    must_not_be_reading();
    save->error = 0;
    save->unix_ms = clock_unix_ms(&save->engine->clock);
    save->to_unix_ms = clock_unix_offset_ms(&save->engine->clock);
    atomic_store_explicit(&save->items, 0, memory_order_relaxed);
    atomic_store_explicit(&save->bytes, 0, memory_order_relaxed);
    s.shipping = (struct shipping){
        .encoder = &s.encoder,
        .engine = save->engine,
        .to_unix_ms = save->to_unix_ms,
        .rest = on_rest,
        .arg = &s,
    };
    if (save->write == NULL && !begin_file(&s)) {
        return SAVE_FAILED;
    }
    enum save_end end = SAVE_STOPPED;
    if (walk_begin(&s.walk, save->engine, &shipping_ops, &s.shipping, &save->is_to_stop)) {
        atomic_store_explicit(&save->items_total,
                              atomic_load_explicit(&s.walk.total, memory_order_relaxed),
                              memory_order_relaxed);
        end = write_file(&s);
        walk_end(&s.walk);
    }
    return save->write == NULL ? end_file(&s, end) : end;
}

/* ---- writing no faster than somebody allows ---------------------------------------------- */

void rate_keep(struct rate *r, uint64_t bytes, const _Atomic uint64_t *rate_max,
               const _Atomic bool *is_to_stop)
{
    const struct timespec step = {.tv_nsec = 10 * 1000 * 1000};

    must_not_be_reading();
    for (;;) {
        const uint64_t rate = atomic_load_explicit(rate_max, memory_order_relaxed);

        if (rate != r->per_second) {
            *r = (struct rate){.per_second = rate, .since_us = clock_mono_us(), .from = bytes};
        }
        if (rate == 0 || atomic_load_explicit(is_to_stop, memory_order_relaxed) ||
            (double)(bytes - r->from) <=
                (double)(clock_mono_us() - r->since_us) * (double)rate / 1e6) {
            return;
        }
        nanosleep(&step, NULL);
    }
}
