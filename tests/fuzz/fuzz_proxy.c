/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: the header of the PROXY protocol. What must hold for any input:
 *   - nothing outside the bytes is read;
 *   - no part of a header that is whole says that it is bad, or whole itself;
 *   - what follows a header changes nothing;
 *   - a header is waited for only while it may still become one.
 */
#include "tests/fuzz/fuzz.h"

#include "proto/proxy_parse.h"

static enum proxy_status parse(const char *p, size_t len, struct proxy_header *out,
                               size_t *used)
{
    char *copy = exact_copy((const uint8_t *)p, len);
    enum proxy_status status = proxy_parse(copy, len, out, used);

    free(copy);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    struct proxy_header whole;
    struct proxy_header part;
    size_t used;
    size_t part_used;
    const enum proxy_status status = parse(p, size, &whole, &used);

    if (status == PROXY_MORE) {
        require(size < PROXY_HEADER_MAX);
    }
    if (status == PROXY_DONE) {
        require(used > 0 && used <= size && used <= PROXY_HEADER_MAX);
        require(parse(p, used, &part, &part_used) == PROXY_DONE && part_used == used);
        require(memcmp(&part, &whole, sizeof(part)) == 0);
    }
    /* However it comes in pieces: each shorter one waits, or was bad as well. */
    for (size_t n = 0; n < size && n < 300; n++) {
        const enum proxy_status now = parse(p, n, &part, &part_used);

        require(status != PROXY_DONE || n >= used || now == PROXY_MORE);
        require(status != PROXY_MORE || now == PROXY_MORE);
    }
    return 0;
}
