/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client as commands know it: its socket, replies that were not sent yet, and operations of
 * its commands that outlast their turn. struct conn embeds it. A datagram has none.
 *
 * daemon/command/ is the folder of commands: it executes requests against the engine and
 * composes the replies, in a turn (turn.h). Of a connection it knows only this struct. The
 * connection continues operations that commands leave here (a dump in progress, an answer that
 * comes later). The folder includes itself, stats, worker, access, net, options, base, proto
 * and lib.
 */
#ifndef MAYFLY_DAEMON_COMMAND_CLIENT_H
#define MAYFLY_DAEMON_COMMAND_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/mailbox.h"
#include "daemon/base/pace.h"
#include "daemon/net/conn_io.h"
#include "daemon/net/origin.h"
#include "daemon/net/outq.h"
#include "daemon/worker/holders.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/siphash.h"
#include "lib/base/span.h"
#include "lib/shard/position.h"

/* The lines of a dump; memcached's END or EN closes it. */
enum dump_format {
    DUMP_META,  /* key= exp= la= cas= fetch= cls= size= flags= */
    DUMP_MG,    /* mg <key>[ b] */
    DUMP_CACHE, /* ITEM <key> [<bytes> b; <unix time> s] */
};

/* A dump in progress: the position of its walk over all shards, and how much is left. */
struct dump {
    struct position at;
    uint64_t begun;      /* version of the routing table when this pass began */
    uint64_t since;      /* the same of the last pass; this one visits slots changed since */
    uint32_t full_syncs; /* those of the crew when the dump began */
    uint32_t items_left; /* DUMP_CACHE */
    uint32_t bytes_left; /* DUMP_CACHE: lines, the last one included */
    uint8_t format;      /* enum dump_format */
    uint8_t pass;        /* see dump.c */
    bool is_over;        /* no more items; only the last line is missing */
    bool is_active;
};

/* The rest of an interrupted get line; its keys are at the front of the input. */
struct get_rest {
    size_t keys_bytes;
    size_t line_bytes; /* keys and line end */
    int64_t exptime;
    uint8_t command;
    bool wants_cas;
    bool is_active;
};

/* How fast the client takes a pinned large value, see conn_steps.h. */
struct pin_pace {
    struct pace pace;   /* in a list of its worker while there is such a value */
    uint64_t sent;      /* bytes written since it has pinned values */
    msec_t seen;        /* time of the first measurement of bytes that the peer has taken */
    int64_t seen_bytes; /* the result of that measurement */
};

/*
 * Data kept for a client between two turns. Most clients just wait for their next request and
 * need none, so the struct is allocated when it is needed (client_keep()), and released when it
 * is empty (client_drop_kept()).
 */
struct kept {
    struct client *client; /* [const] [borrowed] */
    struct outq outq;      /* output that the socket did not take */
    struct holder holder;  /* accounts for the bytes of input and output */
    size_t out_bytes;      /* of these, bytes in outq; the rest is input */
    struct dump dump;
    struct get_rest rest;
    struct pin_pace pin;
    uint64_t hold_ticket; /* log ticket that must be done before outq is sent: conn_hold.c */
};

/*
 * An answer that comes later, from other workers or from the pool. It outlives its client if
 * that closes first.
 */
struct late_answer {
    struct client *client; /* [borrowed] NULL: it closed */
    /*
     * Not NULL: a portion of the answer was passed to the client. Called when the socket has
     * accepted all of it, or the client was closed. Context: worker.
     */
    void (*on_taken)(struct late_answer *l);
    /*
     * [borrowed] Messages about the answer use this relay, so the client may move to another
     * worker meanwhile. NULL: it stays with its worker until it has the answer.
     */
    struct relay *relay;
    _Atomic bool is_left; /* on_taken, for threads that are not the client's */
};

/*
 * Called when a late answer is ready: the connection sends it and continues. is_composed false:
 * there was no memory to compose it. Context: worker, outside a section.
 */
typedef void (*client_answered_fn)(struct client *c, struct span reply, bool is_composed);

/*
 * A login of c failed: count it, and log it. user: the name that the client sent; empty if
 * unknown. True: the limit is reached, and the connection ends when its replies are sent.
 * Context: worker.
 */
typedef bool (*client_login_failed_fn)(struct client *c, struct span user);

/* Size of the buffer for put_peer(). */
#define CLIENT_PEER_MAX 64u

/* Write the address of the other end with its port, or "unix". Context: worker. */
typedef void (*client_peer_fn)(const struct client *c, char out[CLIENT_PEER_MAX]);

/* Callbacks of commands to the connection. */
struct client_duties {
    client_answered_fn answered;
    client_login_failed_fn login_failed;
    client_peer_fn put_peer;
    uint64_t (*peer_id)(const struct client *c); /* auth_peers_id() of its address */
};

/*
 * An operation of a client that continues between its commands, and ends with the client. Must
 * be the first member of the operation's struct.
 */
