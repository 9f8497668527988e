/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A list of networks: ADDRESS or ADDRESS/BITS, IPv4 and IPv6, separated by commas.
 */
#ifndef MAYFLY_DAEMON_ACCESS_NETWORKS_H
#define MAYFLY_DAEMON_ACCESS_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

#define NETWORKS_MAX 64u

struct networks {
    /* [const] after networks_parse() */
    uint32_t count;
    struct network {
        uint16_t family; /* AF_INET, AF_INET6 */
        uint8_t bits;    /* length of the prefix */
        uint8_t address[16];
    } items[NETWORKS_MAX];
};

/*
 * Parse a list; NULL is an empty one. Returns NULL, or an error message. Context: main, before
 * start.
 */
const char *networks_parse(const char *text, struct networks *out);

/* Is the address in one of them? An IPv4 address is in no IPv6 network. Context: any thread. */
bool networks_have(const struct networks *n, uint16_t family, const uint8_t address[16]);

#endif
