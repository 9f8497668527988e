/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client as commands know it: where replies go, which of them were not sent yet, and what its
 * commands began that outlasts their turn. struct conn embeds it. A datagram has none.
 *
 * daemon/command/ is the folder of commands: a request meets the engine and becomes the bytes
 * of a reply, in a turn (turn.h). Of a connection it knows only this struct; the connection
 * continues what commands leave here (a dump under way, an answer that comes later). It
 * includes itself, stats, worker, access, net, options, base, proto and lib.
 */
#ifndef MAYFLY_DAEMON_COMMAND_CLIENT_H
#define MAYFLY_DAEMON_COMMAND_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/pace.h"
#include "daemon/base/relay.h"
#include "daemon/net/conn_io.h"
#include "daemon/net/origin.h"
#include "daemon/net/outq.h"
#include "daemon/worker/holders.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/siphash.h"
#include "lib/base/span.h"
#include "lib/shard/position.h"

struct client;
struct exchange;
struct timed;
struct watcher;
struct worker;

/* The lines of a dump; memcached's END or EN closes it. */
enum dump_format {
    DUMP_META,  /* key= exp= la= cas= fetch= cls= size= flags= */
    DUMP_MG,    /* mg <key>[ b] */
    DUMP_CACHE, /* ITEM <key> [<bytes> b; <unix time> s] */
};

/* A dump under way: where its walk over all shards is, and how much may still come. */
struct dump {
    struct position at;
    uint64_t begun;      /* version of the routing table when this pass began */
    uint64_t since;      /* and the one before; slots that changed later are in this pass */
    uint32_t items_left; /* DUMP_CACHE */
    uint32_t bytes_left; /* DUMP_CACHE: lines, the last one included */
    uint8_t format;      /* enum dump_format */
    uint8_t pass;        /* see dump.c */
    bool is_over;        /* no more items are wanted: the last line alone is left */
    bool is_active;
};

/* The rest of a get line that was interrupted; its keys are at the front of the input. */
struct get_rest {
    size_t keys_bytes;
    size_t line_bytes; /* keys and line end */
    int64_t exptime;
    uint8_t command;
    bool wants_cas;
    bool is_active;
};

/* How fast a large value is taken that is pinned for its client, see conn_steps.h. */
struct pin_pace {
    struct pace pace;   /* in a list of its worker while there is such a value */
    uint64_t sent;      /* bytes written since that began */
    msec_t seen;        /* when it was first looked at how many of them the peer had taken */
    int64_t seen_bytes; /* and how many those were */
};

/*
 * What is kept of a client between two turns. Most clients wait for their next request and keep
 * nothing: so it is made when there is something (client_keep()), and released when there is
 * nothing any more.
 */
struct kept {
    struct client *client; /* [const] [borrowed] */
    struct outq outq;      /* output that the socket did not take */
    struct holder holder;  /* how much is kept of input and output */
    size_t out_bytes;      /* of that, in outq; the rest is input */
    struct dump dump;
    struct get_rest rest;
    struct pin_pace pin;
    uint64_t hold_ticket; /* what the log has to have before outq is sent: conn_hold.c */
};

/*
 * An answer that comes later, from other workers or from the pool. It outlives its client if
 * that closes first.
 */
struct late_answer {
    struct client *client; /* [borrowed] NULL: it closed */
    /*
     * Not NULL: the client has a portion of the answer that it did not take yet. It is called
     * when that is taken, or the client closed. Context: worker.
     */
    void (*on_taken)(struct late_answer *l);
    /*
     * [borrowed] By it messages about the answer come, so the client may go to another worker
     * meanwhile. NULL: it stays with its worker until it has the answer.
     */
    struct relay *relay;
    _Atomic bool is_left; /* on_taken, for threads that are not the client's */
};

/*
 * What a connection does when a late answer is there: send it and go on. is_composed: false
 * when there was no memory for it. Context: worker, outside a section.
 */
typedef void (*client_answered_fn)(struct client *c, struct span reply, bool is_composed);

/*
 * A login of c failed: count it, and log it. user: what it called itself, empty if that is not
 * known. True: it was one too many, and the connection ends when its replies are sent. Context:
 * worker.
 */
typedef bool (*client_login_failed_fn)(struct client *c, struct span user);

/* Room for what put_peer() writes. */
#define CLIENT_PEER_MAX 64u

/* Write the address of the other end with its port, or "unix". Context: worker. */
typedef void (*client_peer_fn)(const struct client *c, char out[CLIENT_PEER_MAX]);

/* What its connection does for commands. */
struct client_duties {
    client_answered_fn answered;
    client_login_failed_fn login_failed;
    client_peer_fn put_peer;
    uint64_t (*peer_id)(const struct client *c); /* auth_peers_id() of its address */
};

/*
 * What a client has begun that goes on between its commands, and ends with it. The first member
 * of what that is.
 */
struct client_service {
    void (*end)(struct client_service *s); /* Context: worker */
    /*
     * It waits for a late answer, and has sent its end: it may want the answer all the same, or
     * be gone. NULL: nobody looks. Context: worker.
     */
    void (*peer_ended)(struct client_service *s);
    /*
     * Its client goes to another worker: leave this one (false: not now, for want of memory,
     * and nothing has changed), and join that one. Both NULL: the client stays with its worker
     * until the service ends. Context: worker, each.
     */
    bool (*leave)(struct client_service *s);
    void (*join)(struct client_service *s, struct worker *w);
};

/* Does a client have to log in before anything else? */
enum login_state {
    LOGIN_NONE,    /* no; nothing is known of it that could be looked at again */
    LOGIN_GOOD,    /* it has */
    LOGIN_NEEDED,  /* yes */
    LOGIN_DOUBTED, /* it has, but users were read again since: is it still good? */
};

