/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress of an upgrade: see crew.h.
 */
#include "daemon/worker/crew.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/context.h"

void handover_init(struct handover *h, enum handover_state state)
{
    must_be_main();
    memset(h, 0, sizeof(*h));
    pthread_mutex_init(&h->mutex, NULL);
    h->state = state;
}

void handover_tell(struct handover *h, enum handover_state state, const char *why)
{
    must_be_main();
    pthread_mutex_lock(&h->mutex);
    h->state = state;
    snprintf(h->why, sizeof(h->why), "%s", why != NULL ? why : "");
    pthread_mutex_unlock(&h->mutex);
}

enum handover_state handover_look(struct handover *h, char why[HANDOVER_WHY_BYTES])
{
    pthread_mutex_lock(&h->mutex);
    enum handover_state state = h->state;
    memcpy(why, h->why, HANDOVER_WHY_BYTES);
    pthread_mutex_unlock(&h->mutex);
    return state;
}

const char *handover_text(enum handover_state state)
{
    static const char *const texts[] = {[HANDOVER_NONE] = "none",
                                        [HANDOVER_ASKED] = "asked",
                                        [HANDOVER_UNDER_WAY] = "under-way",
                                        [HANDOVER_REFUSED] = "refused",
                                        [HANDOVER_DONE] = "done"};

    return texts[state];
}
