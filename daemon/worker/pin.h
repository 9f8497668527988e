/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers on CPUs of their own (the option worker_cpus, daemon/options/cpu_list.h). Only
 * workers are pinned, those that are parked as well. Main and the threads for work in the
 * background run where the system puts them.
 */
#ifndef MAYFLY_DAEMON_WORKER_PIN_H
#define MAYFLY_DAEMON_WORKER_PIN_H

struct crew;
struct worker;

/*
 * Pin a worker as the option says now, or let it run wherever main may. What the system refuses
 * is logged. Context: main; its thread runs.
 */
void pin_worker(struct worker *w);
void pin_workers(struct crew *crew);

#endif
