/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that makes a file durable while its owner goes on to write to it: an fsync may take
 * as long as the disk wants.
 */
#ifndef MAYFLY_LIB_SNAPSHOT_SYNCER_H
#define MAYFLY_LIB_SNAPSHOT_SYNCER_H

#include <stdbool.h>

#include "lib/snapshot/io.h"

struct syncer;

/*
 * Make the thread. tell is called when an fsync begins, by the owner, and when it is over, by
 * the thread (see handoff_init()); it may wait a little. io and arg are borrowed. NULL: no
 * memory, or no thread. Context: any thread.
 */
struct syncer *syncer_create(const struct io_calls *io, void (*tell)(void *arg), void *arg);

/*
 * Takes the address and nulls it; accepts NULL. Context: the owner, after syncer_end() if there
 * was a syncer_begin(); outside a section.
 */
void syncer_destroy(struct syncer **s);

/*
 * Make durable what was written to this file before the call. The file stays open until
 * syncer_end(). Context: the owner, as for the rest.
 */
void syncer_begin(struct syncer *s, int fd);

/* Does syncer_end() not have to wait? */
bool syncer_is_over(const struct syncer *s);

/* Wait until it is over. Returns 0, or the errno. Context: outside a section. */
int syncer_end(struct syncer *s);

#endif
