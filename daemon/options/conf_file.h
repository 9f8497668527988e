/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of options: mayfly's own, with the files that they include, and Debian's for memcached.
 *
 * Every error is printed, as FILE:LINE: and what is wrong. Files are regular ones of at most
 * CONF_FILE_MAX bytes, so that a start neither waits nor fills memory because of one.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_CONF_FILE_H
#define MAYFLY_DAEMON_OPTIONS_CONF_FILE_H

#include "daemon/options/settings.h"

#define CONF_FILE_MAX  ((size_t)1 << 20)
#define CONF_DEPTH_MAX 8u   /* files that include each other */
#define CONF_FILES_MAX 256u /* files in all */

/*
 * Read a configuration file into the settings, as OPTION_FILE. Returns 0, or the exit status of
 * the first error. Context: main, before start.
 */
int conf_read(struct settings *s, const char *path);

/* The same for a file of flags (conf_words.h), as OPTION_MEMCACHED_CONF. */
int conf_read_memcached(struct settings *s, const char *path);

#endif
