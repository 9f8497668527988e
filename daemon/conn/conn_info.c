/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptions of connections: lines for watchers of connections, rows of `stats conns`. On the
 * worker of the connection.
 */
#include "daemon/conn/conn_steps.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/command/observe.h"
#include "daemon/conn/conn.h"
#include "daemon/worker/watch.h"
#include "lib/base/context.h"

/* Room for an address in the form of `stats conns`. */
#define SHOWN_ADDRESS_MAX 128

/* ---- connections as they come and go ----------------------------------------------------- */

void conn_set_peer(struct conn *c, uint16_t family, const void *address, uint16_t port)
{
    const struct in6_addr *in6 = address;

    must_be_worker(c->worker);
    memset(&c->peer, 0, sizeof(c->peer));
    c->peer.port = port;
    c->peer.family = family;
    if (family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(in6)) {
        /* An inherited socket may accept both families: the client is the same peer in both. */
        c->peer.family = AF_INET;
        memcpy(c->peer.address, &in6->s6_addr[12], sizeof(struct in_addr));
    } else if (family == AF_INET6) {
        memcpy(c->peer.address, in6, sizeof(*in6));
    } else if (family == AF_INET) {
        memcpy(c->peer.address, address, sizeof(struct in_addr));
    }
}

void conn_name_peer(struct conn *c)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&ss;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)&ss;

    must_be_worker(c->worker);
    c->peer.family = AF_UNIX;
    if (c->client.origin->transport == CONN_UNIX ||
        getpeername(c->client.io.fd, (struct sockaddr *)&ss, &len) != 0) {
        return;
    }
    if (ss.ss_family == AF_INET) {
        conn_set_peer(c, AF_INET, &in->sin_addr, ntohs(in->sin_port));
    } else if (ss.ss_family == AF_INET6) {
        conn_set_peer(c, AF_INET6, &in6->sin6_addr, ntohs(in6->sin6_port));
    }
}

void conn_put_peer(const struct conn *c, char out[CONN_PEER_MAX])
{
    must_be_worker(c->worker);
    if (c->peer.family == AF_UNIX ||
        inet_ntop(c->peer.family, c->peer.address, out, CONN_PEER_MAX) == NULL) {
        snprintf(out, CONN_PEER_MAX, "unix");
    }
}

/* The same with its port, cut to `size` bytes with the end. */
static void put_peer_port(const struct conn *c, char *out, size_t size)
{
    char address[CONN_PEER_MAX];

    conn_put_peer(c, address);
    if (c->peer.family == AF_UNIX) {
        snprintf(out, size, "%s", address);
    } else {
        snprintf(out, size, c->peer.family == AF_INET6 ? "[%s]:%u" : "%s:%u", address,
                 (unsigned)c->peer.port);
    }
}

static const struct conn *conn_of(const struct client *client)
{
    return (const void *)((const char *)client - offsetof(struct conn, client));
}

void conn_show_peer(const struct client *client, char out[CLIENT_PEER_MAX])
{
    put_peer_port(conn_of(client), out, CLIENT_PEER_MAX);
}

uint64_t conn_peer_id(const struct client *client)
{
    const struct conn *c = conn_of(client);

    must_be_worker(c->worker);
    return auth_peers_id(c->peer.family, c->peer.address);
}

void conn_log(const struct conn *c, enum watch_kind kind)
{
    static const char *const reasons[] = {
        [CLOSE_ERROR] = "error",       [CLOSE_REFUSED] = "error",     [CLOSE_NORMAL] = "normal",
        [CLOSE_IDLE] = "idle_timeout", [CLOSE_SHUTDOWN] = "shutdown",
    };
    struct worker *w = c->worker;
    struct watch_event e = {
        .kind = (uint8_t)kind,
        .fd = c->client.io.fd,
        .port = c->peer.port,
        .status = reasons[c->close_reason],
    };
    char address[CONN_PEER_MAX];

    must_be_worker(c->worker);
    if ((observe_flags(w) & WATCH_CONNEVENTS) == 0) {
        return;
    }
    conn_put_peer(c, address);
    watch_log(w, &e, span_str(address));
}

/* ---- all of a worker --------------------------------------------------------------------- */

void conn_list_add(struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(w);
    c->prev = NULL;
    c->next = w->conns->first;
    if (c->next != NULL) {
        c->next->prev = c;
    }
    w->conns->first = c;
    w->conn_count++;
}

