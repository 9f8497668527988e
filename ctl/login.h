/* SPDX-License-Identifier: BSD-3-Clause */
/* Logging in where the server asks for users (-Y): by the first command of a connection. */
#ifndef MAYFLY_CTL_LOGIN_H
#define MAYFLY_CTL_LOGIN_H

#include "ctl/ctl.h"

/*
 * Log in as --user, with the password of --password-file or one that is typed. A password is
 * never part of the command line, which others on the host can read.
 */
enum ctl_status login(struct ctl *c);

#endif
