/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server that keeps nothing: the floor that kernel and sockets set for the bench. Each
 * thread has one epoll set and one listening socket on a shared port. Requests are
 * delimited, never looked up; every key of a get is answered with a canned hit, every store
 * with STORED. What one read brought is answered with one write.
 *
 *     bench_null [-p port] [-t threads] [-z value bytes]
 *
 * Prints the port it listens on. Text protocol: get gets set incr decr delete touch.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/basics.h"

#define READ_BYTES  (256u * 1024)
#define EVENTS      256
#define LINE_MAX    16384u
#define THREADS_MAX 64u

/* One connection. An unfinished request is kept in tail, unsent bytes of a reply in rest. */
struct peer {
    int fd;
    uint64_t skip; /* bytes of a value still to come, its line end included */
    bool answers_skip;
    char *tail;
    size_t tail_len;
    char *rest;
    size_t rest_len, rest_at;
};

/* A reply under construction; grows as needed. */
struct out {
    char *base;
    size_t len, cap;
};

/* What follows the key in a hit: " 0 100\r\n" and the value. [const] after start. */
static struct {
    char *rest;
    size_t rest_len;
} hit;

static void out_put(struct out *o, const char *bytes, size_t n)
{
    if (o->len + n > o->cap) {
        o->cap = (o->len + n) * 2;
        o->base = must_alloc(realloc(o->base, o->cap));
    }
    memcpy(o->base + o->len, bytes, n);
    o->len += n;
}

static void make_hit(size_t value_bytes)
{
    char line[64];
    int n = snprintf(line, sizeof(line), " 0 %zu\r\n", value_bytes);

    hit.rest_len = (size_t)n + value_bytes + 2;
    hit.rest = must_alloc(malloc(hit.rest_len));
    memcpy(hit.rest, line, (size_t)n);
    memset(hit.rest + n, 'v', value_bytes);
    memcpy(hit.rest + hit.rest_len - 2, "\r\n", 2);
}

/* A hit for every key in the line after the command. */
static void answer_get(struct out *o, const char *at, const char *end)
{
    while (at < end) {
        const char *key = at;

        while (at < end && *at != ' ') {
            at++;
        }
        if (at > key) {
            out_put(o, "VALUE ", 6);
            out_put(o, key, (size_t)(at - key));
            out_put(o, hit.rest, hit.rest_len);
        }
        at++;
    }
    out_put(o, "END\r\n", 5);
}

/* The bytes of a value that a set line announces: its fifth word. */
static uint64_t announced(const char *line, const char *end)
{
    uint64_t n = 0;
    int spaces = 0;

    for (; line < end; line++) {
        if (*line == ' ') {
            spaces++;
        } else if (spaces == 4) {
            n = n * 10 + (uint64_t)(*line - '0');
        }
    }
    return n + 2;
}

/* Answer one line; end points at its line end. */
static void answer(struct peer *p, struct out *o, const char *line, const char *end)
{
    size_t len = (size_t)(end - line);

    if (len > 4 && memcmp(line, "get ", 4) == 0) {
        answer_get(o, line + 4, end);
    } else if (len > 4 && memcmp(line, "set ", 4) == 0) {
        p->skip = announced(line, end);
        p->answers_skip = true;
    } else if (len > 5 && memcmp(line + 1, "ncr ", 4) == 0) {
        out_put(o, "12345\r\n", 7);
    } else {
        out_put(o, "OK\r\n", 4);
    }
}

/* Answer the complete requests; returns how many bytes they used. */
static size_t serve(struct peer *p, struct out *o, const char *bytes, size_t n)
{
    size_t at = 0;

    while (at < n) {
        if (p->skip != 0) {
            uint64_t take = p->skip < n - at ? p->skip : n - at;

            p->skip -= take;
            at += take;
            if (p->skip == 0 && p->answers_skip) {
                out_put(o, "STORED\r\n", 8);
                p->answers_skip = false;
            }
            continue;
        }
        const char *nl = memchr(bytes + at, '\n', n - at);
        if (nl == NULL) {
            break;
        }
        const char *end = nl > bytes + at && nl[-1] == '\r' ? nl - 1 : nl;
        size_t next = (size_t)(nl + 1 - bytes);
        answer(p, o, bytes + at, end);
        at = next;
    }
    return at;
}

