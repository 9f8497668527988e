/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Closes connections that keep too much. This is done outside of turns: between two events, or
 * between two connections that are served.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_SHED_H
#define MAYFLY_DAEMON_CONN_CONN_SHED_H

#include "daemon/worker/worker.h"
#include "lib/base/check.h"

/*
 * Close the connections of this worker that have to be closed (holders.h), and make the other
 * workers do the same. Runs the round first. Context: worker, outside a section.
 */
void conn_shed(struct worker *w);

/* Only those of this worker. Context: as above. */
void conn_shed_quietly(struct worker *w);

/* If one may have to go. Any connection may be closed then. Context: as above. */
static inline void conn_shed_if_crowded(struct worker *w)
{
    if (MF_UNLIKELY(w->holders.is_crowded)) {
        conn_shed(w);
    }
}

#endif