/* What of the changes that a client was told of, or will be, has to be in the log first? */
enum log_state {
    LOG_CLEAN,   /* nothing */
    LOG_CHANGED, /* it has changed something quietly: its next reply waits */
    LOG_HELD,    /* what is queued for it waits: see conn_steps.h */
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
    uint64_t since_ns;   /* since when what it has sent waits to be executed; 0: nothing does */
    struct timed *timed; /* owned: requests whose replies it has not got; NULL: none */
    struct siphash_digest login; /* if client_has_login(): what it authenticated with */
    uint8_t login_state;         /* enum login_state */
    uint8_t log_state;           /* enum log_state */
    uint8_t login_failures;      /* of this connection */
    uint8_t rights;              /* RIGHT_READ and others, see daemon/access/rights.h */
    /* A bit each: who sets it. */
    bool has_extensions : 1; /* may use what memcached does not have: its connection, once */
    bool is_guarded : 1; /* its requests are looked at, or what it may is not known: guard.c */
    bool is_granted : 1; /* a rule grants its rights: guard.c */
    bool follows : 1;    /* it is a replica of this server: exec_replication.c */
    bool is_delayed : 1; /* its next late answer waits once more: conn_delay.h */
    uint32_t rule;       /* whose prefixes limit its keys; RULES_NONE: none */
    uint32_t rules_generation; /* of the rules that all of these are of; 0: not known */
    char *user;                /* owned; what it has logged in as; NULL: as nobody */
};

/* Over an accepted socket, which it owns from here on; plain. Context: worker. */
static inline void client_init(struct client *c, int fd, const struct client_duties *duties)
{
    must_be_a_worker();
    io_init(&c->io, fd);
    c->duties = duties;
}

/*
 * Release everything and close the socket; a late answer will find that it is gone. Context:
 * worker.
 */
void client_fini(struct client *c, struct worker *w);

/*
 * May it go to another worker with what it has begun? Context: worker, between two turns, as
 * for the next two.
 */
bool client_may_leave(const struct client *c, const struct worker *w);

/*
 * It leaves its worker, with what is kept of it and what it has begun, and joins another one:
 * so does what it adds to their accounts. client_leave(): false: not now, for want of memory,
 * and nothing has changed.
 */
bool client_leave(struct client *c, struct worker *w);
void client_join(struct client *c, struct worker *w);

/*
 * Is what it adds older than what is here (exec_restore.h)? Context: worker, as for the next.
 */
bool client_restores(const struct client *c, const struct worker *w);

/* Not any more. */
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
 * It is a replica from here on: it has a place beyond -c if there is one, and what it keeps is
 * no reason to close it. Context: worker.
 */
void client_follow(struct client *c, struct worker *w);

/* Has it a place beyond -c, and does it not follow this server yet? Context: worker. */
static inline bool client_is_candidate(const struct client *c)
{
    return c->origin->is_beyond && !c->follows;
}

/* Is there something that wants to know whether it goes while it waits? Context: worker. */
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
 * What is kept of it, made if it is not there. NULL: no memory. It stays until
 * client_drop_kept(). Context: worker.
 */
struct kept *client_keep(struct client *c);

/* Release it, if nothing is kept any more. Context: worker. */
void client_drop_kept(struct client *c);

/*
 * Put bytes behind what its socket did not take. False: no memory; nothing has changed.
 * Context: worker.
 */
bool client_append(struct client *c, const char *bytes, size_t n);

/* Is there output that its socket did not take? */
static inline bool client_has_output(const struct client *c)
{
    return c->kept != NULL && !outq_is_empty(&c->kept->outq);
}

/* Is a dump for it under way? */
static inline bool client_dumps(const struct client *c)
{
    return c->kept != NULL && c->kept->dump.is_active;
}

/* Is there the rest of a get line? */
static inline bool client_has_rest(const struct client *c)
{
    return c->kept != NULL && c->kept->rest.is_active;
}

/* Does it have to log in, or its login to be looked at, before anything else? */
static inline bool client_needs_login(const struct client *c)
{
    return c->login_state >= LOGIN_NEEDED;
}

/* Is it known what it has logged in with? */
static inline bool client_has_login(const struct client *c)
{
    return c->login_state == LOGIN_GOOD || c->login_state == LOGIN_DOUBTED;
}

/* Does it wait for an answer? Then nothing of it may be read or executed. */
static inline bool client_is_waiting(const struct client *c)
{
    return c->late != NULL;
}

/*
 * The answer to c will be given through l, which the caller keeps until then. Context: worker.
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
 * The same; what the caller does for it happens in functions of messages that come by this
 * relay, on the worker that the client is on by then. Context: worker.
 */
static inline void client_expect_by(struct client *c, struct late_answer *l,
                                    struct relay *relay)
{
    client_expect(c, l);
    l->relay = relay;
}

/*
 * Give a portion of it; on_taken will be called once, perhaps from within. The client is there.
 * Context: worker, outside a section.
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

/* All that was given to it is with the socket. Context: worker, outside a section. */
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

/* Give it. False: the client closed meanwhile. Context: worker, outside a section. */
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
 * Count what the output queue holds. False when it grew and the connection keeps more than one
 * may. Context: worker.
 */
bool client_count_output(struct client *c, struct worker *w);

/*
 * The same of input: what is kept of it takes so many bytes now. False also when there is no
 * memory to keep any. Context: worker.
 */
bool client_count_input(struct client *c, struct worker *w, size_t bytes);

#endif
