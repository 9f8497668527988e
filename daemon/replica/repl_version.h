/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions of the protocol between primary and replica. Each side speaks its own version and
 * the previous one, and both use the highest that they have in common. So servers can be
 * upgraded one at a time, replicas first: a primary that is upgraded last never meets a replica
 * that is more than one version older.
 *
 * The replica states the versions that it speaks as LEAST-MOST, and the primary answers with
 * the one that is spoken. A later version may add words to the end of psync, which earlier ones
 * skip. Context of all functions: any thread.
 */
#ifndef MAYFLY_DAEMON_REPLICA_REPL_VERSION_H
#define MAYFLY_DAEMON_REPLICA_REPL_VERSION_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/span.h"

/* Room for a range as text. */
#define REPL_VERSIONS_BYTES 24u

struct repl_versions {
    uint32_t least, most; /* from 1 on */
};

/* Those of a server whose own version is this one. */
struct repl_versions repl_versions_of(uint32_t own);

/* LEAST-MOST, or one number for both. False: it is neither. */
bool repl_versions_parse(struct span word, struct repl_versions *v);
void repl_versions_format(const struct repl_versions *v, char out[REPL_VERSIONS_BYTES]);

/* The version that both speak; 0: they have none in common. */
uint32_t repl_versions_common(const struct repl_versions *a, const struct repl_versions *b);

#endif
