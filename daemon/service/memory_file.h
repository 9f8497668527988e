/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that has the items (memory_file), so that they outlive a restart. The operator names
 * it, or (fdstore) it has no name and the service manager keeps its descriptor.
 * lib/engine/attach.h defines the file and when it is used. This file has messages and exit
 * statuses.
 */
#ifndef MAYFLY_DAEMON_SERVICE_MEMORY_FILE_H
#define MAYFLY_DAEMON_SERVICE_MEMORY_FILE_H

#include <stdbool.h>

struct server;
struct settings;

/* Is it a path that holds in the present folder only? Context: any thread. */
bool memory_file_is_relative(const struct settings *set);

/*
 * Which file it is, whatever its path: that of a descriptor, or (fd < 0) the one that would be
 * opened. "fdstore": the one that goes along with the process. Context: main.
 */
#define MEMORY_FILE_NAME_BYTES 48
void memory_file_name(const struct settings *set, int fd, char out[MEMORY_FILE_NAME_BYTES]);

/*
 * Would a start get the file? Makes none, and leaves one that is in use alone. Returns 0, or
 * the exit status after a message. Context: main, as the user that the server runs as.
 */
int memory_file_check(const struct settings *set);

/*
 * Open the file, if one is asked for, and keep others from it. Returns 0 or an exit status.
 * Context: main, before the engine starts, as the user that the server runs as.
 */
int memory_file_open(struct server *s);

/*
 * Log what became of its items. From now on, if it loses pages, the process ends with EX_IOERR.
 * Context: main, the engine runs.
 */
void memory_file_tell(struct server *s);

/* Close it, and log whether the next start can use it. Context: main, after the engine. */
void memory_file_close(struct server *s);

#endif
