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
 * Confine all threads that there are, and those that they might make. Cannot be undone. Returns
 * 0, or the exit status after a message was written. Context: main, when all threads run and
 * everything is loaded.
 */
int filter_install(const struct settings *settings);

#endif
