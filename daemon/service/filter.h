/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * -o drop_privileges, first half: the system calls that are left, by libseccomp. The rows are
 * in filter.def.
 *
 * A call that is not among them does not happen: a line says which it was, and the process ends
 * by SIGSYS. Going on would be wrong in either case, whether it is a fault of ours or somebody
 * else's code.
 */
#ifndef MAYFLY_DAEMON_SERVICE_FILTER_H
#define MAYFLY_DAEMON_SERVICE_FILTER_H

struct settings;

/*
 * Rings of io_uring cannot be made from now on, by this thread and those that it makes: what is
 * put into them passes by the filter below, and libuv, which makes one for each loop from
 * version 1.45 on, asks for work by a call that the filter ends. It then goes on without them.
 * Returns 0, or the exit status after a message was written. Context: main, before the first
 * loop.
 */
int filter_prepare(const struct settings *settings);

/*
 * Confine all threads that there are, and those that they might make. Cannot be undone. Returns
 * 0, or the exit status after a message was written. Context: main, when all threads run and
 * everything is loaded.
 */
int filter_install(const struct settings *settings);

#endif
