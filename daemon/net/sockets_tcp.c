/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP sockets. Without -l they listen on the loopback interface, v4 and v6; a machine without
 * v6 is not an error then. With -l every address of a name is bound, and a failure to bind any
 * of them is an error, so that the server never serves less than was asked for.
 */
#include "daemon/net/sockets_parts.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/net/passed_on.h"

/*
 * A socket buffers this many bytes in addition to its peer's window and those on the network.
 * Without this bound the kernel takes 2.6 MB over loopback from the start, however little the
 * peer reads. A thousand peers that do not read would fill the memory that the system has for
 * all TCP, and other programs that use TCP would lose packets. Bytes in flight do not count, so
 * no transfer gets slower.
 */
#define UNSENT_BYTES (128 * 1024)

/* ---- one socket -------------------------------------------------------------------------- */

/* A number of TCP; 0 leaves what the system has. */
static bool set_tcp(int fd, int option, uint32_t number)
{
    const int value = (int)number;

    return number == 0 || setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value)) == 0;
}

void sockets_set_tcp_options(const struct settings *settings, int fd)
{
    int on = 1;

    /* Accepted connections inherit these, which saves as many calls for each. */
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) != 0 ||
        !set_tcp(fd, TCP_NODELAY, 1) || !set_tcp(fd, TCP_NOTSENT_LOWAT, UNSENT_BYTES) ||
        !set_tcp(fd, TCP_KEEPIDLE, settings->tcp_keepalive_s) ||
        !set_tcp(fd, TCP_KEEPINTVL, settings->tcp_keepalive_interval_s) ||
        !set_tcp(fd, TCP_KEEPCNT, settings->tcp_keepalive_probes) ||
        !set_tcp(fd, TCP_USER_TIMEOUT, settings->tcp_user_timeout_ms)) {
        log_warn("listener, cannot set an option (%s)", strerror(errno));
    }
}

