/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of rights: see guard.h. Runs on the client's worker.
 *
 * The rights of a client are computed at its first request, when the TLS handshake is over and
 * its certificate is known. They are computed again after the rules were reloaded, and after a
 * login. They are kept as bits, and as the number of the rule that limits its keys; the number
 * is valid for one table of rules.
 */
#include "daemon/command/guard.h"

#include <string.h>

#include "daemon/net/origin.h"
#include "daemon/options/settings.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"
#include "proto/text_parse.h"

_Static_assert((int)NEED_READ == (int)RIGHT_READ && (int)NEED_WRITE == (int)RIGHT_WRITE &&
                   (int)NEED_ADMIN == (int)RIGHT_ADMIN &&
                   (int)NEED_REPLICATE == (int)RIGHT_REPLICATE,
               "what a command needs is what a client has");

/* Rights that are checked for requests inside the section. */
#define RIGHTS_OF_ITEMS ((uint8_t)(RIGHT_READ | RIGHT_WRITE))

/* ---- what a client may ------------------------------------------------------------------- */

static const struct access_file *file_of(const struct worker *w)
{
    return &w->crew->access.rules;
}

/* Has it to be found out? */
static void mark(struct client *c, const struct worker *w)
{
    c->rules_generation = 0;
    c->is_guarded =
        (access_file_is_on(file_of(w)) && !client_is_control(c)) || client_is_candidate(c);
}

void guard_begin(struct client *c, const struct worker *w)
{
    must_be_worker(w);
    c->rights = c->origin->rights;
    c->rule = RULES_NONE;
    c->is_granted = false;
    mark(c, w);
}

bool guard_login(struct client *c, struct worker *w, struct span user)
{
    char *name = mem_alloc(user.len + 1);

    must_be_worker(w);
    if (name == NULL) {
        return false;
    }
    memcpy(name, user.ptr, user.len);
    name[user.len] = '\0';
    mem_free(c->user);
    c->user = name;
    mark(c, w);
    audit_login(c, w, user, true);
    ctr_add(&w->counters, CTR_auth_cmds, 1);
    return true;
}

void guard_logout(struct client *c, const struct worker *w)
{
    must_be_worker(w);
    mem_free(c->user);
    c->user = NULL;
    mark(c, w);
}

/* Search for the rule of a certificate. */
struct search {
    const struct rules *rules;
    uint32_t best;
};

static void on_certificate_name(void *arg, struct span name)
{
    struct search *s = arg;

    s->best = rules_find_certificate(s->rules, name, s->best);
}

static uint32_t find_certificate(const struct rules *rules, const struct client *c)
{
    struct search s = {.rules = rules, .best = RULES_NONE};

    io_each_peer_name(&c->io, on_certificate_name, &s);
    return s.best;
}

static void find_grant(struct client *c, const struct rules *rules)
{
    struct span user = c->user != NULL ? span_str(c->user) : span_of(NULL, 0);
    struct grant g = rules_grant(rules, user, find_certificate(rules, c),
                                 origin_name(c->origin), c->origin->rights);

    c->rights = g.rights;
    c->rule = g.rule;
    c->is_granted = g.is_explicit;
    c->rules_generation = rules_generation(rules);
}

/* Set the client's rights by these rules; NULL: there are no rules. */
static void follow(struct client *c, const struct rules *rules)
{
    if (rules != NULL && c->rules_generation != rules_generation(rules)) {
        find_grant(c, rules);
    }
}

static void settle(struct client *c, const struct worker *w)
{
    must_be_reading();
    follow(c, rules_file_get(file_of(w)));
    c->is_guarded = c->rule != RULES_NONE || (c->rights & RIGHTS_OF_ITEMS) != RIGHTS_OF_ITEMS ||
                    client_is_candidate(c);
}

void guard_settle(struct turn *t)
{
    must_be_in_turn(t);
    settle(t->client, t->w);
}

/* Is it sent a snapshot (`save -`)? Of other answers only those to replicas have a relay. */
static bool is_sent_snapshot(const struct client *c)
{
    return c->late != NULL && c->late->relay != NULL && !c->follows;
}

uint8_t guard_needs(const struct client *c, const struct worker *w)
{
    const bool goes_on =
        c->watcher != NULL || client_dumps(c) || client_restores(c, w) || is_sent_snapshot(c);

    must_be_worker(w);
    return (uint8_t)((goes_on ? RIGHT_ADMIN : 0u) | (c->follows ? RIGHT_REPLICATE : 0u));
}

bool guard_doubt(struct client *c, const struct worker *w)
{
    const uint8_t needs = guard_needs(c, w);
    bool may_stay = true;

    must_be_worker(w);
    mark(c, w);
    if (c->is_guarded && needs != 0) {
        rcu_begin();
        settle(c, w);
        may_stay = (needs & (uint8_t)~c->rights) == 0;
        rcu_end();
    }
    return may_stay;
}

