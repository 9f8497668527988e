/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file that gets the log, in place of standard error.
 */
#ifndef MAYFLY_DAEMON_BASE_LOG_FILE_H
#define MAYFLY_DAEMON_BASE_LOG_FILE_H

#include <stdbool.h>

/*
 * Open the file, which is made if it is not there; it takes the place of one that is open.
 * False: *why says why, and the one that was open stays. Context: main.
 */
bool log_file_open(const char *path, const char **why);

/* Close it. Context: main, no other thread logs. */
void log_file_close(void);

/* Its descriptor; -1: none is open. Context: any thread. */
int log_file_fd(void);

/* Could it be opened? Makes no file. Returns as log_file_open(). Context: main, at start. */
bool log_file_check(const char *path, const char **why);

#endif
