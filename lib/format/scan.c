/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a whole file, block by block: see scan.h.
 */
#include "lib/format/scan.h"

bool scan_init(struct scan *s, snap_read_fn read, void *arg)
{
    *s = (struct scan){.fault = {.kind = SNAP_FINE}};
    pthread_mutex_init(&s->mutex, NULL);
    return snap_reader_begin(&s->reader, read, arg, &s->fault);
}

void scan_fini(struct scan *s)
{
    pthread_mutex_destroy(&s->mutex);
}

static void end(struct scan *s)
{
    atomic_store_explicit(&s->is_over, true, memory_order_relaxed);
}

/* Under the mutex. */
static void note_fault(struct scan *s, const struct snap_fault *fault)
{
    if (s->fault.kind == SNAP_FINE || fault->block < s->fault.block) {
        s->fault = *fault;
    }
    end(s);
}

/* ---- one block --------------------------------------------------------------------------- */

static enum scan_given bad(const struct snap_block *b, enum snap_fault_kind kind,
                           struct snap_fault *fault)
{
    *fault = snap_fault_at(b, kind);
    return SCAN_BAD;
}

static enum scan_given given(bool goes_on)
{
    return goes_on ? SCAN_GIVEN : SCAN_ENOUGH;
}

static enum scan_given give_items(const struct snap_block *b, struct span content,
                                  const struct scan_sink *sink, struct snap_fault *fault)
{
    struct snap_cursor c = snap_cursor_of(b, content);
    struct snap_item it;

    while (snap_cursor_next(&c, &it)) {
        if (!sink->item(sink->arg, b, &it)) {
            return SCAN_ENOUGH;
        }
    }
    return snap_cursor_is_good(&c) ? SCAN_GIVEN : bad(b, SNAP_FAULT_CONTENT, fault);
}

void scan_value_drop(struct scan_value *v, const struct scan_sink *sink)
{
    if (v->is_open) {
        *v = (struct scan_value){0};
        sink->value_drop(sink->arg);
    }
}

void scan_value_cut(struct scan_value *v, const struct scan_sink *sink)
{
    if (v->is_open && sink->value_cut != NULL) {
        *v = (struct scan_value){0};
        sink->value_cut(sink->arg);
    }
    scan_value_drop(v, sink);
}

/* A part that continues a value. */
static enum scan_given give_part(struct scan_value *v, const struct snap_block *b,
                                 struct span content, const struct scan_sink *sink,
                                 struct snap_fault *fault)
{
    struct snap_item it;
    struct span bytes;
    bool goes_on = true;
    uint32_t at;

    if (!snap_part_of(b, content, &at, &it, &bytes)) {
        return bad(b, SNAP_FAULT_CONTENT, fault);
    }
    if (at == SNAP_PART_CUT && v->at != 0 && bytes.len == 0) {
        scan_value_cut(v, sink);
        return SCAN_GIVEN;
    }
    if (at != v->at || bytes.len == 0) {
        return bad(b, SNAP_FAULT_VALUE, fault);
    }
    if (v->is_open && bytes.len > v->len - at) {
        return bad(b, SNAP_FAULT_CONTENT, fault);
    }
    if (!v->is_open) {
        *v = (struct scan_value){.is_open = true, .len = it.value_len};
        goes_on = sink->value_begin(sink->arg, b, &it);
    } else if (sink->value_part != NULL) {
        goes_on = sink->value_part(sink->arg, bytes);
    }
    v->at += (uint32_t)bytes.len;
    if (goes_on && v->at >= v->len) {
        *v = (struct scan_value){0};
        goes_on = sink->value_end(sink->arg);
    }
    return given(goes_on);
}

