/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observation of commands: stats detail counts them by prefix, and watchers get a line for
 * each. Handlers check one word of their turn (t->observed) and call these functions if it is
 * not 0.
 *
 * A command that writes looks up the item first (observe_before()), because the old item is
 * reported too. It reports when it is done, so that a store that waits for room and is retried
 * is reported once.
 */
#ifndef MAYFLY_DAEMON_COMMAND_OBSERVE_H
#define MAYFLY_DAEMON_COMMAND_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/worker/watch.h"
#include "lib/base/span.h"
#include "lib/engine/engine.h"
#include "lib/store/find.h"
#include "lib/store/store.h"

struct turn;
struct worker;

/* In t->observed, with the bits of watched streams: stats detail is on. */
#define OBSERVE_DETAIL (1u << 31)

/* The value for t->observed. Context: worker. */
uint32_t observe_flags(const struct worker *w);

/* The item that a command finds before it writes. */
struct before {
    bool is_found;
    uint8_t miss; /* enum miss */
    uint32_t size;
    msec_t deadline;
};

/* Look up the item, if it will be reported. Context: worker, read side. */
void observe_before(struct turn *t, uint64_t hash, struct span key, struct before *b);

/* A key was read. `it` NULL: not found, for the reason `miss`. Context: worker, read side. */
void observe_get(struct turn *t, struct span key, const struct item *it, enum miss miss);

/* The same for commands that stats detail does not count as reads: touch, incr, decr. */
void observe_fetch(struct turn *t, struct span key, const struct before *b);

/* A store and how it ended: STORED, NOT_STORED, EXISTS, NOT_FOUND, TOO_LARGE, NO_MEMORY. */
struct observed_store {
    struct span key;
    enum store_mode mode;
    enum outcome outcome;
    msec_t deadline; /* MSEC_NEVER: none */
    size_t size;     /* of the value: stored: the new one; not stored: as sent; failed: 0 */
};

/* b NULL: the store failed before the key was looked up. Context: worker, read side. */
void observe_store(struct turn *t, const struct before *b, const struct observed_store *s);

/* A command other than a store has created the item, which was absent. Context: as above. */
void observe_made(struct turn *t, struct span key, msec_t deadline, size_t size);

/*
 * The deadline of an existing item was set (MSEC_NEVER: removed; a time that has passed: the
 * item was deleted). Context: worker, read side.
 */
void observe_deadline(struct turn *t, const struct before *b, struct span key,
                      const char *command, msec_t deadline);

/* A delete; command: delete or md. Context: worker, read side. */
void observe_delete(struct turn *t, const struct before *b, struct span key,
                    const char *command, bool is_deleted);

#endif