/* ---- what requests need ------------------------------------------------------------------ */

/* Are the keys of a line all allowed? */
static bool allows_keys(const struct rules *rules, uint32_t rule, const struct request *r)
{
    struct span more =
        r->cls == CLASS_GET || r->cls == CLASS_UNLINK ? r->more : span_of(NULL, 0);
    struct span key = r->key;

    do {
        if (!rules_allow_key(rules, rule, key)) {
            return false;
        }
    } while (text_next_key(&more, &key));
    return true;
}

enum reply guard_ask_gate(const struct turn *t)
{
    uint32_t gate = t->w->gate;

    must_be_worker(t->w);
    if (MF_LIKELY((gate & GATE_STOPS) == 0)) {
        return REPLY_NONE;
    }
    return (gate & GATE_READ_ONLY) != 0  ? REPLY_READ_ONLY
           : (gate & GATE_LOG_VOID) != 0 ? REPLY_LOG_VOID
           : (gate & GATE_FEW) != 0      ? REPLY_FEW_REPLICAS
                                         : REPLY_FAILOVER;
}

/* May a client with these rights do it, and can the server? */
static enum reply ask(const struct turn *t, const struct rules *rules, uint8_t rights,
                      uint32_t rule, const struct request *r, bool has_key)
{
    uint8_t needs = request_needs(r) & RIGHTS_OF_ITEMS;
    uint8_t missing = needs & (uint8_t)~rights;

    if (needs == 0 || r->cls == CLASS_ADMIN || r->cls == CLASS_BINARY_ADMIN) {
        return REPLY_NONE; /* guard_operator() is asked */
    }
    if (missing != 0) {
        return (missing & RIGHT_READ) != 0 ? REPLY_NO_READ : REPLY_NO_WRITE;
    }
    if (has_key && rule != RULES_NONE && !allows_keys(rules, rule, r)) {
        return REPLY_NO_KEY;
    }
    return (needs & RIGHT_WRITE) != 0 ? guard_ask_gate(t) : REPLY_NONE;
}

/*
 * Why the client is served nothing but psync, after which it follows. REPLY_NONE: it is served.
 */
static enum reply ask_client(const struct turn *t, const struct request *r)
{
    const struct client *c = t->client;

    if (r->command == CMD_PSYNC || c->follows) {
        return REPLY_NONE;
    }
    if (client_is_candidate(c)) {
        return REPLY_TOO_MANY_CONNS;
    }
    return (t->w->gate & GATE_ELSEWHERE) != 0 && !client_is_local(c) ? REPLY_ELSEWHERE
                                                                     : REPLY_NONE;
}

bool guard_closes(enum reply why)
{
    return why == REPLY_TOO_MANY_CONNS || why == REPLY_ELSEWHERE;
}

enum reply guard_ask(const struct turn *t, const struct request *r, bool has_key)
{
    const struct rules *rules = rules_file_get(file_of(t->w));
    struct client *c = t->client;

    must_be_in_turn(t);
    if (MF_UNLIKELY(c->is_guarded || (t->w->gate & GATE_ELSEWHERE) != 0)) {
        enum reply why = ask_client(t, r); /* a candidate is guarded */

        if (why != REPLY_NONE) {
            return why;
        }
    }
    if (!c->is_guarded) {
        return ask(t, rules, RIGHTS_OF_ITEMS, RULES_NONE, r, has_key);
    }
    follow(c, rules); /* main may have put these in the place of those of guard_settle() */
    return ask(t, rules, c->rights, c->rule, r, has_key);
}

enum reply guard_ask_datagram(const struct turn *t, const struct request *r, bool has_key)
{
    const struct rules *rules = rules_file_get(file_of(t->w));

    must_be_in_turn(t);
    if ((t->w->gate & GATE_ELSEWHERE) != 0) {
        return REPLY_ELSEWHERE;
    }
    if (rules == NULL) {
        return ask(t, rules, RIGHTS_ORDINARY, RULES_NONE, r, has_key);
    }
    struct grant g =
        rules_grant(rules, span_of(NULL, 0), RULES_NONE, span_str("udp"), RIGHTS_ORDINARY);
    return ask(t, rules, g.rights, g.rule, r, has_key);
}

void guard_request(const struct turn *t, struct request *r)
{
    enum reply why = guard_ask(t, r, true);

    must_be_in_turn(t);
    if (why != REPLY_NONE) {
        r->cls = request_is_binary(r) ? CLASS_BINARY_REFUSED : CLASS_REFUSED;
        r->refusal = why;
    } else if ((t->w->gate & GATE_MISSES) != 0) {
        guard_hide(r);
    }
}

void guard_hide(struct request *r)
{
    if (r->cls == CLASS_BINARY_ADMIN || (r->cls == CLASS_BINARY && r->command == CMD_NONE)) {
        return; /* its key is a word: a section of stats, a mechanism of SASL */
    }
    r->key.len = 0; /* no item has that key */
    if (r->cls == CLASS_GET) {
        r->more = span_of(NULL, 0);
    }
}

