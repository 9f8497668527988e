/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pins workers to CPUs (the option worker_cpus, daemon/options/cpu_list.h). Only workers are
 * pinned, including parked ones. The kernel places main and the background threads.
 */
#ifndef MAYFLY_DAEMON_WORKER_PIN_H
#define MAYFLY_DAEMON_WORKER_PIN_H

struct crew;
struct worker;

/*
 * Pin a worker as the option says, or let it run wherever main may. Failures are logged.
 * Context: main; its thread runs.
 */
void pin_worker(struct worker *w);
void pin_workers(struct crew *crew);

#endif
