/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets: see sockets_udp.h.
 *
 * The sockets of an address share it by SO_REUSEPORT. The first is bound without, so that an
 * address which somebody else has is an error and not shared with him; the option is set behind
 * its bind, and lets the others in.
 */
#include "daemon/net/sockets_udp.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/net/sockets_inet.h"
#include "daemon/options/settings.h"

/*
 * Bursts wait in the kernel while a worker is busy: as much as it allows, up to 4 MiB. Not
 * getting it is no error.
 */
#define RECEIVE_BYTES (4 * 1024 * 1024)

static int failed(const struct settings *settings, const char *what)
{
    log_error("listener, failed to listen on UDP port %d (%s: %s)",
              settings->udp_port > 0 ? settings->udp_port : 0, what, strerror(errno));
    return EX_OSERR;
}

static bool set_flag(int fd, int level, int option)
{
    int on = 1;

    return setsockopt(fd, level, option, &on, sizeof(on)) == 0;
}

/* A bound socket, or -1 with errno and the failed call's name. */
static int bind_one(const struct sockaddr *addr, socklen_t len, bool is_first,
                    const char **what)
{
    int fd = socket(addr->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int size = RECEIVE_BYTES;
    int err;

    *what = "socket()";
    if (fd < 0) {
        return -1;
    }
    *what = "setsockopt()";
    if ((addr->sa_family == AF_INET6 && !set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY)) ||
        (!is_first && !set_flag(fd, SOL_SOCKET, SO_REUSEPORT))) {
        goto fail;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    *what = "bind()";
    if (bind(fd, addr, len) != 0) {
        goto fail;
    }
    *what = "setsockopt()";
    if (is_first && !set_flag(fd, SOL_SOCKET, SO_REUSEPORT)) {
        goto fail;
    }
    return fd;

fail:
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

union address {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

static uint16_t *port_of(union address *a)
{
    return a->sa.sa_family == AF_INET6 ? &a->in6.sin6_port : &a->in.sin_port;
}

/*
 * All sockets of one address. *port: 0 for any; then the number that the first one got, in
 * network order.
 */
static int open_group(const struct settings *settings, union address *addr, socklen_t len,
                      struct socket_list *out, const char **what)
{
    struct conn_origin origin = {.transport = CONN_UDP,
                                 .protocol = (uint8_t)settings->protocol};

    for (uint32_t i = 0; i < settings->threads; i++) {
        int fd = bind_one(&addr->sa, len, i == 0, what);

        if (fd < 0) {
            return -1;
        }
        if (i == 0 && getsockname(fd, &addr->sa, &len) != 0) {
            *what = "getsockname()";
            close(fd);
            return -1;
        }
        if (socket_list_add(out, fd, &origin) != 0) {
            *what = "memory";
            errno = ENOMEM;
            return -1;
        }
    }
    return 0;
}

static int open_loopback(const struct settings *settings, struct socket_list *out)
{
    union address addr = {.in = {.sin_family = AF_INET}};
    uint16_t port = settings->udp_port > 0 ? htons((uint16_t)settings->udp_port) : 0;
    const char *what;

    addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    addr.in.sin_port = port;
    if (open_group(settings, &addr, sizeof(addr.in), out, &what) != 0) {
        return failed(settings, what);
    }
    port = *port_of(&addr);
    addr.in6 = (struct sockaddr_in6){
        .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = port};
    if (open_group(settings, &addr, sizeof(addr.in6), out, &what) != 0) {
        if (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL ||
            (errno == EADDRINUSE && settings->udp_port < 0)) {
            log_info("listener, serves UDP over IPv4 only (%s)", strerror(errno));
            return 0;
        }
        return failed(settings, what);
    }
    return 0;
}

/* Does the list have a socket of this very address? A name may stand for one twice. */
static bool is_open(const struct socket_list *l, const union address *addr)
{
    for (uint32_t i = 0; i < l->count; i++) {
        union address own;
        socklen_t len = sizeof(own);

        memset(&own, 0, sizeof(own));
        if (getsockname(l->items[i].fd, &own.sa, &len) != 0 ||
            own.sa.sa_family != addr->sa.sa_family) {
            continue;
        }
        if (own.sa.sa_family == AF_INET6
                ? memcmp(&own.in6.sin6_addr, &addr->in6.sin6_addr, 16) == 0
                : own.in.sin_addr.s_addr == addr->in.sin_addr.s_addr) {
            return true;
        }
    }
    return false;
}

static int open_address(const struct settings *settings, struct span text,
                        struct socket_list *out)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *first = NULL;
    struct listen_address parsed;
    int status = 0;

    /* The ports in -l are TCP's, and it has complained already of what is wrong with a name. */
    if (listen_address_parse(text, &parsed) != NULL ||
        getaddrinfo(parsed.host[0] != '\0' ? parsed.host : NULL, "0", &hints, &first) != 0) {
        errno = EINVAL;
        return failed(settings, "address");
    }
    for (const struct addrinfo *ai = first; ai != NULL && status == 0; ai = ai->ai_next) {
        union address addr;
        const char *what;

        if (ai->ai_addrlen > sizeof(addr) ||
            (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)) {
            continue;
        }
        memcpy(&addr, ai->ai_addr, ai->ai_addrlen);
        *port_of(&addr) = settings->udp_port > 0 ? htons((uint16_t)settings->udp_port) : 0;
        if (!is_open(out, &addr) &&
            open_group(settings, &addr, ai->ai_addrlen, out, &what) != 0 &&
            !(errno == EAFNOSUPPORT && ai->ai_next != NULL)) {
            status = failed(settings, what);
        }
    }
    freeaddrinfo(first);
    return status;
}

int udp_sockets_open(const struct settings *settings, struct socket_list *out)
{
    const char *at = settings->listen;
    struct span text;

    if (settings->udp_port == 0) {
        return 0;
    }
    if (at == NULL) {
        return open_loopback(settings, out);
    }
    while (listen_next(&at, &text)) {
        int status = open_address(settings, text, out);

        if (status != 0) {
            return status;
        }
    }
    return 0;
}
