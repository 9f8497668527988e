/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Absolute paths, which stay valid when the process changes its folder.
 */
#ifndef MAYFLY_DAEMON_BASE_PATH_H
#define MAYFLY_DAEMON_BASE_PATH_H

/*
 * The path from the root, to be released by mem_free(). Links stay as they are: the operator
 * may change them. When the working folder is unknown the path stays relative, with a warning.
 * NULL: no memory. Context: any thread, while the working folder is the one that is meant.
 */
char *path_absolute(const char *path);

#endif
