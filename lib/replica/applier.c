/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applying the stream, on the replica: see applier.h.
 *
 * A block is applied before it is appended to the backlog, so replicas of this server never
 * have changes that this server lacks. If the process ends in between, or in the middle of a
 * block, the block is applied again. That does no harm, because its items are states.
 */
#include "lib/replica/applier.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/engine/engine.h"

/* A full sync as it is read. */
struct applier_input {
    snap_read_fn read;
    void *arg;
    uint64_t total;
    bool is_ended;
};

/* No server has been promoted as often. */
#define EPOCH_MAX ((uint64_t)1 << 62)

struct applier {
    struct applier_config cfg; /* [const] */
    struct apply apply;
    struct scan_sink sink;
    struct scan_value value; /* the one in parts that is under way */
    uint64_t value_from;     /* where it begins */
    struct snap_opener opener;
    struct replid id; /* of the history */
    char *room;       /* the first bytes of the next block */
    size_t have;
    const char *block; /* the whole block that is read, at the offset */
    size_t block_len;
    bool has_failed; /* a flush has failed */
    /* [atomic] */
    _Atomic uint64_t offset;
    _Atomic uint64_t mark;
    _Atomic int64_t to_unix_ms;
    _Atomic uint64_t cas_max;
    struct apply_counts counts;
};

static bool is_stopped(void *arg)
{
    const struct applier *a = arg;

    return a->cfg.is_stopped(a->cfg.arg);
}

/* The applier of a sink, whose argument is the struct apply. */
static struct applier *applier_of(void *arg)
{
    return ((struct apply *)arg)->arg;
}

/* Note whether a flush failed. */
static bool note_flush(struct applier *a, bool is_good)
{
    a->has_failed = !is_good && !is_stopped(a);
    if (is_good && a->cfg.flushed != NULL && !replid_is_none(&a->id)) {
        a->cfg.flushed(a->cfg.arg);
    }
    return is_good;
}

static bool on_flush(void *arg, int64_t at_unix_ms)
{
    struct applier *a = applier_of(arg);

    return note_flush(a, apply_flush_at(&a->apply, at_unix_ms));
}

static bool on_prefix(void *arg, struct span prefix)
{
    struct applier *a = applier_of(arg);

    return note_flush(a, apply_flush_prefix(&a->apply, prefix));
}

/* ---- make and release -------------------------------------------------------------------- */

struct applier *applier_create(const struct applier_config *cfg)
{
    struct applier *a = mem_zalloc(sizeof(*a));
    struct backlog_name name;

    if (a == NULL) {
        return NULL;
    }
    a->room = mem_alloc(SNAP_ROOM_BYTES);
    if (a->room == NULL || !snap_opener_init(&a->opener)) {
        mem_free(a->room);
        mem_free(a);
        return NULL;
    }
    a->cfg = *cfg;
    a->apply = (struct apply){.engine = cfg->engine,
                              .keeps_use = true,
                              .counts = &a->counts,
                              .mode = APPLY_FOLLOWS,
                              .is_stopped = is_stopped,
                              .arg = a};
    a->sink = apply_sink(&a->apply);
    a->sink.flush = on_flush;
    a->sink.prefix = on_prefix;
    backlog_get_name(cfg->backlog, &name);
    a->id = name.id;
    atomic_store_explicit(&a->offset, name.offset, memory_order_relaxed);
    atomic_store_explicit(&a->mark, name.offset, memory_order_relaxed);
    budget_add(&cfg->engine->budget, APPLIER_BYTES);
    return a;
}

void applier_destroy(struct applier **ap)
{
    struct applier *a = *ap;

    if (a != NULL) {
        scan_value_drop(&a->value, &a->sink);
        budget_add(&a->cfg.engine->budget, -APPLIER_BYTES);
        snap_opener_fini(&a->opener);
        mem_free(a->room);
        mem_free(a);
        *ap = NULL;
    }
}

/* ---- blocks ------------------------------------------------------------------------------ */

static void set_offset(struct applier *a, uint64_t offset)
{
    atomic_store_explicit(&a->offset, offset, memory_order_release);
    if (!a->value.is_open) {
        atomic_store_explicit(&a->mark, offset, memory_order_release);
    }
}

uint64_t applier_mark(const struct applier *a)
{
    return atomic_load_explicit(&a->mark, memory_order_acquire);
}

uint64_t applier_offset(const struct applier *a)
{
    return atomic_load_explicit(&a->offset, memory_order_acquire);
}

/* Before a block: set the offset by which its times are converted. */
static void begin_block(struct applier *a)
{
    a->apply.to_unix_ms = atomic_load_explicit(&a->to_unix_ms, memory_order_relaxed);
}

/* Give an opened block to the engine. */
static enum applier_result give(struct applier *a, const struct snap_block *b,
                                struct span content, struct snap_fault *fault)
{
    enum scan_given given = scan_give(&a->value, b, content, &a->sink, fault);

