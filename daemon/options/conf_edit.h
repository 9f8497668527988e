/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A configuration file changed as a text: one value, or one line more. All other bytes stay as
 * they are. Knows neither files nor options.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_CONF_EDIT_H
#define MAYFLY_DAEMON_OPTIONS_CONF_EDIT_H

#include <stdbool.h>

#include "lib/base/buf.h"
#include "lib/base/span.h"

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
