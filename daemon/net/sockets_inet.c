/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internet sockets to listen on. Without -l that is the loopback interface, v4 and v6; a
 * machine without v6 is no error then. With -l every address that a name stands for is bound,
 * and any that cannot be is an error, so that nobody serves less than was asked for.
 */
#include "daemon/net/sockets_inet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/options/settings.h"
#include "lib/base/num.h"

#define LIST_SEPARATORS " ;,"

/* ---- parsing ----------------------------------------------------------------------------- */

static struct span skip(struct span s, size_t n)
{
    return span_of(s.ptr + n, s.len - n);
}

static bool starts_with(struct span s, const char *word)
{
    size_t n = strlen(word);

    return s.len >= n && memcmp(s.ptr, word, n) == 0;
}

/*
 * Take "word[x]:" off the front; false when it does not stand there. *error is set when it does
 * not end.
 */
static bool take_bracket(struct span *s, const char *word, struct span *x, const char **error)
{
    size_t head = strlen(word);
    const char *end;

    if (!starts_with(*s, word)) {
        return false;
    }
    *x = skip(*s, head);
    end = memchr(x->ptr, ']', x->len);
    if (end == NULL || end + 1 == s->ptr + s->len || end[1] != ':') {
        *error = "Invalid prefix of an address";
        return false;
    }
    x->len = (size_t)(end - x->ptr);
    *s = skip(*s, head + x->len + 2);
    return true;
}

static const char *set_protocol(struct listen_address *out, struct span name)
{
    static const char *const names[] = {
        [PROTOCOL_AUTO] = "auto", [PROTOCOL_ASCII] = "ascii", [PROTOCOL_BINARY] = "binary"};

    if (span_is(name, "negotiating")) {
        name = span_str(names[PROTOCOL_AUTO]); /* memcached's own word for it */
    }
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (span_is(name, names[i])) {
            out->has_protocol = true;
            out->protocol = (uint8_t)i;
            return NULL;
        }
    }
    return "Invalid protocol, not auto, ascii or binary";
}

static const char *set_tag(struct listen_address *out, struct span tag)
{
    if (tag.len == 0 || tag.len >= sizeof(out->tag)) {
        return "Invalid tag, not 1 to 31 bytes";
    }
    memcpy(out->tag, tag.ptr, tag.len);
    return NULL;
}

/* Memcached's prefixes, in any order. Returns what is wrong, or NULL. */
static const char *take_prefixes(struct span *s, struct listen_address *out)
{
    const char *error = NULL;

    while (error == NULL) {
        struct span x;

        if (starts_with(*s, "notls:")) {
            out->is_plain = true;
            *s = skip(*s, 6);
        } else if (take_bracket(s, "proto[", &x, &error)) {
            error = set_protocol(out, x);
        } else if (take_bracket(s, "tag[", &x, &error)) {
            error = set_tag(out, x);
        } else {
            break;
        }
    }
    return error;
}

static const char *set_host(struct listen_address *out, struct span host)
{
    if (host.len >= sizeof(out->host)) {
        return "name too long";
    }
    if (!span_is(host, "*")) {
        memcpy(out->host, host.ptr, host.len);
        out->host[host.len] = '\0';
    }
    return NULL;
}

static const char *set_port(struct listen_address *out, struct span port)
{
    uint32_t number;

    if (num_u32(port, &number) != MF_OK || number > 65535) {
        return "Invalid port number";
    }
    out->has_port = true;
    out->port = number;
    return NULL;
}

const char *listen_address_parse(struct span text, struct listen_address *out)
{
    struct span host;
    struct span rest;
    const char *end;
    const char *error;

    memset(out, 0, sizeof(*out));
    error = take_prefixes(&text, out);
    if (error != NULL) {
        return error;
    }
    if (text.len == 0) {
        return "empty address";
    }
    if (text.ptr[0] == '[') {
        end = memchr(text.ptr, ']', text.len);
        if (end == NULL) {
            return "Invalid IPV6 address";
        }
        host = span_of(text.ptr + 1, (size_t)(end - text.ptr) - 1);
        rest = skip(text, host.len + 2);
        if (rest.len > 0 && rest.ptr[0] != ':') {
            return "Invalid IPV6 address";
        }
    } else {
        end = memchr(text.ptr, ':', text.len);
        if (end != NULL &&
            memchr(end + 1, ':', text.len - (size_t)(end + 1 - text.ptr)) != NULL) {
            /* More than one colon: an address without a port. */
            end = NULL;
        }
        host = span_of(text.ptr, end != NULL ? (size_t)(end - text.ptr) : text.len);
        rest = skip(text, host.len);
    }
    error = set_host(out, host);
    if (error == NULL && rest.len > 0) {
        error = set_port(out, skip(rest, 1));
    }
    return error;
}

