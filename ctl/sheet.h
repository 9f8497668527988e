/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A screen as an array of characters with styles: what `top` draws on. It does not depend on a
 * terminal, so that a test sees what an operator sees.
 */
#ifndef MAYFLY_CTL_SHEET_H
#define MAYFLY_CTL_SHEET_H

#include <stdbool.h>

#include "lib/base/check.h"

#define SHEET_ROWS_MAX    200
#define SHEET_COLUMNS_MAX 300

enum sheet_style { SHEET_PLAIN, SHEET_BOLD, SHEET_DIM, SHEET_TITLE, SHEET_GOOD, SHEET_BAD };

struct sheet_cell {
    char text[5]; /* a character of UTF-8; empty: a space */
    unsigned char style;
};

struct sheet {
    unsigned rows, columns;
    bool is_utf8;
    struct sheet_cell cell[SHEET_ROWS_MAX][SHEET_COLUMNS_MAX];
};

/* Clear the sheet and set its size (at most SHEET_ROWS_MAX by SHEET_COLUMNS_MAX). */
void sheet_clear(struct sheet *s, unsigned rows, unsigned columns);

/*
 * Write text from a place on, as far as the row goes; control characters become '?'. Returns
 * the column after it.
 */
unsigned sheet_put(struct sheet *s, unsigned row, unsigned column, enum sheet_style style,
                   const char *fmt, ...) MF_PRINTF(5, 6);

/* Write text right-aligned, so that it ends before column `end`. */
void sheet_put_right(struct sheet *s, unsigned row, unsigned end, enum sheet_style style,
                     const char *text);

/* Give a part of a row a style. */
void sheet_style(struct sheet *s, unsigned row, unsigned begin, unsigned end,
                 enum sheet_style style);

#endif
