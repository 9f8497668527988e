/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection that has to authenticate (-Y, -S), on its worker. This code runs before
 * everything else that reads input. Under -Y no byte of an unauthenticated client reaches a
 * parser of commands, of any protocol; under -S a binary request is admitted by its opcode.
 *
 * The memory kept for such a connection is bounded: it reads little at once
 * (CONN_AUTH_READ_BYTES), keeps less than that, and continues only when its replies were sent.
 */
#include "daemon/conn/conn_steps.h"

#include <inttypes.h>

#include "daemon/base/log.h"
#include "daemon/command/exec.h"
#include "daemon/command/guard.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"
#include "proto/bin_compose.h"
#include "proto/bin_parse.h"

/* Composed refusals are sent when there are this many bytes of them. */
#define REPLIES_MAX_BYTES (4u * 1024)

/* Entries that are compared in about the time of one unit of work. */
#define ENTRIES_PER_UNIT 1024

_Static_assert(AUTH_LINE_MAX == TEXT_AUTH_VALUE_MAX, "every line of a file can be sent");
_Static_assert(CONN_AUTH_READ_BYTES > TEXT_AUTH_LINE_MAX + TEXT_AUTH_VALUE_MAX + 4,
               "the longest command that is looked at can be read at once");

void conn_auth_begin(struct conn *c)
{
    const struct settings *s = c->worker->settings;

    must_be_worker(c->worker);
    c->client.login_state = (s->auth_file != NULL || s->sasl) && !c->client.origin->is_control
                                ? LOGIN_NEEDED
                                : LOGIN_NONE;
}

bool conn_auth_resume(struct conn *c, const struct passed_conn *p)
{
    struct client *client = &c->client;

    must_be_worker(c->worker);
    if (!client_needs_login(client) || p->user.ptr == NULL) {
        return true;
    }
    client->user = mem_alloc(p->user.len + 1);
    if (client->user == NULL) {
        return false;
    }
    memcpy(client->user, p->user.ptr, p->user.len);
    client->user[p->user.len] = '\0';
    client->login = p->login;
    if (p->has_login) {
        client->login_state = LOGIN_DOUBTED;
    } else if (c->worker->settings->sasl) {
        client->login_state =
            LOGIN_NONE; /* the SASL library is not queried again, as in a reload */
    }
    return true;
}

/* ---- failures ---------------------------------------------------------------------------- */

/* Never the password. */
static void warn_of_guesses(const struct conn *c, struct span user, uint64_t failures)
{
    char address[CONN_PEER_MAX];
    char name[AUDIT_NAME_MAX + 1];
    const struct log_about about = {.peer = address, .user = name};

    conn_put_peer(c, address);
    audit_put_name(user, name);
    log_warn_about(&about, "auth, %" PRIu64 " failed logins from %s (the last as \"%s\")",
                   failures, address, name);
}

bool conn_auth_failed(struct client *client, struct span user)
{
    struct conn *c = conn_of_client(client);
    struct worker *w = c->worker;

    must_be_worker(w);
    ctr_add(&w->counters, CTR_auth_cmds, 1);
    ctr_add(&w->counters, CTR_auth_errors, 1);
    struct auth_failure failure =
        auth_peers_note(&w->crew->access.peers, conn_peer_id(client), conn_wait_now());
    ctr_add(&w->counters, CTR_auth_crowded, failure.is_crowded);
    if (failure.warn > 0) {
        warn_of_guesses(c, user, failure.warn);
    }
    conn_delay_note(c, &failure);
    audit_login(client, w, user, false);
    client->login_failures++;
    if (client->login_failures == CONN_AUTH_FAILURES_MAX) {
        ctr_add(&w->counters, CTR_auth_kicks, 1);
    }
    return client->login_failures >= CONN_AUTH_FAILURES_MAX;
}

/* ---- removed users ----------------------------------------------------------------------- */

/* The users against which its login was checked. */
static const struct auth *users_of(const struct worker *w)
{
    const struct access *access = &w->crew->access;

    return w->settings->auth_file != NULL ? &access->text : &access->sasl_users;
}

