/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The serialized connections that a process passes on to the program that it becomes
 * (passed_on.h):
 *
 *   a head     magic, version, count, lengths, checksums
 *   numbers    the descriptor of each connection, 4 bytes
 *   a body     the keys of logins, then a record for each connection, in the same order
 *
 * Head and numbers have the same format in each version, so that a program which does not know
 * the version of the body can still close the descriptors. Numbers are in host byte order: both
 * programs run on the same machine.
 */
#ifndef MAYFLY_DAEMON_NET_PASSED_CONNS_H
#define MAYFLY_DAEMON_NET_PASSED_CONNS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/siphash.h"
#include "lib/base/span.h"

/* Of the body. Raise it whenever a record changes. */
#define PASSED_CONNS_VERSION 1u

/* Most bytes that may be passed for all connections together. */
#define PASSED_CONNS_BYTES_MAX (256u << 20)

/* Largest input of a connection that awaits a header: the beginning of the header. */
#define PASSED_HEADER_MAX 1024u

/* A connection between two requests. */
struct passed_conn {
    int fd;
    uint8_t transport;      /* enum conn_transport */
    uint8_t protocol;       /* enum binding_protocol */
    uint8_t login_failures; /* of this connection */
    bool is_control;        /* it came over the control socket */
    bool is_proxied;        /* the peer below was named by a balancer */
    bool awaits_header;     /* a balancer still has to send the header; input is the beginning
                               of that */
    bool has_login;         /* `login` is of its user, by the key of passed_keys */
    uint16_t family;        /* if is_proxied: AF_INET, AF_INET6 */
    uint16_t port;
    uint8_t address[16];
    uint64_t idle_ms; /* time since the client last sent or received bytes */
    uint64_t swallow; /* bytes of input to be dropped unread */
    struct siphash_digest login;
    struct span user;   /* its login; ptr NULL: not logged in */
    struct span input;  /* read, and not executed */
    struct span output; /* composed, and not sent */
};

/* The keys of the digests of logins: of -Y, and of the users of SASL. */
struct passed_keys {
    struct siphash_key text;
    struct siphash_key sasl;
};

/* ---- those to be passed on --------------------------------------------------------------- */

struct passed_conns {
    pthread_mutex_t lock; /* a leaf; for what follows */
    struct buf numbers;
    struct buf records;
};

/* Make an empty list; takes no memory. Context: main. */
void passed_conns_init(struct passed_conns *p);

/* Drop the list, without closing descriptors. Context: main. */
void passed_conns_fini(struct passed_conns *p);

/*
 * Add one; copies everything. False: no memory, or more than PASSED_CONNS_BYTES_MAX; nothing
 * has changed. Context: any thread.
 */
bool passed_conns_add(struct passed_conns *p, const struct passed_conn *c);

/* Number of bytes kept. Context: any thread. */
size_t passed_conns_bytes(struct passed_conns *p);

/*
 * Number of connections, and the descriptor of one. Context: any thread, while none is added.
 */
uint32_t passed_conns_count(const struct passed_conns *p);
int passed_conns_fd(const struct passed_conns *p, uint32_t i);

/*
 * Write everything to out, which is empty. Returns false without memory. Context: main, while
 * none is added.
 */
bool passed_conns_encode(const struct passed_conns *p, const struct passed_keys *keys,
                         struct buf *out);

/* ---- those that were --------------------------------------------------------------------- */

enum passed_state {
    PASSED_GOOD,
    PASSED_FOREIGN, /* another version: only the descriptors are known */
    PASSED_DAMAGED, /* nothing is known, or only the descriptors (count is not 0) */
};

/* A reader of saved connections. Zeroed: a reader of no connections. */
struct passed_reader {
    uint32_t version;
    uint32_t count;          /* of the descriptors */
    struct passed_keys keys; /* of PASSED_GOOD */
    struct span numbers;     /* [borrowed] */
    struct span records;     /* [borrowed] those not read yet */
    uint32_t next;
};

/* Begin to read; borrows the bytes. Context: any thread. */
enum passed_state passed_conns_open(struct passed_reader *r, struct span bytes);

/* The descriptor of connection i, below count; it may be any number. Context: any thread. */
int passed_conns_number(const struct passed_reader *r, uint32_t i);

/*
 * The next connection; borrows from the bytes. False: it was the last one, or it cannot be
 * read: r->next is below r->count then. Context: any thread, after PASSED_GOOD.
 */
bool passed_conns_next(struct passed_reader *r, struct passed_conn *out);

#endif
