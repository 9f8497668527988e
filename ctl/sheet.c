/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/sheet.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctl/show.h"
#include "lib/base/utf8.h"

void sheet_clear(struct sheet *s, unsigned rows, unsigned columns)
{
    s->rows = rows < SHEET_ROWS_MAX ? rows : SHEET_ROWS_MAX;
    s->columns = columns < SHEET_COLUMNS_MAX ? columns : SHEET_COLUMNS_MAX;
    memset(s->cell, 0, sizeof(s->cell));
}

static unsigned put_cell(struct sheet *s, unsigned row, unsigned column, enum sheet_style style,
                         const char *text)
{
    struct span rest = span_str(text);

    while (rest.len > 0 && row < s->rows && column < s->columns) {
        size_t n = utf8_len(rest);
        struct sheet_cell *cell = &s->cell[row][column++];

        if (n == 0 || (n == 1 && ((unsigned char)rest.ptr[0] < ' ' || rest.ptr[0] == 0x7f)) ||
            (n > 1 && !s->is_utf8)) {
            memcpy(cell->text, "?", 2);
            n = n == 0 ? 1 : n;
        } else {
            memcpy(cell->text, rest.ptr, n);
            cell->text[n] = '\0';
        }
        cell->style = (unsigned char)style;
        rest = span_of(rest.ptr + n, rest.len - n);
    }
    return column;
}

unsigned sheet_put(struct sheet *s, unsigned row, unsigned column, enum sheet_style style,
                   const char *fmt, ...)
{
    char text[4 * SHEET_COLUMNS_MAX + 1];

    MF_FORMAT(text, sizeof(text), fmt);
    return put_cell(s, row, column, style, text);
}

void sheet_put_right(struct sheet *s, unsigned row, unsigned end, enum sheet_style style,
                     const char *text)
{
    unsigned width = (unsigned)show_columns(span_str(text), true);

    (void)put_cell(s, row, width < end ? end - width : 0, style, text);
}

void sheet_style(struct sheet *s, unsigned row, unsigned begin, unsigned end,
                 enum sheet_style style)
{
    for (; row < s->rows && begin < end && begin < s->columns; begin++) {
        s->cell[row][begin].style = (unsigned char)style;
    }
}
