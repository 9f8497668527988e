/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/show.h"

#include <math.h>
#include <string.h>

static const char *const eighths[] = {" ",      "\u258f", "\u258e", "\u258d", "\u258c",
                                      "\u258b", "\u258a", "\u2589", "\u2588"};
static const char *const heights[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                      "\u2585", "\u2586", "\u2587", "\u2588"};
static const char ascii_heights[] = "_.,-=+*#";

static char *put_glyph(char *p, const char *text)
{
    size_t n = strlen(text);

    memcpy(p, text, n);
    return p + n;
}

void bar_text(char text[BAR_TEXT_BYTES], double share, unsigned columns, bool is_utf8)
{
    char *p = text;

    columns = columns > BAR_COLUMNS_MAX ? BAR_COLUMNS_MAX : columns;
    share = share > 0 ? share : 0; /* NAN becomes 0 too */
    double filled = (share < 1 ? share : 1) * columns;
    for (unsigned i = 0; i < columns; i++) {
        double part = filled - i;

        if (is_utf8) {
            int n = part >= 1 ? 8 : (int)(part > 0 ? part * 8 : 0);

            p = put_glyph(p, eighths[n]);
        } else {
            *p++ = part >= 0.5 ? '#' : '.';
        }
    }
    *p = '\0';
}

void spark_text(char text[BAR_TEXT_BYTES], const double *values, size_t n, unsigned columns,
                bool is_utf8)
{
    char *p = text;
    double top = 0;

    columns = columns > BAR_COLUMNS_MAX ? BAR_COLUMNS_MAX : columns;
    if (n > columns) {
        values += n - columns;
        n = columns;
    }
    for (size_t i = 0; i < n; i++) {
        top = isfinite(values[i]) && values[i] > top ? values[i] : top;
    }
    for (size_t i = 0; i < columns - n; i++) {
        *p++ = ' ';
    }
    for (size_t i = 0; i < n; i++) {
        double v = values[i];
        int height = top > 0 && v > 0 ? (int)ceil(v / top * 8) - 1 : 0;

        if (!isfinite(v)) {
            *p++ = ' ';
            continue;
        }
        height = height < 0 ? 0 : height > 7 ? 7 : height;
        if (is_utf8) {
            p = put_glyph(p, heights[height]);
        } else {
            *p++ = ascii_heights[height];
        }
    }
    *p = '\0';
}