enum scan_given scan_give(struct scan_value *v, const struct snap_block *b, struct span content,
                          const struct scan_sink *sink, struct snap_fault *fault)
{
    struct span prefix;
    int64_t at;

    if (!scan_value_goes_on(v, b)) {
        return bad(b, SNAP_FAULT_VALUE, fault);
    }
    switch (b->kind) {
    case SNAP_VALUE:
        return give_part(v, b, content, sink, fault);
    case SNAP_ITEMS:
        return give_items(b, content, sink, fault);
    case SNAP_FLUSH:
        return snap_instant_of(content, &at)
                   ? given(sink->flush == NULL || sink->flush(sink->arg, at))
                   : bad(b, SNAP_FAULT_CONTENT, fault);
    case SNAP_PREFIX:
        return snap_prefix_of(content, &prefix)
                   ? given(sink->prefix == NULL || sink->prefix(sink->arg, prefix))
                   : bad(b, SNAP_FAULT_CONTENT, fault);
    case SNAP_DUE:
        if (!snap_instant_of(content, &at)) {
            return bad(b, SNAP_FAULT_CONTENT, fault);
        }
        if (sink->due != NULL) {
            sink->due(sink->arg, at);
        }
        return SCAN_GIVEN;
    default:
        return SCAN_GIVEN; /* optional, or of keys: the caller opens those itself */
    }
}

/* ---- a file ------------------------------------------------------------------------------ */

/* Open a block and pass its items on. False: the scan has ended. */
static bool give_block(struct scan *s, struct scan_value *v, const struct snap_block *b,
                       struct snap_opener *o, const struct scan_sink *sink,
                       struct snap_fault *fault)
{
    struct span content;

    return snap_block_open(&s->reader, b, o, &content, fault) &&
           scan_give(v, b, content, sink, fault) == SCAN_GIVEN;
}

/* The blocks of a value after the first, under the mutex. */
static bool give_rest(struct scan *s, struct scan_value *v, struct snap_opener *o,
                      const struct scan_sink *sink, struct snap_fault *fault)
{
    while (v->is_open) {
        struct snap_block b;
        enum snap_next next = snap_reader_next(&s->reader, &b, fault);

        if (next == SNAP_NEXT_FAULT) {
            return false;
        }
        if (next == SNAP_NEXT_END || !scan_value_goes_on(v, &b)) {
            *fault = snap_fault_at(&b, SNAP_FAULT_VALUE);
            return false;
        }
        if (!give_block(s, v, &b, o, sink, fault)) {
            return false;
        }
        if (sink->block != NULL) {
            sink->block(sink->arg, &b);
        }
    }
    s->reader.is_in_value = false;
    return true;
}

/* All blocks of a value, under the mutex. */
static bool give_value(struct scan *s, const struct snap_block *b, struct snap_opener *o,
                       const struct scan_sink *sink, struct snap_fault *fault)
{
    struct scan_value v = {0};

    if (give_block(s, &v, b, o, sink, fault) && give_rest(s, &v, o, sink, fault)) {
        return true;
    }
    scan_value_drop(&v, sink);
    return false;
}

/* Process one block, or one value. False: the scan has ended. */
static bool step(struct scan *s, struct snap_opener *o, const struct scan_sink *sink)
{
    struct snap_fault fault = {.kind = SNAP_FINE};
    struct scan_value none = {0};
    struct snap_block b;
    bool goes_on = false;
    bool is_held = true;

    pthread_mutex_lock(&s->mutex);
    if (atomic_load_explicit(&s->is_over, memory_order_relaxed)) {
        pthread_mutex_unlock(&s->mutex);
        return false;
    }
    enum snap_next next = snap_reader_next(&s->reader, &b, &fault);
    if (next == SNAP_NEXT_END) {
        s->is_whole = true;
    } else if (next == SNAP_NEXT_BLOCK && b.kind == SNAP_VALUE) {
        goes_on = give_value(s, &b, o, sink, &fault);
    } else if (next == SNAP_NEXT_BLOCK && b.kind == SNAP_FLUSH) {
        /* Before any item of a later block. */
        goes_on = give_block(s, &none, &b, o, sink, &fault);
    } else if (next == SNAP_NEXT_BLOCK) {
        pthread_mutex_unlock(&s->mutex);
        goes_on = give_block(s, &none, &b, o, sink, &fault);
        is_held = false;
    }
    if (goes_on && sink->block != NULL) {
        sink->block(sink->arg, &b);
    }
    if (goes_on && !is_held) {
        return true;
    }
    if (!is_held) {
        pthread_mutex_lock(&s->mutex);
    }
    if (fault.kind != SNAP_FINE) {
        s->is_whole = false;
        note_fault(s, &fault);
    } else if (!goes_on) {
        end(s);
    }
    pthread_mutex_unlock(&s->mutex);
    return goes_on;
}

void scan_run(struct scan *s, struct snap_opener *o, const struct scan_sink *sink)
{
    while (step(s, o, sink)) {
    }
}
