/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/link_tls.h"
#include "lib/base/buf.h"
#include "lib/base/mem.h"

#define READ_BYTES (32u * 1024)

struct link {
    int fd;
    struct link_tls *tls; /* owned; NULL: none */
    struct buf in;
    size_t used; /* of in, from its front: what the last call returned */
    double timeout_s;
    bool is_local;
    char why[256];
};

static enum link_result fail(struct link *l, enum link_result result, const char *what)
{
    snprintf(l->why, sizeof(l->why), "%s", what);
    return result;
}

/* Wait for an event of the socket until a moment, INFINITY: for as long as it takes. */
static enum link_result await(struct link *l, short events, double until)
{
    for (;;) {
        struct pollfd p = {.fd = l->fd, .events = events};
        double left = until - ctl_now_s();
        int n;

        if (ctl_is_interrupted()) {
            return fail(l, LINK_INTERRUPTED, "interrupted");
        }
        if (!(left > 0)) {
            return fail(l, LINK_SILENT, "the server is silent for too long (--timeout)");
        }
        n = poll(&p, 1, left < 1 ? (int)ceil(left * 1000) : 1000);
        if (n > 0) {
            return LINK_OK;
        }
        if (n < 0 && errno != EINTR) {
            return fail(l, LINK_BROKEN, strerror(errno));
        }
    }
}

static double deadline(const struct link *l)
{
    return ctl_now_s() + l->timeout_s;
}

/* ---- connecting -------------------------------------------------------------------------- */

static bool address_is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)a;

        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* True: connected, or on the way (EINPROGRESS, waited for here). */
static bool connect_to(struct link *l, const struct sockaddr *address, socklen_t len)
{
    double until = deadline(l);
    int error = 0;
    socklen_t error_len = sizeof(error);

    l->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0) {
        (void)fail(l, LINK_BROKEN, strerror(errno));
        return false;
    }
    while (connect(l->fd, address, len) != 0) {
        struct timespec pause = {.tv_nsec = 5000000};

        if (errno == EINPROGRESS) {
            if (await(l, POLLOUT, until) != LINK_OK) {
                break;
            }
            if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &error_len) == 0 &&
                error == 0) {
                return true;
            }
            (void)fail(l, LINK_BROKEN, strerror(error));
            break;
        }
        /* A unix socket whose queue is full. */
        if (errno != EAGAIN || ctl_now_s() > until || ctl_is_interrupted()) {
            (void)fail(l, LINK_BROKEN, strerror(errno));
            break;
        }
        nanosleep(&pause, NULL);
    }
    if (l->fd >= 0 && l->why[0] == '\0') {
        return true;
    }
    (void)close(l->fd);
    l->fd = -1;
    return false;
}

static bool connect_unix(struct link *l, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path)) {
        (void)fail(l, LINK_BROKEN, "the path is too long for a socket");
        return false;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    l->is_local = true;
    return connect_to(l, (const struct sockaddr *)&address, sizeof(address));
}

