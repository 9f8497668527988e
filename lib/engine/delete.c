/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deleting: see delete.h.
 */
#include "lib/engine/delete.h"

#include "lib/base/context.h"
#include "lib/engine/visit.h"

enum outcome engine_delete(struct engine *e, uint64_t hash, struct span key,
                           uint64_t cas_expected, msec_t now)
{
    struct visit v;
    enum outcome out = OUT_NOT_FOUND;

    must_be_reading();
    visit_enter(e, &v, hash, key, now);
    visit_find(&v);
    if (v.is_live) {
        if (cas_expected != 0 && v.item->cas != cas_expected) {
            out = OUT_EXISTS;
        } else {
            visit_unlink(&v, DEATH_DELETE);
            out = OUT_DELETED;
        }
    }
    visit_leave(&v);
    return out;
}
