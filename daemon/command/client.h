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
    uint32_t items_left; /* DUMP_CACHE */
    uint32_t bytes_left; /* DUMP_CACHE: lines, the last one included */
    uint8_t format;      /* enum dump_format */
    bool is_over;        /* no more items are wanted: the last line alone is left */
    bool is_active;
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
    _Atomic bool is_left; /* the same, for threads that are not the client's */
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

struct client {
    struct io io;
    const struct conn_origin *origin;   /* [const] [borrowed] where it came in */
    struct outq outq;                   /* output that the socket did not take */
    struct holder holder;               /* what it keeps of input and output */
    size_t out_bytes;                   /* of that, in outq; the rest is input */
    const struct client_duties *duties; /* [const] [borrowed] */
    struct late_answer *late;  /* [borrowed] released by its owner when it comes; NULL: none */
    struct exchange *exchange; /* owned, or NULL: SASL waits for its next step */
    struct watcher *watcher;   /* owned until it closes; NULL: it does not watch */
    struct dump dump;
    uint64_t since_ns;   /* since when what it has sent waits to be executed; 0: nothing does */
    struct timed *timed; /* owned: requests whose replies it has not got; NULL: none */
    struct siphash_digest login; /* if has_login: what it authenticated with */
    bool has_login;
    bool is_doubted : 1;    /* needs_auth until its login is found to be still good */
    bool is_held : 1;       /* its queue waits for the log: see conn_hold.h */
    bool has_changed : 1;   /* quietly: its next reply has to wait for the log */
    uint8_t login_failures; /* of this connection */
    bool is_logging_in;     /* the answer it waits for is that of a login */
    bool needs_auth;        /* has to authenticate before anything else */
    bool has_extensions;    /* [const] may use what memcached does not have */
    uint8_t rights;         /* RIGHT_READ and others, see daemon/access/rights.h */
    bool is_guarded;        /* each of its requests is looked at; or what it may is not known */
    uint32_t rule : 31;     /* whose prefixes limit its keys; RULES_NONE: none */
    uint32_t is_granted : 1;   /* a rule grants its rights */
    uint32_t rules_generation; /* of the rules that all of these are of; 0: not known */
    char *user;                /* owned; what it has logged in as; NULL: as nobody */
};

/* Over an accepted socket, which it owns from here on; plain. Context: worker. */
static inline void client_init(struct client *c, int fd, const struct client_duties *duties)
{
    must_be_a_worker();
    io_init(&c->io, fd);
    outq_init(&c->outq);
    holder_init(&c->holder, &c->io);
    c->duties = duties;
}

/*
 * Release everything and close the socket; a late answer will find that it is gone. Context:
 * worker.
 */
void client_fini(struct client *c, struct worker *w);

/*
 * Is what it adds older than what is here (exec_restore.h)? Context: worker, as for the next.
 */
bool client_restores(const struct client *c, const struct worker *w);

/* Not any more. */
void client_end_restore(const struct client *c, struct worker *w);

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
    c->late = l;
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

/* The same of input: what is kept of it takes so many bytes now. Context: worker. */
bool client_count_input(struct client *c, struct worker *w, size_t bytes);

#endif
