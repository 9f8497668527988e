/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The torn end of a log. Either its writer was killed within a block, or the machine lost
 * power, and the disk has an arbitrary subset of the pages that no fsync had covered. Damage is
 * different: data that an fsync had made durable is missing.
 *
 * The good blocks after the hole tell these apart. Each tells how much was durable before it
 * was written (format.h), and it was written after that fsync had returned. A block is valid
 * only in its own file, by a checksum that cannot be computed without reading the file, so a
 * value stored by a client is never taken for a block.
 */
#ifndef MAYFLY_LIB_SNAPSHOT_TORN_H
#define MAYFLY_LIB_SNAPSHOT_TORN_H

#include <stdbool.h>

#include "lib/snapshot/decode.h"

/*
 * A log was read up to this fault: is it where a torn end begins, if it is the last log? In
 * doubt, as when memory is short or the disk cannot read on, it is not. Context: any thread.
 */
bool torn_is_end(const struct snap_reader *r, struct snap_opener *o,
                 const struct snap_fault *fault);

#endif
