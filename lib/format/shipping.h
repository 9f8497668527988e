/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes what is shipped (lib/ship/ship.h) to blocks of a file, a log or a stream.
 */
#ifndef MAYFLY_LIB_FORMAT_SHIPPING_H
#define MAYFLY_LIB_FORMAT_SHIPPING_H

#include "lib/format/encode.h"
#include "lib/ship/ship.h"

struct engine;

struct shipping {
    /* set by the sink; the rest is zero */
    struct snap_encoder *encoder; /* [borrowed] */
    const struct engine *engine;  /* [borrowed] */
    int64_t to_unix_ms;           /* added to a time of the engine */
    /* [borrowed] for a sink that has to rest after a flush; NULL: it has not */
    struct ship *ship;
    bool (*rest)(void *arg); /* as in struct ship_ops */
    void (*put)(void *arg);  /* called after each put into a block; NULL: no callback */
    void *arg;               /* [borrowed] of both */
    /* its own */
    uint32_t now_s;   /* when the block was begun */
    bool is_in_value; /* a value in parts is under way */
};

/*
 * Callbacks for a ship whose argument is the struct shipping. An absent key is put as an item
 * with the mark SNAP_GONE. A change of an item's metadata is put as the whole item. If the
 * block has no room, it is sent first. Within a section this is allowed only if sending does
 * not wait.
 */
extern const struct ship_ops shipping_ops;

#endif
