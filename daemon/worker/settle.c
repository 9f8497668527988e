/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to all workers when the role of the server changes: see crew.h.
 */
#include "daemon/worker/crew.h"

#include "lib/base/context.h"

/* Answers the message of crew_settle(). Earlier messages in the mailbox were served before. */
static void on_settle(struct message *m, void *receiver)
{
    struct worker *w = MF_OUTER(m, struct worker, settle);

    must_be_worker(receiver);
    uv_sem_post(&w->settled);
}

void crew_settle(struct crew *crew)
{
    const uint32_t count = roster_created(&crew->roster); /* main may make others meanwhile */

    must_not_be_reading();
    for (uint32_t i = 0; i < count; i++) {
        crew->workers[i].settle.fn = on_settle;
        mailbox_post(&crew->workers[i].mailbox, &crew->workers[i].settle);
    }
    for (uint32_t i = 0; i < count; i++) {
        uv_sem_wait(&crew->workers[i].settled);
    }
}

void crew_close_clients(struct crew *crew)
{
    atomic_fetch_add(&crew->farewells, 1);
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        notice_post(&crew->workers[i].farewell, &crew->workers[i].mailbox);
    }
}
