/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds with --enable-debug recompute a worker's counts of its connections by a walk over all
 * of them. When the server has stopped, the connections' contributions to the common counts of
 * all workers must be zero: see crew_stop().
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
