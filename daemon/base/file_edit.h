/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file gets another content: all of it, or it stays as it was. The new content is written to
 * a file beside it, with the same mode and owner, and brought to the disk; then that takes the
 * name, and the folder is brought to the disk as well. So several files can be prepared before
 * the first is changed.
 *
 * Nothing is forced: a file that its owner has made read-only stays as it is, and so does one
 * whose owner cannot be kept, or that is not as it was when it was read.
 */
#ifndef MAYFLY_DAEMON_BASE_FILE_EDIT_H
#define MAYFLY_DAEMON_BASE_FILE_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/span.h"

struct file_edit {
    /* the caller's */
    const char *path; /* [borrowed] of a regular file, not of a link */
    struct span old;  /* [borrowed] what it is expected to have */
    struct span text; /* [borrowed] what it shall have */

    char *temporary; /* owned; NULL: none */
};

/*
 * Write the new content beside the file. False: why has the path and the reason, and nothing is
 * left. Context: any thread; it waits for the disk.
 */
bool file_edit_prepare(struct file_edit *e, char *why, size_t why_bytes);

/*
 * Let it take the file's place. False: as above; the file is as it was, unless why says that
 * only the folder could not be brought to the disk. Context: as above, after
 * file_edit_prepare().
 */
bool file_edit_commit(struct file_edit *e, char *why, size_t why_bytes);

/* Remove what was prepared and not committed. Accepts nothing. Context: as above. */
void file_edit_discard(struct file_edit *e);

#endif
