/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is shipped (lib/engine/ship.h) goes to blocks: callbacks of a sink that has an
 * encoder.
 */
#ifndef MAYFLY_LIB_SNAPSHOT_SHIPPING_H
#define MAYFLY_LIB_SNAPSHOT_SHIPPING_H

#include "lib/engine/ship.h"
#include "lib/snapshot/encode.h"

struct engine;

struct shipping {
    struct snap_encoder *encoder; /* [borrowed] */
    const struct engine *engine;  /* [borrowed] */
    int64_t to_unix_ms;           /* added to a time of the engine */
    uint32_t now_s;               /* when the block was begun */
    bool is_in_value;             /* a value in parts is under way */
};

/*
 * Those of struct ship_ops. If the block has no room, it is sent first: within a section only
 * if sending waits for nobody there. Context: as there.
 */
void shipping_item(struct shipping *s, const struct ship_item *it);
void shipping_part(struct shipping *s, struct span part);
void shipping_cut(struct shipping *s);
void shipping_drop(struct shipping *s, struct span key); /* as an item that is SNAP_GONE */

#endif
