/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A build without OpenSSL. options_check() refuses -Z, so there is never a session, and the
 * functions of sessions are never called.
 */
#include "daemon/net/tls.h"

#include "daemon/net/tls_session.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

int tls_open(const struct settings *settings, struct tls **out)
{
    must(!settings->ssl_enabled);
    *out = NULL;
    return 0;
}

void tls_close(struct tls *t)
{
    must(t == NULL);
}

bool tls_worker_init(struct tls_worker *w, const struct settings *settings,
                     struct counters *counters)
{
    w->buf = NULL;
    w->size = 0;
    w->counters = counters;
    return true;
}

void tls_worker_fini(struct tls_worker *w)
{
    must(w->buf == NULL);
}

void tls_worker_rest(struct tls_worker *w)
{
    must(w->buf == NULL);
}

enum tls_renewal tls_reload(struct tls *t, char why[TLS_WHY_BYTES])
{
    unreachable();
}

uint64_t tls_age_s(const struct tls *t)
{
    unreachable();
}

struct ssl_ctx_st *tls_take_context(struct tls *t)
{
    unreachable();
}

struct tls_session *tls_session_create(struct ssl_ctx_st *context, const struct tls_worker *w,
                                       int fd, enum tls_verify verify)
{
    unreachable();
}

void tls_session_join(struct tls_session *s, const struct tls_worker *w)
{
    unreachable();
}

void tls_session_destroy(struct tls_session *s)
{
    unreachable();
}

enum tls_step tls_handshake(struct tls_session *s)
{
    unreachable();
}

void tls_handshake_failed(struct tls_session *s, const char *why)
{
    unreachable();
}

ssize_t tls_readv(struct tls_session *s, const struct iovec *iov, unsigned count)
{
    unreachable();
}

ssize_t tls_sendv(struct tls_session *s, const struct iovec *iov, unsigned count)
{
    unreachable();
}

bool tls_has_more(const struct tls_session *s)
{
    unreachable();
}

bool tls_read_wants_write(const struct tls_session *s)
{
    unreachable();
}

bool tls_write_wants_read(const struct tls_session *s)
{
    unreachable();
}

bool tls_send_end(struct tls_session *s)
{
    unreachable();
}

void tls_each_peer_name(const struct tls_session *s, tls_name_fn fn, void *arg)
{
}