void conn_auth_doubt(struct conn *c)
{
    struct worker *w = c->worker;
    struct client *client = &c->client;
    bool is_good = true;

    must_be_worker(w);
    if (!guard_doubt(client, w)) {
        conn_close(c);
        return;
    }
    if (!client_has_login(client)) {
        return;
    }
    client->login_state = LOGIN_DOUBTED;
    if (guard_needs(client, w) != 0) {
        rcu_begin();
        is_good = auth_knows(users_of(w), &client->login);
        rcu_end();
    }
    if (!is_good) {
        ctr_add(&w->counters, CTR_auth_revoked, 1);
        conn_close(c);
    }
}

void conn_auth_doubt_all(struct worker *w)
{
    struct conn *next;

    must_be_worker(w);
    for (struct conn *c = w->conns->first; c != NULL; c = next) {
        next = c->next;
        conn_auth_doubt(c);
    }
}

/*
 * Recheck a login. Returns false if it is no longer valid, and its client has to authenticate.
 */
static bool dispel_doubt(struct turn *t)
{
    struct client *client = t->client;
    const struct auth *users = users_of(t->w);

    t->units += auth_count(users) / ENTRIES_PER_UNIT;
    if (auth_knows(users, &client->login)) {
        client->login_state = LOGIN_GOOD;
        return true;
    }
    client->login_state = LOGIN_NEEDED;
    guard_logout(client, t->w);
    ctr_add(&t->w->counters, CTR_auth_revoked, 1);
    log_info("auth, ended a session whose user or password was removed");
    return false;
}

/* Have too many logins of its address failed? Then its input is not processed. */
static bool is_barred(const struct turn *t)
{
    struct worker *w = t->w;
    const uint32_t limit = setting_get(w->settings, auth_failures_per_address);

    if (limit == 0 || auth_peers_count(&w->crew->access.peers, conn_peer_id(t->client),
                                       conn_wait_now()) < limit) {
        return false;
    }
    ctr_add(&w->counters, CTR_auth_barred, 1);
    log_info("auth, login refused (too many failed logins from its address)");
    return true;
}

/* ---- text -------------------------------------------------------------------------------- */

/* The client is authenticated as this user. Returns false without memory to record that. */
static bool let_in(struct turn *t, struct span user)
{
    if (!guard_login(t->client, t->w, user)) {
        return false;
    }
    t->client->login_state = LOGIN_GOOD;
    conn_deadline_clear(turn_conn(t));
    return true;
}

/* They are wrong, which is known at once. */
static enum turn_stop refuse_offer(struct turn *t, const struct text_auth *offer,
                                   enum reply *reply)
{
    bool is_too_often = conn_auth_failed(t->client, offer->user);

    if (conn_delay(turn_conn(t), reply_text(REPLY_AUTH_FAILURE))) {
        *reply = REPLY_NONE;
        return TURN_LOGS_IN;
    }
    *reply = REPLY_AUTH_FAILURE;
    return is_too_often ? TURN_CLOSES : TURN_GOES_ON;
}

/*
 * Check the user and the password that a client sent. Not TURN_GOES_ON: it failed once too
 * often, or the answer comes later.
 */
static enum turn_stop check_offer(struct turn *t, const struct text_auth *offer,
                                  enum reply *reply)
{
    const struct auth *auth = &t->w->crew->access.text;
    bool is_whole = offer->user.len > 0 && offer->password.len > 0;

    if (is_barred(t)) {
        *reply = REPLY_AUTH_FAILURE;
        return TURN_CLOSES;
    }
    t->units += auth_count(auth) / ENTRIES_PER_UNIT;
    if (is_whole && auth_check(auth, offer->user, offer->password, &t->client->login)) {
        bool is_in = let_in(t, offer->user);

        *reply = is_in ? REPLY_STORED : REPLY_NO_MEMORY;
        return is_in ? TURN_GOES_ON : TURN_CLOSES;
    }
    if (is_whole && auth_has_hashes(auth)) {
        *reply = REPLY_NONE;
        return conn_login_begin(t, offer);
    }
    return refuse_offer(t, offer, reply);
}

/* As in memcached, requests that come together before the login get one refusal together. */
static bool is_said_already(const struct turn *t, enum reply reply)
{
    size_t len = REPLY_LEN(UNAUTHENTICATED);

    return reply == REPLY_UNAUTHENTICATED && t->out.len >= len &&
           memcmp(t->out.base + t->out.len - len, REPLY_BYTES(UNAUTHENTICATED), len) == 0;
}