/* A socket that listens, or -1 with errno and the name of the call that failed. */
static int listen_on(const struct settings *settings, const struct sockaddr *addr,
                     socklen_t len, const char **what)
{
    const uint32_t backlog = settings->backlog;
    int on = 1;
    int err;
    int fd = passed_on_take(settings->passed, addr, len);

    if (fd >= 0) {
        if (!passed_on_is_shown(settings->passed)) {
            sockets_set_tcp_options(settings, fd);
        }
        return fd;
    }
    *what = "socket()";
    fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    *what = "setsockopt()";
    if (addr->sa_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0) {
        goto fail;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
        goto fail;
    }
    sockets_set_tcp_options(settings, fd);
    *what = "bind()";
    if (bind(fd, addr, len) != 0) {
        if (errno != EADDRINUSE || !passed_on_makes_way(settings->passed, addr, SOCK_STREAM)) {
            goto fail;
        }
        if (passed_on_is_shown(settings->passed)) {
            return fd;
        }
        if (bind(fd, addr, len) != 0) {
            goto fail;
        }
    }
    *what = "listen()";
    if (listen(fd, backlog < INT_MAX ? (int)backlog : INT_MAX) != 0) {
        goto fail;
    }
    return fd;

fail:
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

struct conn_origin sockets_tcp_origin(const struct settings *settings,
                                      const struct listen_address *address)
{
    bool is_plain = address != NULL && address->is_plain;
    struct conn_origin origin = {
        .transport = settings->ssl_enabled && !is_plain ? CONN_TLS : CONN_TCP,
        .protocol = (uint8_t)settings->protocol,
        .rights = RIGHTS_ORDINARY,
    };

    if (address != NULL) {
        memcpy(origin.tag, address->tag, sizeof(origin.tag));
        origin.is_proxied = address->is_proxied;
        origin.verify = address->verify;
        if (address->has_protocol) {
            origin.protocol = address->protocol;
        }
    }
    return origin;
}

/* ---- the default: loopback --------------------------------------------------------------- */

static int tcp_port_failed(const struct settings *settings, const char *call)
{
    const uint16_t port = settings->port > 0 ? (uint16_t)settings->port : 0;
    char where[24];

    snprintf(where, sizeof(where), "TCP port %u", (unsigned)port);
    return listen_fault(settings, &(struct listen_fault){.id = OPTION_port,
                                                         .where = span_str(where),
                                                         .call = call,
                                                         .port = port,
                                                         .type = SOCK_STREAM});
}

static bool is_without_family(int err)
{
    return err == EAFNOSUPPORT || err == EADDRNOTAVAIL || err == EPROTONOSUPPORT;
}

static int open_tcp_loopback(const struct settings *settings, struct socket_list *out)
{
    struct conn_origin origin = sockets_tcp_origin(settings, NULL);
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    uint16_t port = settings->port > 0 ? (uint16_t)settings->port : 0;
    const bool is_any_port = port == 0;
    const char *what;
    int status;

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons(port);
    int fd = listen_on(settings, (const struct sockaddr *)&in, sizeof(in), &what);
    if (fd < 0) {
        status = passed_on_excuse(settings->passed, tcp_port_failed(settings, what));
    } else {
        /* With any free port the v6 socket gets the same number, if it is free there too. */
        port = is_any_port ? socket_port(fd) : port;
        status = socket_list_add(out, fd, &origin);
    }
    if (status != 0) {
        return status;
    }
    in6.sin6_port = htons(port);
    fd = listen_on(settings, (const struct sockaddr *)&in6, sizeof(in6), &what);
    if (fd < 0 && errno == EADDRINUSE && is_any_port) {
        in6.sin6_port = 0;
        fd = listen_on(settings, (const struct sockaddr *)&in6, sizeof(in6), &what);
    }
    if (fd < 0) {
        if (is_without_family(errno)) {
            log_info("listener, serves IPv4 only (%s)", strerror(errno));
            return 0;
        }
        return passed_on_excuse(settings->passed, tcp_port_failed(settings, what));
    }
    return socket_list_add(out, fd, &origin);
}

/* ---- the addresses of -l ----------------------------------------------------------------- */

/* A list of addresses, as an option has it. */
struct address_list {
    enum option_id id;
    const char *text; /* NULL: empty */
    /* Read an element of it. Returns what is wrong with it, or NULL. */
    const char *(*read)(const struct settings *, struct span, struct listen_address *);
};

static int tcp_address_failed(const struct settings *settings, enum option_id id,
                              struct span text, const char *reason)
{
    return listen_fault(settings,
                        &(struct listen_fault){.id = id, .where = text, .reason = reason});
}

static int open_resolved(const struct settings *settings, enum option_id id, struct span text,
                         const struct listen_address *address, const struct addrinfo *first,
                         struct socket_list *out)
{
    struct conn_origin origin = sockets_tcp_origin(settings, address);
    const struct addrinfo *ai;

    for (ai = first; ai != NULL; ai = ai->ai_next) {
        union socket_address addr;
        const char *what;
        int status;

        if ((ai->ai_family != AF_INET && ai->ai_family != AF_INET6) ||
            ai->ai_addrlen > sizeof(addr)) {
            continue;
        }
        memcpy(&addr, ai->ai_addr, ai->ai_addrlen);
        if (socket_list_has(out, &addr, false)) {
            continue;
        }
        int fd = listen_on(settings, ai->ai_addr, ai->ai_addrlen, &what);
        if (fd < 0 && errno == EAFNOSUPPORT && ai->ai_next != NULL) {
            continue;
        }
        if (fd < 0) {
            status = passed_on_excuse(
                settings->passed,
                listen_fault(settings, &(struct listen_fault){.id = id,
                                                              .where = text,
                                                              .call = what,
                                                              .port = (uint16_t)address->port,
                                                              .type = SOCK_STREAM}));
        } else {
            status = socket_list_add(out, fd, &origin);
        }
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

static int open_parsed(const struct settings *settings, enum option_id id, struct span text,
                       const struct listen_address *address, struct socket_list *out)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *first = NULL;
    char port[16];

    snprintf(port, sizeof(port), "%u", address->port);
    int status =
        getaddrinfo(address->host[0] != '\0' ? address->host : NULL, port, &hints, &first);
    if (status != 0) {
        return passed_on_excuse(
            settings->passed,
            listen_fault(settings, &(struct listen_fault){
                                       .id = id,
                                       .where = text,
                                       .call = "getaddrinfo()",
                                       .reason = status == EAI_SYSTEM ? strerror(errno)
                                                                      : gai_strerror(status)}));
    }
    status = open_resolved(settings, id, text, address, first, out);
    freeaddrinfo(first);
    return status;
}

/* Read an element of -l; its port is that of -p if it has none. */
static const char *read_address(const struct settings *settings, struct span text,
                                struct listen_address *addr)
{
    const char *error = listen_address_parse(text, addr);

    if (error != NULL) {
        return error;
    }
    if (addr->verify != TLS_VERIFY_BY_MODE && (addr->is_plain || !settings->ssl_enabled)) {
        return "btls: and mtls: need TLS (-Z)";
    }
    if (addr->is_proxied && settings->proxy_from == NULL) {
        return "proxied: needs --proxy-from";
    }
    /* When clients must authenticate, no address may offer a way around it. */
    if (addr->has_protocol && (settings->auth_file != NULL || settings->sasl) &&
        addr->protocol != settings->protocol) {
        return "clients that must authenticate speak one protocol";
    }
    if (!addr->has_port) {
        addr->port = settings->port > 0 ? (unsigned)settings->port : 0;
    }
    return NULL;
}

/* The same for a listener that is not for clients of the cache. */
static const char *read_plain_address(const struct settings *settings, struct span text,
                                      struct listen_address *addr)
{
    const char *error = listen_address_parse(text, addr);

    (void)settings;
    if (error == NULL && (addr->is_plain || addr->verify != TLS_VERIFY_BY_MODE ||
                          addr->is_proxied || addr->has_protocol || addr->tag[0] != '\0')) {
        error = "prefixes are for clients of the cache";
    } else if (error == NULL && !addr->has_port) {
        error = "the port is missing";
    }
    return error;
}

static struct address_list clients_of(const struct settings *settings)
{
    return (struct address_list){OPTION_listen, settings->listen, read_address};
}

static struct address_list metrics_of(const struct settings *settings)
{
    return (struct address_list){OPTION_metrics, settings->metrics, read_plain_address};
}

/* Read every element of a list; returns the status of the first error. */
static int check_list(const struct settings *settings, struct address_list list)
{
    const char *at = list.text;
    struct listen_address addr;
    struct span text;
    int first = 0;

    while (at != NULL && listen_address_next(&at, &text)) {
        const char *error = list.read(settings, text, &addr);

        if (error != NULL) {
            const int status = tcp_address_failed(settings, list.id, text, error);

            first = first == 0 ? status : first;
        }
    }
    return first;
}

int sockets_check_tcp(const struct settings *settings)
{
    return check_list(settings, clients_of(settings));
}

int sockets_check_metrics(const struct settings *settings)
{
    return check_list(settings, metrics_of(settings));
}

/* Listen on every element of a list; stops at the first error. */
static int open_list(const struct settings *settings, struct address_list list,
                     struct socket_list *out)
{
    const char *at = list.text;
    struct span text;
    int status = 0;

    while (status == 0 && at != NULL && listen_address_next(&at, &text)) {
        struct listen_address addr;
        const char *error = list.read(settings, text, &addr);

        status = error != NULL ? tcp_address_failed(settings, list.id, text, error)
                               : open_parsed(settings, list.id, text, &addr, out);
    }
    return status;
}

int sockets_open_tcp(const struct settings *settings, struct socket_list *out)
{
    return settings->listen == NULL ? open_tcp_loopback(settings, out)
                                    : open_list(settings, clients_of(settings), out);
}

int sockets_open_metrics(const struct settings *settings, struct socket_list *out)
{
    return open_list(settings, metrics_of(settings), out);
}
