/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses the header of the PROXY protocol, in which a load balancer sends the address of the
 * client: version 1, a line of text, and version 2, binary. It precedes all other bytes of the
 * connection, TLS included.
 */
#ifndef MAYFLY_PROTO_PROXY_PARSE_H
#define MAYFLY_PROTO_PROXY_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A header that is longer is malformed. What balancers add takes some hundred bytes. */
#define PROXY_HEADER_MAX 1024u

enum proxy_family {
    PROXY_NONE, /* the balancer speaks for itself, or for a client without internet address */
    PROXY_INET,
    PROXY_INET6,
};

/* The address of the client. */
struct proxy_header {
    enum proxy_family family;
    uint8_t address[16]; /* as in packets; of PROXY_INET the first four */
    uint16_t port;
};

enum proxy_status {
    PROXY_MORE, /* all bytes are the beginning of a header */
    PROXY_DONE, /* *used bytes are the header */
    PROXY_BAD,
};

/*
 * Parse the beginning of a connection. Returns PROXY_MORE only if len is less than
 * PROXY_HEADER_MAX. The receiver's address, and all that follows the addresses, is ignored.
 * Context: any thread.
 */
enum proxy_status proxy_parse(const char *p, size_t len, struct proxy_header *out,
                              size_t *used);

#endif
