/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UTF-8, and JSON text. Context of all: any thread.
 */
#ifndef MAYFLY_LIB_BASE_UTF8_H
#define MAYFLY_LIB_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"

/* Decode the first character of s. Returns its length; 0: it is invalid, or s is empty. */
size_t utf8_decode(struct span s, uint32_t *out);

/* The length of that character, or 0. */
size_t utf8_len(struct span s);

/* Is all of it UTF-8? */
bool utf8_is_valid(struct span s);

/*
 * Write the first character of s, which is not empty, as JSON text: quotes, backslashes and
 * control characters are escaped, and a byte that is not UTF-8 becomes U+FFFD. Returns the
 * length in out; *taken is the number of bytes of s that it replaces.
 */
#define UTF8_JSON_MAX 8u
size_t utf8_to_json(struct span s, char out[UTF8_JSON_MAX], size_t *taken);

#endif
