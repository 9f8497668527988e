/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The torn end of a log. Whoever wrote it was killed within a block; or the machine lost its
 * power, and of what no fsync had covered the disk has some pages and not others, in any order.
 * Damage is something else: what an fsync had made durable is not there any more.
 *
 * They are told apart by the good blocks behind: each tells how much was durable before it was
 * written (format.h), and it was written after that fsync had returned. A block is good only
 * in its file, by a sum that nobody knows who has not read it, so no value that a client has
 * stored is taken for one.
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
