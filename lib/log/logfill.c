/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of a log: see logfill.h.
 *
 * A thread must not wait within a section. So before items are shipped, on_rest() waits until
 * there is a free buffer in addition to the one being filled. All items shipped between two
 * calls of on_rest() fit into the rest of the current buffer and the free one.
 */
#include "lib/log/logfill.h"

#include <limits.h>

#include "lib/base/check.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/engine/engine.h"

#define LATELY (1u << 13)

#define ROOMS_BYTES (2 * MEM_HUGE_BYTES)

_Static_assert(LOGFILL_BLOCKS *LOGFILE_ROOM_BYTES <= ROOMS_BYTES, "there is room for all");
_Static_assert(LOGFILL_GATHER <= LOGFILL_BLOCKS - 2, "the reader waits for no more than these");

/* The offset of the two clocks is measured; it is wrong by less than a millisecond. */
#define OFFSET_ERROR_MS 1

static int64_t unix_now(const struct logfill *f)
{
    return clock_unix_ms(&f->engine->clock);
}

static void note_filled(struct logfill *f)
{
    atomic_store_explicit(&f->filled, f->handed + f->filler.used, memory_order_relaxed);
}

/* Wait until `free` buffers after the current one are free. */
static void wait_free(struct logfill *f, unsigned free)
{
    while (logfill_put(f) + free - logfill_taken(f) >= LOGFILL_BLOCKS) {
        f->wait(f->arg);
    }
}

/* snap_take_fn */
static char *on_block(void *arg, const struct snap_block *b, bool is_more)
{
    struct logfill *f = arg;
    struct logfile_block *block = &f->blocks[handoff_next(&f->full)];

    block->b = *b;
    block->is_more = is_more;
    f->handed += b->stored;
    must(handoff_give(&f->full));
    wait_free(f, 0);
    return f->blocks[handoff_next(&f->full)].bytes;
}

/* ---- expired items ----------------------------------------------------------------------- */

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Bytes put until now, including those of an unfinished block. */
static uint64_t put_so_far(const struct logfill *f)
{
    return f->handed + f->filler.used;
}

/* Note by which offsets deadlines were written until now. */
static void note_offsets(struct logfill *f)
{
    uint64_t bases = atomic_load_explicit(&f->bases, memory_order_acquire);
    uint64_t generation = atomic_load_explicit(&f->generation, memory_order_acquire);
    int64_t last = put_so_far(f) != f->put_before ? f->shipping.to_unix_ms : INT64_MIN;

    f->put_before = put_so_far(f);
    if (generation != f->offset_of) { /* a log began, perhaps within the last pass */
        f->offset_next = last;
        f->offset_of = generation;
    }
    f->offset_next = greater(f->offset_next, last);
    f->offset_max = greater(f->offset_max, last);
    if (bases != f->bases_seen) {
        f->offset_max = greater(atomic_load_explicit(&f->base_offset_ms, memory_order_relaxed),
                                f->offset_next);
        f->bases_seen = bases;
    }
}

/*
 * Start a pass, and decide whether a DUE block covers expired items, so that they need no
 * records. They need records while files have deadlines by a wall clock that was ahead of the
 * present one.
 */
static void begin_pass(struct logfill *f)
{
    const struct clock *clock = &f->engine->clock;

    note_offsets(f);
    f->shipping.to_unix_ms = clock_unix_offset_ms(clock);
    stream_record_expiries(&f->stream,
                           f->shipping.to_unix_ms + OFFSET_ERROR_MS < f->offset_max);
    f->expired = stream_expired(&f->stream);
    if (logfill_owes_due(f)) {
        f->due_gone = stream_due_gone(&f->stream, clock_now(clock));
    }
    f->unix_ms = unix_now(f);
}

void logfill_put_due(struct logfill *f, bool in_haste)
{
    int64_t offset = greater(f->offset_max, f->shipping.to_unix_ms);
    int64_t mono_ms = clock_mono_ms();

    if (f->expired == atomic_load_explicit(&f->expired_put, memory_order_relaxed) ||
        (!in_haste && mono_ms - f->due_put_ms < LOGFILL_DUE_MS)) {
        return;
    }
    logfill_send(f);
    /* Use the greatest offset: since the clock was set back, some may have had no record. */
    int64_t now = clock_add_ms(clock_now(&f->engine->clock), offset);
    snap_put_due(&f->filler, clock_add_ms(f->due_gone, offset), greater(now, unix_now(f)));
    note_filled(f);
    atomic_store_explicit(&f->expired_put, f->expired, memory_order_release);
    f->due_put_ms = mono_ms;
}

bool logfill_owes_due(const struct logfill *f)
{
    return stream_expired(&f->stream) !=
           atomic_load_explicit(&f->expired_put, memory_order_acquire);
}

/* ---- keys -------------------------------------------------------------------------------- */

static void forget_lately(struct logfill *f, uint64_t generation)
{
    /* 0 marks an empty slot; a key with hash 0 is put each time. */
    for (unsigned i = 0; i < LATELY; i++) {
        f->lately[i] = 0;
    }
    f->lately_of = generation;
}