void conn_list_remove(struct conn *c)
{
    struct stats_conn_cursor *cursor;
    struct worker *w = c->worker;

    must_be_worker(w);
    LIST_EACH (cursor, &w->conns->cursors, struct stats_conn_cursor, link) {
        if (cursor->next_conn == c) {
            cursor->next_conn = c->next;
        }
    }
    if (w->conns->move_next == c) {
        w->conns->move_next = c->next;
    }
    if (MF_UNLIKELY(c->weight_slot != 0)) {
        conn_weigh_forget(c);
    }
    if (c->prev != NULL) {
        c->prev->next = c->next;
    } else {
        must(w->conns->first == c);
        w->conns->first = c->next;
    }
    if (c->next != NULL) {
        c->next->prev = c->prev;
    }
    w->conn_count--;
}

/* ---- stats conns ------------------------------------------------------------------------- */

static void put_unix(const struct sockaddr_un *un, socklen_t len, char *out, size_t size)
{
    int path_len = (int)len - (int)offsetof(struct sockaddr_un, sun_path);

    if (path_len <= 0) {
        snprintf(out, size, "unix");
    } else if (un->sun_path[0] == '\0') {
        snprintf(out, size, "unix:@%.*s", path_len - 1, un->sun_path + 1);
    } else {
        snprintf(out, size, "unix:%.*s", path_len, un->sun_path);
    }
}

static void put_address(const struct sockaddr_storage *ss, socklen_t len, char *out,
                        size_t size)
{
    char text[INET6_ADDRSTRLEN];
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)ss;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)ss;

    switch (ss->ss_family) {
    case AF_INET:
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
        snprintf(out, size, "tcp:%s:%u", text, (unsigned)ntohs(in->sin_port));
        break;
    case AF_INET6:
        inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
        snprintf(out, size, "tcp6:[%s]:%u", text, (unsigned)ntohs(in6->sin6_port));
        break;
    case AF_UNIX:
        put_unix((const struct sockaddr_un *)(const void *)ss, len, out, size);
        break;
    default:
        snprintf(out, size, "<unknown>");
        break;
    }
}

/* The client that a balancer connects on behalf of. */
static void put_client(const struct conn *c, char *out, size_t size)
{
    char address[CONN_PEER_MAX];

    put_peer_port(c, address, sizeof(address));
    snprintf(out, size, "%s:%s", c->peer.family == AF_INET6 ? "tcp6" : "tcp", address);
}

static const char *state_name(const struct conn *c)
{
    if (client_has_output(&c->client)) {
        return "conn_mwrite";
    }
    if (c->then == CONN_ENDS) {
        return "conn_closing";
    }
    if (c->swallow > 0) {
        return "conn_swallow";
    }
    if (c->upload != NULL || c->need > 0) {
        return "conn_nread";
    }
    if (c->client.watcher != NULL) {
        return "conn_watch";
    }
    return conn_is_kept(c) || conn_is_parked(c) ? "conn_parse_cmd" : "conn_read";
}

/* Call fn with the lines of `stats conns` for a connection. */
static void show_conn(const struct conn *c, stats_socket_fn fn, void *arg)
{
    char addr[SHOWN_ADDRESS_MAX] = "";
    char listen_addr[SHOWN_ADDRESS_MAX] = "";
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    struct stats_socket shown = {
        .fd = c->client.io.fd,
        .addr = addr,
        .listen_addr = listen_addr,
        .tag = c->client.origin->tag,
        .state = state_name(c),
        .last_cmd = c->last_active,
        .resps_waiting = client_has_output(&c->client),
    };

    if (c->is_proxied) {
        put_client(c, addr, sizeof(addr));
    } else if (getpeername(c->client.io.fd, (struct sockaddr *)&ss, &len) == 0) {
        put_address(&ss, len, addr, sizeof(addr));
    }
    len = sizeof(ss);
    if (getsockname(c->client.io.fd, (struct sockaddr *)&ss, &len) == 0) {
        put_address(&ss, len, listen_addr, sizeof(listen_addr));
    }
    fn(arg, &shown);
}

void conn_each_end(struct stats_conn_cursor *cursor)
{
    must_be_a_worker();
    list_remove(&cursor->link);
}

bool conn_each(struct worker *w, struct stats_conn_cursor *cursor, uint32_t max,
               stats_socket_fn fn, void *arg)
{
    must_be_worker(w);
    if (!list_has_link(&cursor->link)) {
        cursor->next_conn = w->conns->first;
        list_append(&w->conns->cursors, &cursor->link);
    }
    for (uint32_t n = 0; cursor->next_conn != NULL && n < max; n++) {
        const struct conn *c = cursor->next_conn;

        cursor->next_conn = c->next;
        show_conn(c, fn, arg);
    }
    if (cursor->next_conn != NULL) {
        return true;
    }
    conn_each_end(cursor);
    return false;
}
