/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The storage commands, and what the other protocols' stores have in common with them.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_STORE_H
#define MAYFLY_DAEMON_COMMAND_EXEC_STORE_H

#include "daemon/command/exec.h"

/*
 * Stores of the text, the meta and the binary protocol. body: the full value, or NULL when
 * r->value has it. Context: worker, read side.
 */
enum turn_stop store_text(struct turn *t, const struct request *r, struct body **body);
enum turn_stop store_meta(struct turn *t, const struct request *r, struct body **body);
enum turn_stop store_bin(struct turn *t, const struct request *r, struct body **body);

/* What r asks of the engine, by protocol. Context: as above. */
void exec_store_prepare(const struct turn *t, const struct request *r, struct store *s);
void exec_meta_prepare_set(const struct turn *t, const struct request *r, struct store *s);
void exec_bin_prepare_store(const struct turn *t, const struct request *r, struct store *s);

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
