/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection that watches, on its worker. From the OK on it gets lines and is asked nothing:
 * what it sends is read and dropped, so that its end is noticed. Its lines wait in the ring of
 * its watcher and go out in small portions as its socket takes them; what finds no room in the
 * ring is skipped by main, so a client that does not read holds no more than that.
 */
#include "daemon/conn/conn_state.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/worker/watch.h"
#include "lib/base/counters.h"

/* Lines handed to the socket at once. */
#define PORTION_BYTES (16u * 1024)

enum turn_stop turn_watch(struct turn *t, uint32_t streams)
{
    switch (watch_add(t->w, t->conn, streams, &t->conn->watcher)) {
    case WATCH_ADDED:
        turn_reply(t, REPLY_OK);
        return TURN_STREAMS;
    case WATCH_TOO_MANY:
        turn_reply(t, REPLY_WATCHER_TOO_MANY);
        break;
    case WATCH_NO_MEMORY:
        turn_reply(t, REPLY_WATCHER_FAILED);
        break;
    }
    return TURN_GOES_ON;
}

void conn_stream(struct conn *c)
{
    while (!c->is_closing && outq_is_empty(&c->outq)) {
        struct byte_ring *ring = &c->watcher->text;
        struct span text = byte_ring_front(ring);
        size_t n = text.len < PORTION_BYTES ? text.len : PORTION_BYTES;

        if (n == 0) {
            return;
        }
        if (!outq_append(&c->outq, text.ptr, n)) {
            ctr_add(&c->worker->counters, CTR_response_obj_oom, 1);
            conn_close(c);
            return;
        }
        byte_ring_drop(ring, n);
        /* Few may watch and each keeps one portion: that is no reason to end one. */
        (void)conn_count_output(c);
        conn_write(c);
    }
}

void conn_serve_watchers(struct worker *w)
{
    struct watcher *next;

    for (struct watcher *x = w->watchers; x != NULL; x = next) {
        next = x->next; /* closing takes it off the list */
        conn_stream(x->conn);
    }
}

/* ---- connections as they come and go ----------------------------------------------------- */

void conn_name_peer(struct conn *c)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&ss;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)&ss;

    c->peer.family = AF_UNIX;
    if (c->origin->transport == CONN_UNIX ||
        getpeername(c->io.fd, (struct sockaddr *)&ss, &len) != 0) {
        return;
    }
    c->peer.family = ss.ss_family;
    if (ss.ss_family == AF_INET) {
        c->peer.port = ntohs(in->sin_port);
        memcpy(c->peer.address, &in->sin_addr, sizeof(in->sin_addr));
    } else if (ss.ss_family == AF_INET6) {
        c->peer.port = ntohs(in6->sin6_port);
        memcpy(c->peer.address, &in6->sin6_addr, sizeof(in6->sin6_addr));
    }
}

void conn_log(const struct conn *c, enum watch_kind kind)
{
    static const char *const reasons[] = {
        [CLOSE_ERROR] = "error",
        [CLOSE_NORMAL] = "normal",
        [CLOSE_IDLE] = "idle_timeout",
        [CLOSE_SHUTDOWN] = "shutdown",
    };
    struct worker *w = c->worker;
    struct watch_event e = {
        .kind = (uint8_t)kind,
        .fd = c->io.fd,
        .port = c->peer.port,
        .status = reasons[c->close_reason],
    };
    char address[INET6_ADDRSTRLEN] = "unix";

    if ((observe_flags(w) & WATCH_CONNEVENTS) == 0) {
        return;
    }
    if (c->peer.family != AF_UNIX) {
        inet_ntop(c->peer.family, c->peer.address, address, sizeof(address));
    }
    watch_log(w, &e, span_str(address));
}
