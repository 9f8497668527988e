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
 * Read a password from an open file or terminal, up to the end of the line and not a byte
 * further. False: there is no line, it is too long, or it has a NUL or CR. is_interrupted() is
 * called after each signal, and ends the call if it returns true; NULL: signals are ignored.
 * The caller erases the contents of `out`.
 */
bool password_read_line(int fd, char out[LINK_NAME_BYTES], bool (*is_interrupted)(void));

/*
 * The same from the first line of a file. False: failed, with the reason in why. *is_exposed:
 * users other than the owner can read or change the file; the caller should warn.
 */
bool password_read_file(const char *path, char out[LINK_NAME_BYTES], bool *is_exposed,
                        bool (*is_interrupted)(void), char *why, size_t why_bytes);

#endif