static void peer_close(struct peer *p)
{
    (void)close(p->fd);
    free(p->tail);
    free(p->rest);
    free(p);
}

static void watch(int ep, struct peer *p, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = p};

    if (epoll_ctl(ep, EPOLL_CTL_MOD, p->fd, &ev) != 0) {
        die("epoll_ctl");
    }
}

/*
 * Write a reply; the bytes that the socket does not take are kept, and nothing is read until
 * they are sent.
 */
static bool send_out(int ep, struct peer *p, struct out *o)
{
    size_t at = 0;

    while (at < o->len) {
        ssize_t n = send(p->fd, o->base + at, o->len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            p->rest_len = o->len - at;
            p->rest_at = 0;
            p->rest = must_alloc(realloc(p->rest, p->rest_len));
            memcpy(p->rest, o->base + at, p->rest_len);
            watch(ep, p, EPOLLOUT);
            return true;
        }
        if (n < 0 && errno != EINTR) {
            return false;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool on_writable(int ep, struct peer *p)
{
    ssize_t n = send(p->fd, p->rest + p->rest_at, p->rest_len - p->rest_at, MSG_NOSIGNAL);

    if (n < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    p->rest_at += (size_t)n;
    if (p->rest_at == p->rest_len) {
        p->rest_len = 0;
        watch(ep, p, EPOLLIN);
    }
    return true;
}

static bool on_readable(int ep, struct peer *p, char *buf, struct out *o)
{
    memcpy(buf, p->tail, p->tail_len);
    ssize_t n = recv(p->fd, buf + p->tail_len, READ_BYTES, 0);
    if (n <= 0) {
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    size_t len = p->tail_len + (size_t)n;
    o->len = 0;
    size_t used = serve(p, o, buf, len);
    p->tail_len = len - used;
    if (p->tail_len > LINE_MAX) {
        return false;
    }
    memcpy(p->tail, buf + used, p->tail_len);
    return send_out(ep, p, o);
}

static void on_accept(int ep, int lfd)
{
    int fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;

    if (fd < 0) {
        return;
    }
    struct peer *p = must_alloc(calloc(1, sizeof(*p)));
    p->fd = fd;
    p->tail = must_alloc(malloc(LINE_MAX));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = p};
    if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) != 0) {
        die("epoll_ctl");
    }
}

static void *loop(void *arg)
{
    int lfd = *(int *)arg, ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS];
    char *buf = must_alloc(malloc(READ_BYTES + LINE_MAX));
    struct out out = {0};

    if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &ev) != 0) {
        die("epoll");
    }
    for (;;) {
        int n = epoll_wait(ep, events, EVENTS, -1);

        for (int i = 0; i < n; i++) {
            struct peer *p = events[i].data.ptr;

            if (p == NULL) {
                on_accept(ep, lfd);
            } else if (!(p->rest_len != 0 ? on_writable(ep, p)
                                          : on_readable(ep, p, buf, &out))) {
                peer_close(p);
            }
        }
    }
    return NULL;
}

static int listen_on(uint16_t *port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons(*port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) != 0 ||
        bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &len) != 0) {
        die("listen");
    }
    *port = ntohs(sa.sin_port);
    return fd;
}

int main(int argc, char **argv)
{
    unsigned threads = 1;
    uint16_t port = 0;
    size_t value_bytes = 100;
    int fds[THREADS_MAX], c;
    pthread_t tid;

    while ((c = getopt(argc, argv, "p:t:z:")) != -1) {
        switch (c) {
        case 'p':
            port = (uint16_t)atoi(optarg);
            break;
        case 't':
            threads = (unsigned)atoi(optarg);
            break;
        case 'z':
            value_bytes = strtoul(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    }
    if (threads < 1 || threads > THREADS_MAX) {
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    make_hit(value_bytes);
    for (unsigned i = 0; i < threads; i++) {
        fds[i] = listen_on(&port);
    }
    printf("%" PRIu16 "\n", port);
    (void)fflush(stdout);
    for (unsigned i = 1; i < threads; i++) {
        if (pthread_create(&tid, NULL, loop, &fds[i]) != 0) {
            die("thread");
        }
    }
    (void)loop(&fds[0]);
    return 0;
}
