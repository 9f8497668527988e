/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/link/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nss.h>
#include <poll.h>
#include <resolv.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/link/link_tls.h"

#define READ_BYTES (32u * 1024)

/* How often is_interrupted() is called: a signal may come just before a wait. */
#define ASK_MS 1000

/* How long to leave a unix socket alone whose queue is full. */
#define FULL_MS 5

struct link {
    int fd;
    int cancel_fd;        /* [borrowed] -1: none */
    struct link_tls *tls; /* owned; NULL: none */
    struct buf in;
    size_t used; /* of in, from its front: what the last call returned */
    msec_t timeout_ms;
    const char *timeout_option; /* [borrowed] of link_open() */
    bool (*is_interrupted)(void);
    bool is_local;
    char why[256];
};

static enum link_result fail(struct link *l, enum link_result result, const char *what)
{
    snprintf(l->why, sizeof(l->why), "%s", what);
    return result;
}

static enum link_result fail_silent(struct link *l)
{
    const char *option = l->timeout_option;

    snprintf(l->why, sizeof(l->why), "the server is silent for too long%s%s%s",
             option != NULL ? " (" : "", option != NULL ? option : "",
             option != NULL ? ")" : "");
    return LINK_SILENT;
}

/*
 * Wait for events of the socket, none: for nothing but the time, until a moment. LINK_SILENT
 * leaves the reason to the caller.
 */
static enum link_result await_quietly(struct link *l, short events, msec_t until)
{
    for (;;) {
        struct pollfd p[2] = {{.fd = events != 0 ? l->fd : -1, .events = events},
                              {.fd = l->cancel_fd, .events = POLLIN}};
        msec_t left = until - clock_mono_ms();

        if (l->is_interrupted != NULL && l->is_interrupted()) {
            return fail(l, LINK_INTERRUPTED, "interrupted");
        }
        if (left <= 0) {
            return LINK_SILENT;
        }
        int n = poll(p, 2, left < ASK_MS ? (int)left : ASK_MS);
        if (n < 0 && errno != EINTR) {
            return fail(l, LINK_BROKEN, strerror(errno));
        }
        if (n > 0 && p[1].revents != 0) {
            return fail(l, LINK_INTERRUPTED, "interrupted");
        }
        if (n > 0) {
            return LINK_OK;
        }
    }
}

static enum link_result await(struct link *l, short events, msec_t until)
{
    enum link_result result = await_quietly(l, events, until);

    return result == LINK_SILENT ? fail_silent(l) : result;
}

static msec_t deadline(const struct link *l)
{
    return clock_add_ms(clock_mono_ms(), l->timeout_ms);
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

/* The socket is connecting: how did that end? */
static enum link_result await_connect(struct link *l, msec_t until)
{
    enum link_result result = await(l, POLLOUT, until);
    int error = 0;
    socklen_t len = sizeof(error);

    if (result == LINK_OK && getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        error = errno;
    }
    return error == 0 ? result : fail(l, LINK_BROKEN, strerror(error));
}

static enum link_result connect_to(struct link *l, const struct sockaddr *address,
                                   socklen_t len, msec_t until)
{
    enum link_result result = LINK_OK;

    l->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0) {
        return fail(l, LINK_BROKEN, strerror(errno));
    }
    while (connect(l->fd, address, len) != 0) {
        if (errno == EINPROGRESS) {
            result = await_connect(l, until);
            break;
        }
        /* EAGAIN: a unix socket whose queue is full. */
        if (errno != EAGAIN || clock_mono_ms() > until) {
            result = fail(l, LINK_BROKEN, strerror(errno));
            break;
        }
        result = await_quietly(l, 0, clock_mono_ms() + FULL_MS);
        if (result != LINK_SILENT) {
            break;
        }
        result = LINK_OK;
    }
    if (result != LINK_OK) {
        (void)close(l->fd);
        l->fd = -1;
    }
    return result;
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
    return connect_to(l, (const struct sockaddr *)&address, sizeof(address), deadline(l)) ==
           LINK_OK;
}

/*
 * Have the C library ask each server of the DNS once, and wait a second for it: by default it
 * asks twice, and waits for 5 s each time. What resolv.conf says is read again, as that of a
 * resolver which was tuned is not any more.
 */
static void hurry_resolver(void)
{
#ifdef __GLIBC__
    if (res_init() == 0) {
        _res.retrans = 1;
        _res.retry = 1;
    }
#endif
}

/* A numeric address needs no file and no server. As getaddrinfo(). */
static int look_up(const char *host, const char *port, struct addrinfo **found)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    int e = getaddrinfo(host, port, &hints, found);

    if (e != EAI_NONAME) {
        return e;
    }
    hurry_resolver();
    hints.ai_flags = AI_ADDRCONFIG;
    return getaddrinfo(host, port, &hints, found);
}

