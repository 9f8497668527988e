/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to the service manager, on the main thread. libsystemd reads NOTIFY_SOCKET at each
 * call, returns 0 when it is unset and an error when no process listens there; the service goes
 * on in both cases.
 */
#include "daemon/service/notify.h"

#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "lib/base/context.h"

/* Longest message; a longer one is cut. */
#define NOTIFY_BYTES 512

static void send_state(const char *state)
{
    const int n = sd_notify(0, state);

    if (n < 0) {
        log_debug("notify, message not delivered (%s)", strerror(-n));
    }
}

void notify_ready(const char *status)
{
    char state[NOTIFY_BYTES];

    must_be_main();
    snprintf(state, sizeof(state), "READY=1\nMAINPID=%ld\nSTATUS=%s", (long)getpid(), status);
    send_state(state);
}

void notify_stopping(void)
{
    must_be_main();
    send_state("STOPPING=1\nSTATUS=stopping");
}
