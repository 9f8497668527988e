/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file of flags, such as Debian's /etc/memcached.conf, as the words of a command line. Lines
 * are read as Debian's systemd-memcached-wrapper and start-memcached do, which hand them to a
 * shell:
 *
 *   #          begins a comment, unless preceded by \
 *   -d -h      a line that begins so is ignored: the service manager decides this
 *   logfile F  is ignored: messages go to standard error
 *   word ...   any other line without a dash in front is an error, as in start-memcached
 *
 * Quotes and backslashes are those of the shell. What else a shell would act on, such as $ or
 * ;, is an error: no shell runs here.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_CONF_WORDS_H
#define MAYFLY_DAEMON_OPTIONS_CONF_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/span.h"

struct conf_words {
    int argc;        /* with argv[0], which names the program */
    char **argv;     /* owned; NULL after the last */
    unsigned *lines; /* owned; the line of each */
    char *chars;     /* owned */
    size_t used;     /* of chars */
};

/*
 * Make an empty list, with room for the words of a text. Returns false without memory. Context:
 * any thread.
 */
bool conf_words_init(struct conf_words *w, size_t text_len);

/* Release them. Also after a failed conf_words_init(). Context: any thread. */
void conf_words_fini(struct conf_words *w);

/*
 * Add the words of a line, which lies within the text. Returns what is wrong with the line,
 * which then adds none, or NULL. Context: any thread.
 */
const char *conf_words_add(struct conf_words *w, struct span line, unsigned number);

#endif
