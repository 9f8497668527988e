/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines that a primary sends outside the stream, with a checksum. Blocks of the stream have
 * their own checksums. A damaged number in a line could change deadlines, or make a replica
 * serve too early. So each line ends with the XXH32 of its preceding bytes, in eight
 * hexadecimal digits.
 */
#ifndef MAYFLY_LIB_REPLICA_SEALED_LINE_H
#define MAYFLY_LIB_REPLICA_SEALED_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/span.h"

/* What sealing adds: a blank, the digits, CR and LF, and a NUL. */
#define SEAL_BYTES 12u

/*
 * Seal a line of len bytes, which has no end yet, in a buffer that has SEAL_BYTES more. Returns
 * its length with its end. Context: any thread.
 */
size_t line_seal(char *line, size_t len);

/*
 * Check and remove the sum of a line that has no line end any more. False: the sum is missing
 * or wrong. Context: any thread.
 */
bool line_unseal(struct span *line);

#endif
