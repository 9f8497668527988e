/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items for tests of the wheel: headers alone, which are wide so that any deadline fits.
 */
#ifndef MAYFLY_TESTS_LIB_EXPIRY_FAKE_H
#define MAYFLY_TESTS_LIB_EXPIRY_FAKE_H

#include "lib/memory/item.h"

#define FAKE_BYTES ((uint32_t)sizeof(struct item) + ITEM_TTL_BYTES + ITEM_WIDE_BYTES)

/* Make an item that is in no wheel. Its deadline is what it keeps of this one. */
static inline void fake_item(struct item *it, uint32_t units, msec_t deadline)
{
    deadline = deadline_kept(deadline);
    atomic_store(&it->shape, (uint16_t)(units | SHAPE_TTL | SHAPE_WIDE));
    item_wide(it)->far_large = (uint8_t)(deadline_far(deadline) << WIDE_FAR_SHIFT);
    item_init_ttl(it, deadline);
}

#endif
