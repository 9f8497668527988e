/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replication ids: see replid.h.
 */
#include "lib/replica/replid.h"

#include "lib/base/hash.h"

#define HEX_BITS 4

struct replid replid_draw(void)
{
    struct replid id;

    do {
        for (unsigned i = 0; i < REPLID_BYTES; i += sizeof(uint64_t)) {
            uint64_t word = hash_random_seed();

            memcpy(id.bytes + i, &word, sizeof(word));
        }
    } while (replid_is_none(&id));
    return id;
}

void replid_format(const struct replid *id, char out[REPLID_CHARS + 1])
{
    static const char digits[] = "0123456789abcdef";

    for (unsigned i = 0; i < REPLID_BYTES; i++) {
        out[2 * i] = digits[id->bytes[i] >> HEX_BITS];
        out[2 * i + 1] = digits[id->bytes[i] & ((1u << HEX_BITS) - 1)];
    }
    out[REPLID_CHARS] = 0;
}

/* The value of a hex digit; -1: it is none. */
static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool replid_parse(struct span text, struct replid *id)
{
    struct replid out;

    if (text.len != REPLID_CHARS) {
        return false;
    }
    for (unsigned i = 0; i < REPLID_BYTES; i++) {
        int high = digit_of(text.ptr[2 * i]);
        int low = digit_of(text.ptr[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        out.bytes[i] = (uint8_t)(high << HEX_BITS | low);
    }
    *id = out;
    return true;
}
