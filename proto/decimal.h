/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers in replies: num_put_u64() for those that mostly have few digits, as flags, lengths
 * and seconds do, which are written in line.
 */
#ifndef MAYFLY_PROTO_DECIMAL_H
#define MAYFLY_PROTO_DECIMAL_H

#include <stdint.h>

#include "lib/base/num.h"

/*
 * Write v, up to NUM_DIGITS_MAX digits; returns the place behind it. Context: any thread.
 */
static inline char *decimal_put(char *out, uint64_t v)
{
    if (v < 10) {
        *out = (char)('0' + v);
        return out + 1;
    }
    if (v < 100) {
        num_put_pair(out, (unsigned)v);
        return out + 2;
    }
    if (v < 1000) {
        *out = (char)('0' + v / 100);
        num_put_pair(out + 1, (unsigned)(v % 100));
        return out + 3;
    }
    if (v < 10000) {
        num_put_pair(out, (unsigned)(v / 100));
        num_put_pair(out + 2, (unsigned)(v % 100));
        return out + 4;
    }
    return out + num_put_u64(out, v);
}

#endif
