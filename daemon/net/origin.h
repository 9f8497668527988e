/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Properties that a connection inherits from the listening socket that accepted it.
 */
#ifndef MAYFLY_DAEMON_NET_ORIGIN_H
#define MAYFLY_DAEMON_NET_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/access/rules.h"
#include "lib/base/span.h"

enum conn_transport {
    CONN_TCP,
    CONN_UNIX,
    CONN_TLS, /* TLS over TCP */
    CONN_UDP,
};

/* Which clients need a certificate. */
enum tls_verify {
    TLS_VERIFY_BY_MODE, /* by ssl_verify_mode */
    TLS_VERIFY_NONE,    /* btls: */
    TLS_VERIFY_REQUIRE, /* mtls: */
};

/* Longest tag of a listening socket, NUL included. */
#define CONN_TAG_MAX 32

struct conn_origin {
    enum conn_transport transport;
    uint8_t protocol;       /* enum binding_protocol */
    uint8_t rights;         /* RIGHT_READ and others: initial rights of its connections */
    bool is_control;        /* the operator's: --control */
    bool is_proxied;        /* for balancers: --proxy-from */
    bool is_beyond;         /* its connections have places beyond -c, for replicas only */
    uint8_t verify;         /* enum tls_verify, of CONN_TLS */
    char tag[CONN_TAG_MAX]; /* a label that the operator chose; empty: none */
    const struct conn_origin *beyond; /* the same with is_beyond; NULL: no replica comes here */
};

/*
 * The name of its listener in rules and logs: the tag, or without one its kind, such as "tcp";
 * "control" for the control socket. Context: any thread.
 */
static inline struct span origin_name(const struct conn_origin *origin)
{
    static const char *const names[] = {
        [CONN_TCP] = "tcp", [CONN_UNIX] = "unix", [CONN_TLS] = "tls", [CONN_UDP] = "udp"};

    if (origin->is_control) {
        return span_str("control");
    }
    return span_str(origin->tag[0] != '\0' ? origin->tag : names[origin->transport]);
}

#endif