static enum turn_stop take_text(struct turn *t, const char *p, size_t len, size_t *used)
{
    struct conn *c = turn_conn(t);
    struct text_auth offer;
    enum turn_stop stop = TURN_GOES_ON;
    enum reply reply;
    enum parse_status status = text_auth_parse(p, len, &offer, used, &reply);

    if (status == PARSE_MORE) {
        c->need = offer.need;
        return TURN_DRY;
    }
    if (status == PARSE_CLOSE) {
        *used = len;
        return TURN_CLOSES;
    }
    if (status == PARSE_OK) {
        stop = check_offer(t, &offer, &reply);
    }
    c->swallow = offer.swallow;
    if (!is_said_already(t, reply)) {
        turn_reply(t, reply);
    }
    return stop;
}

/* ---- binary ------------------------------------------------------------------------------ */

/* As in memcached, these are served before authentication. */
static bool is_open_to_all(const struct request *r)
{
    return r->opcode == BIN_SASL_LIST || r->opcode == BIN_SASL_AUTH ||
           r->opcode == BIN_SASL_STEP || r->opcode == BIN_VERSION;
}

/* Answer and close. */
static enum turn_stop answer_and_close(struct turn *t, const struct request *r,
                                       enum bin_reply why)
{
    if (why != BIN_REPLY_OK) {
        turn_bin_reply(t, r, why, 0);
    }
    return TURN_CLOSES;
}

/* Take one request; its header alone decides whether it is admitted. */
static enum turn_stop take_binary(struct turn *t, const char *p, size_t len, size_t *used)
{
    const struct bin_limits limits = {.value_max = 0};
    enum bin_reply reply;
    struct request r;
    enum parse_status status = bin_parse(p, len, &limits, &r, used, &reply);

    if (status == PARSE_MORE && len < BIN_HEADER_BYTES) {
        turn_conn(t)->need = *used;
        *used = 0;
        return TURN_DRY;
    }
    if ((unsigned char)p[0] != BIN_REQUEST || (status == PARSE_CLOSE && is_open_to_all(&r))) {
        *used = len;
        return answer_and_close(t, &r, reply);
    }
    if (!is_open_to_all(&r) ||
        (r.opcode != BIN_VERSION && r.opcode != BIN_SASL_LIST && is_barred(t))) {
        *used = len;
        return answer_and_close(t, &r, BIN_REPLY_AUTH_FAILURE);
    }
    switch (status) {
    case PARSE_OK:
        return exec_request(t, &r);
    case PARSE_REPLY:
        turn_conn(t)->swallow = r.value_len;
        turn_bin_reply(t, &r, BIN_REPLY_AUTH_FAILURE, 0);
        return TURN_GOES_ON;
    default:
        turn_conn(t)->need = status == PARSE_BODY ? *used + r.value_len : *used;
        *used = 0;
        return TURN_DRY;
    }
}

/* ---- both -------------------------------------------------------------------------------- */

enum turn_stop conn_auth_take(struct turn *t, const char *p, size_t len, size_t *used)
{
    bool is_text = t->w->settings->auth_file != NULL;

    must_be_in_turn(t);
    if (t->client->login_state == LOGIN_DOUBTED) {
        bool is_good = dispel_doubt(t);

        if (is_good || is_text) {
            *used = is_good ? 0 : len;
            turn_reply(t, is_good ? REPLY_NONE : REPLY_UNAUTHENTICATED);
            return is_good ? TURN_GOES_ON : TURN_CLOSES;
        }
        conn_deadline_set(turn_conn(t), DEADLINE_LOGIN);
    }
    enum turn_stop stop = is_text ? take_text(t, p, len, used) : take_binary(t, p, len, used);
    if (stop != TURN_GOES_ON) {
        return stop;
    }
    t->requests++;
    t->units++;
    if (t->out.len >= REPLIES_MAX_BYTES) {
        turn_flush(t);
    }
    if (t->units >= t->unit_limit && *used < len && !t->is_halted && turn_others_are_ready(t)) {
        return TURN_YIELDS;
    }
    return TURN_GOES_ON;
}
