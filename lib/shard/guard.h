/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The set of keys that must not reappear while older items are loaded concurrently with
 * requests. While shards have a guard, it records each key that is unlinked, for any reason,
 * and each key that a writer looked up and did not find. A loader does not store a recorded
 * key. A flush voids the whole load.
 *
 * It is a Bloom filter: it forgets no key, but has a few false positives, which are not loaded.
 * So the cache has a few more misses than necessary, but no deleted item reappears.
 *
 * All shards of an engine share one guard, because keys may move between shards. Its bits are
 * set and read under the lock of the key's shard.
 */
#ifndef MAYFLY_LIB_SHARD_GUARD_H
#define MAYFLY_LIB_SHARD_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct budget;
struct guard_bits;
struct reclaimer;

struct guard {
    struct guard_bits *bits; /* owned */
    unsigned line_log;       /* [const] 2^line_log lines of 64 bytes */
    _Atomic bool is_void;    /* everything was flushed: nothing may be loaded any more */
    _Atomic uint64_t noted;  /* number of keys noted, counting repetitions */
    _Atomic uint64_t turned; /* items that were not loaded because of the guard */
};

/*
 * Make a guard for a load of about `items` items: one byte for each, but at most
 * 1/GUARD_LIMIT_PART of the limit, and 32 MiB. The bytes count in the budget even if that is
 * used up; a page becomes resident only when a key is noted in it. False: no memory. A system
 * call, so never inside a shard. Context: any thread.
 */
#define GUARD_LIMIT_PART 32 /* the smallest item has 32 bytes: no more keys than that fit */
bool guard_init(struct guard *g, uint64_t items, struct budget *budget);

/*
 * Pass its bits to the reclaimer, which releases them and subtracts them from the budget. The
 * struct may be reused at once. Context: registered thread, outside a shard.
 */
void guard_retire(struct guard *g, struct reclaimer *r);

/*
 * Declare the calling thread a loader, or not. Items that a loader stores are older than those
 * in the engine: its add of a recorded key stores nothing, and its misses are not recorded.
 * Context: any thread, outside a shard.
 */
void guard_set_loader(bool is_loader);

/* Is the calling thread a loader? Context: any thread. */
bool guard_is_loader(void);

/* Record a key. Context: in the shard of the key. */
void guard_note(struct guard *g, uint64_t hash);

/*
 * Must an item with this hash not be loaded, because its key was recorded or the load is void?
 * Then count it in `turned`. Context: in the shard of the key.
 */
bool guard_turns_away(struct guard *g, uint64_t hash);

#endif
