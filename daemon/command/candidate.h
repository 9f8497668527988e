/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection that came when all of -c was taken: nobody knows yet whether it is a replica's,
 * which has a place beyond -c. It may log in and say psync. Its first other command is answered
 * as memcached answers a connection beyond the limit, and so is one that says nothing in time.
 */
#ifndef MAYFLY_DAEMON_COMMAND_CANDIDATE_H
#define MAYFLY_DAEMON_COMMAND_CANDIDATE_H

#include <stdbool.h>

struct client;
struct worker;

/* Its origin is_beyond, and it begins. False: no memory. Context: worker. */
bool candidate_begin(struct client *c, struct worker *w);

#endif