bool listen_next(const char **at, struct span *text)
{
    *at += strspn(*at, LIST_SEPARATORS);
    *text = span_of(*at, strcspn(*at, LIST_SEPARATORS));
    *at += text->len;
    return text->len > 0;
}

/* ---- one socket -------------------------------------------------------------------------- */

void inet_set_options(int fd)
{
    int on = 1;

    /* Accepted connections inherit both, which saves two calls for each of them. */
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
        log_warn("listener, cannot set an option (%s)", strerror(errno));
    }
}

/* A bound and listening socket, or -1 with errno and the failed call's name. */
static int listen_on(const struct sockaddr *addr, socklen_t len, uint32_t backlog,
                     const char **what)
{
    int on = 1;
    int fd;
    int err;

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
    inet_set_options(fd);
    *what = "bind()";
    if (bind(fd, addr, len) != 0) {
        goto fail;
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

/* ---- the default: loopback --------------------------------------------------------------- */

struct conn_origin inet_origin(const struct settings *settings,
                               const struct listen_address *address)
{
    bool is_plain = address != NULL && address->is_plain;
    struct conn_origin origin = {
        .transport = settings->ssl_enabled && !is_plain ? CONN_TLS : CONN_TCP,
        .protocol = (uint8_t)settings->protocol,
    };

    if (address != NULL) {
        memcpy(origin.tag, address->tag, sizeof(origin.tag));
        if (address->has_protocol) {
            origin.protocol = address->protocol;
        }
    }
    return origin;
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } addr;
    socklen_t len = sizeof(addr);

    memset(&addr, 0, sizeof(addr));
    if (getsockname(fd, &addr.sa, &len) != 0) {
        return 0;
    }
    return ntohs(addr.sa.sa_family == AF_INET6 ? addr.in6.sin6_port : addr.in.sin_port);
}

static int port_failed(int32_t port, const char *what)
{
    log_error("listener, failed to listen on TCP port %d (%s: %s)", port > 0 ? port : 0, what,
              strerror(errno));
    return EX_OSERR;
}

static bool is_without_family(int err)
{
    return err == EAFNOSUPPORT || err == EADDRNOTAVAIL || err == EPROTONOSUPPORT;
}

static int open_loopback(const struct settings *settings, struct socket_list *out)
{
    struct conn_origin origin = inet_origin(settings, NULL);
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    uint16_t port = settings->port > 0 ? (uint16_t)settings->port : 0;
    const char *what;
    int status;
    int fd;

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons(port);
    fd = listen_on((const struct sockaddr *)&in, sizeof(in), settings->backlog, &what);
    if (fd < 0) {
        return port_failed(settings->port, what);
    }
    /* Of a free port the v6 socket gets the same number, if it is free there too. */
    in6.sin6_port = htons(port_of(fd));
    status = socket_list_add(out, fd, &origin);
    if (status != 0) {
        return status;
    }
    fd = listen_on((const struct sockaddr *)&in6, sizeof(in6), settings->backlog, &what);
    if (fd < 0 && errno == EADDRINUSE && port == 0) {
        in6.sin6_port = 0;
        fd = listen_on((const struct sockaddr *)&in6, sizeof(in6), settings->backlog, &what);
    }
    if (fd < 0) {
        if (is_without_family(errno)) {
            log_info("listener, serves IPv4 only (%s)", strerror(errno));
            return 0;
        }
        return port_failed(settings->port, what);
    }
    return socket_list_add(out, fd, &origin);
}

/* ---- the addresses of -l ----------------------------------------------------------------- */

static int address_failed(struct span text, const char *what, const char *why)
{
    log_error("listener, failed to listen on one of interface(s) %.*s (%s%s)", (int)text.len,
              text.ptr, what, why);
    return EX_OSERR;
}

/* Is this very address open already? A name may stand for one address twice. */
static bool is_open(const struct socket_list *l, const struct sockaddr *addr)
{
    char text[INET6_ADDRSTRLEN];
    char name[SOCKET_NAME_MAX];
    uint32_t i;

    if (addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)addr;

        inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
        snprintf(name, sizeof(name), "tcp6:[%s]:%u", text, (unsigned)ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const void *)addr;

        inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
        snprintf(name, sizeof(name), "tcp:%s:%u", text, (unsigned)ntohs(in->sin_port));
    }
    for (i = 0; i < l->count; i++) {
        if (strcmp(l->items[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static int open_resolved(const struct settings *settings, struct span text,
                         const struct listen_address *address, const struct addrinfo *first,
                         struct socket_list *out)
{
    struct conn_origin origin = inet_origin(settings, address);
    const struct addrinfo *ai;

    for (ai = first; ai != NULL; ai = ai->ai_next) {
        const char *what;
        int status;
        int fd;

        if ((ai->ai_family != AF_INET && ai->ai_family != AF_INET6) ||
            is_open(out, ai->ai_addr)) {
            continue;
        }
        fd = listen_on(ai->ai_addr, ai->ai_addrlen, settings->backlog, &what);
        if (fd < 0 && errno == EAFNOSUPPORT && ai->ai_next != NULL) {
            continue;
        }
        if (fd < 0) {
            char why[128];

            snprintf(why, sizeof(why), ": %s", strerror(errno));
            return address_failed(text, what, why);
        }
        status = socket_list_add(out, fd, &origin);
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

static int open_address(const struct settings *settings, struct span text,
                        struct socket_list *out)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *first = NULL;
    struct listen_address addr;
    const char *error = listen_address_parse(text, &addr);
    char port[16];
    int status;

    if (error != NULL) {
        return address_failed(text, error, "");
    }
    /* An operator who asked clients to authenticate must not get a way around it. */
    if (addr.has_protocol && (settings->auth_file != NULL || settings->sasl) &&
        addr.protocol != settings->protocol) {
        return address_failed(text, "clients that have to authenticate speak one protocol", "");
    }
    if (!addr.has_port) {
        addr.port = settings->port > 0 ? (unsigned)settings->port : 0;
    }
    snprintf(port, sizeof(port), "%u", addr.port);
    status = getaddrinfo(addr.host[0] != '\0' ? addr.host : NULL, port, &hints, &first);
    if (status != 0) {
        return address_failed(text, "getaddrinfo(): ",
                              status == EAI_SYSTEM ? strerror(errno) : gai_strerror(status));
    }
    status = open_resolved(settings, text, &addr, first, out);
    freeaddrinfo(first);
    return status;
}

int inet_open(const struct settings *settings, struct socket_list *out)
{
    const char *at = settings->listen;
    struct span text;

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

/* ---- the file of ports ------------------------------------------------------------------- */

/* The sockets of one address stand side by side: its line is written once. */
static void write_list(FILE *f, const struct socket_list *l, const char *protocol)
{
    const char *last = "";

    for (uint32_t i = 0; i < l->count; i++) {
        const struct socket_open *s = &l->items[i];

        if (s->origin.transport != CONN_UNIX && strcmp(s->name, last) != 0) {
            fprintf(f, "%s %s: %u\n", protocol, strchr(s->name, '[') != NULL ? "INET6" : "INET",
                    (unsigned)port_of(s->fd));
            last = s->name;
        }
    }
}

static int write_ports(const struct socket_list *tcp, const struct socket_list *udp,
                       const char *path)
{
    FILE *f = fopen(path, "we");
    int err;

    if (f == NULL) {
        return -1;
    }
    write_list(f, tcp, "TCP");
    write_list(f, udp, "UDP");
    err = ferror(f);
    return fclose(f) != 0 || err != 0 ? -1 : 0;
}

int inet_write_ports(const struct socket_list *tcp, const struct socket_list *udp)
{
    const char *path = getenv("MEMCACHED_PORT_FILENAME");
    char temporary[PATH_MAX];

    if (path == NULL || path[0] == '\0') {
        return 0;
    }
    if ((size_t)snprintf(temporary, sizeof(temporary), "%s.lck", path) >= sizeof(temporary)) {
        log_error("listener, cannot write the ports (name too long)");
        return EX_OSERR;
    }
    if (write_ports(tcp, udp, temporary) != 0 || rename(temporary, path) != 0) {
        log_error("listener, cannot write the ports to %s (%s)", path, strerror(errno));
        (void)unlink(temporary);
        return EX_OSERR;
    }
    return 0;
}
