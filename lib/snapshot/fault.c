/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is wrong with a file, in words.
 */
#include "lib/snapshot/fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/snapshot/format.h"

static const char *block_text(enum snap_fault_kind kind)
{
    switch (kind) {
    case SNAP_FAULT_CUT:
        return "the file ends here";
    case SNAP_FAULT_MAGIC:
        return "no block begins here";
    case SNAP_FAULT_FIELDS:
        return "its header contradicts itself";
    case SNAP_FAULT_SUM:
        return "checksum differs";
    case SNAP_FAULT_PACKED:
        return "is packed by zstd, which this program was built without";
    case SNAP_FAULT_UNPACK:
        return "does not unpack";
    case SNAP_FAULT_CONTENT:
        return "its items are malformed";
    case SNAP_FAULT_VALUE:
        return "a part of a value is missing";
    case SNAP_FAULT_TOTALS:
        return "the totals differ from what came before";
    case SNAP_FAULT_AFTER:
        return "something follows the end";
    default:
        return "is not known";
    }
}

const char *snap_fault_text(const struct snap_fault *f, char out[SNAP_FAULT_TEXT_MAX])
{
    switch (f->kind) {
    case SNAP_FINE:
        snprintf(out, SNAP_FAULT_TEXT_MAX, "nothing is wrong");
        break;
    case SNAP_FAULT_READ:
        snprintf(out, SNAP_FAULT_TEXT_MAX, "%s", strerror((int)f->number));
        break;
    case SNAP_FAULT_EMPTY:
        snprintf(out, SNAP_FAULT_TEXT_MAX, "is empty");
        break;
    case SNAP_FAULT_FOREIGN:
        snprintf(out, SNAP_FAULT_TEXT_MAX, "is not a snapshot of mayfly");
        break;
    case SNAP_FAULT_RDB:
        snprintf(out, SNAP_FAULT_TEXT_MAX, "is a Redis RDB file");
        break;
    case SNAP_FAULT_SHORT:
        snprintf(out, SNAP_FAULT_TEXT_MAX, "ends within its header");
        break;
    case SNAP_FAULT_HEADER:
        snprintf(out, SNAP_FAULT_TEXT_MAX, "header: checksum differs");
        break;
    case SNAP_FAULT_VERSION:
        if (SNAP_VERSION_FIRST == SNAP_VERSION) {
            snprintf(out, SNAP_FAULT_TEXT_MAX, "version %" PRIu64 ", this reads %d", f->number,
                     SNAP_VERSION);
        } else {
            snprintf(out, SNAP_FAULT_TEXT_MAX, "version %" PRIu64 ", this reads %d to %d",
                     f->number, SNAP_VERSION_FIRST, SNAP_VERSION);
        }
        break;
    case SNAP_FAULT_KIND:
        snprintf(out, SNAP_FAULT_TEXT_MAX,
                 "block %" PRIu64 " at %" PRIu64 ": kind %" PRIu64 " is not known", f->block,
                 f->offset, f->number);
        break;
    default:
        snprintf(out, SNAP_FAULT_TEXT_MAX, "block %" PRIu64 " at %" PRIu64 ": %s", f->block,
                 f->offset, block_text(f->kind));
        break;
    }
    return out;
}
