/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logins that take a hash; see conn_steps.h. On the worker, and in the pool.
 *
 * The same bounds hold as for SASL (exec_sasl.c): the client is not read until its answer is
 * there, jobs wait by peer and the peers take turns, and the job of a client that has
 * disconnected is skipped.
 */
#include "daemon/conn/conn_steps.h"

#include <string.h>

#include "daemon/base/pool.h"
#include "daemon/command/guard.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"

struct login_ask {
    struct pool_job job; /* must be the first member */
    struct late_answer late;
    const struct auth *users;    /* [borrowed] */
    struct siphash_digest login; /* if is_good */
    bool is_good;
    unsigned hashes; /* made for it */
    size_t user_len;
    size_t len;
    char data[]; /* the user, then the password */
};

static struct login_ask *ask_of(struct pool_job *job)
{
    return (struct login_ask *)(void *)job;
}

static void ask_destroy(struct login_ask *a)
{
    explicit_bzero(a->data, a->len);
    mem_free(a);
}

static struct span user_of(const struct login_ask *a)
{
    return span_of(a->data, a->user_len);
}

/* ---- in the pool ------------------------------------------------------------------------- */

static void check_in_pool(struct pool_job *job)
{
    struct login_ask *a = ask_of(job);

    must_be_pool();
    must_not_be_reading();
    if (atomic_load_explicit(&a->late.is_left, memory_order_relaxed)) {
        return; /* its client disconnected while it waited */
    }
    a->is_good = auth_check_hashed(a->users, user_of(a),
                                   span_of(a->data + a->user_len, a->len - a->user_len),
                                   &a->login, &a->hashes);
}

static void forget_ask(struct pool_job *job)
{
    ask_destroy(ask_of(job));
}

/* ---- back on the worker ------------------------------------------------------------------ */

/*
 * The users may have changed since the pool checked the login: then it is rechecked before
 * anything is executed.
 */
static bool let_in(struct client *c, struct worker *w, const struct login_ask *a)
{
    if (!guard_login(c, w, user_of(a))) {
        return false;
    }
    c->login = a->login;
    c->login_state = LOGIN_DOUBTED;
    return true;
}

/* Apply the result. Returns the reply to the client. */
static enum reply settle(struct client *c, struct worker *w, const struct login_ask *a)
{
    if (a->is_good) {
        return let_in(c, w, a) ? REPLY_STORED : REPLY_NO_MEMORY;
    }
    (void)c->duties->login_failed(c, user_of(a)); /* once too often: the answer ends it */
    return REPLY_AUTH_FAILURE;
}

static void on_back(struct message *m, void *receiver)
{
    struct login_ask *a = ask_of((struct pool_job *)(void *)m);
    struct worker *w = receiver;
    struct client *c = a->late.client;

    must_be_worker(w);
    ctr_add(&w->counters, CTR_auth_hashes, a->hashes);
    if (c != NULL) {
        (void)client_answer(&a->late, reply_text(settle(c, w, a)), true);
    }
    ask_destroy(a);
}

/* ---- the beginning ----------------------------------------------------------------------- */

static struct login_ask *ask_create(struct turn *t, const struct text_auth *offer)
{
    size_t len = offer->user.len + offer->password.len;
    struct login_ask *a = mem_zalloc(sizeof(*a) + len);

    if (a == NULL) {
        return NULL;
    }
    a->job.message.fn = on_back;
    a->job.to = &t->w->mailbox;
    a->job.run = check_in_pool;
    a->job.forget = forget_ask;
    a->job.source = t->client->duties->peer_id(t->client);
    a->users = &t->w->crew->access.text;
    a->user_len = offer->user.len;
    a->len = len;
    memcpy(a->data, offer->user.ptr, offer->user.len);
    memcpy(a->data + offer->user.len, offer->password.ptr, offer->password.len);
    return a;
}

enum turn_stop conn_login_begin(struct turn *t, const struct text_auth *offer)
{
    struct client *c = t->client;
    struct login_ask *a = ask_create(t, offer);

    must_be_in_turn(t);
    if (a == NULL) {
        turn_reply(t, REPLY_NO_MEMORY);
        return TURN_CLOSES;
    }
    client_expect(c, &a->late);
    if (!pool_post(t->w->crew->access.pool, &a->job)) {
        c->late = NULL;
        ask_destroy(a);
        ctr_add(&t->w->counters, CTR_auth_busy, 1);
        turn_reply(t, REPLY_AUTH_BUSY);
        return TURN_CLOSES;
    }
    return TURN_LOGS_IN;
}
