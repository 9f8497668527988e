/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tls.c and tls_session.c share; nobody else sees OpenSSL.
 */
#ifndef MAYFLY_DAEMON_NET_TLS_STATE_H
#define MAYFLY_DAEMON_NET_TLS_STATE_H

#include <openssl/ssl.h>

struct tls;

/*
 * The context of handshakes that begin now, with a reference of the caller's (SSL_CTX_free()).
 * Context: any thread.
 */
SSL_CTX *tls_take_context(struct tls *t);

/*
 * OpenSSL made a session that a client may resume; it is told by the context, so it stands in
 * tls_session.c, which knows whose it is. Context: worker.
 */
int tls_on_new_session(SSL *ssl, SSL_SESSION *resumable);

#endif
