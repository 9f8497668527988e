/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `lru_crawler metadump`, `mgdump` and `stats cachedump`: a line for every item. A dump is a
 * position in a walk over all shards, with later passes over what moved meanwhile. Nothing
 * waits for it, so any number of them may go on at a time. Each slice of the client's task
 * composes some lines, and none until the client has taken the last ones.
 */
#ifndef MAYFLY_DAEMON_COMMAND_DUMP_H
#define MAYFLY_DAEMON_COMMAND_DUMP_H

#include "daemon/command/turn.h"

struct dump;

/*
 * Compose the next lines: for one slice of a task (tasks.h), until there are about 16 KiB, or
 * until the socket takes no more. Shows every item that is there from the first slice to the
 * last at least once, and just once when meanwhile no index is resized and no slot moves.
 * TURN_QUEUES: it is not complete; TURN_GOES_ON: it is, with its last line. Context: worker,
 * read side.
 */
enum turn_stop dump_go_on(struct turn *t, struct dump *d);

#endif
