/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See sockets.h.
 */
#include "daemon/net/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>

#include "daemon/base/log.h"
#include "daemon/net/sockets_parts.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"

/* From this ssl_verify_mode on TLS lets nobody in without a certificate. */
#define VERIFY_REQUIRES 2u

static bool is_other_machine(const union socket_address *addr)
{
    const struct in6_addr *in6 = &addr->in6.sin6_addr;

    switch (addr->sa.sa_family) {
    case AF_INET:
        return ntohl(addr->in.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
    case AF_INET6:
        return !IN6_IS_ADDR_LOOPBACK(in6) &&
               !(IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == IN_LOOPBACKNET);
    default:
        return false;
    }
}

/* Must clients of this socket authenticate? */
static bool is_guarded(const struct settings *settings, const struct conn_origin *origin)
{
    return settings->auth_file != NULL || settings->sasl ||
           (origin->transport == CONN_TLS && (origin->verify == TLS_VERIFY_REQUIRE ||
                                              (origin->verify == TLS_VERIFY_BY_MODE &&
                                               settings->ssl_verify_mode >= VERIFY_REQUIRES)));
}

/* Returns 0, or the exit status. */
static int tell_exposure(const struct settings *settings, const char *name)
{
    if (settings->protected_mode) {
        option_fault(
            settings, OPTION_protected_mode,
            "other machines could use %s without a user or a certificate (give -Y, -S, "
            "or -Z with ssl_verify_mode=2 or mtls:)",
            name);
        return EX_USAGE;
    }
    log_warn("listener, other machines can use %s without a user or a certificate (with "
             "--protected the server does not start)",
             name);
    return 0;
}

static const char *find_exposed(const struct settings *settings, const struct socket_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        union socket_address addr;
        socklen_t len = sizeof(addr);

        if (!is_guarded(settings, &l->items[i].origin) &&
            getsockname(l->items[i].fd, &addr.sa, &len) == 0 && is_other_machine(&addr)) {
            return l->items[i].name;
        }
    }
    return NULL;
}

int exposure_judge(const struct settings *settings, const struct socket_list *tcp,
                   const struct socket_list *udp)
{
    const char *name = find_exposed(settings, tcp);

    must_be_main();
    if (name == NULL) {
        name = find_exposed(settings, udp);
    }
    return name != NULL ? tell_exposure(settings, name) : 0;
}

static bool leads_outside(const char *host)
{
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *first = NULL;
    bool is_outside = false;

    if (getaddrinfo(host[0] != '\0' ? host : NULL, "0", &hints, &first) != 0) {
        return false;
    }
    for (const struct addrinfo *ai = first; ai != NULL; ai = ai->ai_next) {
        union socket_address addr;

        if (ai->ai_addrlen <= sizeof(addr)) {
            memcpy(&addr, ai->ai_addr, ai->ai_addrlen);
            is_outside |= is_other_machine(&addr);
        }
    }
    freeaddrinfo(first);
    return is_outside;
}

int exposure_check(const struct settings *settings)
{
    const bool has_tcp =
        settings->port != 0 && (settings->unix_path == NULL || settings->listen_both);
    const bool has_udp =
        settings->udp_port != 0 && (settings->unix_path == NULL || settings->listen_both);
    const char *at = settings->listen;
    struct listen_address address;
    struct span text;

    must_be_main();
    while (at != NULL && (has_tcp || has_udp) && listen_address_next(&at, &text)) {
        char name[SOCKET_NAME_MAX];

        if (listen_address_parse(text, &address) != NULL) {
            continue;
        }
        struct conn_origin origin = sockets_tcp_origin(settings, &address);
        if ((is_guarded(settings, &origin) && !has_udp) || !leads_outside(address.host)) {
            continue;
        }
        snprintf(name, sizeof(name), "%.*s", (int)text.len, text.ptr);
        return tell_exposure(settings, name);
    }
    return 0;
}
