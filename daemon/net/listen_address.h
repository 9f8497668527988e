/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parser of -l: the list of addresses to listen on, each with memcached's prefixes.
 */
#ifndef MAYFLY_DAEMON_NET_LISTEN_ADDRESS_H
#define MAYFLY_DAEMON_NET_LISTEN_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/net/origin.h"
#include "lib/base/span.h"

/* One element of -l. An empty host means every address. */
struct listen_address {
    char host[256];
    bool is_plain;          /* notls: no TLS, even with -Z */
    uint8_t verify;         /* btls:, mtls: TLS, with an enum tls_verify of its own */
    bool is_proxied;        /* proxied: balancers connect here for clients */
    bool has_protocol;      /* proto[x] was given */
    uint8_t protocol;       /* x, an enum binding_protocol */
    char tag[CONN_TAG_MAX]; /* tag[x] */
    bool has_port;
    unsigned port;
};

/*
 * Parse host, host:port, [v6], [v6]:port, a bare v6 address, or *, each after any of
 * memcached's prefixes notls:, btls:, mtls:, proto[x]: and tag[x]:, and our own proxied:, in
 * any order; of the first three only one.
 * Returns NULL, or what is wrong. Context: any thread.
 */
const char *listen_address_parse(struct span text, struct listen_address *out);

/*
 * The next element of a list like that of -l, from *at on; false: no more. Context: any thread.
 */
bool listen_address_next(const char **at, struct span *text);

#endif