struct client_service {
    void (*end)(struct client_service *s); /* Context: worker */
    /*
     * Called when the peer has shut down its sending side while the client waits for a late
     * answer; the peer may still read the answer. NULL: that is ignored. Context: worker.
     */
    void (*peer_ended)(struct client_service *s);
    /*
     * The client moves to another worker: leave() the old one (false: not possible now, for
     * lack of memory, and nothing has changed), and join() the new one. Both NULL: the client
     * stays with its worker until the service ends. Context: the worker that it leaves or
     * joins.
     */
    bool (*leave)(struct client_service *s);
    void (*join)(struct client_service *s, struct worker *w);
};

/* Does a client have to log in before anything else? */
enum login_state {
    LOGIN_NONE,    /* no, and there is no login that could be rechecked */
    LOGIN_GOOD,    /* it has logged in */
    LOGIN_NEEDED,  /* yes */
    LOGIN_DOUBTED, /* it has, but users were reloaded since: the login must be rechecked */
};

/* Must replies to a client wait until the log has its changes? */
enum log_state {
    LOG_CLEAN,   /* no */
    LOG_CHANGED, /* a command without a reply has changed something: the next reply waits */
    LOG_HELD,    /* the queued replies wait: see conn_steps.h */
};

struct client {
    struct io io;
    const struct conn_origin *origin;   /* [const] [borrowed] where it came in */
    struct kept *kept;                  /* owned; NULL: nothing is kept between turns */
    const struct client_duties *duties; /* [const] [borrowed] */
    struct late_answer *late;  /* [borrowed] released by its owner when it comes; NULL: none */
    struct exchange *exchange; /* owned, or NULL: SASL waits for its next step */
    struct watcher *watcher;   /* owned until it closes; NULL: it does not watch */
    struct client_service *service; /* owned until it closes; NULL: none */
    uint64_t since_ns;   /* time since which received requests wait for execution; 0: none */
    struct timed *timed; /* owned: requests whose replies are not sent yet; NULL: none */
    struct siphash_digest login; /* if client_has_login(): the digest of its login */
    uint8_t login_state;         /* enum login_state */
    uint8_t log_state;           /* enum log_state */
    uint8_t login_failures;      /* of this connection */
    uint8_t rights;              /* RIGHT_READ and others, see daemon/access/rules.h */
    /* One bit each; the comment ends with the code that sets it. */
    bool has_extensions : 1; /* may use commands that memcached lacks: its connection, once */
    bool is_guarded : 1; /* requests are checked, or its rights are not known yet: guard.c */
    bool is_granted : 1; /* a rule grants its rights: guard.c */
    bool follows : 1;    /* it is a replica of this server: exec_replication.c */
    bool is_delayed : 1; /* its next late answer is delayed: conn_steps.h */
    uint32_t rule;       /* the rule whose prefixes limit its keys; RULES_NONE: none */
    uint32_t rules_generation; /* of the rules that gave these rights; 0: not known */
    char *user;                /* owned; the user that it has logged in as; NULL: none */
};

/*
 * Begin a client on an accepted socket, which it owns from here on, without TLS. Context:
 * worker.
 */
static inline void client_init(struct client *c, int fd, const struct client_duties *duties)
{
    must_be_a_worker();
    io_init(&c->io, fd);
    c->duties = duties;
}

/*
 * Release everything and close the socket. A late answer then has the client NULL. Context:
 * worker.
 */
void client_fini(struct client *c, struct worker *w);

/*
 * May the client move to another worker with its operations in progress? Context: worker,
 * between two turns, as for the next two.
 */
bool client_may_leave(const struct client *c, const struct worker *w);

/*
 * The client leaves its worker, and joins another one, with its kept data, its operations and
 * its part of the worker's accounts. client_leave() returns false if that is not possible now,
 * for lack of memory; nothing has changed then.
 */
bool client_leave(struct client *c, struct worker *w);
void client_join(struct client *c, struct worker *w);

/*
 * Is the client restoring, so that items it adds are older than those in the engine
 * (restore_store())? Context: worker, as for the next.
 */
bool client_restores(const struct client *c, const struct worker *w);

/* End its restore, if it has begun one. */
void client_end_restore(const struct client *c, struct worker *w);

/* End its service, if it has one. Context: worker. */
static inline void client_end_service(struct client *c)
{
    if (c->service != NULL) {
        c->service->end(c->service);
        c->service = NULL;
    }
}

/*
 * The client is a replica from here on. It takes a place beyond -c if there is one, and is not
 * closed because of the memory that it holds. Context: worker.
 */
void client_follow(struct client *c, struct worker *w);

/* Was it accepted beyond -c, and is it not a replica yet? Context: worker. */
static inline bool client_is_candidate(const struct client *c)
{
    return c->origin->is_beyond && !c->follows;
}

/* Must its service be notified if the peer closes while it waits? Context: worker. */
static inline bool client_is_looked_after(const struct client *c)
{
    return c->service != NULL && c->service->peer_ended != NULL;
}

