/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS of one connection, over its non-blocking socket. Reading and writing behave like readv()
 * and sendmsg() with plain bytes: a short count means that the socket has or takes no more, -1
 * sets errno.
 */
#ifndef MAYFLY_DAEMON_NET_TLS_SESSION_H
#define MAYFLY_DAEMON_NET_TLS_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "daemon/net/origin.h"
#include "lib/base/counters.h"
#include "lib/base/span.h"

struct settings;
struct ssl_ctx_st;
struct ssl_session_st;
struct ssl_st;

/* The size of a record: one read never returns more. */
#define TLS_RECORD_BYTES (16u * 1024)

/* What the sessions of a worker share. */
struct tls_worker {
    char *buf;                 /* owned; output is gathered here before it is encrypted */
    size_t size;               /* of buf: ssl_wbuf_size */
    struct counters *counters; /* [borrowed] the worker's */
};

/*
 * Prepare it; takes memory only with -Z. False: no memory. Context: main, before start.
 */
bool tls_worker_init(struct tls_worker *w, const struct settings *settings,
                     struct counters *counters);

/* Release it, after the worker's sessions. Context: main, after the worker ended. */
void tls_worker_fini(struct tls_worker *w);

/* The worker is about to be idle for long: release its buffer. Context: its thread. */
void tls_worker_rest(struct tls_worker *w);

/*
 * The server's end of a session over an accepted socket, which it borrows. Takes the reference
 * to the context (of OpenSSL, from tls_take_context()), also on failure. verify: which clients
 * must present a certificate. NULL: no memory. Context: worker.
 */
struct tls_session *tls_session_create(struct ssl_ctx_st *context, const struct tls_worker *w,
                                       int fd, enum tls_verify verify);

/* Another worker takes the session over; w is that worker's. Context: worker, that one. */
void tls_session_join(struct tls_session *s, const struct tls_worker *w);

/*
 * For the contexts: OpenSSL made a session that a client may resume. Context: worker, called by
 * OpenSSL.
 */
int tls_session_on_new(struct ssl_st *ssl, struct ssl_session_st *resumable);

/* Release it, after tls_send_end() if that was not called. Context: worker. */
void tls_session_destroy(struct tls_session *s);

/* What the connection has to wait for. */
enum tls_step {
    TLS_OPEN,        /* the handshake is over */
    TLS_WANTS_READ,  /* continues when the socket is readable */
    TLS_WANTS_WRITE, /* continues when the socket takes bytes */
    TLS_FAILED,      /* it never will; the peer was sent the reason */
};

/* Continue the handshake as far as the socket allows. Context: worker. */
enum tls_step tls_handshake(struct tls_session *s);

/*
 * Count a failed handshake and log why. For a handshake that the caller gives up; TLS_FAILED
 * has been counted already. Context: worker.
 */
void tls_handshake_failed(struct tls_session *s, const char *why);

/* Read what is there, 0 at the end of the stream. Context: worker. */
ssize_t tls_readv(struct tls_session *s, const struct iovec *iov, unsigned count);

/*
 * Send as much as the socket takes, up to a little more than TLS_TURN_BYTES. After a short
 * count the next call must begin with the bytes that were not taken, and have at least as many.
 * Context: worker.
 */
#define TLS_TURN_BYTES (512u * 1024)
ssize_t tls_sendv(struct tls_session *s, const struct iovec *iov, unsigned count);

/* May a read bring more without any event of the socket? Context: worker. */
bool tls_has_more(const struct tls_session *s);

/* Does reading or writing wait for the opposite direction of the socket? Context: worker. */
bool tls_read_wants_write(const struct tls_session *s);
bool tls_write_wants_read(const struct tls_session *s);

/*
 * Call fn with each name in the certificate of the peer, if it has shown one and that was
 * verified (ssl_verify_mode): common names first, then the alternative names that are DNS
 * names, mail addresses and URIs. A name with a NUL in it, which may pass for another, is none.
 * At most TLS_PEER_NAMES_MAX. Context: worker, after the handshake.
 */
#define TLS_PEER_NAMES_MAX 64u
typedef void (*tls_name_fn)(void *arg, struct span name);
void tls_each_peer_name(const struct tls_session *s, tls_name_fn fn, void *arg);

/*
 * Announce to the peer that nothing more comes. False: the socket is full; call it again when
 * it takes bytes. Context: worker.
 */
bool tls_send_end(struct tls_session *s);

#endif
