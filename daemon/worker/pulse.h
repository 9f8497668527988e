/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watchdog of the workers' loops. Each worker is sent a message, and answers when it takes it.
 * A worker whose turn does not end does not answer.
 */
#ifndef MAYFLY_DAEMON_WORKER_PULSE_H
#define MAYFLY_DAEMON_WORKER_PULSE_H

#include <stdint.h>

#include "daemon/base/mailbox.h"
#include "lib/base/clock.h"

struct crew;
struct worker;

/* Of one worker. */
struct pulse {
    struct message message;
    _Atomic usec_t asked_us; /* [atomic] by the monotonic clock; 0: nothing is unanswered */
};

/* Context: the worker's, before it is shared. */
void pulse_init(struct pulse *p);

/*
 * Ask every worker that is not parked and does not owe an answer already. Context: any thread,
 * while workers run.
 */
void pulse_ask(struct crew *crew);

/*
 * The time that the slowest worker has taken to answer until now, in microseconds; 0: all have
 * answered. Context: any thread, while workers run.
 */
usec_t pulse_delay_us(const struct crew *crew);

#endif