enum bin_reply guard_count(const struct turn *t, enum reply why)
{
    must_be_worker(t->w);
    switch (why) {
    case REPLY_LOG_VOID:
        ctr_add(&t->w->counters, CTR_log_refused, 1);
        return BIN_REPLY_BUSY;
    case REPLY_READ_ONLY:
    case REPLY_FEW_REPLICAS:
        ctr_add(&t->w->counters, CTR_repl_refused, 1);
        return BIN_REPLY_READ_ONLY;
    case REPLY_TOO_MANY_CONNS:
        ctr_add(&t->w->counters, CTR_rejected_connections, 1);
        return BIN_REPLY_BUSY;
    case REPLY_FAILOVER:
    case REPLY_ELSEWHERE:
        return BIN_REPLY_BUSY;
    default:
        ctr_add(&t->w->counters, CTR_access_refused, 1);
        return BIN_REPLY_AUTH_FAILURE;
    }
}

enum turn_stop exec_refused(struct turn *t, const struct request *r)
{
    must_be_in_turn(t);
    if (r->refusal == REPLY_FAILOVER && t->client != NULL) {
        return TURN_WAITS; /* it is retried, and its rights are then checked again */
    }
    enum bin_reply bin_reply = guard_count(t, (enum reply)r->refusal);
    if (r->refusal == REPLY_TOO_MANY_CONNS) {
        turn_reply(t, REPLY_TOO_MANY_CONNS); /* of any protocol, as where it is not accepted */
    }
    if (guard_closes((enum reply)r->refusal)) {
        return TURN_CLOSES;
    }
    if (r->cls == CLASS_BINARY_REFUSED) {
        turn_bin_reply(t, r, bin_reply, 0);
        return TURN_GOES_ON;
    }
    return turn_answer(t, r, (enum reply)r->refusal);
}

/* ---- operators --------------------------------------------------------------------------- */

/* The present rights of a client: rights granted only by admin_commands may have changed. */
static uint8_t rights_now(const struct turn *t)
{
    const struct client *c = t->client;
    uint8_t rights = c != NULL ? c->rights : RIGHTS_ORDINARY;
    bool is_granted = c != NULL && (c->is_granted || client_is_control(c));

    if (!is_granted && setting_get(t->w->settings, admin_commands) == ADMIN_BY_CONTROL) {
        rights &= (uint8_t) ~(RIGHT_ADMIN | RIGHT_REPLICATE);
    }
    return rights;
}

/*
 * Does the prefix of a flush_prefix begin with one that a rule gives to the client, with the
 * right to write? Then these keys are its own, and it need not be an operator. Context: worker,
 * read side.
 */
static bool owns_prefix(const struct turn *t, struct span args)
{
    const struct client *c = t->client;
    const struct rules *rules = rules_file_get(file_of(t->w));
    struct span prefix;

    return c != NULL && rules != NULL && c->is_granted && (c->rights & RIGHT_WRITE) != 0 &&
           c->rule != RULES_NONE && text_next_key(&args, &prefix) &&
           rules_allow_key(rules, c->rule, prefix);
}

enum reply guard_operator(const struct turn *t, const struct request *r, bool *is_operators)
{
    uint8_t needs = request_needs(r);

    must_be_worker(t->w);
    if (t->client != NULL && t->client->is_guarded) {
        follow(t->client, rules_file_get(file_of(t->w))); /* as in guard_ask() */
    }
    uint8_t rights = rights_now(t);
    *is_operators = false;
    if (r->command == CMD_STATS) {
        bool has_all_keys = t->client == NULL || t->client->rule == RULES_NONE;

        needs = stats_needs(r->cls == CLASS_ADMIN ? r->args : r->key, has_all_keys);
    } else if (r->command == CMD_REPLCONF && r->args.len > 0 && r->args.ptr[0] == 'f') {
        needs |= NEED_ADMIN; /* failover: this server is to become a replica */
    } else if (r->command == CMD_FLUSH_PREFIX && owns_prefix(t, r->args)) {
        needs = NEED_WRITE;
    } else if (r->command == CMD_MOVES && r->args.len > 0) {
        needs = NEED_ADMIN; /* cancel; it needs what config does as well */
    }
    /* Acknowledgements are many, and change nothing. */
    *is_operators = (needs & NEED_ADMIN) != 0 || r->command == CMD_FLUSH_PREFIX ||
                    r->command == CMD_PSYNC || r->command == CMD_SYNC;
    uint8_t missing = needs & (uint8_t)~rights;
    if (missing == 0) {
        return REPLY_NONE;
    }
    return (missing & NEED_ADMIN) != 0       ? REPLY_NO_ADMIN
           : (missing & NEED_REPLICATE) != 0 ? REPLY_NO_REPLICATE
                                             : REPLY_NO_READ;
}
