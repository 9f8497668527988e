/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small files in folders that may belong to another user. The server starts as root, and the
 * folder of its pid file often belongs to the user it changes to. Files of that user must not
 * redirect root to another file (a link) or block the start (a fifo).
 */
#ifndef MAYFLY_DAEMON_BASE_FILE_H
#define MAYFLY_DAEMON_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/span.h"

/* Identifies a file independently of its name. */
struct file_id {
    dev_t dev;
    ino_t ino;
};

/*
 * Create a file with this content at the path, replacing any existing file: a link is replaced,
 * not followed; a device, such as /dev/null, is not replaced. The umask applies to the mode.
 * The file is written under a random name in the same folder and renamed, so a reader finds the
 * whole content or none. False: errno is set, and no file is left. *id: the file. Context:
 * main, before start.
 */
bool file_replace(const char *path, struct span content, mode_t mode, struct file_id *id);

/* Write all of it. False: errno says why. Context: any thread. */
bool file_write(int fd, struct span content);

/*
 * Read up to size - 1 bytes from the beginning of a regular file, and append a NUL. Neither
 * follows a link nor waits. Returns their number, or -1 with errno. Context: any thread.
 */
ssize_t file_read_start(const char *path, char *out, size_t size);

/*
 * The content of a file. Release it by mem_free(text.bytes), also after a failed read.
 */
struct file_text {
    char *bytes; /* owned */
    size_t len;
    size_t cap; /* bytes that may hold something of the file */
};

/*
 * Read a regular file of at most max bytes. Follows links, and never waits: a fifo or a device
 * is refused. Returns NULL, or an error message (valid until the next call of strerror()).
 * Release *out in both cases. Context: main.
 */
const char *file_read_all(const char *path, size_t max, struct file_text *out);

/*
 * Does the path lead to something other than a regular file? An open of it may wait without end
 * (a fifo), a read may not end (a device). For files that a library opens by name. Context: any
 * thread.
 */
bool file_is_special(const char *path);

/*
 * Remove this file, or empty it if its folder does not allow that. Does nothing if another file
 * has its name now. Returns false and sets errno on failure. Context: any thread.
 */
bool file_remove(const char *path, const struct file_id *id);

/* ---- file_edit.c ------------------------------------------------------------------------- */

/*
 * Atomic replacement of a file's content. The new content is written to a file in the same
 * folder, with the same mode and owner, and synced to disk. Then it is renamed to the old name,
 * and the folder is synced too. So several files can be prepared before the first is replaced.
 *
 * A file that its owner has made read-only is not replaced. Neither is a file whose owner
 * cannot be preserved, or that has changed since it was read.
 */

struct file_edit {
    /* the caller's */
    const char *path; /* [borrowed] of a regular file, not of a link */
    struct span old;  /* [borrowed] expected present content */
    struct span text; /* [borrowed] new content */

    char *temporary; /* owned; NULL: none */
};

/*
 * Write the new content to a temporary file in the same folder. Returns false on failure: why
 * has the path and the reason, and no file is left. Context: any thread; it waits for the disk.
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

/* ---- path.c ------------------------------------------------------------------------------ */

/*
 * Absolute paths, which stay valid when the process changes its folder.
 */

/*
 * The absolute form of a path, to be released by mem_free(). Symbolic links are not resolved,
 * because the operator may change them. When the working folder is unknown the path stays
 * relative, with a warning. NULL: no memory. Context: any thread, in the folder to which the
 * path refers.
 */
char *path_absolute(const char *path);

#endif
