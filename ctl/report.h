/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints what was found in a file, as text or as JSON. Context: any thread.
 */
#ifndef MAYFLY_CTL_REPORT_H
#define MAYFLY_CTL_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ctl/examine.h"
#include "ctl/json.h"

/*
 * A line that says whether the file is intact, or where it is damaged, then its content. The
 * name is escaped for terminals.
 */
void report_text(FILE *out, const char *name, const struct examined *x, int64_t now_unix_ms,
                 bool is_utf8);

/* One object. */
void report_json(struct json *j, const char *name, const struct examined *x,
                 int64_t now_unix_ms);

#endif
