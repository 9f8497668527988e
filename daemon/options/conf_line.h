/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines of a configuration file, one after the other: where each stands, and which name and
 * value it has. Knows neither files nor options, allocates nothing, and keeps every byte: who
 * rewrites a file copies all lines and changes the values that changed.
 *
 *     # a comment, or an empty line
 *     name = value            # a comment: after a blank, or at the beginning of the value
 *     name = "value"          within quotes \" \\ and \xHH stand for a character
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
    struct span raw;   /* [borrowed] the value as it stands there, without quotes */
    bool is_quoted;
    const char *why; /* what is wrong with the line; NULL: nothing */
};

/*
 * Take a line off the front of the text. *line has the one before, or is zero at the beginning.
 * False: there is none left. Context: any thread.
 */
bool conf_line_next(struct span *text, struct conf_line *line);

/*
 * Write the value to out, which has room for raw.len + 1 bytes, and end it by NUL. Context: any
 * thread.
 */
void conf_line_value(const struct conf_line *line, char *out);

/*
 * What the first character of a text within quotes stands for: itself, or a backslash with what
 * follows. Returns how many bytes of the text that is; 0: what follows is wrong. The text is
 * not empty. Context: any thread.
 */
size_t conf_char_take(struct span s, char *out);

/*
 * Does a value have to stand in quotes to be read again? If so, write a character of it as it
 * stands between them, and return its length. Context: any thread.
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
 * A configuration file changed as a text: one value, or one line more. All other bytes stay as
 * they are. Knows neither files nor options.
 */

/* The line above those that were added, without its end. */
#define CONF_EDIT_MARK "# Set while the server ran, written by config rewrite:"

enum conf_edit {
    CONF_EDITED,
    CONF_EDIT_NO_LINE, /* the line has no setting, or there is none of that number */
    CONF_EDIT_NO_MEMORY,
};

/*
 * Append to out the text with another value in this line, counted from 1. Quotes stay, and come
 * where the value needs them. Context: any thread.
 */
enum conf_edit conf_edit_value(struct buf *out, struct span text, unsigned number,
                               const char *value);

/*
 * Append to out the text with one line more: at the end of the lines below CONF_EDIT_MARK,
 * which is put at the end of the text if it is not there. Context: any thread.
 */
enum conf_edit conf_edit_add(struct buf *out, struct span text, const char *name,
                             const char *value);

#endif
