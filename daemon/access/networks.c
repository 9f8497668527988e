/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See access.h.
 */
#include "daemon/access/access.h"

#include <arpa/inet.h>
#include <string.h>

#include "lib/base/context.h"
#include "lib/base/num.h"
#include "lib/base/span.h"

static const char *parse_one(struct span text, struct network *out)
{
    const char *slash = memchr(text.ptr, '/', text.len);
    const size_t len = slash != NULL ? (size_t)(slash - text.ptr) : text.len;
    char address[INET6_ADDRSTRLEN];
    uint32_t bits;

    memset(out, 0, sizeof(*out));
    if (len >= sizeof(address)) {
        return "an address is too long";
    }
    memcpy(address, text.ptr, len);
    address[len] = '\0';
    if (inet_pton(AF_INET, address, out->address) == 1) {
        out->family = AF_INET;
        out->bits = 32;
    } else if (inet_pton(AF_INET6, address, out->address) == 1) {
        out->family = AF_INET6;
        out->bits = 128;
    } else {
        return "not an address";
    }
    if (slash != NULL) {
        if (num_u32(span_of(slash + 1, text.len - len - 1), &bits) != MF_OK ||
            bits > out->bits) {
            return "the number of bits after / is wrong";
        }
        out->bits = (uint8_t)bits;
    }
    return NULL;
}

const char *networks_parse(const char *text, struct networks *out)
{
    const char *error = NULL;

    must_be_main();
    out->count = 0;
    while (error == NULL && text != NULL) {
        const size_t len = strcspn(text, ",");

        if (out->count == NETWORKS_MAX) {
            return "more than 64 networks";
        }
        error = parse_one(span_of(text, len), &out->items[out->count++]);
        text = text[len] == ',' ? text + len + 1 : NULL;
    }
    return error;
}

static bool has(const struct network *n, const uint8_t address[16])
{
    const unsigned whole = n->bits / 8u;
    const unsigned rest = n->bits % 8u;

    return memcmp(n->address, address, whole) == 0 &&
           (rest == 0 || ((n->address[whole] ^ address[whole]) >> (8 - rest)) == 0);
}

bool networks_have(const struct networks *n, uint16_t family, const uint8_t address[16])
{
    for (uint32_t i = 0; i < n->count; i++) {
        if (n->items[i].family == family && has(&n->items[i], address)) {
            return true;
        }
    }
    return false;
}
