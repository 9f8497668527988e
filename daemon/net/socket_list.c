/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open sockets: see socket_list.h.
 */
#include "daemon/net/socket_list.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* ---- the list ---------------------------------------------------------------------------- */

int socket_list_add(struct socket_list *l, int fd, const struct conn_origin *origin)
{
    struct socket_open *items = mem_realloc(l->items, (l->count + 1) * sizeof(*items));

    must_be_main();
    if (items == NULL) {
        log_error("listener, no memory for a socket");
        close(fd);
        return EX_OSERR;
    }
    l->items = items;
    struct socket_open *s = &items[l->count++];
    memset(s, 0, sizeof(*s));
    s->fd = fd;
    s->origin = *origin;
    socket_name(fd, s->name);
    return 0;
}

void socket_close(struct socket_open *s)
{
    must_be_main();
    close(s->fd);
    if (s->path != NULL) {
        struct stat st;

        if (lstat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino) {
            /*
             * A failure is not reported: the folder may belong to root, and the process no
             * longer does.
             */
            (void)unlink(s->path);
        }
        mem_free(s->path);
        s->path = NULL;
    }
}

void socket_list_fini(struct socket_list *l)
{
    must_be_main();
    mem_free(l->items);
    l->items = NULL;
    l->count = 0;
}

void socket_list_close(struct socket_list *l)
{
    must_be_main();
    for (uint32_t i = 0; i < l->count; i++) {
        socket_close(&l->items[i]);
    }
    socket_list_fini(l);
}

static bool is_same_host(const union socket_address *a, const union socket_address *b)
{
    if (a->sa.sa_family != b->sa.sa_family) {
        return false;
    }
    return a->sa.sa_family == AF_INET6
               ? memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0 &&
                     a->in6.sin6_scope_id == b->in6.sin6_scope_id
               : a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
}

bool socket_list_has(const struct socket_list *l, const union socket_address *addr,
                     bool is_any_port)
{
    must_be_main();
    for (uint32_t i = 0; i < l->count; i++) {
        union socket_address own;
        socklen_t len = sizeof(own);

        memset(&own, 0, sizeof(own));
        if (getsockname(l->items[i].fd, &own.sa, &len) == 0 && is_same_host(&own, addr) &&
            (is_any_port || socket_address_port(&own) == socket_address_port(addr))) {
            return true;
        }
    }
    return false;
}

/* ---- addresses and names ----------------------------------------------------------------- */

uint16_t socket_address_port(const union socket_address *addr)
{
    return ntohs(addr->sa.sa_family == AF_INET6 ? addr->in6.sin6_port : addr->in.sin_port);
}

void socket_address_set_port(union socket_address *addr, uint16_t port)
{
    if (addr->sa.sa_family == AF_INET6) {
        addr->in6.sin6_port = htons(port);
    } else {
        addr->in.sin_port = htons(port);
    }
}

uint16_t socket_port(int fd)
{
    union socket_address addr;
    socklen_t len = sizeof(addr);

    memset(&addr, 0, sizeof(addr));
    return getsockname(fd, &addr.sa, &len) == 0 ? socket_address_port(&addr) : 0;
}

static void unix_name(const struct sockaddr_un *un, socklen_t len, char out[SOCKET_NAME_MAX])
{
    size_t n = len > offsetof(struct sockaddr_un, sun_path)
                   ? len - offsetof(struct sockaddr_un, sun_path)
                   : 0;

    if (n > 0 && un->sun_path[0] == '\0') {
        snprintf(out, SOCKET_NAME_MAX, "unix:@%.*s", (int)(n - 1), un->sun_path + 1);
    } else {
        snprintf(out, SOCKET_NAME_MAX, "unix:%.*s", (int)strnlen(un->sun_path, n),
                 un->sun_path);
    }
}

int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

/* The address, padded with zeros; 0: it has none. */
static socklen_t address_of(int fd, union socket_address *addr)
{
    socklen_t len = sizeof(*addr);

    memset(addr, 0, sizeof(*addr));
    return getsockname(fd, &addr->sa, &len) == 0 ? len : 0;
}

static bool is_any_host(const union socket_address *a)
{
    return a->sa.sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr)
                                       : a->in.sin_addr.s_addr == htonl(INADDR_ANY);
}

bool socket_accepts_for(int listening, int fd)
{
    union socket_address own;
    union socket_address at;
    const socklen_t own_len = address_of(listening, &own);
    const socklen_t len = address_of(fd, &at);

    if (own_len == 0 || len == 0 || own.sa.sa_family != at.sa.sa_family) {
        return false;
    }
    if (own.sa.sa_family == AF_UNIX) {
        return own_len == len && memcmp(&own, &at, len) == 0;
    }
    return socket_address_port(&own) == socket_address_port(&at) &&
           (is_any_host(&own) || is_same_host(&own, &at));
}

void socket_end(int fd)
{
    char unread[4096];
    unsigned reads = 16;

    (void)shutdown(fd, SHUT_WR);
    while (reads-- > 0 && recv(fd, unread, sizeof(unread), MSG_DONTWAIT) > 0) {
    }
    close(fd);
}

void socket_name(int fd, char out[SOCKET_NAME_MAX])
{
    const char *protocol = socket_option(fd, SO_TYPE) == SOCK_DGRAM ? "udp" : "tcp";
    union socket_address addr;
    socklen_t len = sizeof(addr);
    char text[INET6_ADDRSTRLEN];

    memset(&addr, 0, sizeof(addr));
    if (getsockname(fd, &addr.sa, &len) != 0) {
        snprintf(out, SOCKET_NAME_MAX, "?:<%d>", errno);
    } else if (addr.sa.sa_family == AF_INET) {
        inet_ntop(AF_INET, &addr.in.sin_addr, text, sizeof(text));
        snprintf(out, SOCKET_NAME_MAX, "%s:%s:%u", protocol, text,
                 (unsigned)ntohs(addr.in.sin_port));
    } else if (addr.sa.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &addr.in6.sin6_addr, text, sizeof(text));
        snprintf(out, SOCKET_NAME_MAX, "%s6:[%s]:%u", protocol, text,
                 (unsigned)ntohs(addr.in6.sin6_port));
    } else if (addr.sa.sa_family == AF_UNIX) {
        unix_name(&addr.un, len, out);
    } else {
        snprintf(out, SOCKET_NAME_MAX, "?:<AF %d>", (int)addr.sa.sa_family);
    }
}
