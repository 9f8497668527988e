/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS of the server: certificates, keys and options (-Z and the ssl_* options), loaded at the
 * start and again on request. tls_session.h has the sessions of connections.
 *
 * A build without OpenSSL has tls_none.c instead of tls.c and tls_session.c.
 */
#ifndef MAYFLY_DAEMON_NET_TLS_H
#define MAYFLY_DAEMON_NET_TLS_H

#include <stdbool.h>
#include <stdint.h>

struct settings;
struct tls;

/* Room for the reason why certificates cannot be loaded: memcached's line without its end. */
#define TLS_WHY_BYTES 1024

/*
 * Load what the settings name. Without -Z *out is NULL and nothing else happens. Returns 0, or
 * memcached's exit status after a message was written. Reads the files with the rights of the
 * caller; relative names start in the working folder of this call, also for later loads.
 * Context: main, before start.
 */
int tls_open(const struct settings *settings, struct tls **out);

enum tls_renewal {
    TLS_RENEWED,   /* later handshakes use what the files have now */
    TLS_UNCHANGED, /* the files are those in use */
    TLS_KEPT,      /* a file cannot be used; everything stays as it was */
};

/*
 * Load the same files again, unless they are known to be unchanged. Connections and handshakes
 * under way keep what they began with. Clients can still resume their sessions by ticket,
 * unless the key or the list of trusted clients changed. TLS_KEPT: why has the reason. Reads
 * files, so it may block. Context: main before start, or pool; not twice at the same time.
 */
enum tls_renewal tls_reload(struct tls *t, char why[TLS_WHY_BYTES]);

/*
 * The rules for sessions that begin now, with a reference that tls_session_create() takes.
 * Context: any thread.
 */
struct ssl_ctx_st *tls_take_context(struct tls *t);

/* Seconds since the certificates in use were loaded or found unchanged. Context: any thread. */
uint64_t tls_age_s(const struct tls *t);

/* Release it; accepts NULL. Sessions may outlive it. Context: main. */
void tls_close(struct tls *t);

#endif
