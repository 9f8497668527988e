/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to the service manager (sd_notify). Every function does nothing when the
 * process was not started by one (NOTIFY_SOCKET unset), or when its socket is gone: the service
 * never depends on it.
 */
#ifndef MAYFLY_DAEMON_SERVICE_NOTIFY_H
#define MAYFLY_DAEMON_SERVICE_NOTIFY_H

/* The server serves clients now; status is shown to the operator. Context: main. */
void notify_ready(const char *status);

/* The server begins to stop. Context: main. */
void notify_stopping(void);

#endif
