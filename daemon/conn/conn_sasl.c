/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SASL on a connection. What a client says goes to the pool, since the library may ask other
 * processes; until it comes back the connection reads and executes nothing. The connection may
 * close meanwhile, and the server may stop: then what comes back is released.
 *
 * The exchange belongs to the connection while it waits for the client, and to the job while
 * that runs. Counted like memcached's: an exchange that ends, not its steps.
 */
#include "daemon/conn/conn_state.h"

#include <string.h>

#include "daemon/access/auth_sasl.h"
#include "daemon/base/pool.h"
#include "daemon/command/exec_bin.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"

/* A challenge goes with it: the client has to answer. */
#define STATUS_CONTINUE 0x21

struct sasl_ask {
    struct pool_job job;
    struct conn_ask ask;
    struct request req; /* its spans are gone when the answer comes */
    struct exchange *x; /* owned; NULL before it begins, and when it could not */
    bool is_hopeless;   /* needs no look to fail */
    enum exchange_result result;
    struct span challenge; /* in x */
    char mechanism[AUTH_MECH_MAX + 1];
    size_t len;
    char data[]; /* what the client said: a password, more often than not */
};

static struct sasl_ask *ask_of(struct pool_job *job)
{
    return (struct sasl_ask *)(void *)job; /* the job stands first */
}

static void ask_destroy(struct sasl_ask *a)
{
    exchange_destroy(a->x);
    explicit_bzero(a->data, a->len);
    mem_free(a);
}

/* ---- in the pool ------------------------------------------------------------------------- */

static void run(struct pool_job *job)
{
    struct sasl_ask *a = ask_of(job);
    struct span data = span_of(a->data, a->len);

    a->result = EXCHANGE_FAILED;
    if (a->is_hopeless) {
        return;
    }
    if (a->req.opcode == BIN_SASL_STEP) {
        a->result = exchange_step(a->x, data, &a->challenge);
    } else {
        a->result = exchange_begin(&a->x, a->mechanism, data, &a->challenge);
    }
}

static void forget(struct pool_job *job)
{
    ask_destroy(ask_of(job));
}

/* ---- back on the worker ------------------------------------------------------------------ */

/* Who fails is not known any more, if it was before. */
static void count_failure(struct conn *c)
{
    ctr_add(&c->worker->counters, CTR_auth_cmds, 1);
    ctr_add(&c->worker->counters, CTR_auth_errors, 1);
    c->needs_auth = true;
}

/* Write the answer at out, which has room for a challenge; returns its length. */
static size_t compose(struct conn *c, struct sasl_ask *a, char *out)
{
    struct bin_head head = {.status = STATUS_CONTINUE};

    switch (a->result) {
    case EXCHANGE_DONE:
        ctr_add(&c->worker->counters, CTR_auth_cmds, 1);
        c->needs_auth = false;
        return bin_compose_reply(out, &a->req, BIN_REPLY_AUTHENTICATED, 0);
    case EXCHANGE_GOES_ON:
        c->exchange = a->x;
        a->x = NULL;
        head.body_len = (uint32_t)a->challenge.len;
        bin_compose_head(out, &a->req, head);
        if (a->challenge.len > 0) {
            memcpy(out + BIN_HEADER_BYTES, a->challenge.ptr, a->challenge.len);
        }
        return BIN_HEADER_BYTES + a->challenge.len;
    case EXCHANGE_FAILED:
        break;
    }
    count_failure(c);
    return bin_compose_reply(out, &a->req, BIN_REPLY_AUTH_FAILURE, 0);
}

static void on_back(struct message *m, void *receiver)
{
    struct sasl_ask *a = ask_of((struct pool_job *)(void *)m);
    struct conn *c = a->ask.conn;
    char out[BIN_REPLY_MAX + AUTH_CHALLENGE_MAX];
    size_t len;
    bool is_kept;

    (void)receiver;
    if (c == NULL) {
        ask_destroy(a);
        return;
    }
    c->ask = NULL;
    c->last_active = worker_now(c->worker);
    len = compose(c, a, out);
    ask_destroy(a);
    is_kept = outq_append(&c->outq, out, len);
    if (!is_kept || !conn_count_output(c)) {
        ctr_add(&c->worker->counters, is_kept ? CTR_slow_drops : CTR_response_obj_oom, 1);
        conn_close(c);
        return;
    }
    conn_write(c);
}

/* ---- requests ---------------------------------------------------------------------------- */

static struct sasl_ask *ask_create(struct conn *c, const struct request *r)
{
    struct sasl_ask *a = mem_zalloc(sizeof(*a) + r->value.len + 1); /* a NUL behind it */

    if (a == NULL) {
        return NULL;
    }
    a->job.message.fn = on_back;
    a->job.to = &c->worker->mailbox;
    a->job.run = run;
    a->job.forget = forget;
    a->ask.conn = c;
    a->req = *r;
    memcpy(a->mechanism, r->key.ptr, r->key.len);
    /* A name with a NUL in it is none; the library would take what is before. */
    a->is_hopeless = memchr(r->key.ptr, '\0', r->key.len) != NULL;
    a->len = r->value.len;
    if (a->len > 0) {
        memcpy(a->data, r->value.ptr, a->len);
    }
    return a;
}

enum turn_stop conn_sasl(struct turn *t, const struct request *r)
{
    struct conn *c = t->conn;
    struct sasl_ask *a = ask_create(c, r);

    if (a == NULL) {
        count_failure(c);
        exec_bin_reply(t, r, BIN_REPLY_AUTH_FAILURE, 0);
        return TURN_CLOSES; /* requests behind this one are parsed already */
    }
    if (r->opcode == BIN_SASL_STEP) {
        a->x = c->exchange;
        a->is_hopeless |= a->x == NULL;
    } else {
        exchange_destroy(c->exchange);
    }
    c->exchange = NULL;
    c->ask = &a->ask;
    pool_post(t->w->crew->access.pool, &a->job);
    return TURN_ASKED;
}
