/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushes. The index, deadlines and blocks of a shard are its generation. A flush replaces them
 * by empty ones and retires the old, so it takes constant time for any number of items.
 *
 * The empty index and deadlines are made before a flush is scheduled (shard_flush_prepare()),
 * so that carrying it out cannot fail. A writer may be the first thread to enter the shard
 * after the scheduled instant, and the item that it stores must not be flushed too.
 */
#ifndef MAYFLY_LIB_SHARD_FLUSH_H
#define MAYFLY_LIB_SHARD_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/shard/shard.h"

/*
 * Create the objects that the next flush swaps in, before it is scheduled. False if the system
 * has no memory. Context: outside the shard, one flush command at a time.
 */
bool shard_flush_prepare(struct shard *s);

/*
 * Schedule the flush command with this number, for which the shard was prepared: items stored
 * before `at` are flushed at `at`. It replaces an earlier command whose time has not come.
 * Context: outside the shard, one flush command at a time.
 */
void shard_flush_schedule(struct shard *s, msec_t at, uint64_t id);

/*
 * Carry out the flush if its time (flush_at) has come. Cannot fail. Context: outside the shard.
 */
void shard_flush(struct shard *s, msec_t now);

/*
 * The number of the newest flush command that is complete here: carried out, or replaced by a
 * later one before its time. Context: in shard.
 */
uint64_t shard_flushes_over(const struct shard *s);

/*
 * Set the flush commands of a new shard to those of the others. `at` is the time of the newest,
 * for which the shard was prepared; MSEC_NEVER: it was carried out. Context: the shard is not
 * in use yet.
 */
void shard_flush_follow(struct shard *s, msec_t at, uint64_t id);

/*
 * A flush command has ended: release prepared objects that it did not need, but keep one set
 * for the next command, unless the shard is idle. Context: outside the shard, one flush command
 * at a time.
 */
void shard_flush_settle(struct shard *s);

/*
 * Release all prepared objects, unless a flush is scheduled. Context: outside the shard, one
 * flush command at a time.
 */
void shard_flush_forget(struct shard *s);

/*
 * Replace prepared objects that were made for a higher limit (shard_fit_limit()). Context:
 * outside the shard, one flush command at a time.
 */
void shard_flush_fit(struct shard *s);

/*
 * Make sure that the shard has marks for its ranges, enough for its index. False: no memory.
 * Context: outside the shard, one flush command at a time.
 */
bool shard_prefix_prepare(struct shard *s);

/*
 * Put the commands up to this number into force here, if they are not yet: see prefixes of the
 * group. The shard was prepared for them. The caller wakes the home worker (shard_want_work()).
 * Context: in shard, read side.
 */
void shard_prefix_begin(struct shard *s, uint64_t id);

/* No prefix is in force now: open the gate. Context: outside the shard, as prepare. */
void shard_prefix_end(struct shard *s);

/*
 * Call before a writer looks up a key: if flushes of its prefix are in force, unlink the items
 * that they have flushed in the range of the key (prefix.h). Context: in shard, read side.
 */
void shard_clean_for(struct shard *s, uint64_t hash, const char *key, size_t key_len);

/*
 * The same for a few ranges, in turn. True if there are more. Context: in shard, read side.
 */
bool shard_prefix_slice(struct shard *s);

/* Release all prepared objects. Context: the shard is being destroyed. */
void shard_flush_fini(struct shard *s);

#endif
