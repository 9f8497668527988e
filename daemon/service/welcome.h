/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections inherited from the previous program (upgrade.h). Each is served like an accepted
 * one, if there is a listener at its address and a place. Others are closed, and counted in a
 * line of the log.
 */
#ifndef MAYFLY_DAEMON_SERVICE_WELCOME_H
#define MAYFLY_DAEMON_SERVICE_WELCOME_H

#include <stdint.h>

#include "daemon/net/passed_conns.h"
#include "lib/base/buf.h"

struct server;

/* What was passed and not given to the workers yet. Zeroed storage: nothing. [main] */
struct welcome {
    struct buf bytes;
    struct passed_reader reader; /* of these */
    int *fds;                    /* owned, and so are they; -1: it was no connection */
};

/*
 * Take what was passed, and the keys of its logins. Context: main, before users are read and
 * before any program is started.
 */
void welcome_open(struct server *s);

/* Deal the connections to the workers. Context: main, the workers run. */
void welcome_all(struct server *s);

/* Close what is left, after a failed start. Context: main. */
void welcome_close(struct server *s);

#endif
