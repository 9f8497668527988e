/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn.h. On their workers.
 */
#include "daemon/conn/conn.h"

#include <string.h>

#include "daemon/base/log.h"
#include "daemon/conn/conn_steps.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

struct heir {
    struct passed_conn state;
    const struct conn_origin *origin; /* [borrowed] of the listening socket */
    char *bytes;                      /* owned; user, input and output */
};

struct conn_heirs {
    struct message message;
    uint32_t count;
    uint32_t max;
    struct heir items[];
};

/* Restore the saved state of a connection. False: no memory. */
static bool restore(struct conn *c, const struct passed_conn *p)
{
    struct client *client = &c->client;

    if (c->protocol == PROTOCOL_AUTO) {
        c->protocol = p->protocol;
    }
    if (p->is_proxied) {
        conn_set_peer(c, p->family, p->address, p->port);
        c->is_proxied = true;
    }
    c->swallow = p->swallow;
    client->login_failures = p->login_failures;
    conn_leave_idle(c);
    c->last_active = worker_now(c->worker) - (msec_t)p->idle_ms;
    conn_idle_begin(c);
    if (!conn_auth_resume(c, p) || !buf_append(&c->in, p->input.ptr, p->input.len) ||
        (p->output.len > 0 && !client_append(client, p->output.ptr, p->output.len))) {
        return false;
    }
    c->then = p->input.len > 0 && !p->awaits_header ? CONN_TURN : CONN_INPUT;
    return client_count_input(client, c->worker, c->in.cap) &&
           client_count_output(client, c->worker);
}

static void resume(struct conn *c, const struct passed_conn *p)
{
    if (!restore(c, p)) {
        log_warn("upgrade, connection closed (no memory to restore its state)");
        conn_close(c);
        return;
    }
    if (p->awaits_header) {
        if (conn_proxied_is_due(c)) {
            conn_proxied_begin(c);
        } else {
            conn_close(c); /* its input cannot be continued */
        }
        return;
    }
    conn_begin(c);
}

static void on_heirs(struct message *m, void *receiver)
{
    struct conn_heirs *h = (struct conn_heirs *)(void *)m; /* its first member */
    struct worker *w = receiver;

    must_be_worker(w);
    worker_now(w);
    for (uint32_t i = 0; i < h->count; i++) {
        const struct heir *x = &h->items[i];
        struct conn *c = conn_create(w, x->state.fd, x->origin);

        if (c == NULL) {
            log_warn("listener, connection dropped (no memory)");
            crew_conn_closed(w, x->origin);
        } else {
            resume(c, &x->state);
        }
        mem_free(x->bytes);
    }
    mem_free(h);
}

struct conn_heirs *conn_heirs_create(uint32_t max)
{
    struct conn_heirs *h = mem_alloc(sizeof(*h) + max * sizeof(h->items[0]));

    if (h != NULL) {
        h->message.fn = on_heirs;
        h->count = 0;
        h->max = max;
    }
    return h;
}

/* Copy a span to `to`, and make it refer to the copy. Returns the end of the copy. */
static char *copy(char *to, struct span *s)
{
    if (s->len > 0) {
        memcpy(to, s->ptr, s->len);
    }
    if (s->ptr != NULL) {
        s->ptr = to;
    }
    return to + s->len;
}

bool conn_heirs_put(struct conn_heirs *h, const struct passed_conn *state,
                    const struct conn_origin *origin)
{
    struct heir *x = &h->items[h->count];

    must(h->count < h->max);
    x->state = *state;
    x->origin = origin;
    x->bytes = mem_alloc(state->user.len + state->input.len + state->output.len + 1);
    if (x->bytes == NULL) {
        return false;
    }
    char *to = copy(x->bytes, &x->state.user);
    to = copy(to, &x->state.input);
    (void)copy(to, &x->state.output);
    h->count++;
    return true;
}

void conn_heirs_post(struct conn_heirs **h, struct worker *w)
{
    if (*h != NULL) {
        struct message *m = &(*h)->message;

        *h = NULL;
        mailbox_post(&w->mailbox, m);
    }
}
