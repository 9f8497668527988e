/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys made printable: dumps and watchers show them URI-encoded, meta commands take odd ones
 * in base64.
 */
#ifndef MAYFLY_PROTO_ENCODE_H
#define MAYFLY_PROTO_ENCODE_H

#include <stddef.h>

#include "lib/base/span.h"

/* Bytes that the encoding of n bytes has at most. */
#define ENCODE_URI_BYTES(n)    (3 * (n))
#define ENCODE_BASE64_BYTES(n) (((n) + 2) / 3 * 4)

/*
 * Write s at out, every byte but letters, digits and "-._~" as %XX. Returns the length.
 * Context: any thread.
 */
size_t encode_uri(char *out, struct span s);

/* Write s at out in base64, padded (RFC 4648, section 4). Returns the length. Context: any
 * thread. */
size_t encode_base64(char *out, struct span s);

#endif
