/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine for unit tests. Its clock is frozen except for clock_advance(), and no other
 * thread runs: a grace period passes when the test asks for one, so that a test can fix every
 * order of events. A test that needs the reclaimer's thread starts with
 * fixture_start_threaded().
 *
 * A function that cannot do its work fails the running test instead of returning an error.
 */
#ifndef MAYFLY_TESTS_LIB_FIXTURE_H
#define MAYFLY_TESTS_LIB_FIXTURE_H

#include "lib/base/rcu.h"
#include "lib/shard/shard.h"
#include "lib/store/arith.h"
#include "lib/store/erase.h"
#include "lib/store/fetch.h"
#include "lib/store/store.h"
#include "tests/common/moves.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

/* To add to an engine's budget, in bytes: above every limit, so that only holes have room. */
#define LIMIT_TAKEN (INT64_C(1) << 40)

struct fixture {
    struct engine engine;
    struct shard *shard; /* the first one */
    struct heat_user heat;
    char *value; /* what fixture_get() read last */
    size_t value_room;
    bool has_thread;      /* the reclaimer's */
    struct fixture *next; /* of those that run */
};

/* The defaults of a test: one shard of 8 MiB, whose segments are 32 KiB, and a fixed seed. */
void fixture_config(struct engine_config *cfg);

/* The options of every engine of a fixture; fixture_config() sets them to their defaults. */
extern struct engine_options fixture_options;

/*
 * Choose a policy of eviction, after fixture_config(). Hits are counted for it from the next
 * fixture_use() on. Context: any thread.
 */
void fixture_policy(enum evict_choice choice);

/*
 * Start, or start again; NULL means the defaults. Registers the calling thread for reading. The
 * end of the test verifies and stops it, so it is not a local variable.
 */
void fixture_start(struct fixture *f, const struct engine_config *cfg);

/* A fixture that is started with the defaults before each test of this file from here on. */
#define FIXTURE_OF_EACH_TEST(f)                                                                \
    static struct fixture f;                                                                   \
    static void f##_start(void)                                                                \
    {                                                                                          \
        fixture_start(&(f), NULL);                                                             \
    }                                                                                          \
    TEST_FIXTURE(f##_start, NULL)

void fixture_start_threaded(struct fixture *f, const struct engine_config *cfg);

/* The same with the defaults but for the number of shards and the limit. */
#define FIXTURE_LIMIT (8 * (uint64_t)MIB)
void fixture_start_sized(struct fixture *f, uint32_t shards, uint64_t limit_bytes);
void fixture_start_sized_threaded(struct fixture *f, uint32_t shards, uint64_t limit_bytes);

/* Verify, stop and release, unless that has been done: earlier than at the end of the test. */
void fixture_stop(struct fixture *f);

/* ---- time -------------------------------------------------------------------------------- */

/* The frozen time, in milliseconds. */
msec_t fixture_now(const struct fixture *f);

/* A whole grace period, and the reclaimer's turn after it. Context: outside a section. */
void fixture_grace(struct fixture *f);

/* Grace periods and maintenance until nothing waits any more. */
void fixture_settle(struct fixture *f);

/* Expire everything that is due, as the home workers do. */
void fixture_expire(struct fixture *f);

/* ---- requests: each in a section of its own ---------------------------------------------- */

struct put {
    enum store_mode mode;
    const char *key;
    const void *ptr;
    size_t len;
    uint32_t flags;
    msec_t deadline; /* 0: MSEC_NEVER */
    uint64_t cas;    /* STORE_CAS: expected */
    size_t portion;  /* not 0: store a body, received in portions of this size */
    bool compares_cas, takes_older, vivifies;
    uint64_t cas_new;
    uint32_t value_len; /* out */
    bool is_hasty;      /* NO_MEMORY at once instead of a wait */
};

/*
 * Store; waits for grace periods as the daemon does, and returns NO_MEMORY when that does not
 * help. The new cas goes to *cas unless that is NULL.
 */
enum outcome fixture_store(struct fixture *f, struct put *p, uint64_t *cas);

/* Set a key to `len` bytes that depend on key and length; it must be stored. */
void fixture_set(struct fixture *f, const char *key, size_t len);
void fixture_set_until(struct fixture *f, const char *key, size_t len, msec_t deadline);

/* The same, but NO_MEMORY is allowed too. */
enum outcome fixture_try(struct fixture *f, const char *key, size_t len, msec_t deadline);

/*
 * Store values of `len` bytes as keys prefix0, prefix1 ... until there is no room, and make
 * holes of that size among them. Returns the number of keys.
 */
unsigned fixture_fill_up(struct fixture *f, const char *prefix, size_t len);

/* Flush everything at an instant (at once if that is not later than now), without waiting. */
void fixture_flush(struct fixture *f, msec_t at);

/* Flush a prefix, which must be possible; nothing is unlinked yet. */
void fixture_flush_prefix(struct fixture *f, const char *prefix);

enum outcome fixture_delete(struct fixture *f, const char *key);
enum outcome fixture_arith(struct fixture *f, const char *key, bool is_decr, uint64_t delta,
                           uint64_t *number);
enum outcome fixture_touch(struct fixture *f, const char *key, msec_t deadline);

/* These fill in key, hash and may_wait; results are in *a and *get. */
enum outcome fixture_arith_as(struct fixture *f, const char *key, struct arith *a);
enum outcome fixture_erase(struct fixture *f, const char *key, const struct erase *d);
enum outcome fixture_fetch(struct fixture *f, const char *key, struct fetch *get);

struct got {
    bool is_hit;
    enum miss miss;
    const char *value; /* owned by the fixture, valid until the next get */
    size_t len;
    uint32_t flags;
    uint64_t cas;
    msec_t deadline;
    const struct item *item; /* to compare addresses; its block may be reused at any time */
    struct shard *shard;
    uint32_t units;
    enum chain_id chain;
    bool is_large, is_stale, is_won, was_fetched;
};

/* Look up and copy the value; does not mark the item as used. */
struct got fixture_get(struct fixture *f, const char *key);

/* The same, marked as used this number of times. */
struct got fixture_use(struct fixture *f, const char *key, unsigned times);

bool fixture_has(struct fixture *f, const char *key);

/* Check that the key has the value that fixture_set() gave it. */
void fixture_check(struct fixture *f, const char *key, size_t len);

/* ---- moves of slots ---------------------------------------------------------------------- */

/* Half of the slots are on their way to the second shard, and no item of them is there yet. */
void fixture_begin_move(struct fixture *f);

/* Start a move, and cancel it after this number of items. */
void fixture_cancel_move(struct fixture *f, const struct move_plan *plan, uint64_t items);

/* ---- the whole --------------------------------------------------------------------------- */

/*
 * Check that every shard verifies, and that the budget is kept except for what may be
 * overdrawn.
 */
void fixture_verify(struct fixture *f);

/* The sum of a counter over the shards. */
uint64_t fixture_counter(const struct fixture *f, enum counter id);

int64_t fixture_used(const struct fixture *f);

/* Segments that the first shard can have at once. */
uint32_t fixture_avail(struct fixture *f);

/* Fill with bytes that depend on the seed only. */
void fixture_fill(char *out, size_t len, uint64_t seed);

/* A numbered key: prefix and number; valid until the next call. */
const char *fixture_key(const char *prefix, unsigned number);

/*
 * The hash of a key; not inlined, because the compiler would warn of paths that a constant key
 * never takes.
 */
uint64_t fixture_hash(const struct fixture *f, const char *key);

#endif
