/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress of another program's takeover (service/upgrade.h): main records it, and the
 * client that asked can read it.
 */
#ifndef MAYFLY_DAEMON_WORKER_HANDOVER_H
#define MAYFLY_DAEMON_WORKER_HANDOVER_H

#include <pthread.h>

#define HANDOVER_WHY_BYTES 256

enum handover_state {
    HANDOVER_NONE,      /* not requested */
    HANDOVER_ASKED,     /* a program is asked whether it would start */
    HANDOVER_UNDER_WAY, /* it would: the server stops for it */
    HANDOVER_REFUSED,   /* it would not, or cannot be asked */
    HANDOVER_DONE,      /* this is the program that took over */
};

struct handover {
    pthread_mutex_t mutex; /* the rest is under it; a leaf */
    enum handover_state state;
    char why[HANDOVER_WHY_BYTES]; /* it was refused; cut where it is longer; else "" */
};

/* Context: main, before start. */
void handover_init(struct handover *h, enum handover_state state);

/* Set the state; why: NULL except for a refusal. Context: main. */
void handover_tell(struct handover *h, enum handover_state state, const char *why);

/* Its state, and a copy of why. Context: any thread. */
enum handover_state handover_look(struct handover *h, char why[HANDOVER_WHY_BYTES]);

/* none, asked, under-way, refused, done. */
const char *handover_text(enum handover_state state);

#endif
