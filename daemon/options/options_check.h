/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules between options.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_CHECK_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_CHECK_H

#include "daemon/options/settings.h"

/*
 * Set what follows from other options, and check them against each other. Prints a message and
 * returns memcached's exit status, or 0. Context: main, before start, after all are set.
 */
int options_check(struct settings *s);

#endif
