/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drawing segments for blocks: see draw.h.
 */
#include "lib/memory/draw.h"

#include "lib/base/check.h"
#include "lib/memory/chains.h"
#include "lib/memory/line.h"
#include "lib/memory/stock.h"

/*
 * A put must leave the cursor its reserve. The cursor may take the last segment. Both may
 * overdraw when they have to.
 */
static segment_t draw_segment(struct memory *m, enum draw draw)
{
    if (draw == DRAW_PUT &&
        arena_avail(&m->arena) <= ROOM_RESERVE + (line_has_blocks(m) ? 0 : m->line.promised)) {
        return 0;
    }
    segment_t n = stock_take(m, draw == DRAW_PUT ? 0 : memory_overdraw(m));
    if (n != 0 && draw != DRAW_CURSOR) {
        line_note_blocks(m, true);
    }
    return n;
}

handle_t draw_block(struct memory *m, enum chain_id chain, uint32_t units, segment_t after,
                    enum draw draw)
{
    bool is_part = (draw & DRAW_PART) != 0;
    handle_t h = chains_append(m, chain, units, after, is_part);

    if (MF_LIKELY(h != 0)) {
        return h;
    }
    segment_t n = draw_segment(m, draw & DRAW_WHO);
    if (n == 0) {
        return 0;
    }
    chains_open(m, chain, after, n);
    return chains_append(m, chain, units, after, is_part);
}