/* Did it come over a unix socket? Context: worker. */
static inline bool client_is_local(const struct client *c)
{
    return c->origin->transport == CONN_UNIX;
}

/* Did it come over the control socket? Context: worker. */
static inline bool client_is_control(const struct client *c)
{
    return c->origin->is_control;
}

/*
 * Its struct kept, which is allocated if necessary. NULL: no memory. Valid until
 * client_drop_kept(). Context: worker.
 */
struct kept *client_keep(struct client *c);

/* Release the struct kept, if it is empty. Context: worker. */
void client_drop_kept(struct client *c);

/*
 * Append bytes to its queued output. False: no memory; nothing has changed. Context: worker.
 */
bool client_append(struct client *c, const char *bytes, size_t n);

/*
 * Replies are about to be sent or queued: has it changed anything that the log must have before
 * them? Then they have to be queued. Context: worker, while the gate has GATE_LOG.
 */
bool client_hold(struct client *c, struct worker *w);

/* Is output queued, because its socket did not accept it? */
static inline bool client_has_output(const struct client *c)
{
    return c->kept != NULL && !outq_is_empty(&c->kept->outq);
}

/* Is a dump in progress? */
static inline bool client_dumps(const struct client *c)
{
    return c->kept != NULL && c->kept->dump.is_active;
}

/* Is there the rest of an interrupted get line? */
static inline bool client_has_rest(const struct client *c)
{
    return c->kept != NULL && c->kept->rest.is_active;
}

/* Must it log in, or its login be rechecked, before anything else? */
static inline bool client_needs_login(const struct client *c)
{
    return c->login_state >= LOGIN_NEEDED;
}

/* Does it have a login? */
static inline bool client_has_login(const struct client *c)
{
    return c->login_state == LOGIN_GOOD || c->login_state == LOGIN_DOUBTED;
}

/* Does it wait for a late answer? Then its input must be neither read nor executed. */
static inline bool client_is_waiting(const struct client *c)
{
    return c->late != NULL;
}

/*
 * The answer to c will come through l, which the caller keeps until then. Context: worker, as
 * for the next.
 */
static inline void client_expect(struct client *c, struct late_answer *l)
{
    must_be_a_worker();
    must(c->late == NULL);
    l->client = c;
    l->on_taken = NULL;
    l->relay = NULL;
    c->late = l;
}

/*
 * The same for an answer whose messages come by this relay: their functions run on the worker
 * that then serves the client.
 */
static inline void client_expect_by(struct client *c, struct late_answer *l,
                                    struct relay *relay)
{
    client_expect(c, l);
    l->relay = relay;
}

/*
 * A client that waits for the result of a request to another thread. It is the first member of
 * a larger struct, or all of it; the owner of the request releases the whole.
 */
struct client_wait {
    struct late_ask ask; /* must be first */
    struct late_answer late;
};

/*
 * Allocate one of `bytes` zeroed bytes, for a client that waits from now on. on_answer runs on
 * the worker of the client, and releases it. NULL: no memory. Context: worker, as for the next.
 */
void *client_wait_begin(struct client *c, struct worker *w, size_t bytes,
                        void (*on_answer)(struct message *m, void *receiver));

/* Nothing was asked: the client does not wait, and wait is released. NULL: nothing. */
void client_wait_cancel(struct client *c, void *wait);

/*
 * Give a portion of the answer; on_taken will be called once, possibly before this returns. The
 * client must not have closed. Context: worker, outside a section.
 */
static inline void client_answer_portion(struct late_answer *l, struct span portion,
                                         bool is_composed,
                                         void (*on_taken)(struct late_answer *l))
{
    struct client *c = l->client;

    must_be_a_worker();
    must_not_be_reading();
    must(c->late == l && l->on_taken == NULL);
    l->on_taken = on_taken;
    c->duties->answered(c, portion, is_composed);
}

/* The socket has taken all output of the client. Context: worker, outside a section. */
static inline void client_has_taken(struct client *c)
{
    struct late_answer *l = c->late;

    must_be_a_worker();
    if (l != NULL && l->on_taken != NULL) {
        void (*on_taken)(struct late_answer * l) = l->on_taken;

        l->on_taken = NULL;
        on_taken(l);
    }
}

/* Give the (last part of the) answer. False: the client has closed. Context: as above. */
static inline bool client_answer(struct late_answer *l, struct span reply, bool is_composed)
{
    struct client *c = l->client;

    must_be_a_worker();
    must_not_be_reading();
    if (c == NULL) {
        return false;
    }
    must(c->late == l);
    c->late = NULL;
    c->duties->answered(c, reply, is_composed);
    return true;
}

/*
 * Update the account of its output queue. False when the queue grew and the connection now
 * holds more than a connection may. Context: worker.
 */
bool client_count_output(struct client *c, struct worker *w);

/*
 * The same for kept input, which takes `bytes` bytes now. False also when there is no memory
 * for the account. Context: worker.
 */
bool client_count_input(struct client *c, struct worker *w, size_t bytes);

#endif