static void tune_tcp(int fd)
{
    int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static bool connect_tcp(struct link *l, const char *host, const char *port)
{
    struct addrinfo *found = NULL;
    int e = look_up(host, port, &found);
    enum link_result result = LINK_BROKEN;
    const msec_t until = deadline(l);
    unsigned untried = 0;

    if (e != 0) {
        (void)fail(l, LINK_BROKEN, e == EAI_SYSTEM ? strerror(errno) : gai_strerror(e));
        return false;
    }
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        untried++;
    }
    /* One that does not answer leaves the others their share of the time. */
    for (const struct addrinfo *a = found;
         a != NULL && result != LINK_OK && result != LINK_INTERRUPTED; a = a->ai_next) {
        const msec_t now = clock_mono_ms();

        l->is_local = address_is_loopback(a->ai_addr);
        result = connect_to(l, a->ai_addr, a->ai_addrlen, now + (until - now) / untried);
        untried--;
    }
    freeaddrinfo(found);
    if (result == LINK_OK) {
        tune_tcp(l->fd);
    }
    return result == LINK_OK;
}

void link_prepare_confined(void)
{
#ifdef __GLIBC__
    (void)__nss_configure_lookup("hosts", "files dns");
#endif
    link_tls_prepare();
}

/* What TLS waits for, or that it failed. */
static enum link_result await_tls(struct link *l, ssize_t n, msec_t until)
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
    const msec_t until = deadline(l);
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
    l->cancel_fd = target->cancel != NULL ? *target->cancel : -1;
    l->timeout_ms = target->timeout_ms;
    l->timeout_option = target->timeout_option;
    l->is_interrupted = target->is_interrupted;
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

void link_set_timeout(struct link *l, msec_t timeout_ms)
{
    l->timeout_ms = timeout_ms;
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

/* Read what there is, at least a byte and at most max; *got: how many. */
static enum link_result receive(struct link *l, void *out, size_t max, msec_t until,
                                size_t *got)
{
    for (;;) {
        enum link_result result;
        ssize_t n;

        if (l->tls != NULL) {
            n = link_tls_read(l->tls, out, max);
            result = n > 0 ? LINK_OK : await_tls(l, n, until);
        } else {
            n = recv(l->fd, out, max, 0);
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
            *got = (size_t)n;
            return LINK_OK;
        }
        if (result != LINK_OK) {
            return result;
        }
    }
}

/* Read some more into the buffer. */
static enum link_result fill(struct link *l, msec_t until)
{
    size_t got = 0;

    if (!buf_reserve(&l->in, READ_BYTES)) {
        return fail(l, LINK_NO_MEMORY, "no memory for the answer");
    }
    enum link_result result = receive(l, buf_end(&l->in), READ_BYTES, until, &got);
    l->in.end += got;
    return result;
}

/* Forget what the last call returned. */
static void move_on(struct link *l)
{
    buf_consume(&l->in, l->used);
    l->used = 0;
}

static enum link_result next_line(struct link *l, struct span *line, bool is_patient)
{
    const msec_t until = is_patient ? MSEC_NEVER : deadline(l);
    size_t searched = 0;

    move_on(l);
    for (;;) {
        size_t len = buf_len(&l->in);
        const char *begin = buf_begin(&l->in);
        const char *end =
            len > searched ? memchr(begin + searched, '\n', len - searched) : NULL;

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
        enum link_result result = fill(l, until);
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

enum link_result link_some(struct link *l, void *out, size_t max, size_t *got)
{
    must(max > 0);
    move_on(l);
    size_t kept = buf_len(&l->in);
    if (kept == 0) {
        *got = 0;
        return receive(l, out, max, deadline(l), got);
    }
    *got = kept < max ? kept : max;
    memcpy(out, buf_begin(&l->in), *got);
    buf_consume(&l->in, *got);
    return LINK_OK;
}

/* ---- logging in -------------------------------------------------------------------------- */

bool link_user_is_valid(const char *user)
{
    return user[0] != '\0' && strlen(user) < LINK_NAME_BYTES && strpbrk(user, " \r\n") == NULL;
}

/* Keep what the server answered, without what a terminal or a log would act upon. */
static enum link_result link_refuse(struct link *l, struct span answer)
{
    size_t n = (size_t)snprintf(l->why, sizeof(l->why), "the server answers: ");

    for (size_t i = 0; i < answer.len && n < sizeof(l->why) - 1; i++) {
        const char ch = answer.ptr[i];

        l->why[n++] = '?';
        if (ch >= ' ' && ch <= '~') {
            l->why[n - 1] = ch;
        }
    }
    l->why[n] = '\0';
    return LINK_REFUSED;
}

enum link_result link_login(struct link *l, const char *user, const char *password,
                            struct span *answer)
{
    char line[2 * LINK_NAME_BYTES + 64];
    struct span got = {0};

    must(link_user_is_valid(user) && strlen(password) < LINK_NAME_BYTES);
    int len = snprintf(line, sizeof(line), "set login 0 0 %zu\r\n%s %s\r\n",
                       strlen(user) + 1 + strlen(password), user, password);
    enum link_result result = link_send(l, span_of(line, (size_t)len));
    explicit_bzero(line, sizeof(line));
    if (result == LINK_OK) {
        result = link_line(l, &got);
    }
    if (answer != NULL) {
        *answer = got;
    }
    return result == LINK_OK && !span_is(got, "STORED") ? link_refuse(l, got) : result;
}
