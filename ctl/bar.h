/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bars and sparklines of characters: block characters where the output takes UTF-8, else ASCII.
 */
#ifndef MAYFLY_CTL_BAR_H
#define MAYFLY_CTL_BAR_H

#include <stdbool.h>
#include <stddef.h>

/* Most columns that are drawn, and bytes that these take with their NUL. */
#define BAR_COLUMNS_MAX 128
#define BAR_TEXT_BYTES  (3 * BAR_COLUMNS_MAX + 1)

/*
 * A bar of `columns` columns, of which `share` is filled (0 to 1; values outside are clamped).
 */
void bar_text(char text[BAR_TEXT_BYTES], double share, unsigned columns, bool is_utf8);

/*
 * The last `columns` of n values, oldest first, each as high as its part of the highest; a
 * value that is not a number (NAN) is a blank.
 */
void spark_text(char text[BAR_TEXT_BYTES], const double *values, size_t n, unsigned columns,
                bool is_utf8);

#endif
