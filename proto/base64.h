/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Base64 read back: meta commands bring odd keys in it. encode.h writes it.
 */
#ifndef MAYFLY_PROTO_BASE64_H
#define MAYFLY_PROTO_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/span.h"

/* The most bytes that a text of n bytes stands for. */
#define BASE64_DECODED_MAX(n) ((n) / 4 * 3)

/*
 * Write what text stands for at out, BASE64_DECODED_MAX(text.len) bytes at most, and their
 * number to *len. False, with out undefined, when it is no base64: every letter has to be of
 * the alphabet, the length a multiple of four and not 0, '=' only at the end. The bits that a
 * last letter has too many may be anything. Context: any thread.
 */
bool base64_decode(char *out, size_t *len, struct span text);

#endif
