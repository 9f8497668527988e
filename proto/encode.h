/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodings of keys: URI encoding for dumps and watchers, and base64 for meta commands, for
 * keys that cannot be written in a line.
 */
#ifndef MAYFLY_PROTO_ENCODE_H
#define MAYFLY_PROTO_ENCODE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/span.h"

/* Most bytes that the encoding of n bytes takes. */
#define ENCODE_URI_BYTES(n)    (3 * (n))
#define ENCODE_BASE64_BYTES(n) (((n) + 2) / 3 * 4)

/*
 * Write s at out with every byte but letters, digits and "-._~" as %XX. Returns the length.
 * Context: any thread.
 */
size_t encode_uri(char *out, struct span s);

/*
 * Has the key neither white space nor control characters, so that it can be a word in any line
 * of text? Context: any thread.
 */
bool encode_is_plain(struct span key);

/*
 * Write a key at out as part of a line: as it is, or as encode_uri() does if it has a space, a
 * NUL or a line end. Returns the length, ENCODE_URI_BYTES(key.len) at most. Context: any
 * thread.
 */
size_t encode_line_key(char *out, struct span key);

/*
 * Write s at out in base64, padded (RFC 4648, section 4). Returns the length. Context: any
 * thread.
 */
size_t encode_base64(char *out, struct span s);

/* Maximum number of bytes that n bytes of base64 decode to. */
#define DECODE_BASE64_BYTES(n) ((n) / 4 * 3)

/*
 * Decode the base64 in text to out, at most DECODE_BASE64_BYTES(text.len) bytes, and write the
 * length to *len. False, with out and *len undefined, when text is not base64: every letter
 * must be of the alphabet, the length a multiple of four and not 0, '=' only at the end.
 * Surplus bits of the last letter may be anything. Context: any thread.
 */
bool decode_base64(char *out, size_t *len, struct span text);

#endif
