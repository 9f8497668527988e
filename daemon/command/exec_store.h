/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The storage commands, and what the other protocols' stores have in common with them.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_STORE_H
#define MAYFLY_DAEMON_COMMAND_EXEC_STORE_H

#include "daemon/command/turn.h"

/* A larger value makes the connection expect more of the kind. */
#define EXEC_BULK_BYTES (192u * 1024)

/* So does a larger one that can be placed (body_place()): it is worth a read of its own. */
#define EXEC_PLACE_BYTES (24u * 1024)

/*
 * set, add, replace, append, prepend, cas. body: the full value, or NULL when r->value has it.
 * Context: worker, read side.
 */
enum turn_stop exec_store(struct turn *t, const struct request *r, struct body **body);

/*
 * May the bytes of a body that has none yet go straight to the blocks of the item that r makes?
 * See body_place(). Context: worker, read side.
 */
bool exec_place(struct turn *t, const struct request *r, struct body *b);

/*
 * A store ends without its value: count it (bad data, too large, no memory: by reply), drop
 * the old value where memcached does. Context: worker, read side.
 */
void exec_store_failed(struct turn *t, const struct request *r, enum reply why);

/* Count how a cas ended. Context: worker. */
void exec_count_cas(struct counters *c, enum outcome outcome);

#endif
