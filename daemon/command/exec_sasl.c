/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SASL in the binary protocol. A server without -S does not know the opcodes, as memcached
 * without it. On the worker of the client.
 *
 * A client's message is passed to the pool, since the library may query other processes; until
 * the result returns, no input of the client is read or executed. The client may close
 * meanwhile, and the server may stop: then the result is released.
 *
 * The exchange belongs to the client while the server waits for it, and to the job while that
 * runs. As in memcached, an exchange that ends is counted, not its steps.
 */
#include "daemon/command/exec.h"

#include <string.h>

#include "daemon/access/auth_sasl.h"
#include "daemon/base/pool.h"
#include "daemon/options/settings.h"
#include "daemon/worker/crew.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"
#include "proto/bin_compose.h"

/* Sent with a challenge, which the client must answer. */
#define STATUS_CONTINUE 0x21

struct sasl_ask {
    struct pool_job job;
    struct late_answer late;
    struct request req; /* its spans are no longer valid when the answer comes */
    struct exchange *x; /* owned; NULL before it begins, and when it could not */
    bool is_hopeless;   /* fails without asking the library */
    enum exchange_result result;
    struct span challenge; /* in x */
    char mechanism[AUTH_MECH_MAX + 1];
    unsigned hashes; /* made in the last step */
    size_t len;
    char data[]; /* sent by the client: usually a password */
};

static struct sasl_ask *ask_of(struct pool_job *job)
{
    return (struct sasl_ask *)(void *)job; /* the job is the first member */
}

static void ask_destroy(struct sasl_ask *a)
{
    exchange_destroy(a->x);
    explicit_bzero(a->data, a->len);
    mem_free(a);
}

/* ---- in the pool ------------------------------------------------------------------------- */

static void step_in_pool(struct pool_job *job)
{
    struct sasl_ask *a = ask_of(job);
    struct span data = span_of(a->data, a->len);

    must_be_pool();
    must_not_be_reading();
    a->result = EXCHANGE_FAILED;
    if (a->is_hopeless || atomic_load_explicit(&a->late.is_left, memory_order_relaxed)) {
        return; /* also if its client has disconnected meanwhile */
    }
    unsigned before = exchange_hashes(a->x);
    if (a->req.opcode == BIN_SASL_STEP) {
        a->result = exchange_step(a->x, data, &a->challenge);
    } else {
        a->result = exchange_begin(&a->x, a->mechanism, data, &a->challenge);
    }
    a->hashes = exchange_hashes(a->x) - before;
}

static void forget_ask(struct pool_job *job)
{
    ask_destroy(ask_of(job));
}

/* ---- back on the worker ------------------------------------------------------------------ */

/* A client that tries again is no longer authenticated, if it was before. */
static void forget_login(struct client *c, struct worker *w)
{
    guard_logout(c, w);
    c->login_state = LOGIN_NEEDED;
}

static void count_failure(struct client *c, struct worker *w, struct span user)
{
    forget_login(c, w);
    /* Whether it ends is seen when the answer is sent. */
    (void)c->duties->login_failed(c, user);
}

/*
 * The client is authenticated. The users may have changed since the check in the pool: then its
 * login is checked again before a request is executed.
 */
static bool let_in(struct client *c, struct worker *w, const struct exchange *x)
{
    const struct siphash_digest *login = exchange_login(x);

    if (!guard_login(c, w, exchange_name(x))) {
        return false;
    }
    c->login_state = LOGIN_NONE;
    if (login != NULL) {
        c->login = *login;
        c->login_state = LOGIN_DOUBTED;
    }
    return true;
}