    apply_rest(&a->apply);
    atomic_store_explicit(&a->cas_max, a->apply.cas_max, memory_order_relaxed);
    if (given == SCAN_GIVEN) {
        return APPLIER_OK;
    }
    return given == SCAN_BAD ? APPLIER_BAD
           : a->has_failed   ? APPLIER_NO_MEMORY
                             : APPLIER_STOPPED;
}

/* ---- a full sync ------------------------------------------------------------------------- */

enum applier_result applier_begin_full(struct applier *a)
{
    const struct replid none = {{0}};
    struct backlog_name name;

    must_not_be_reading();
    applier_leave(a);
    backlog_get_name(a->cfg.backlog, &name);
    name = (struct backlog_name){.epoch = name.epoch};
    backlog_take_over(a->cfg.backlog, &name);
    a->id = none;
    set_offset(a, 0);
    return apply_flush(&a->apply) ? APPLIER_OK : APPLIER_NO_MEMORY;
}

/* A snap_read_fn. The end is reached once, but read twice. */
static ssize_t read_incoming(void *arg, void *out, size_t n, uint64_t offset)
{
    struct applier_input *in = arg;
    ssize_t got = 0;

    if (offset != in->total) {
        return -EINVAL; /* where it reads follows from lengths that the primary sends */
    }
    if (!in->is_ended) {
        got = in->read(in->arg, out, n, offset);
    }
    in->is_ended = in->is_ended || got <= 0;
    in->total += got > 0 ? (uint64_t)got : 0;
    return got;
}

/* The reason why there is no next block. */
static enum applier_result judge_end(const struct applier *a, const struct applier_input *in,
                                     const struct snap_reader *r,
                                     const struct snap_fault *fault)
{
    switch (fault->kind) {
    case SNAP_FAULT_CUT:
        return in->total == r->offset && !a->value.is_open ? APPLIER_OK : APPLIER_CUT;
    case SNAP_FAULT_READ:
    case SNAP_FAULT_EMPTY:
    case SNAP_FAULT_SHORT:
        return APPLIER_CUT;
    default:
        return APPLIER_BAD;
    }
}

/* Read and apply the next block. *is_over: there is none. */
static enum applier_result run_block(struct applier *a, struct snap_reader *r,
                                     const struct applier_input *in, bool *is_over,
                                     struct snap_fault *fault)
{
    struct span content;
    struct snap_block b;

    if (snap_reader_next(r, &b, fault) != SNAP_NEXT_BLOCK) {
        *is_over = true;
        return judge_end(a, in, r, fault);
    }
    if (!scan_value_goes_on(&a->value, &b)) {
        *fault = snap_fault_at(&b, SNAP_FAULT_VALUE);
        return APPLIER_BAD;
    }
    if (!snap_block_open(r, &b, &a->opener, &content, fault)) {
        return fault->kind == SNAP_FAULT_READ || fault->kind == SNAP_FAULT_CUT ? APPLIER_CUT
                                                                               : APPLIER_BAD;
    }
    begin_block(a);
    return give(a, &b, content, fault);
}

enum applier_result applier_run_full(struct applier *a, snap_read_fn read, void *arg,
                                     struct snap_fault *fault)
{
    struct applier_input in = {.read = read, .arg = arg};
    enum applier_result result = APPLIER_OK;
    struct snap_reader r;
    bool is_over = false;

    must_not_be_reading();
    must(replid_is_none(&a->id));
    if (!snap_reader_begin(&r, read_incoming, &in, fault)) {
        return judge_end(a, &in, &r, fault);
    }
    if ((r.header.flags & SNAP_IS_LOG) == 0) {
        *fault = (struct snap_fault){.kind = SNAP_FAULT_HEADER};
        return APPLIER_BAD;
    }
    while (result == APPLIER_OK && !is_over) {
        result = is_stopped(a) ? APPLIER_STOPPED : run_block(a, &r, &in, &is_over, fault);
    }
    scan_value_cut(&a->value, &a->sink);
    return result;
}

void applier_end_full(struct applier *a, const struct backlog_name *name)
{
    must(!replid_is_none(&name->id));
    backlog_take_over(a->cfg.backlog, name);
    a->id = name->id;
    a->have = 0;
    set_offset(a, name->offset);
}

/* ---- the stream -------------------------------------------------------------------------- */

/* snap_read_fn, of the block that is read. */
static ssize_t read_block(void *arg, void *out, size_t n, uint64_t offset)
{
    const struct applier *a = arg;
    uint64_t at = offset - applier_offset(a);

    if (at >= a->block_len) {
        return 0;
    }
    n = n < a->block_len - at ? n : a->block_len - at;
    memcpy(out, a->block + at, n);
    return (ssize_t)n;
}

/* Open and apply a block with a valid header and length. */
static enum applier_result apply_block(struct applier *a, struct snap_block *b)
{
    uint64_t offset = applier_offset(a);
    struct snap_fault fault;
    struct snap_reader r;
    struct span content;
    struct replid next;
    uint64_t epoch;

