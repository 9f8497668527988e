/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds with --enable-debug: what a worker has of its connections is added up once more, by a
 * walk over all of them. What they add to the counts of all workers together has to be nothing
 * when the server has stopped: see crew_stop().
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_ACCOUNTS_H
#define MAYFLY_DAEMON_CONN_CONN_ACCOUNTS_H

struct worker;

/* Context: worker, between two turns, outside a section. */
#ifdef MAYFLY_DEBUG
void conn_accounts_check(const struct worker *w);
#else
static inline void conn_accounts_check(const struct worker *w)
{
    (void)w;
}
#endif

#endif
