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
    /* A value in parts: its item with the first of them as the value, the others, their end. */
    bool (*value_begin)(void *arg, const struct snap_block *b, const struct snap_item *it);
    bool (*value_part)(void *arg, struct span bytes);
    bool (*value_end)(void *arg);
    /* It is not: its parts were not whole. */
    void (*value_drop)(void *arg);
    /* It could not be kept while it was written; NULL: value_drop() is called. */
    void (*value_cut)(void *arg);
    /* May be NULL. Items that come before or after it were there when it was noted. */
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
    uint32_t at, len; /* bytes that came, and of all */
};

enum scan_given {
    SCAN_GIVEN,
    SCAN_ENOUGH, /* the sink has returned false */
    SCAN_BAD,    /* *fault; the sink may have got the items that precede it in the block */
};

/*
 * Give the content of an opened block to a sink, except that sink->block is not called.
 * A value in parts takes several calls: *v is kept between them. If no more of them come,
 * scan_value_drop(). Context: as the sink's.
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

/* Read the header. False: s->fault; scan_fini() is due all the same. Context: any thread. */
bool scan_init(struct scan *s, snap_read_fn read, void *arg);
void scan_fini(struct scan *s);

/*
 * Take part in the work until it is over. Each thread has an opener and a sink of its own. Then
 * s->is_whole, or s->fault, or a sink that has returned false. Context: any thread, outside a
 * section.
 */
void scan_run(struct scan *s, struct snap_opener *o, const struct scan_sink *sink);

#endif
