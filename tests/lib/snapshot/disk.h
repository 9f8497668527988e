/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A disk that may lose its power: what is done to the files of a folder is recorded, and of any
 * moment a folder is made as it might be found afterwards. What an fsync has covered is there.
 * Of what was written since, any pages or sectors are there, as they were at any time since;
 * the file is as long as it was at any time since, with zeros or with what another file left
 * where nothing was written. Of names that no fsync of the folder has covered any are given,
 * changed and removed.
 *
 * There is one disk. Its calls may come on any thread; the rest is the test's.
 */
#ifndef MAYFLY_TESTS_LIB_SNAPSHOT_DISK_H
#define MAYFLY_TESTS_LIB_SNAPSHOT_DISK_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/format/io.h"
#include "tests/common/rng.h"

/* Record from now on; what is in this folder is durable. Forgets what was recorded before. */
void disk_begin(const char *dir);
void disk_end(void);

/* The calls that are recorded. */
extern const struct io_calls disk_io;

/*
 * Kill the calling process: its later calls have no effect, though they report success.
 * Earlier effects stay, synced or not, and disk_revive() starts the next process.
 * disk_kill_after() does so after `calls` more calls.
 */
void disk_kill(void);
void disk_kill_after(size_t calls);
bool disk_is_dead(void);
void disk_revive(void);

/* The record of all calls. It includes every completed call, in whichever thread. */
size_t disk_calls(void);

/* Create in an empty folder the files that a loss of power after this many calls leaves. */
void disk_make(const char *dir, size_t calls, struct rng *r);

#endif