    frame_reader_begin(&r, read_block, a, offset);
    r.is_in_value = a->value.is_open;
    if (frame_reader_next(&r, &a->id, b, &fault) != SNAP_NEXT_BLOCK ||
        !snap_block_open(&r, b, &a->opener, &content, &fault)) {
        return APPLIER_BAD;
    }
    begin_block(a);
    if (b->kind == FRAME_ID) {
        /* The backlog parses the stored bytes once more. */
        if (b->stored != FRAME_ID_BYTES || b->raw != FRAME_ID_BYTES ||
            (b->flags & SNAP_PACKED) != 0 || !frame_id_of(content, &next, &epoch) ||
            epoch == 0 || epoch >= EPOCH_MAX) {
            return APPLIER_BAD;
        }
        scan_value_cut(&a->value, &a->sink);
        return APPLIER_OK;
    }
    if (!a->value.is_open) {
        a->value_from = offset;
    }
    return give(a, b, content, &fault);
}

/* Apply the next block, which has arrived completely. */
static enum applier_result take_block(struct applier *a, const char *block, size_t n)
{
    struct backlog *backlog = a->cfg.backlog;
    struct backlog_name name;
    struct snap_block b;

    a->block = block;
    a->block_len = n;
    enum applier_result result = apply_block(a, &b);
    if (result != APPLIER_OK) {
        return result;
    }
    if (!backlog_append_copy(backlog, block, n)) {
        return APPLIER_BAD;
    }
    if (b.kind == FRAME_ID) {
        backlog_get_name(backlog, &name);
        a->id = name.id;
        if (a->cfg.renamed != NULL) {
            a->cfg.renamed(a->cfg.arg, &name);
        }
    }
    set_offset(a, applier_offset(a) + n);
    return APPLIER_OK;
}

/* Gather the first `wanted` bytes of the next block in the room, as far as they have come. */
static bool gather(struct applier *a, size_t wanted, const char **bytes, size_t *n)
{
    size_t part = wanted > a->have ? wanted - a->have : 0;

    part = part < *n ? part : *n;
    memcpy(a->room + a->have, *bytes, part);
    a->have += part;
    *bytes += part;
    *n -= part;
    return a->have >= wanted;
}

/* The next block, if it has come. *is_more: perhaps another has, too. */
static enum applier_result take_next(struct applier *a, const char **bytes, size_t *n,
                                     bool *is_more)
{
    uint64_t offset = applier_offset(a);
    enum applier_result result;
    size_t length;

    *is_more = false;
    if (a->have == 0 && *n >= SNAP_BLOCK_BYTES) {
        length = frame_length(*bytes, offset);
        if (length == 0) {
            return APPLIER_BAD;
        }
        if (length <= *n) {
            result = take_block(a, *bytes, length);
            *bytes += length;
            *n -= length;
            *is_more = *n != 0;
            return result;
        }
    }
    if (!gather(a, SNAP_BLOCK_BYTES, bytes, n)) {
        return APPLIER_OK;
    }
    length = frame_length(a->room, offset);
    if (length == 0) {
        return APPLIER_BAD;
    }
    if (!gather(a, length, bytes, n)) {
        return APPLIER_OK;
    }
    result = take_block(a, a->room, length);
    a->have = 0;
    *is_more = *n != 0;
    return result;
}

enum applier_result applier_take(struct applier *a, const char *bytes, size_t n)
{
    enum applier_result result = APPLIER_OK;
    bool is_more = n != 0;

    must_not_be_reading();
    must(!replid_is_none(&a->id));
    while (result == APPLIER_OK && is_more) {
        result = is_stopped(a) ? APPLIER_STOPPED : take_next(a, &bytes, &n, &is_more);
    }
    if (result != APPLIER_OK) {
        applier_cut(a);
    }
    return result;
}

void applier_cut(struct applier *a)
{
    a->have = 0;
}

void applier_get_name(struct applier *a, struct backlog_name *name)
{
    backlog_get_name(a->cfg.backlog, name);
    if (a->value.is_open) {
        name->offset = a->value_from;
    }
}

void applier_leave(struct applier *a)
{
    applier_cut(a);
    scan_value_cut(&a->value, &a->sink);
}

/* ---- outside the stream ------------------------------------------------------------------ */

void applier_set_scale(struct applier *a, int64_t to_unix_ms)
{
    atomic_store_explicit(&a->to_unix_ms, to_unix_ms, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *n)
{
    return atomic_load_explicit(n, memory_order_relaxed);
}

void applier_counts(const struct applier *a, struct apply_counts *counts)
{
    *counts = (struct apply_counts){.items = get(&a->counts.items),
                                    .states = get(&a->counts.states),
                                    .expired = get(&a->counts.expired),
                                    .refused = get(&a->counts.refused),
                                    .changed = get(&a->counts.changed)};
}

uint64_t applier_cas_max(const struct applier *a)
{
    return get(&a->cas_max);
}

const char *applier_result_text(enum applier_result result)
{
    static const char *const texts[] = {
        [APPLIER_OK] = "applied",
        [APPLIER_BAD] = "what came is damaged",
        [APPLIER_CUT] = "the full sync ended too early",
        [APPLIER_STOPPED] = "stopped",
        [APPLIER_NO_MEMORY] = "out of memory",
    };

    return texts[result];
}
