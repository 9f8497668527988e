/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splits a configuration file into lines: the bytes, name and value of each. It knows neither
 * files nor options, allocates nothing, and preserves every byte, so that a file is rewritten
 * by copying all lines and replacing changed values.
 *
 *     # a comment, or an empty line
 *     name = value            # a comment: after a blank, or at the beginning of the value
 *     name = "value"          within quotes \" \\ and \xHH are one character each
 */
#ifndef MAYFLY_DAEMON_OPTIONS_CONF_LINE_H
#define MAYFLY_DAEMON_OPTIONS_CONF_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/base/buf.h"
#include "lib/base/span.h"

struct conf_line {
    unsigned number;   /* from 1 */
    struct span whole; /* [borrowed] with its end */
    struct span name;  /* [borrowed] empty: the line has no setting */
    struct span raw;   /* [borrowed] the value as written, without quotes */
    bool is_quoted;
    const char *why; /* the error in the line; NULL: none */
};

/*
 * Remove the next line from the front of the text. *line has the previous one, or is zero at
 * the beginning. False: no lines are left. Context: any thread.
 */
bool conf_line_next(struct span *text, struct conf_line *line);

/*
 * Write the value to out, which has room for raw.len + 1 bytes, and end it by NUL. Context: any
 * thread.
 */
void conf_line_value(const struct conf_line *line, char *out);

/*
 * Decode the first character of a quoted text: the character itself, or a backslash escape.
 * Returns the number of bytes taken; 0: the escape is invalid. The text is not empty. Context:
 * any thread.
 */
size_t conf_char_take(struct span s, char *out);

/*
 * Must a value be quoted to be read again? If so, write the quoted form of one of its
 * characters, and return its length. Context: any thread.
 */
#define CONF_CHAR_MAX 5
bool conf_value_needs_quotes(const char *value);
size_t conf_char_quote(char c, char out[CONF_CHAR_MAX]);

/*
 * Print a value so that conf_line_next() reads it again: in quotes where it needs them. Returns
 * how many bytes were printed. Context: any thread.
 */
size_t conf_value_print(FILE *out, const char *value);

/*
 * Append it so to a buffer; conf_value_quote(): in quotes in any case. False: no memory.
 * Context: any thread.
 */
bool conf_value_append(struct buf *out, const char *value);
bool conf_value_quote(struct buf *out, const char *value);

/* ---- a file changed as a text ------------------------------------------------------------ */

/*
 * Edits the text of a configuration file: changes a value, or adds a line. All other bytes stay
 * unchanged. Independent of files and options.
 */

/* The line above those that were added, without its end. */
#define CONF_EDIT_MARK "# Set while the server ran, written by config rewrite:"

enum conf_edit {
    CONF_EDITED,
    CONF_EDIT_NO_LINE, /* the line has no setting, or there is none of that number */
    CONF_EDIT_NO_MEMORY,
};

/*
 * Append to out the text with another value in this line, counted from 1. Existing quotes are
 * kept, and added if the value needs them. Context: any thread.
 */
enum conf_edit conf_edit_value(struct buf *out, struct span text, unsigned number,
                               const char *value);

/*
 * Append to out the text with one line more: at the end of the lines below CONF_EDIT_MARK,
 * which is put at the end of the text if it is not there. Context: any thread.
 */
enum conf_edit conf_edit_add(struct buf *out, struct span text, const char *name,
                             const char *value);

/* ---- conf_words.c ------------------------------------------------------------------------ */

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
 * Quotes and backslashes are those of the shell. Other characters that a shell would interpret,
 * such as $ or ;, are an error: no shell runs here.
 */

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
 * Add the words of a line, which must be within the text. Returns NULL, or the error in the
 * line, which then adds no words. Context: any thread.
 */
const char *conf_words_add(struct conf_words *w, struct span line, unsigned number);

#endif
