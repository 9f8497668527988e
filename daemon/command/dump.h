/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `lru_crawler metadump` and `mgdump`: a line for every item. A dump is a position in the
 * walk over all shards and nothing else, so any number of them may go on at a time. Each turn
 * of the client composes one slice of lines, and none until the client has taken the last one.
 */
#ifndef MAYFLY_DAEMON_COMMAND_DUMP_H
#define MAYFLY_DAEMON_COMMAND_DUMP_H

#include <stdbool.h>
#include <stdint.h>

struct dump;
struct turn;

/*
 * Compose the next lines: for about 200 us, until there are about 64 KiB, or until the socket
 * takes no more. Shows every item that is there from the first slice to the last at least once,
 * and just once when no index is resized meanwhile (slots do not change their shard while the
 * daemon runs). True: the dump is complete, with its last line.
 * Context: worker, read side.
 */
bool dump_slice(struct turn *t, struct dump *d);

#endif
