/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages for faults of a file.
 */
#include "lib/format/fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/format/format.h"

/* Of faults that need no number; those of blocks follow "block N at OFFSET: ". */
static const char *const texts[] = {
    [SNAP_FINE] = "nothing is wrong",
    [SNAP_FAULT_EMPTY] = "is empty",
    [SNAP_FAULT_FOREIGN] = "is not a snapshot of mayfly",
    [SNAP_FAULT_RDB] = "is a Redis RDB file",
    [SNAP_FAULT_SHORT] = "ends within its header",
    [SNAP_FAULT_HEADER] = "header: checksum differs",
    [SNAP_FAULT_CUT] = "the file ends here",
    [SNAP_FAULT_MAGIC] = "no block begins here",
    [SNAP_FAULT_FIELDS] = "its header contradicts itself",
    [SNAP_FAULT_SUM] = "checksum differs",
    [SNAP_FAULT_PACKED] = "is packed by zstd, which this program was built without",
    [SNAP_FAULT_UNPACK] = "does not unpack",
    [SNAP_FAULT_CONTENT] = "its items are malformed",
    [SNAP_FAULT_VALUE] = "a part of a value is missing",
    [SNAP_FAULT_TOTALS] = "the totals differ from what came before",
    [SNAP_FAULT_AFTER] = "something follows the end",
};

const char *snap_fault_text(const struct snap_fault *f, char out[SNAP_FAULT_TEXT_MAX])
{
    if (f->kind == SNAP_FAULT_READ) {
        snprintf(out, SNAP_FAULT_TEXT_MAX, "%s", strerror((int)f->number));
    } else if (f->kind == SNAP_FAULT_VERSION && SNAP_VERSION_FIRST == SNAP_VERSION) {
        snprintf(out, SNAP_FAULT_TEXT_MAX, "version %" PRIu64 ", this reads %d", f->number,
                 SNAP_VERSION);
    } else if (f->kind == SNAP_FAULT_VERSION) {
        snprintf(out, SNAP_FAULT_TEXT_MAX, "version %" PRIu64 ", this reads %d to %d",
                 f->number, SNAP_VERSION_FIRST, SNAP_VERSION);
    } else if (f->kind == SNAP_FAULT_KIND) {
        snprintf(out, SNAP_FAULT_TEXT_MAX,
                 "block %" PRIu64 " at %" PRIu64 ": unknown kind %" PRIu64, f->block, f->offset,
                 f->number);
    } else if (snap_fault_is_of_block(f)) {
        snprintf(out, SNAP_FAULT_TEXT_MAX, "block %" PRIu64 " at %" PRIu64 ": %s", f->block,
                 f->offset, texts[f->kind]);
    } else {
        snprintf(out, SNAP_FAULT_TEXT_MAX, "%s", texts[f->kind]);
    }
    return out;
}
