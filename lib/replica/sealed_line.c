/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines with a checksum: see sealed_line.h.
 */
#include "lib/replica/sealed_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/hash.h"

#define DIGITS 8u

/* " %08x", and the NUL */
#define SUM_BYTES (1 + DIGITS + 1)

static void put_sum(char sum[SUM_BYTES], const char *line, size_t len)
{
    snprintf(sum, SUM_BYTES, " %08" PRIx32, (uint32_t)XXH32(line, len, 0));
}

size_t line_seal(char *line, size_t len)
{
    put_sum(line + len, line, len);
    memcpy(line + len + 1 + DIGITS, "\r\n", sizeof("\r\n"));
    return len + SEAL_BYTES - 1;
}

bool line_unseal(struct span *line)
{
    char sum[SUM_BYTES];

    if (line->len <= 1 + DIGITS) {
        return false;
    }
    size_t len = line->len - 1 - DIGITS;
    put_sum(sum, line->ptr, len);
    if (memcmp(line->ptr + len, sum, 1 + DIGITS) != 0) {
        return false;
    }
    line->len = len;
    return true;
}
