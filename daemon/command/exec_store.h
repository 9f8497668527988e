/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The storage commands, and what the other protocols' stores have in common with them.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_STORE_H
#define MAYFLY_DAEMON_COMMAND_EXEC_STORE_H

#include "daemon/command/turn.h"
#include "lib/engine/store.h"

/* After a larger value the connection expects more such values. */
#define EXEC_BULK_BYTES (192u * 1024)

/* After one beyond this too, if it could be placed (body_place()): worth a read of its own. */
#define EXEC_PLACE_BYTES (24u * 1024)

/*
 * set, add, replace, append, prepend, cas. body: the full value, or NULL when r->value has it.
 * Context: worker, read side.
 */
enum turn_stop exec_store(struct turn *t, const struct request *r, struct body **body);

/* What r, a storage command of the text protocol, asks of the engine. Context: as above. */
void exec_store_prepare(const struct turn *t, const struct request *r, struct store *s);

/*
 * A store ends without its value: count it (bad data, too large, no memory: by reply), drop
 * the old value where memcached does: not when memory ran out while the value was read.
 * Context: worker, read side.
 */
void exec_store_failed(struct turn *t, const struct request *r, enum reply why);

/*
 * Fill in what all stores have in common; mode, flags, deadline and conditions are then those
 * of a plain set. Sets every field that the engine reads: an initializer would clear all of it
 * first. Context: worker, read side.
 */
static MF_INLINE void exec_store_fill(const struct turn *t, const struct request *r,
                                      struct body **body, struct store *s)
{
    must_be_in_turn(t);
    s->mode = STORE_SET;
    s->hash = r->hash;
    s->key = r->key;
    s->flags = 0;
    s->deadline = MSEC_NEVER;
    s->cas_expected = 0;
    s->value = r->value;
    s->body = body;
    s->over = NULL;
    s->cas_new = 0;
    s->kept = NULL;
    s->may_wait = t->may_wait;
    s->waiter = t->waiter;
    s->compares_cas = false;
    s->takes_older = false;
    s->takes_due = false;
    s->vivifies = false;
}

/* exec_store_note() for a large value. Context: worker, in a turn. */
void exec_store_note_large(struct turn *t, size_t value_len);

/*
 * A store of so many bytes is over: note whether the connection should expect more such values.
 * Context: worker, in a turn.
 */
static inline void exec_store_note(struct turn *t, size_t value_len)
{
    must_be_in_turn(t);
    if (MF_UNLIKELY(value_len > EXEC_PLACE_BYTES)) {
        exec_store_note_large(t, value_len);
    }
}

static inline bool exec_store_extends(const struct store *s)
{
    return s->mode == STORE_APPEND || s->mode == STORE_PREPEND;
}

struct before;

/* Log and count, for those who watch, how a store of r ended. Context: worker, read side. */
void exec_store_observe(struct turn *t, const struct request *r, const struct before *before,
                        const struct store *s, enum outcome outcome);

/* Count how a cas ended. Context: worker. */
void exec_count_cas(struct counters *c, enum outcome outcome);

#endif
