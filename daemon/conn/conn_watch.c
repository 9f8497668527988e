/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The look at all connections of a worker: stores that wait for room try again, idle clients
 * are sent away, so are those that keep too much dead memory pinned, stalled bodies give way,
 * draining, and what `stats conns` shows. On that worker.
 */
#include "daemon/conn/conn_state.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/options/settings.h"
#include "daemon/worker/cron.h"
#include "lib/base/counters.h"

/* A body without fresh bytes for so long gives way when bodies hold most of what they may. */
#define STALLED_MS 500

/* Room for an address as `stats conns` shows it. */
#define SHOWN_ADDRESS_MAX 128

void conn_watch(struct conn *c, unsigned ms)
{
    cron_wake_ms(c->worker, ms);
}

/* ---- scan -------------------------------------------------------------------------------- */

static void retry(struct conn *c)
{
    if (!outq_is_empty(&c->outq)) {
        return; /* goes on when its replies are sent */
    }
    if (conn_upload_wants_read(c)) {
        conn_upload_read(c);
    } else {
        conn_execute_kept(c);
    }
}

static bool is_idle_too_long(const struct conn *c, msec_t now)
{
    uint32_t timeout_s = c->worker->settings->idle_timeout_s;

    return timeout_s != 0 && c->ask == NULL && c->watcher == NULL &&
           now - c->last_active > (msec_t)timeout_s * 1000;
}

static bool is_stalled(const struct conn *c, msec_t now)
{
    return c->upload != NULL && now - c->upload->moved >= STALLED_MS && !c->is_waiting &&
           conn_uploads_press(c->worker);
}

static void scan_one(struct conn *c, msec_t now)
{
    struct counters *ctr = &c->worker->counters;

    if (c->is_waiting) {
        retry(c);
    } else if (conn_tls_is_overdue(c, now)) {
        tls_handshake_failed(c->io.tls, "too slow");
        conn_close(c);
    } else if (is_idle_too_long(c, now)) {
        ctr_add(ctr, CTR_idle_kicks, 1);
        c->close_reason = CLOSE_IDLE;
        conn_close(c);
    } else if (c->outq.is_pinned && value_pin_is_overdue(&c->outq.pin)) {
        ctr_add(ctr, CTR_slow_drops, 1);
        conn_close(c);
    } else if (is_stalled(c, now)) {
        conn_upload_shed(c);
    }
}

void conn_scan(struct worker *w, msec_t now)
{
    struct conn *next;
    bool looks_again = false;

    for (struct conn *c = w->conns; c != NULL; c = next) {
        next = c->next;
        scan_one(c, now);
        if (!c->is_closing) {
            looks_again |= c->outq.is_pinned || c->upload != NULL || c->is_shaking;
        }
    }
    if (looks_again) {
        cron_wake_ms(w, CONN_WATCH_MS);
    }
}

/* ---- draining ---------------------------------------------------------------------------- */

void conn_drain(struct conn *c)
{
    c->close_reason = CLOSE_SHUTDOWN;
    if (c->worker->phase >= WORKER_OVERDUE || c->is_shaking || c->watcher != NULL) {
        conn_close(c);
    } else if (outq_is_empty(&c->outq) && !c->is_kept && c->ask == NULL) {
        if (c->upload != NULL) {
            conn_close(c); /* half a request has no answer */
        } else {
            /* What the kernel has of its requests is still answered, up to one read. */
            conn_read(c);
            conn_round_run(c->worker);
            conn_settle(c);
        }
    }
}

void conn_drain_all(struct worker *w)
{
    struct conn *next;

    for (struct conn *c = w->conns; c != NULL; c = next) {
        next = c->next;
        conn_drain(c);
    }
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

static const char *state_name(const struct conn *c)
{
    if (!outq_is_empty(&c->outq)) {
        return "conn_mwrite";
    }
    if (c->is_finishing) {
        return "conn_closing";
    }
    if (c->swallow > 0) {
        return "conn_swallow";
    }
    if (c->upload != NULL || c->need > 0) {
        return "conn_nread";
    }
    if (c->watcher != NULL) {
        return "conn_watch";
    }
    if (c->ask != NULL || c->is_waiting || c->is_ready) {
        return "conn_parse_cmd";
    }
    return "conn_read";
}

/* Call fn with what `stats conns` shows of a connection. */
static void show(const struct conn *c, stats_socket_fn fn, void *arg)
{
    char addr[SHOWN_ADDRESS_MAX] = "";
    char listen_addr[SHOWN_ADDRESS_MAX] = "";
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    struct stats_socket shown = {
        .fd = c->io.fd,
        .addr = addr,
        .listen_addr = listen_addr,
        .tag = c->origin->tag,
        .state = state_name(c),
        .last_cmd = c->last_active,
        .resps_waiting = !outq_is_empty(&c->outq),
    };

    if (getpeername(c->io.fd, (struct sockaddr *)&ss, &len) == 0) {
        put_address(&ss, len, addr, sizeof(addr));
    }
    len = sizeof(ss);
    if (getsockname(c->io.fd, (struct sockaddr *)&ss, &len) == 0) {
        put_address(&ss, len, listen_addr, sizeof(listen_addr));
    }
    fn(arg, &shown);
}

bool conn_each(struct worker *w, uint64_t *cursor, uint32_t max, stats_socket_fn fn, void *arg)
{
    const struct conn *c = w->conns;

    while (c != NULL && *cursor != 0 && c->serial >= *cursor) {
        c = c->next;
    }
    for (uint32_t n = 0; c != NULL && n < max; n++, c = c->next) {
        show(c, fn, arg);
        *cursor = c->serial;
    }
    return c != NULL;
}
