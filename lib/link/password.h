/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the password of link_login(). It never comes from a command line, which other users of
 * the host can read. Context: any thread.
 */
#ifndef MAYFLY_LIB_LINK_PASSWORD_H
#define MAYFLY_LIB_LINK_PASSWORD_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/link/link.h"

/*
 * Read a password from an open file or terminal, up to the end of a line, and not a byte
 * beyond it. False: the line is too long, has a NUL or CR, or there is none. is_interrupted:
 * asked when a signal came; NULL: go on. The caller wipes out.
 */
bool password_read_line(int fd, char out[LINK_NAME_BYTES], bool (*is_interrupted)(void));

/*
 * The same from a file: its first line. False: told in why. *is_exposed: others than the owner
 * may read or change the file, which is worth a warning.
 */
bool password_read_file(const char *path, char out[LINK_NAME_BYTES], bool *is_exposed,
                        bool (*is_interrupted)(void), char *why, size_t why_bytes);

#endif
