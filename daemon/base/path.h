/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Absolute paths, which stay valid when the process changes its folder.
 */
#ifndef MAYFLY_DAEMON_BASE_PATH_H
#define MAYFLY_DAEMON_BASE_PATH_H

/*
 * The absolute form of a path, to be released by mem_free(). Symbolic links are not resolved,
 * because the operator may change them. When the working folder is unknown the path stays
 * relative, with a warning. NULL: no memory. Context: any thread, in the folder to which the
 * path refers.
 */
char *path_absolute(const char *path);

#endif
