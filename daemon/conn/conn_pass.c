/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passing connections on to the next program: see conn_steps.h. On their workers.
 */
#include "daemon/conn/conn_steps.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "daemon/net/sockets.h"
#include "lib/base/context.h"
#include "proto/text_parse.h"

/*
 * Maximum bytes copied of replies queued after a pinned value: the value of an item, and some.
 */
#define COPY_MAX_BYTES (2u << 20)

/* Does an upgrade pass connections on? */
static bool are_passed(const struct worker *w)
{
    return atomic_load_explicit(&w->crew->passes_conns, memory_order_relaxed);
}

/* Can it at all, now or later? */
static bool is_passable(const struct conn *c)
{
    const struct client *client = &c->client;

    return are_passed(c->worker) && client->origin->transport != CONN_TLS &&
           client->watcher == NULL && client->exchange == NULL && c->then != CONN_ENDS &&
           c->state < CONN_ANNOUNCES && !client_restores(client, c->worker) &&
           !client->follows && !client_is_candidate(client);
}

bool conn_pass_has_input(const struct conn *c)
{
    must_be_worker(c->worker);
    if (c->client.watcher != NULL) {
        return byte_ring_len(&c->client.watcher->text) > 0;
    }
    return c->drain_bytes > 0 && io_unread(&c->client.io) > 0;
}

bool conn_holds_others_up(const struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(w);
    if (w->phase < WORKER_DRAINING || !are_passed(w) ||
        worker_now(w) - c->last_active < (msec_t)WORKER_STALL_MS) {
        return false;
    }
    /* No input is read while output waits. */
    return client_has_output(&c->client) ? c->client.log_state != LOG_HELD
                                         : !conn_pass_has_input(c);
}

/*
 * Do the queued replies consist only of bytes that can be copied? A pinned value is copied if
 * its client does not read it soon. Many connections may have pinned the same value, which
 * costs no memory until it is copied. So the copies count towards the limit of connections'
 * memory.
 */
static bool has_bytes_only(const struct conn *c)
{
    const struct kept *k = c->client.kept;
    struct passed_conns *passed = &c->worker->crew->passed;

    return k == NULL || !k->outq.is_pinned ||
           ((c->worker->phase >= WORKER_FINISHING || conn_holds_others_up(c)) &&
            out_left(&k->outq.out) <= COPY_MAX_BYTES &&
            (int64_t)(passed_conns_bytes(passed) + out_left(&k->outq.out)) <=
                holders_limit_bytes(c->worker));
}

/* Has an interrupted get line no keys left, only blanks? It would be an invalid line. */
static bool has_blank_rest(const struct conn *c)
{
    struct span key;

    if (!client_has_rest(&c->client)) {
        return false;
    }
    struct span keys = span_of(buf_begin(&c->in), c->client.kept->rest.keys_bytes);
    return !text_next_key(&keys, &key);
}

/*
 * Does the connection keep only bytes? A request that waits for room, or for its turn, was not
 * begun, and is executed again by the next program. The rest of an interrupted get line becomes
 * another line.
 */
static bool is_between(const struct conn *c)
{
    const struct client *client = &c->client;

    return c->state != CONN_ROUND && !client_dumps(client) && c->upload == NULL &&
           !client_is_waiting(client) && client->service == NULL &&
           client->log_state != LOG_HELD && has_bytes_only(c) && !has_blank_rest(c);
}

bool conn_passes_later(const struct conn *c)
{
    must_be_worker(c->worker);
    return is_passable(c);
}

static uint64_t idle_ms(const struct conn *c)
{
    const msec_t now = worker_now(c->worker);

    return now > c->last_active ? (uint64_t)(now - c->last_active) : 0;
}

/* Write the beginning of a get line, to be followed by its remaining keys. */
static bool put_get(const struct get_rest *rest, struct buf *to)
{
    const struct span name = command_name((enum command)rest->command);

    if (rest->command == CMD_GAT || rest->command == CMD_GATS) {
        return buf_printf(to, "%.*s %" PRId64 " ", (int)name.len, name.ptr, rest->exptime);
    }
    return buf_printf(to, "%.*s ", (int)name.len, name.ptr);
}

/* Its kept data that is not contiguous. */
struct copies {
    struct buf input;
    struct buf output;
};

/* Fill in the bytes of p, which borrows them. False: no memory. */
static bool put_bytes(const struct conn *c, struct copies *copies, struct passed_conn *p)
{
    const struct kept *k = c->client.kept;

    p->input = buf_span(&c->in);
    if (k == NULL) {
        return true;
    }
    const struct out *out = &k->outq.out;
    p->output = span_of(MF_AT(out->base, out->sent), out->len - out->sent);
    if (k->rest.is_active) {
        if (!put_get(&k->rest, &copies->input) ||
            !buf_append(&copies->input, buf_begin(&c->in), buf_len(&c->in))) {
            return false;
        }
        p->input = buf_span(&copies->input);
    }
    if (k->outq.is_pinned) {
        if (!outq_copy(&k->outq, &copies->output)) {
            return false;
        }
        p->output = buf_span(&copies->output);
    }
    return true;
}

static bool give(struct conn *c, int fd)
{
    const struct client *client = &c->client;
    struct copies copies = {0};
    struct passed_conn p = {
        .fd = fd,
        .transport = (uint8_t)client->origin->transport,
        .protocol = c->protocol,
        .login_failures = client->login_failures,
        .is_control = client->origin->is_control,
        .is_proxied = c->is_proxied,
        .awaits_header = c->state == CONN_HEADER,
        .has_login = client_has_login(client),
        .family = c->peer.family,
        .port = c->peer.port,
        .idle_ms = idle_ms(c),
        .swallow = c->swallow,
        .login = client->login,
        .user = client->user != NULL ? span_str(client->user) : span_of(NULL, 0),
    };

    memcpy(p.address, c->peer.address, sizeof(p.address));
    bool is_given = put_bytes(c, &copies, &p) && passed_conns_add(&c->worker->crew->passed, &p);
    buf_fini(&copies.input);
    buf_fini(&copies.output);
    return is_given;
}

bool conn_pass_on(struct conn *c)
{
    must_be_worker(c->worker);
    must_not_be_reading();
    if (!is_passable(c) || !is_between(c)) {
        return false;
    }
    /* The lowest numbers are reserved for the sockets of a service manager. */
    int fd = fcntl(c->client.io.fd, F_DUPFD_CLOEXEC,
                   SOCKETS_INHERIT_FIRST + (int)c->worker->crew->numbers_kept);
    if (fd < 0) {
        return false;
    }
    if (!give(c, fd)) {
        close(fd);
        return false;
    }
    c->close_reason = CLOSE_SHUTDOWN;
    conn_close(c);
    return true;
}