/* Write the answer at out, which has room for a challenge; returns its length. */
static size_t compose_answer(struct sasl_ask *a, struct worker *w, char *out)
{
    struct bin_head head = {.status = STATUS_CONTINUE};
    struct client *c = a->late.client;

    switch (a->result) {
    case EXCHANGE_DONE:
        if (let_in(c, w, a->x)) {
            return bin_compose_reply(out, &a->req, BIN_REPLY_AUTHENTICATED, 0);
        }
        break; /* no memory */
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
    count_failure(c, w, exchange_user(a->x));
    return bin_compose_reply(out, &a->req, BIN_REPLY_AUTH_FAILURE, 0);
}

static void on_back(struct message *m, void *receiver)
{
    struct sasl_ask *a = ask_of((struct pool_job *)(void *)m);
    char out[BIN_REPLY_MAX + AUTH_CHALLENGE_MAX];

    must_be_worker(receiver);
    ctr_add(&((struct worker *)receiver)->counters, CTR_auth_hashes, a->hashes);
    if (a->late.client != NULL) {
        size_t len = compose_answer(a, receiver, out);

        (void)client_answer(&a->late, span_of(out, len), true);
    }
    ask_destroy(a);
}

/* ---- requests ---------------------------------------------------------------------------- */

static struct sasl_ask *ask_create(const struct turn *t, const struct request *r)
{
    struct sasl_ask *a = mem_zalloc(sizeof(*a) + r->value.len + 1); /* a NUL after it */

    if (a == NULL) {
        return NULL;
    }
    a->job.message.fn = on_back;
    a->job.to = &t->w->mailbox;
    a->job.run = step_in_pool;
    a->job.forget = forget_ask;
    a->job.source = t->client->duties->peer_id(t->client);
    a->req = *r;
    memcpy(a->mechanism, r->key.ptr, r->key.len);
    /* A name with a NUL in it is not valid; the library would use the part before it. */
    a->is_hopeless = memchr(r->key.ptr, '\0', r->key.len) != NULL;
    a->len = r->value.len;
    if (a->len > 0) {
        memcpy(a->data, r->value.ptr, a->len);
    }
    return a;
}

/* Too many logins wait: this client may come again. */
static enum turn_stop refuse_step(struct turn *t, struct sasl_ask *a)
{
    struct client *c = t->client;

    c->late = NULL;
    forget_login(c, t->w);
    ctr_add(&t->w->counters, CTR_auth_busy, 1);
    turn_bin_reply(t, &a->req, BIN_REPLY_BUSY, 0);
    ask_destroy(a);
    return TURN_CLOSES; /* requests after this one are parsed already */
}

/* Start an exchange, or continue the present one. */
static enum turn_stop post_step(struct turn *t, const struct request *r)
{
    struct client *c = t->client;
    struct sasl_ask *a = ask_create(t, r);

    if (a == NULL) {
        count_failure(c, t->w, span_of(NULL, 0));
        turn_bin_reply(t, r, BIN_REPLY_AUTH_FAILURE, 0);
        return TURN_CLOSES; /* requests after this one are parsed already */
    }
    if (r->opcode == BIN_SASL_STEP) {
        a->x = c->exchange;
        a->is_hopeless |= a->x == NULL;
    } else {
        exchange_destroy(c->exchange);
    }
    c->exchange = NULL;
    client_expect(c, &a->late);
    return pool_post(t->w->crew->access.pool, &a->job) ? TURN_LOGS_IN : refuse_step(t, a);
}

/* An answer that is nothing but a value. */
static enum turn_stop answer_mechanisms(struct turn *t, const struct request *r)
{
    struct span list = auth_sasl_mechanisms();

    t->out.len +=
        bin_compose_stat(turn_room(t, BIN_HEADER_BYTES + list.len), r, span_of(NULL, 0), list);
    return TURN_GOES_ON;
}

static enum turn_stop answer_status(struct turn *t, const struct request *r,
                                    enum bin_reply reply)
{
    turn_bin_reply(t, r, reply, 0);
    return TURN_GOES_ON;
}

enum turn_stop exec_sasl(struct turn *t, const struct request *r)
{
    if (!t->w->settings->sasl) {
        return answer_status(t, r, BIN_REPLY_UNKNOWN);
    }
    if (r->opcode == BIN_SASL_LIST) {
        return answer_mechanisms(t, r);
    }
    return r->key.len > AUTH_MECH_MAX ? answer_status(t, r, BIN_REPLY_INVALID)
                                      : post_step(t, r);
}
