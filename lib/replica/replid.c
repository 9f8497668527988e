/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replication ids: see replid.h.
 */
#include "lib/replica/replid.h"

#include <stdio.h>

#include "lib/base/hash.h"
#include "lib/base/num.h"

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
    for (unsigned i = 0; i < REPLID_BYTES; i++) {
        snprintf(out + 2 * i, 3, "%02x", id->bytes[i]);
    }
}

bool replid_parse(struct span text, struct replid *id)
{
    struct replid out;

    if (text.len != REPLID_CHARS) {
        return false;
    }
    for (unsigned i = 0; i < REPLID_BYTES; i++) {
        const int byte = num_hex_byte(text.ptr + 2 * i);

        if (byte < 0) {
            return false;
        }
        out.bytes[i] = (uint8_t)byte;
    }
    *id = out;
    return true;
}
