/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of options: mayfly's own format, with included files, and Debian's file for memcached.
 *
 * Every error is printed as FILE:LINE: and a message. Only regular files of at most
 * CONF_FILE_MAX bytes are read, so that a file can neither block a start nor fill memory.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_CONF_FILE_H
#define MAYFLY_DAEMON_OPTIONS_CONF_FILE_H

#include <stdbool.h>

#include "daemon/base/file.h"
#include "daemon/options/settings.h"
#include "lib/base/buf.h"
#include "lib/base/span.h"

#define CONF_FILE_MAX  ((size_t)1 << 20)
#define CONF_DEPTH_MAX 8u   /* files that include each other */
#define CONF_FILES_MAX 256u /* files in all */

/* A file's present text, and its new text. */
struct conf_text {
    char *path;           /* owned; from the root, without links */
    struct file_text old; /* owned */
    struct buf now;       /* owned; if is_edited */
    bool is_edited;
};

/* Files that were read once and are read again from memory. */
struct conf_texts {
    struct conf_text *items; /* owned */
    size_t count;
};

/*
 * Read a configuration file into the settings, as OPTION_FILE. Returns 0, or the exit status of
 * the first error. texts: NULL, or a cache of file texts; a file that is in the cache is not
 * read from the disk. Context: main, before start; later into settings of the caller's.
 */
int conf_read(struct settings *s, const char *path, struct conf_texts *texts);

/* The same for a file of flags (conf_line.h), as OPTION_MEMCACHED_CONF. */
int conf_read_memcached(struct settings *s, const char *path);

/* The text of a file by any of its names; NULL: there is none. Context: main. */
struct conf_text *conf_texts_find(struct conf_texts *t, const char *path);

/* The new text. Context: main. */
static inline struct span conf_text_now(const struct conf_text *t)
{
    return t->is_edited ? buf_span(&t->now) : span_of(t->old.bytes, t->old.len);
}

/* Release them. Context: main. */
void conf_texts_fini(struct conf_texts *t);

/* ---- variables of the environment -------------------------------------------------------- */

/*
 * Options from the environment: MAYFLY_MEMORY_LIMIT=80% is memory-limit = 80%. Files and
 * command line override them. A variable without a value counts as not set.
 *
 * A variable that is no option is left alone: Kubernetes, for example, makes
 * MAYFLY_SERVICE_HOST and MAYFLY_PORT=tcp://... where a service has that name. If its name is
 * near that of an option, a message says so. Values of such variables are never shown.
 */

/*
 * Read the options of the environment, as OPTION_ENVIRONMENT. tells: print a message for names
 * that are close to that of an option. Returns 0, or the exit status of the first error.
 * Context: main, before start; later into settings of the caller's.
 */
int conf_read_environment(struct settings *s, bool tells);

/* Log the names of variables that begin like options and are none (-v). Context: main. */
void conf_log_environment(void);

#endif
