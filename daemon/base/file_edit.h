/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic replacement of a file's content. The new content is written to a file in the same
 * folder, with the same mode and owner, and synced to disk. Then it is renamed to the old name,
 * and the folder is synced too. So several files can be prepared before the first is replaced.
 *
 * A file that its owner has made read-only is not replaced. Neither is a file whose owner
 * cannot be preserved, or that has changed since it was read.
 */
#ifndef MAYFLY_DAEMON_BASE_FILE_EDIT_H
#define MAYFLY_DAEMON_BASE_FILE_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/span.h"

struct file_edit {
    /* the caller's */
    const char *path; /* [borrowed] of a regular file, not of a link */
    struct span old;  /* [borrowed] expected present content */
    struct span text; /* [borrowed] new content */

    char *temporary; /* owned; NULL: none */
};

/*
 * Write the new content beside the file. Returns false on failure: why has the path and the
 * reason, and nothing is left. Context: any thread; it waits for the disk.
 */
bool file_edit_prepare(struct file_edit *e, char *why, size_t why_bytes);

/*
 * Rename the new file over the old one. Returns false as above; the file is unchanged, unless
 * why says that only the sync of the folder failed. Context: as above, after
 * file_edit_prepare().
 */
bool file_edit_commit(struct file_edit *e, char *why, size_t why_bytes);

/* Remove the new file, if one was prepared and not committed. Context: as above. */
void file_edit_discard(struct file_edit *e);

#endif
