/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See wire.h.
 */
#include "tests/bench/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/basics.h"

#define READ_BYTES (1024u * 1024)
#define EVENTS     256
#define WAIT_MS    20000

static int epoll_fd = -1;
static char read_buf[WIRE_TAIL_BYTES + READ_BYTES];

uint64_t wire_wrong;
char wire_first_wrong[160];

void wire_is_wrong(const char *line, size_t len)
{
    if (wire_wrong++ == 0) {
        (void)snprintf(wire_first_wrong, sizeof(wire_first_wrong), "%.*s",
                       (int)(len < 100 ? len : 100), line);
    }
}

void wire_open(struct wire *w, int port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = w};
    int one = 1;

    if (epoll_fd < 0 && (epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0) {
        die("epoll_create");
    }
    w->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (w->fd < 0 || connect(w->fd, (struct sockaddr *)&sa, sizeof(sa)) != 0) {
        die("connect");
    }
    (void)setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, w->fd, &ev) != 0) {
        die("epoll_ctl");
    }
}

void wire_close(struct wire *w)
{
    (void)close(w->fd);
    free(w->out);
}

/* ---- sending ----------------------------------------------------------------------------- */

void wire_clear(struct wire *w)
{
    w->out_len = 0;
    w->out_at = 0;
}

char *wire_room(struct wire *w, size_t n)
{
    if (w->out_len + n > w->out_cap) {
        w->out_cap = (w->out_len + n) * 2;
        w->out = must_alloc(realloc(w->out, w->out_cap));
    }
    return w->out + w->out_len;
}

static void watch(struct wire *w, bool for_writing)
{
    struct epoll_event ev = {.events = EPOLLIN | (for_writing ? EPOLLOUT : 0), .data.ptr = w};

    if (w->is_writing != for_writing && epoll_ctl(epoll_fd, EPOLL_CTL_MOD, w->fd, &ev) != 0) {
        die("epoll_ctl");
    }
    w->is_writing = for_writing;
}

void wire_send(struct wire *w)
{
    while (w->out_at < w->out_len) {
        ssize_t n = send(w->fd, w->out + w->out_at, w->out_len - w->out_at,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN) {
            watch(w, true);
            return;
        }
        if (n < 0) {
            die("send");
        }
        w->out_at += (size_t)n;
    }
    watch(w, false);
}

/* ---- receiving --------------------------------------------------------------------------- */

/* Take what came apart; an unfinished line stays in the tail. */
static void take(struct wire *w, const struct wire_client *client, const char *bytes,
                 size_t len)
{
    size_t at = 0;

    while (at < len) {
        const char *line = bytes + at;

        if (w->skip != 0) {
            uint64_t n = w->skip < len - at ? w->skip : len - at;

            if (client->on_value != NULL) {
                client->on_value(w, line, n);
            }
            w->skip -= n;
            at += n;
            continue;
        }
        const char *end = memchr(line, '\n', len - at);
        if (end == NULL) {
            break;
        }
        at = (size_t)(end + 1 - bytes);
        client->on_line(w, line, (size_t)(end - 1 - line));
    }
    w->tail_len = len - at;
    if (w->tail_len > WIRE_TAIL_BYTES) {
        errno = EPROTO;
        fail("a reply line is too long");
    }
    memcpy(w->tail, bytes + at, w->tail_len);
}

static void on_readable(struct wire *w, const struct wire_client *client)
{
    memcpy(read_buf, w->tail, w->tail_len);
    ssize_t n = recv(w->fd, read_buf + w->tail_len, READ_BYTES, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        die("the server closed a connection");
    }
    take(w, client, read_buf, w->tail_len + (size_t)n);
    client->on_taken(w);
}

/* Serve connections that become ready within `ms`. Returns whether any did. */
static bool serve(const struct wire_client *client, int ms)
{
    struct epoll_event events[EVENTS];
    int ready = epoll_wait(epoll_fd, events, EVENTS, ms);

    for (int i = 0; i < ready; i++) {
        struct wire *w = events[i].data.ptr;

        if ((events[i].events & EPOLLOUT) != 0) {
            wire_send(w);
        }
        if ((events[i].events & ~(uint32_t)EPOLLOUT) != 0) {
            on_readable(w, client);
        }
    }
    return ready > 0;
}

void wire_run(const struct wire_client *client, bool (*has_enough)(void))
{
    while (!has_enough()) {
        if (!serve(client, WAIT_MS)) {
            errno = ETIMEDOUT;
            die("no reply");
        }
    }
}

/* By ppoll(), whose time is in nanoseconds: epoll_pwait2() is of Linux 5.11. */
void wire_poll(const struct wire_client *client, double wait_s)
{
    struct pollfd p = {.fd = epoll_fd, .events = POLLIN};
    struct timespec t = {.tv_sec = (time_t)wait_s,
                         .tv_nsec = (long)((wait_s - (double)(time_t)wait_s) * 1e9)};

    if (wait_s <= 0 || ppoll(&p, 1, &t, NULL) > 0) {
        (void)serve(client, 0);
    }
}