static bool connect_tcp(struct link *l, const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    int e = getaddrinfo(host, port, &hints, &found);
    bool is_done = false;

    if (e != 0) {
        (void)fail(l, LINK_BROKEN, e == EAI_SYSTEM ? strerror(errno) : gai_strerror(e));
        return false;
    }
    for (const struct addrinfo *a = found; a != NULL && !is_done; a = a->ai_next) {
        int on = 1;

        l->why[0] = '\0';
        l->is_local = address_is_loopback(a->ai_addr);
        is_done = connect_to(l, a->ai_addr, a->ai_addrlen);
        if (is_done) {
            (void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        }
    }
    freeaddrinfo(found);
    return is_done;
}

/* What TLS waits for, or that it failed. */
static enum link_result await_tls(struct link *l, ssize_t n, double until)
{
    switch (n) {
    case LINK_TLS_WANTS_READ:
        return await(l, POLLIN, until);
    case LINK_TLS_WANTS_WRITE:
        return await(l, POLLOUT, until);
    case 0:
        return fail(l, LINK_CLOSED, "the server closed the connection");
    default:
        return fail(l, LINK_BROKEN, link_tls_why(l->tls));
    }
}

static bool greet(struct link *l, const struct link_target *target)
{
    double until = deadline(l);
    ssize_t n;

    l->tls = link_tls_create(target, l->fd, l->why, sizeof(l->why));
    if (l->tls == NULL) {
        return false;
    }
    while ((n = link_tls_greet(l->tls)) <= 0) {
        if (await_tls(l, n, until) != LINK_OK) {
            return false;
        }
    }
    return true;
}

struct link *link_open(const struct link_target *target, char *why, size_t why_bytes)
{
    struct link *l = mem_zalloc(sizeof(*l));

    if (l == NULL) {
        snprintf(why, why_bytes, "no memory");
        return NULL;
    }
    l->fd = -1;
    l->timeout_s = target->timeout_s;
    buf_init(&l->in);
    if ((target->path != NULL ? connect_unix(l, target->path)
                              : connect_tcp(l, target->host, target->port)) &&
        (!target->uses_tls || greet(l, target))) {
        return l;
    }
    if (target->path != NULL) {
        snprintf(why, why_bytes, "no connection to %s: %s", target->path, l->why);
    } else {
        snprintf(why, why_bytes, "no connection to %s port %s: %s", target->host, target->port,
                 l->why);
    }
    link_close(&l);
    return NULL;
}

void link_close(struct link **l)
{
    if (*l != NULL) {
        link_tls_destroy(&(*l)->tls);
        if ((*l)->fd >= 0) {
            (void)close((*l)->fd);
        }
        buf_fini(&(*l)->in);
        mem_free(*l);
        *l = NULL;
    }
}

bool link_is_local(const struct link *l)
{
    return l->is_local;
}

const char *link_why(const struct link *l)
{
    return l->why;
}

/* ---- bytes ------------------------------------------------------------------------------- */

enum link_result link_send(struct link *l, struct span bytes)
{
    while (bytes.len > 0) {
        enum link_result result = LINK_OK;
        ssize_t n;

        if (l->tls != NULL) {
            n = link_tls_write(l->tls, bytes.ptr, bytes.len);
            if (n <= 0) {
                result = await_tls(l, n, deadline(l));
                n = 0;
            }
        } else {
            n = send(l->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
            if (n < 0) {
                result = errno == EAGAIN || errno == EINTR
                             ? await(l, POLLOUT, deadline(l))
                             : fail(l, LINK_BROKEN, strerror(errno));
                n = 0;
            }
        }
        if (result != LINK_OK) {
            return result;
        }
        bytes = span_of(bytes.ptr + n, bytes.len - (size_t)n);
    }
    return LINK_OK;
}

/* Read some more into the buffer. */
static enum link_result fill(struct link *l, double until)
{
    for (;;) {
        enum link_result result;
        ssize_t n;

        if (!buf_reserve(&l->in, READ_BYTES)) {
            return fail(l, LINK_NO_MEMORY, "no memory for the answer");
        }
        if (l->tls != NULL) {
            n = link_tls_read(l->tls, buf_end(&l->in), READ_BYTES);
            result = n > 0 ? LINK_OK : await_tls(l, n, until);
        } else {
            n = recv(l->fd, buf_end(&l->in), READ_BYTES, 0);
            if (n > 0) {
                result = LINK_OK;
            } else if (n == 0) {
                result = fail(l, LINK_CLOSED, "the server closed the connection");
            } else if (errno == EAGAIN || errno == EINTR) {
                result = await(l, POLLIN, until);
            } else {
                result = fail(l, LINK_BROKEN, strerror(errno));
            }
        }
        if (n > 0) {
            l->in.end += (size_t)n;
            return LINK_OK;
        }
        if (result != LINK_OK) {
            return result;
        }
    }
}

/* Forget what the last call returned. */
static void move_on(struct link *l)
{
    buf_consume(&l->in, l->used);
    l->used = 0;
}

static enum link_result next_line(struct link *l, struct span *line, bool is_patient)
{
    size_t searched = 0;

    move_on(l);
    for (;;) {
        size_t len = buf_len(&l->in);
        const char *begin = buf_begin(&l->in);
        const char *end =
            len > searched ? memchr(begin + searched, '\n', len - searched) : NULL;
        enum link_result result;

        if (end != NULL) {
            size_t n = (size_t)(end - begin);

            l->used = n + 1;
            *line = span_of(begin, n > 0 && begin[n - 1] == '\r' ? n - 1 : n);
            return LINK_OK;
        }
        if (len > LINK_LINE_MAX) {
            return fail(l, LINK_TOO_LONG, "the server sent a line without an end");
        }
        searched = len;
        result = fill(l, is_patient ? (double)INFINITY : deadline(l));
        if (result != LINK_OK) {
            return result;
        }
    }
}

enum link_result link_line(struct link *l, struct span *line)
{
    return next_line(l, line, false);
}

enum link_result link_line_patiently(struct link *l, struct span *line)
{
    return next_line(l, line, true);
}

enum link_result link_bytes(struct link *l, size_t n, struct span *bytes)
{
    move_on(l);
    while (buf_len(&l->in) < n) {
        enum link_result result = fill(l, deadline(l));

        if (result != LINK_OK) {
            return result;
        }
    }
    l->used = n;
    *bytes = span_of(buf_begin(&l->in), n);
    return LINK_OK;
}
