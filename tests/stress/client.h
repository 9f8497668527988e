/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the stress client share: what an owner knows (own.c), the owner's requests
 * (client.c, client_grow.c), the reader's and the shared keys (client_read.c), and how bytes
 * get into and out of the engine (client_io.c).
 */
#ifndef MAYFLY_TESTS_STRESS_CLIENT_H
#define MAYFLY_TESTS_STRESS_CLIENT_H

#include "lib/engine/find.h"
#include "lib/engine/store.h"
#include "tests/stress/world.h"

/* A key at hand. */
struct name {
    uint32_t id;
    size_t len;
    uint64_t hash;
    char text[KEY_BYTES];
};

void name_of(const struct worker *w, uint32_t id, struct name *n);

/* ---- client_io.c ------------------------------------------------------------------------- */

/* The bytes of a found item: in place, or gathered in scratch. Context: read side. */
const char *client_value(struct worker *w, const struct found *f, size_t *len);

/*
 * Store len bytes at value: as one span, or as a body when they are many and the dice say
 * so. Waits while there is no room, doing its duties. OUT_WAIT never comes back. Context:
 * that worker.
 */
enum outcome client_store(struct worker *w, const struct name *n, enum store_mode mode,
                          const char *value, size_t len, uint32_t flags, msec_t deadline,
                          uint64_t cas_expected, uint64_t *cas);

/* Wait about a millisecond for room; gives up after a while: false. Context: that worker. */
bool client_wait(struct worker *w, unsigned *tries);

/*
 * Pin a large value found in the section that is open, and hold it beyond. Context: read
 * side.
 */
void client_pin(struct worker *w, const struct found *f, uint32_t id);

/*
 * Read the rest of a held value, check it, give it back. Context: that worker, outside a
 * section.
 */
void client_unpin(struct worker *w, struct held_pin *p);

/* ---- own.c ------------------------------------------------------------------------------- */

/* What an owner knows before a request: taken before the engine is asked. */
struct before {
    msec_t now;
    bool must_be_gone;
};

struct before own_look_before(struct worker *w, const struct own *o);

/* The engine said whether the key is there: fails when that cannot be, else takes it over. */
void own_judge(struct worker *w, uint32_t id, struct own *o, const struct before *b,
               bool is_there, const char *what);

/* While nobody else is at work: may the key be, or not be, there? Context: main. */
void own_judge_at_rest(struct worker *w, uint32_t id, const struct own *o, bool is_there);

/* Bracket a store: what the flushes and the clock were before and after it. */
void own_store_begins(struct worker *w, struct own *o);
void own_store_ended(struct worker *w, uint32_t id, struct own *o, uint64_t cas,
                     bool was_there);

/* Has a found item the marks that its owner gave it? Context: read side. */
void own_check_marks(struct worker *w, uint32_t id, const struct own *o, const struct item *it);

/* A cas value is never used twice, and grows while the key stays. */
void own_new_cas(struct worker *w, uint32_t id, struct own *o, uint64_t cas, bool was_there);

/* ---- client.c, client_grow.c, client_marks.c: one request of the owner ------------------- */

void client_look(struct worker *w, const struct name *n, struct own *o);
void client_remove(struct worker *w, const struct name *n, struct own *o);
void client_number_turn(struct worker *w, const struct name *n, struct own *o);
void client_mark_turn(struct worker *w, const struct name *n, struct own *o);
void client_log_turn(struct worker *w, const struct name *n, struct own *o);

/* ---- client_read.c ----------------------------------------------------------------------- */

/*
 * Check a found item of any key: name, flags, content, deadline, and that its version did
 * not go back since this thread met it last. Context: read side.
 */
void client_check_item(struct worker *w, const struct name *n, const struct found *f,
                       msec_t now);

/* One request on a key that belongs to nobody. Context: that worker. */
void client_shared_turn(struct worker *w);

#endif
