/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log file that replaces standard error.
 */
#ifndef MAYFLY_DAEMON_BASE_LOG_FILE_H
#define MAYFLY_DAEMON_BASE_LOG_FILE_H

#include <stdbool.h>

/*
 * Open the file, and create it if it does not exist; it replaces the one that is open. Returns
 * false on failure: *why has the reason, and the previous one stays open. Context: main.
 */
bool log_file_open(const char *path, const char **why);

/* Close it. Context: main, no other thread logs. */
void log_file_close(void);

/* Its descriptor; -1: none is open. Context: any thread. */
int log_file_fd(void);

/* Could it be opened? Makes no file. Returns as log_file_open(). Context: main, at start. */
bool log_file_check(const char *path, const char **why);

#endif
