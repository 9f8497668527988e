/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that has the items (memory_file), so that they outlive a restart. The operator names
 * it, or (fdstore) it has no name and the service manager keeps its descriptor.
 * lib/engine/attach.h defines the file and when it is used. This module adds messages and exit
 * statuses.
 */
#ifndef MAYFLY_DAEMON_SERVICE_MEMORY_FILE_H
#define MAYFLY_DAEMON_SERVICE_MEMORY_FILE_H

#include <stdbool.h>

struct server;
struct settings;

/* Is it a relative path? Context: any thread. */
bool memory_file_is_relative(const struct settings *set);

/*
 * Write an identifier of a file that does not depend on its path: the file of a descriptor, or
 * (fd < 0) the one that would be opened; "fdstore" for the file without a name. Context: main.
 */
#define MEMORY_FILE_NAME_BYTES 48
void memory_file_name(const struct settings *set, int fd, char out[MEMORY_FILE_NAME_BYTES]);

/*
 * Would a start get the file? Makes none, and leaves one that is in use alone. Returns 0, or
 * the exit status after a message. Context: main, as the user that the server runs as.
 */
int memory_file_check(const struct settings *set);

/*
 * Open the file, if the settings have one, and lock it. Returns 0 or an exit status.
 * Context: main, before the engine starts, as the user that the server runs as.
 */
int memory_file_open(struct server *s);

/*
 * Log the result of the take-over. From now on the process ends with EX_IOERR if it loses
 * pages. Context: main, the engine runs.
 */
void memory_file_tell(struct server *s);

/* Close it, and log whether the next start can use it. Context: main, after the engine. */
void memory_file_close(struct server *s);

#endif
