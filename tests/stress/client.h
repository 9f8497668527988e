/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the stress client share: what an owner knows (own.c), the owner's requests
 * (client.c, client_grow.c), the reader's and the shared keys (client_read.c), and how bytes
 * get into and out of the engine (client_io.c).
 */
#ifndef MAYFLY_TESTS_STRESS_CLIENT_H
#define MAYFLY_TESTS_STRESS_CLIENT_H

#include "lib/store/find.h"
#include "lib/store/store.h"
#include "tests/stress/world.h"

/* A key to work on. */
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
 * Store len bytes at value: as one span, or, for long values, at random as a body. While there
 * is no room it waits and does the worker's duties, so it never returns OUT_WAIT. Context: that
 * worker.
 */
enum outcome client_store(struct worker *w, const struct name *n, enum store_mode mode,
                          const char *value, size_t len, uint32_t flags, msec_t deadline,
                          uint64_t cas_expected, uint64_t *cas);

/*
 * Wait about a millisecond for room; false when it has waited for too long. Context: that
 * worker.
 */
bool client_wait(struct worker *w, unsigned *tries);

/* Must the request be made again? Waits for room first. Context: that worker. */
bool client_again(struct worker *w, enum outcome out, bool *may_wait, unsigned *tries);

/* Was there no room? Fails unless the request succeeded or the key was absent. */
bool client_had_no_room(struct worker *w, uint32_t id, enum outcome out, enum outcome success,
                        const char *what);

/*
 * Pin a large value that was found in the open section, to hold it after that. Context: read
 * side.
 */
void client_pin(struct worker *w, const struct found *f, uint32_t id);

/*
 * Read the rest of a held value, check it, unpin it. Context: that worker, outside a section.
 */
void client_unpin(struct worker *w, struct held_pin *p);

/* ---- own.c ------------------------------------------------------------------------------- */

/* What an owner knows before a request: taken before the engine is asked. */
struct before {
    msec_t now;
    bool must_be_gone;
};

struct before own_look_before(struct worker *w, uint32_t id, const struct own *o);

/* The engine said whether the key is present: fails if that cannot be, otherwise records it. */
void own_judge(struct worker *w, uint32_t id, struct own *o, const struct before *b,
               bool is_there, const char *what);

/* While no other thread works: may the key be present, or absent? Context: main. */
void own_judge_at_rest(struct worker *w, uint32_t id, const struct own *o, bool is_there);

/* Call these around a store: they note flushes and clock before and after it. */
void own_store_begins(struct worker *w, uint32_t id, struct own *o);
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

/* One request on a key without an owner. Context: that worker. */
void client_shared_turn(struct worker *w);

#endif
