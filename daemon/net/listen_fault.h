/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages about sockets that cannot be opened, in the format of options_apply.h. If a port is
 * in use, the message names the process that has it, if /proc shows it.
 */
#ifndef MAYFLY_DAEMON_NET_LISTEN_FAULT_H
#define MAYFLY_DAEMON_NET_LISTEN_FAULT_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/options/settings.h"
#include "lib/base/span.h"

/* An address, or an element of a list of them. */
struct listen_fault {
    enum option_id id;  /* of the option that asks for it */
    struct span where;  /* what it names */
    const char *call;   /* what has failed; NULL: nothing was called */
    const char *reason; /* NULL: errno is */
    uint16_t port;      /* to look for if it is in use; 0: none */
    int type;           /* SOCK_STREAM, SOCK_DGRAM */
};

/* Print the message. Returns the exit status. Context: main. */
int listen_fault(const struct settings *settings, const struct listen_fault *f);

/*
 * "by NAME, pid NUMBER" for the process whose socket uses this port, or "" if that is not
 * visible. Fills text. Context: main.
 */
#define PORT_OWNER_BYTES 64
const char *port_owner(uint16_t port, int type, char text[PORT_OWNER_BYTES]);

#endif
