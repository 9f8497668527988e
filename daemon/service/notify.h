/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to the service manager (sd_notify). Every function does nothing if the process was
 * not started by a service manager (NOTIFY_SOCKET unset), or if its socket does not exist: the
 * server never depends on it.
 */
#ifndef MAYFLY_DAEMON_SERVICE_NOTIFY_H
#define MAYFLY_DAEMON_SERVICE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* The server serves clients now; status is shown to the operator. Context: main. */
void notify_ready(const char *status);

/* The settings are being reloaded; notify_ready() ends that. Context: main. */
void notify_reloading(void);

/* Status for the operator. Context: main. */
void notify_status(const char *status);

/*
 * The same during a start or stop that may take longer than the service manager waits. Must be
 * called at least once a second. Context: main.
 */
void notify_takes_time(const char *status);

/*
 * The server is alive; to be called at least as often as notify_watchdog_us(). Context: main.
 */
void notify_alive(void);

/*
 * The watchdog interval of the service manager, in microseconds; 0: none. Context: main.
 */
uint64_t notify_watchdog_us(void);

/* Was the process started by a service manager? Context: main. */
bool notify_has_manager(void);

/*
 * Ask the service manager to keep a descriptor, under this name, and to pass it to the next
 * process (FDSTORE); or to drop all of this name. Returns when it has done so, or after 2 s.
 * Returns false if there is no manager, or no answer. The manager does not report whether the
 * unit allows that (FileDescriptorStoreMax). Context: main.
 */
bool notify_keep(const char *name, int fd);
bool notify_forget(const char *name);

/* The server starts to stop. Context: main. */
void notify_stopping(void);

#endif
