/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole file, block by block: see scan.h.
 */
#include "lib/snapshot/scan.h"

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

static bool give_items(const struct snap_block *b, struct span content,
                       const struct scan_sink *sink, struct snap_fault *fault)
{
    struct snap_cursor c = snap_cursor_of(b, content);
    struct snap_item it;

    while (snap_cursor_next(&c, &it)) {
        if (!sink->item(sink->arg, b, &it)) {
            return false;
        }
    }
    if (!snap_cursor_is_good(&c)) {
        *fault = snap_fault_at(b, SNAP_FAULT_CONTENT);
        return false;
    }
    return true;
}

/* A block outside the mutex: anything but parts of a value. */
static bool give_block(struct scan *s, const struct snap_block *b, struct snap_opener *o,
                       const struct scan_sink *sink, struct snap_fault *fault)
{
    struct span content;
    int64_t at;

    if (!snap_block_open(&s->reader, b, o, &content, fault)) {
        return false;
    }
    if (b->kind == SNAP_ITEMS) {
        return give_items(b, content, sink, fault);
    }
    if (b->kind == SNAP_FLUSH) {
        if (!snap_flush_of(content, &at)) {
            *fault = snap_fault_at(b, SNAP_FAULT_CONTENT);
            return false;
        }
        return sink->flush == NULL || sink->flush(sink->arg, at);
    }
    if (b->kind == SNAP_DUE) {
        if (!snap_due_of(content, &at)) {
            *fault = snap_fault_at(b, SNAP_FAULT_CONTENT);
            return false;
        }
        if (sink->due != NULL) {
            sink->due(sink->arg, at);
        }
    }
    return true;
}

/* A part: opened, and it continues what came before. */
static bool open_part(struct scan *s, const struct snap_block *b, struct snap_opener *o,
                      uint32_t expected, struct snap_item *it, struct span *bytes, bool *is_cut,
                      struct snap_fault *fault)
{
    struct span content;
    uint32_t at;

    *is_cut = false;
    if (!snap_block_open(&s->reader, b, o, &content, fault)) {
        return false;
    }
    if (!snap_part_of(b, content, &at, it, bytes)) {
        *fault = snap_fault_at(b, SNAP_FAULT_CONTENT);
        return false;
    }
    if (at == SNAP_PART_CUT && expected != 0 && bytes->len == 0) {
        *is_cut = true;
        return true;
    }
    if (at != expected || bytes->len == 0) {
        *fault = snap_fault_at(b, SNAP_FAULT_VALUE);
        return false;
    }
    return true;
}

/* The parts of a value after the first, under the mutex. *is_cut: they end too early. */
static bool give_rest(struct scan *s, uint32_t at, uint32_t len, struct snap_opener *o,
                      const struct scan_sink *sink, bool *is_cut, struct snap_fault *fault)
{
    *is_cut = false;
    while (at < len && !*is_cut) {
        struct snap_block b;
        struct snap_item none;
        struct span bytes;
        enum snap_next next = snap_reader_next(&s->reader, &b, fault);

        if (next == SNAP_NEXT_FAULT) {
            return false;
        }
        if (next == SNAP_NEXT_END || b.kind != SNAP_VALUE || b.items != 0) {
            *fault = snap_fault_at(&b, SNAP_FAULT_VALUE);
            return false;
        }
        if (!open_part(s, &b, o, at, &none, &bytes, is_cut, fault)) {
            return false;
        }
        if (!*is_cut && bytes.len > len - at) {
            *fault = snap_fault_at(&b, SNAP_FAULT_CONTENT);
            return false;
        }
        if (!*is_cut && !sink->value_part(sink->arg, bytes)) {
            return false;
        }
        at += (uint32_t)bytes.len;
        if (sink->block != NULL) {
            sink->block(sink->arg, &b);
        }
    }
    s->reader.is_in_value = false;
    return true;
}

/* All parts of a value, under the mutex. */
static bool give_value(struct scan *s, const struct snap_block *b, struct snap_opener *o,
                       const struct scan_sink *sink, struct snap_fault *fault)
{
    struct snap_item it;
    struct span bytes;
    uint32_t len;
    bool is_cut;

    if (!open_part(s, b, o, 0, &it, &bytes, &is_cut, fault)) {
        return false;
    }
    len = it.value_len;
    if (!sink->value_begin(sink->arg, b, &it)) {
        return false;
    }
    if (!give_rest(s, (uint32_t)bytes.len, len, o, sink, &is_cut, fault)) {
        sink->value_drop(sink->arg);
        return false;
    }
    if (is_cut) {
        (sink->value_cut != NULL ? sink->value_cut : sink->value_drop)(sink->arg);
        return true;
    }
    return sink->value_end(sink->arg);
}

/* One block, or one value. False: the scan is over. */
static bool step(struct scan *s, struct snap_opener *o, const struct scan_sink *sink)
{
    struct snap_fault fault = {.kind = SNAP_FINE};
    struct snap_block b;
    enum snap_next next;
    bool goes_on = false;
    bool is_held = true;

    pthread_mutex_lock(&s->mutex);
    if (atomic_load_explicit(&s->is_over, memory_order_relaxed)) {
        pthread_mutex_unlock(&s->mutex);
        return false;
    }
    next = snap_reader_next(&s->reader, &b, &fault);
    if (next == SNAP_NEXT_END) {
        s->is_whole = true;
    } else if (next == SNAP_NEXT_BLOCK && b.kind == SNAP_VALUE) {
        goes_on = give_value(s, &b, o, sink, &fault);
    } else if (next == SNAP_NEXT_BLOCK && b.kind == SNAP_FLUSH) {
        /* Before any item of a later block. */
        goes_on = give_block(s, &b, o, sink, &fault);
    } else if (next == SNAP_NEXT_BLOCK) {
        pthread_mutex_unlock(&s->mutex);
        goes_on = give_block(s, &b, o, sink, &fault);
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
