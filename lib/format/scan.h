/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a whole file, block by block, and passing its items to a sink. Several threads may
 * share the work: headers and values in parts are read under one mutex, blocks of items are
 * opened in parallel.
 */
#ifndef MAYFLY_LIB_FORMAT_SCAN_H
#define MAYFLY_LIB_FORMAT_SCAN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/format/decode.h"

/*
 * The receiver of the items. Spans are borrowed during the call. A block was checked completely
 * before its items or parts are passed. Each callback returns false to end the scan;
 * scan->fault is not set then.
 */
struct scan_sink {
    void *arg; /* [borrowed] */
    /* The items of a block, one after the other; b->unix_ms is when they were read. */
    bool (*item)(void *arg, const struct snap_block *b, const struct snap_item *it);
    /*
     * A value in parts: the item with the first part as its value, each other part (may be
     * NULL), the end.
     */
    bool (*value_begin)(void *arg, const struct snap_block *b, const struct snap_item *it);
    bool (*value_part)(void *arg, struct span bytes);
    bool (*value_end)(void *arg);
    /* Instead of value_end(): parts are missing. Discard the item. */
    void (*value_drop)(void *arg);
    /*
     * The same if the writer has cut the value (SNAP_PART_CUT). NULL: value_drop() is called.
     */
    void (*value_cut)(void *arg);
    /* May be NULL. In a snapshot it applies to all items, before and after it in the file. */
    bool (*flush)(void *arg, int64_t at_unix_ms);
    /* May be NULL: earlier items with this prefix are gone. */
    bool (*prefix)(void *arg, struct span prefix);
    /* May be NULL: all items with a deadline up to this instant are gone. */
    void (*due)(void *arg, int64_t due_unix_ms);
    /* A block is done; may be NULL. */
    void (*block)(void *arg, const struct snap_block *b);
};

/* A value in parts that is under way; zero: none is. */
struct scan_value {
    bool is_open;
    uint32_t at, len; /* bytes received, and of the whole value */
};

enum scan_given {
    SCAN_GIVEN,
    SCAN_ENOUGH, /* the sink has returned false */
    SCAN_BAD,    /* *fault; the sink may have got the items that precede it in the block */
};

/*
 * Pass the content of an opened block to a sink; sink->block is not called. A value in parts
 * takes several calls with the same *v. If its last part does not come, call scan_value_drop().
 * Context: as the sink's.
 */
enum scan_given scan_give(struct scan_value *v, const struct snap_block *b, struct span content,
                          const struct scan_sink *sink, struct snap_fault *fault);
void scan_value_drop(struct scan_value *v, const struct scan_sink *sink);

/* The value stays incomplete, for example after a block that says so. */
void scan_value_cut(struct scan_value *v, const struct scan_sink *sink);

/* While a value is incomplete: may the block continue it? Otherwise it must not be opened. */
static inline bool scan_value_goes_on(const struct scan_value *v, const struct snap_block *b)
{
    return !v->is_open || (b->kind == SNAP_VALUE && b->items == 0);
}

struct scan {
    struct snap_reader reader; /* under the mutex */
    pthread_mutex_t mutex;
    struct snap_fault fault; /* under the mutex: the first in the file that was met */
    _Atomic bool is_over;    /* at the end, at a fault, or a sink has had enough */
    bool is_whole;           /* under the mutex: END was met, and it was right */
};

/* Read the header. False: s->fault. Call scan_fini() in both cases. Context: any thread. */
bool scan_init(struct scan *s, snap_read_fn read, void *arg);
void scan_fini(struct scan *s);

/*
 * Take part in the scan until it ends. Each thread has its own opener and sink. At the end
 * s->is_whole is true, or s->fault is set, or a sink has returned false. Context: any thread,
 * outside a section.
 */
void scan_run(struct scan *s, struct snap_opener *o, const struct scan_sink *sink);

#endif
