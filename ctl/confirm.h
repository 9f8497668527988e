/* SPDX-License-Identifier: BSD-3-Clause */
/* The question before a command that cannot be undone. */
#ifndef MAYFLY_CTL_CONFIRM_H
#define MAYFLY_CTL_CONFIRM_H

#include <stdbool.h>

struct ctl;

/*
 * Ask on the terminal whether to do `what`, such as "Drop all items", to the server. True: yes,
 * or --yes was given, or standard input is no terminal, so that scripts go on as before. False:
 * ctl_fail() has been called.
 */
bool confirm(struct ctl *c, const char *what);

#endif