static void on_key(void *arg, const char *key, size_t key_len)
{
    struct logfill *f = arg;
    uint64_t chain = atomic_load_explicit(&f->chain, memory_order_acquire);
    uint64_t hash = hash_key(chain, key, key_len);
    uint64_t generation = atomic_load_explicit(&f->generation, memory_order_acquire);
    uint64_t *seen = &f->lately[hash % LATELY];

    /* Checked for each key: after a rotation a key must be put again. */
    if (MF_UNLIKELY(generation != f->lately_of)) {
        forget_lately(f, generation);
    }
    if (*seen == hash && hash != 0) {
        return;
    }
    *seen = hash;
    snap_put_key(&f->filler, hash, f->unix_ms);
    note_filled(f);
}

enum stream_state logfill_keys(struct logfill *f)
{
    begin_pass(f);
    if (!f->filler.has_keys) {
        logfill_send(f);
    }
    return stream_keys(&f->stream, UINT_MAX, on_key, f);
}

/* ---- states ------------------------------------------------------------------------------ */

static bool on_rest(void *arg)
{
    wait_free(arg, 1);
    return true;
}

static void on_put(void *arg)
{
    note_filled(arg);
}

enum stream_state logfill_states(struct logfill *f)
{
    if (f->filler.has_keys) {
        logfill_send(f);
    }
    begin_pass(f);
    f->shipping.now_s = (uint32_t)(clock_now(&f->engine->clock) / 1000);
    ship_rest(&f->ship);
    return stream_pass(&f->stream, &f->ship);
}

void logfill_send(struct logfill *f)
{
    snap_encoder_send(&f->filler, unix_now(f));
}

/* ---- begin and end ----------------------------------------------------------------------- */

bool logfill_init(struct logfill *f, struct engine *e, void (*wake)(void *arg),
                  void (*wait)(void *arg), void *arg)
{
    *f = (struct logfill){.engine = e, .wait = wait, .arg = arg};
    handoff_init(&f->full, LOGFILL_BLOCKS, wake, arg);
    f->rooms = mem_map(ROOMS_BYTES, MEM_PAGES_HUGE);
    f->lately = mem_zalloc(LATELY * sizeof(*f->lately));
    if (f->rooms == NULL || f->lately == NULL) {
        return false;
    }
    for (unsigned i = 0; i < LOGFILL_BLOCKS; i++) {
        f->blocks[i].bytes = f->rooms + i * LOGFILE_ROOM_BYTES;
    }
    f->shipping = (struct shipping){.encoder = &f->filler,
                                    .engine = e,
                                    .ship = &f->ship,
                                    .rest = on_rest,
                                    .put = on_put,
                                    .arg = f};
    return true;
}

void logfill_fini(struct logfill *f)
{
    handoff_fini(&f->full);
    if (f->rooms != NULL) {
        mem_unmap(f->rooms, ROOMS_BYTES);
    }
    mem_free(f->lately);
}

enum mf_err logfill_begin(struct logfill *f)
{
    enum mf_err err = stream_begin(&f->stream, f->engine);

    if (err == MF_OK) {
        /* A block that was begun earlier and not sent belongs to no log. */
        snap_filler_begin(&f->filler, on_block, f, f->blocks[handoff_next(&f->full)].bytes);
        f->put_before = put_so_far(f);
        atomic_store_explicit(&f->expired_put, 0, memory_order_relaxed);
        wait_free(f, 0);
        note_filled(f);
        ship_init(&f->ship, &shipping_ops, &f->shipping);
    }
    return err;
}

void logfill_end(struct logfill *f)
{
    stream_end(&f->stream);
}

/* ---- the writer -------------------------------------------------------------------------- */

static struct logfile_block *oldest(struct logfill *f)
{
    return &f->blocks[logfill_taken(f) % LOGFILL_BLOCKS];
}

struct logfile_block *logfill_next(struct logfill *f)
{
    return handoff_is_idle(&f->full) ? NULL : oldest(f);
}

unsigned logfill_ready(const struct logfill *f)
{
    const uint64_t taken = logfill_taken(f);
    const unsigned waiting = (unsigned)(logfill_put(f) - taken);
    const unsigned to_end = (unsigned)(LOGFILL_BLOCKS - taken % LOGFILL_BLOCKS);

    return waiting < to_end ? waiting : to_end;
}

void logfill_took(struct logfill *f)
{
    uint64_t written = atomic_load_explicit(&f->written, memory_order_relaxed);

    atomic_store_explicit(&f->written, written + oldest(f)->b.stored, memory_order_release);
    handoff_done(&f->full, 0);
}

void logfill_rotate(struct logfill *f, uint64_t chain)
{
    atomic_store(&f->chain, chain);
    atomic_fetch_add(&f->generation, 1);
}

void logfill_base(struct logfill *f, int64_t offset_ms)
{
    atomic_store_explicit(&f->base_offset_ms, offset_ms, memory_order_relaxed);
    atomic_fetch_add_explicit(&f->bases, 1, memory_order_release);
}

uint64_t logfill_waiting(const struct logfill *f)
{
    uint64_t written = atomic_load_explicit(&f->written, memory_order_acquire);

    return atomic_load_explicit(&f->filled, memory_order_relaxed) - written;
}
