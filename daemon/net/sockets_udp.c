/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets: see sockets_parts.h.
 *
 * The sockets of an address share it by SO_REUSEPORT. The first is bound without the option, so
 * an address that another process has is an error and not shared with that process. The option
 * is set after this bind and lets the others in.
 */
#include "daemon/net/sockets_parts.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/net/passed_on.h"
#include "lib/base/context.h"

/*
 * Room in the kernel for bursts that come while a worker is busy: as much as it allows, up to
 * 4 MiB. Getting less is not an error.
 */
#define RECEIVE_BYTES (4 * 1024 * 1024)

/* The number of -U; 0: any free one. */
static uint16_t wanted_port(const struct settings *settings)
{
    return settings->udp_port > 0 ? (uint16_t)settings->udp_port : 0;
}

static int udp_failed(const struct settings *settings, const char *what)
{
    char where[24];

    snprintf(where, sizeof(where), "UDP port %u", (unsigned)wanted_port(settings));
    return listen_fault(settings, &(struct listen_fault){.id = OPTION_udp_port,
                                                         .where = span_str(where),
                                                         .call = what,
                                                         .port = wanted_port(settings),
                                                         .type = SOCK_DGRAM});
}

static bool set_flag(int fd, int level, int option)
{
    int on = 1;

    return setsockopt(fd, level, option, &on, sizeof(on)) == 0;
}

/* A bound socket, or -1 with errno and the name of the call that failed. */
static int bind_udp(const struct settings *settings, const struct sockaddr *addr, socklen_t len,
                    bool is_first, const char **what)
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
        if (errno == EADDRINUSE && passed_on_is_shown(settings->passed) &&
            passed_on_makes_way(settings->passed, addr, SOCK_DGRAM)) {
            return fd;
        }
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

/*
 * Open all sockets of one address. Its port may be 0 for any; then it becomes the one that the
 * first socket got.
 */
static int open_group(const struct settings *settings, union socket_address *addr,
                      socklen_t len, struct socket_list *out, const char **what)
{
    struct conn_origin origin = {.transport = CONN_UDP,
                                 .protocol = (uint8_t)settings->protocol};

    /* Where the one that runs has the address, another one would get its datagrams. */
    const uint32_t count =
        passed_on_is_shown(settings->passed) ? 1 : setting_get(settings, threads);

    for (uint32_t i = 0; i < count; i++) {
        int fd = bind_udp(settings, &addr->sa, len, i == 0, what);

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

static int open_udp_loopback(const struct settings *settings, struct socket_list *out)
{
    union socket_address addr = {.in = {.sin_family = AF_INET}};
    const char *what;

    addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_address_set_port(&addr, wanted_port(settings));
    if (open_group(settings, &addr, sizeof(addr.in), out, &what) != 0) {
        return passed_on_excuse(settings->passed, udp_failed(settings, what));
    }
    uint16_t port = socket_address_port(&addr);
    addr.in6 = (struct sockaddr_in6){
        .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(port)};
    if (open_group(settings, &addr, sizeof(addr.in6), out, &what) != 0) {
        if (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL ||
            (errno == EADDRINUSE && settings->udp_port < 0)) {
            log_info("listener, serves UDP over IPv4 only (%s)", strerror(errno));
            return 0;
        }
        return passed_on_excuse(settings->passed, udp_failed(settings, what));
    }
    return 0;
}

static int open_udp_address(const struct settings *settings, struct span text,
                            struct socket_list *out)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *first = NULL;
    struct listen_address parsed;
    int status = 0;

    /* The ports in -l are TCP's, which has already reported what is wrong with a name. */
    if (listen_address_parse(text, &parsed) != NULL ||
        getaddrinfo(parsed.host[0] != '\0' ? parsed.host : NULL, "0", &hints, &first) != 0) {
        errno = EINVAL;
        return passed_on_excuse(settings->passed, udp_failed(settings, "address"));
    }
    for (const struct addrinfo *ai = first; ai != NULL && status == 0; ai = ai->ai_next) {
        union socket_address addr;
        const char *what;

        if (ai->ai_addrlen > sizeof(addr) ||
            (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)) {
            continue;
        }
        memcpy(&addr, ai->ai_addr, ai->ai_addrlen);
        socket_address_set_port(&addr, wanted_port(settings));
        if (!socket_list_has(out, &addr, true) &&
            open_group(settings, &addr, ai->ai_addrlen, out, &what) != 0 &&
            !(errno == EAFNOSUPPORT && ai->ai_next != NULL)) {
            status = passed_on_excuse(settings->passed, udp_failed(settings, what));
        }
    }
    freeaddrinfo(first);
    return status;
}

int sockets_open_udp(const struct settings *settings, struct socket_list *out)
{
    const char *at = settings->listen;
    struct span text;

    must_be_main();
    if (settings->udp_port == 0) {
        return 0;
    }
    if (at == NULL) {
        return open_udp_loopback(settings, out);
    }
    while (listen_address_next(&at, &text)) {
        int status = open_udp_address(settings, text, out);

        if (status != 0) {
            return status;
        }
    }
    return 0;
}
