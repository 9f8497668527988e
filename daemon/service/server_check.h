/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks whether a start would succeed, as far as possible without acquiring anything from the
 * system.
 */
#ifndef MAYFLY_DAEMON_SERVICE_SERVER_CHECK_H
#define MAYFLY_DAEMON_SERVICE_SERVER_CHECK_H

#include <stdbool.h>

struct settings;

/*
 * Does the number of shards, given or that of threads, suit -m? Returns 0, or the exit status
 * after a message. Context: main.
 */
int server_check_shards(const struct settings *settings);

/*
 * Open the file of the log, if there is one, by log_open_file(), or see by log_file_check()
 * whether that can be done. Returns 0, or the exit status after a message. Context: main.
 */
int server_try_log(const struct settings *settings,
                   bool (*open)(const char *path, const char **why));

/*
 * --check-config: reads and resolves all that a start does, in the same order and with the same
 * rights, so the process gives up root's rights like a start. Every error is reported, or "ok"
 * if there is none. Binds no address, asks no name server, makes no file and no process. If
 * another program asks (upgrade.h), it also binds briefly the addresses that the other does not
 * have yet, and prints no "ok". Returns the exit status of the first error, or 0. Context:
 * main, instead of a start.
 */
int server_check(struct settings *settings);

#endif
