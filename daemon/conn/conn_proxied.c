/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn_steps.h. Only the header is read from the socket: its bytes are peeked at first,
 * then exactly its length is read. So the bytes after it remain for TLS, and a header that
 * arrives in pieces does not wake the loop repeatedly for the same bytes.
 */
#include "daemon/conn/conn_steps.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/access/access.h"
#include "daemon/base/log.h"
#include "lib/base/buf.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "proto/proxy_parse.h"

_Static_assert(PASSED_HEADER_MAX <= PROXY_HEADER_MAX, "what was passed on of one fits");

bool conn_proxied_is_due(const struct conn *c)
{
    must_be_worker(c->worker);
    return c->client.origin->is_proxied &&
           networks_have(&c->worker->crew->access.proxies, c->peer.family, c->peer.address);
}

void conn_proxied_failed(struct conn *c, const char *why)
{
    char address[CONN_PEER_MAX];

    must_be_worker(c->worker);
    ctr_add(&c->worker->counters, CTR_proxy_errors, 1);
    conn_put_peer(c, address);
    log_info_about(&(struct log_about){.peer = address}, "proxy, connection of %s closed (%s)",
                   address, why);
    c->close_reason = CLOSE_ERROR;
    conn_close(c);
}

static void take_header(struct conn *c, const struct proxy_header *h)
{
    buf_fini(&c->in);
    (void)client_count_input(&c->client, c->worker, 0); /* one that came along was counted */
    conn_deadline_clear(c);
    if (h->family != PROXY_NONE) {
        conn_set_peer(c, h->family == PROXY_INET ? AF_INET : AF_INET6, h->address, h->port);
        c->is_proxied = true;
    }
    c->last_active = worker_now(c->worker);
    conn_begin(c);
}

/* Read n bytes from the socket, which are known to be there. */
static bool take(struct conn *c, char *to, size_t n)
{
    return n == 0 || recv(c->client.io.fd, to, n, MSG_DONTWAIT) == (ssize_t)n;
}

static void look(struct conn *c)
{
    const size_t had = buf_len(&c->in);
    char bytes[PROXY_HEADER_MAX];
    struct proxy_header header;
    size_t used;

    if (had > 0) {
        memcpy(bytes, buf_begin(&c->in), had);
    }
    ssize_t n =
        recv(c->client.io.fd, bytes + had, sizeof(bytes) - had, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        conn_proxied_failed(c, "no header");
        return;
    }
    switch (proxy_parse(bytes, had + (size_t)n, &header, &used)) {
    case PROXY_DONE:
        if (take(c, bytes + had, used - had)) {
            take_header(c, &header);
            return;
        }
        break;
    case PROXY_MORE:
        if (take(c, bytes + had, (size_t)n) && buf_append(&c->in, bytes + had, (size_t)n)) {
            return;
        }
        break;
    default:
        conn_proxied_failed(c, "malformed header");
        return;
    }
    conn_proxied_failed(c, "its header cannot be kept");
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct conn *c = handle->data;

    (void)events;
    must(c->magic == CONN_MAGIC);
    if (c->state != CONN_HEADER) {
        return;
    }
    worker_now(c->worker);
    if (status < 0) {
        conn_proxied_failed(c, "reset");
    } else {
        look(c);
    }
}

void conn_proxied_begin(struct conn *c)
{
    must_be_worker(c->worker);
    conn_enter(c, CONN_HEADER);
    conn_deadline_set(c, DEADLINE_HANDSHAKE);
    /* A separate callback, so that connections that are served pay nothing for the header. */
    c->events = CONN_EVENTS_OLD;
    uv_poll_start(&c->poll, UV_READABLE, on_poll);
}
