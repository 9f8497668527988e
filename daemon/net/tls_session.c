/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One TLS session over OpenSSL, which reads and writes the socket itself. OpenSSL keeps errors
 * in a queue per thread that outlives a call, so the queue is emptied before each call whose
 * error may be queried.
 */
#include "daemon/net/tls_session.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/options/settings.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/span.h"

/*
 * Records per turn: a peer may put one byte in each, and then a read of the worker's whole
 * buffer would take a tenth of a second.
 */
#define RECORDS_MAX 500u

/*
 * Records without data, after the handshake: a peer may ask for new keys, or for another
 * handshake, which is refused. They cost ten times what a record of data costs, and OpenSSL
 * takes as many of them as there are before it returns. So a session has a stock of them. A
 * full record's worth of data adds one, and so does each second; who exceeds it is
 * disconnected. A client that renews its keys as often as any standard asks for never comes
 * near.
 */
#define EMPTY_MAX 32u

/*
 * Records of a handshake. It has about ten, and some more with a long chain of certificates;
 * but a peer may put one byte of its messages in each.
 */
#define HANDSHAKE_RECORDS_MAX 256u

struct tls_session {
    /* [const] */
    SSL *ssl;                   /* owned */
    const struct tls_worker *w; /* [borrowed] */

    /* [worker] */
    bool is_open;          /* the handshake is over */
    bool is_broken;        /* after an error OpenSSL must not be called again */
    bool end_is_sent;      /* the peer was told that nothing more comes */
    bool has_more;         /* bytes, or the end, may already be here */
    bool read_wants_write; /* the last read that brought nothing waits for this */
    bool write_wants_read; /* the same for writing */
    bool is_flooding;      /* it sent too many records without data */
    uint32_t empty_left; /* records without data, or of the handshake, that it may still send */
    size_t data_bytes;   /* received since data last added to empty_left */
    usec_t refilled_at;  /* when time last did, or might have, by clock_mono_us() */
};

/* ---- records without data ---------------------------------------------------------------- */

static void refill_by_time(struct tls_session *s)
{
    usec_t now = clock_mono_us();
    usec_t seconds = (now - s->refilled_at) / 1000000;

    if (seconds > 0) {
        usec_t most = EMPTY_MAX - s->empty_left;

        s->empty_left += (uint32_t)(seconds < most ? seconds : most);
        s->refilled_at = now;
    }
}

static void refill_by_data(struct tls_session *s, size_t n)
{
    s->data_bytes += n;
    if (s->data_bytes >= TLS_RECORD_BYTES) {
        s->data_bytes = 0;
        s->empty_left += s->empty_left < EMPTY_MAX;
    }
}

/* A record that brings no data: if it is one too many, OpenSSL reads no further. */
static void spend_empty(struct tls_session *s)
{
    if (s->is_open) {
        refill_by_time(s);
    }
    if (s->empty_left > 0) {
        s->empty_left--;
    } else {
        s->is_flooding = true;
        /* As if it had closed: the only way to end a call of OpenSSL from within. */
        SSL_set_shutdown(s->ssl, SSL_get_shutdown(s->ssl) | SSL_RECEIVED_SHUTDOWN);
    }
}

/*
 * OpenSSL shows the header of each record that comes, and, where that says "data" of all that
 * is encrypted, also what it really is.
 */
static void on_message(int is_sent, int version, int type, const void *bytes, size_t len,
                       SSL *ssl, void *session)
{
    struct tls_session *s = session;
    bool is_record = type == SSL3_RT_HEADER || type == SSL3_RT_INNER_CONTENT_TYPE;

    (void)version;
    (void)ssl;
    if (is_sent || !is_record || len == 0 || (!s->is_open && type != SSL3_RT_HEADER)) {
        return;
    }
    if (!s->is_open || *(const unsigned char *)bytes != SSL3_RT_APPLICATION_DATA) {
        spend_empty(s);
    }
}

/* Count it and log; the session is over. */
static void end_flood(struct tls_session *s)
{
    s->is_broken = true;
    ctr_add(s->w->counters, CTR_ssl_floods, 1);
    log_info("tls, connection closed (too many records without data)");
}

/* ---- life -------------------------------------------------------------------------------- */

bool tls_worker_init(struct tls_worker *w, const struct settings *settings,
                     struct counters *counters)
{
    must_be_main();
    w->counters = counters;
    w->buf = NULL;
    w->size = 0;
    if (!settings->ssl_enabled) {
        return true;
    }
    w->size = (size_t)settings->ssl_wbuf_bytes;
    w->buf = mem_alloc_aligned(w->size, 4096);
    return w->buf != NULL;
}

void tls_worker_rest(struct tls_worker *w)
{
    if (w->buf != NULL) {
        mem_discard(w->buf, w->size);
        OPENSSL_thread_stop(); /* random numbers and errors of this thread: made when needed */
    }
}

void tls_worker_fini(struct tls_worker *w)
{
    must_be_main();
    mem_free(w->buf);
    w->buf = NULL;
}

/*
 * What the listener demands instead of ssl_verify_mode. A session that another kind of listener
 * has made is not resumed here: its client may have shown no certificate.
 */
static bool set_verify(SSL *ssl, enum tls_verify verify)
{
    static const unsigned char ids[][2] = {[TLS_VERIFY_NONE] = "b", [TLS_VERIFY_REQUIRE] = "m"};

    if (verify == TLS_VERIFY_BY_MODE) {
        return true;
    }
    SSL_set_verify(ssl,
                   verify == TLS_VERIFY_NONE
                       ? SSL_VERIFY_NONE
                       : SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                   NULL);
    return SSL_set_session_id_context(ssl, ids[verify], 1) == 1;
}

struct tls_session *tls_session_create(SSL_CTX *context, const struct tls_worker *w, int fd,
                                       enum tls_verify verify)
{
    struct tls_session *s = mem_zalloc(sizeof(*s));
    SSL *ssl = s != NULL ? SSL_new(context) : NULL;

    must_be_a_worker();
    must(w->buf != NULL);
    SSL_CTX_free(context); /* the session has a reference of its own */
    if (ssl == NULL || SSL_set_fd(ssl, fd) != 1 || !set_verify(ssl, verify)) {
        ERR_clear_error();
        SSL_free(ssl);
        mem_free(s);
        return NULL;
    }
    s->ssl = ssl;
    s->w = w;
    s->empty_left = HANDSHAKE_RECORDS_MAX;
    SSL_set_app_data(s->ssl, s);
    SSL_set_msg_callback(s->ssl, on_message);
    SSL_set_msg_callback_arg(s->ssl, s);
    SSL_set_accept_state(s->ssl);
    return s;
}

/*
 * OpenSSL would drop the session from its cache, unless it believes that the end was announced;
 * but the session was fine.
 */
static void believe_end(struct tls_session *s)
{
    SSL_set_shutdown(s->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

void tls_session_join(struct tls_session *s, const struct tls_worker *w)
{
    must_be_a_worker();
    s->w = w;
}

void tls_session_destroy(struct tls_session *s)
{
    must_be_a_worker();
    if (!tls_send_end(s)) {
        believe_end(s);
    }
    SSL_free(s->ssl);
    mem_free(s);
}

bool tls_send_end(struct tls_session *s)
{
    must_be_a_worker();
    if (!s->is_open || s->is_broken || s->end_is_sent) {
        return true;
    }
    ERR_clear_error();
    int result = SSL_shutdown(s->ssl);
    if (result < 0 && SSL_get_error(s->ssl, result) == SSL_ERROR_WANT_WRITE) {
        ERR_clear_error();
        return false;
    }
    s->end_is_sent = true;
    if (result < 0) { /* the socket is gone */
        believe_end(s);
        ERR_clear_error();
    }
    return true;
}

/* ---- handshake --------------------------------------------------------------------------- */

int tls_session_on_new(SSL *ssl, SSL_SESSION *resumable)
{
    const struct tls_session *s = SSL_get_app_data(ssl);

    (void)resumable;
    ctr_add(s->w->counters, CTR_ssl_new_sessions, 1);
    return 0; /* the reference stays OpenSSL's */
}

void tls_handshake_failed(struct tls_session *s, const char *why)
{
    must_be_a_worker();
    s->is_broken = true;
    ctr_add(s->w->counters, CTR_ssl_handshake_errors, 1);
    log_info("tls, handshake failed (%s)", why);
}

/* The reason of the oldest error in the queue, which it empties. */
static const char *reason(int ssl_error, int err)
{
    unsigned long code = ERR_get_error();
    const char *text = ERR_reason_error_string(code);

    ERR_clear_error();
    if (ssl_error == SSL_ERROR_SYSCALL || text == NULL) {
        return err != 0 ? strerror(err) : "the client closed the connection";
    }
    return text;
}

enum tls_step tls_handshake(struct tls_session *s)
{
    must_be_a_worker();
    debug_must(!s->is_broken);
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(s->ssl);
    int err = errno;
    if (result == 1) {
        s->is_open = true;
        s->empty_left = EMPTY_MAX;
        s->has_more = SSL_has_pending(s->ssl) == 1;
        return TLS_OPEN;
    }
    if (s->is_flooding) {
        ERR_clear_error();
        tls_handshake_failed(s, "too many records");
        return TLS_FAILED;
    }
    int ssl_error = SSL_get_error(s->ssl, result);
    if (ssl_error == SSL_ERROR_WANT_READ) {
        return TLS_WANTS_READ;
    }
    if (ssl_error == SSL_ERROR_WANT_WRITE) {
        return TLS_WANTS_WRITE;
    }
    if (BIO_number_read(SSL_get_rbio(s->ssl)) == 0) {
        /* Closed without a byte, as by a client that only checks whether the port is open. */
        s->is_broken = true;
        ERR_clear_error();
    } else {
        tls_handshake_failed(s, reason(ssl_error, err));
    }
    return TLS_FAILED;
}

/* ---- errors ------------------------------------------------------------------------------ */

/* End the session. Returns -1 with errno, or 0 for an end that the peer announced. */
static ssize_t end_after_error(struct tls_session *s, int ssl_error, int err)
{
    s->has_more = true; /* the next read returns the same */
    if (ssl_error == SSL_ERROR_ZERO_RETURN && !s->is_flooding) {
        return 0;
    }
    s->is_broken = true;
    if (s->is_flooding) {
        end_flood(s);
        err = EPROTO;
    } else if (ssl_error == SSL_ERROR_SSL) {
        ctr_add(s->w->counters, CTR_ssl_proto_errors, 1);
        log_info("tls, connection closed (%s)", reason(ssl_error, err));
        err = EPROTO;
    }
    ERR_clear_error();
    errno = err != 0 ? err : ECONNRESET;
    return -1;
}

/* ---- reading ----------------------------------------------------------------------------- */

/*
 * Read into one part until it is full, there is no more, or *records have been read. *got is
 * what came; false: do not go on; *result is what to return if nothing came.
 */
static bool read_room(struct tls_session *s, const struct iovec *to, unsigned *records,
                      size_t *got, ssize_t *result)
{
    size_t room = to->iov_len;

    *got = 0;
    while (*got < room) {
        size_t n;

        if (*records == 0) {
            return false;
        }
        ERR_clear_error();
        errno = 0;
        int ok = SSL_read_ex(s->ssl, (char *)to->iov_base + *got, room - *got, &n);
        int err = errno;
        if (ok != 1) {
            int ssl_error = SSL_get_error(s->ssl, ok);

            s->has_more = false;
            s->read_wants_write = ssl_error == SSL_ERROR_WANT_WRITE;
            if (ssl_error == SSL_ERROR_WANT_READ || s->read_wants_write) {
                errno = EAGAIN;
                *result = -1;
            } else {
                *result = end_after_error(s, ssl_error, err);
            }
            return false;
        }
        *got += n;
        --*records;
        refill_by_data(s, n);
        if (n < TLS_RECORD_BYTES && n < room && SSL_has_pending(s->ssl) == 0) {
            /* All bytes of the socket are used up, and a busy sender would fill its records. */
            s->has_more = false;
            return false;
        }
    }
    return true;
}

ssize_t tls_readv(struct tls_session *s, const struct iovec *iov, unsigned count)
{
    ssize_t result = 0;
    unsigned records = RECORDS_MAX;
    size_t total = 0;
    size_t got;

    must_be_a_worker();
    if (s->is_broken) {
        errno = EPROTO;
        return -1;
    }
    s->has_more = true;
    s->read_wants_write = false;
    for (unsigned i = 0; i < count; i++) {
        bool goes_on = read_room(s, &iov[i], &records, &got, &result);

        total += got;
        if (!goes_on) {
            break;
        }
    }
    return total > 0 ? (ssize_t)total : result;
}

bool tls_has_more(const struct tls_session *s)
{
    must_be_a_worker();
    return s->has_more;
}

bool tls_read_wants_write(const struct tls_session *s)
{
    must_be_a_worker();
    return s->read_wants_write;
}

/* ---- writing ----------------------------------------------------------------------------- */

/* The position of a walk over the parts. */
struct tls_parts {
    const struct iovec *iov;
    unsigned count;
    size_t used; /* bytes of the first */
};

static void parts_skip(struct tls_parts *p, size_t n)
{
    p->used += n;
    while (p->count > 0 && p->used >= p->iov->iov_len) {
        p->used -= p->iov->iov_len;
        p->iov++;
        p->count--;
    }
}

/*
 * The next bytes in one piece: as many as the buffer holds, or all that are left. They are
 * copied only if they are not contiguous. The length is the same in either case, so a write
 * that was cut short can be repeated.
 */
static struct span next_piece(const struct tls_worker *w, const struct tls_parts *p)
{
    struct tls_parts at = *p;
    size_t first = at.iov->iov_len - at.used;
    const char *here = (const char *)at.iov->iov_base + at.used;
    size_t n = 0;

    if (first >= w->size || at.count == 1) {
        return span_of(here, first < w->size ? first : w->size);
    }
    while (at.count > 0 && n < w->size) {
        size_t take = at.iov->iov_len - at.used;

        take = take < w->size - n ? take : w->size - n;
        memcpy(w->buf + n, (const char *)at.iov->iov_base + at.used, take);
        n += take;
        parts_skip(&at, take);
    }
    return span_of(w->buf, n);
}

/* Encrypt and send a piece. Returns what was taken; if less than all, *result says why. */
static size_t write_piece(struct tls_session *s, struct span piece, ssize_t *result)
{
    size_t done = 0;

    while (done < piece.len) {
        size_t n;

        ERR_clear_error();
        errno = 0;
        int ok = SSL_write_ex(s->ssl, piece.ptr + done, piece.len - done, &n);
        int err = errno;
        if (ok != 1) {
            int ssl_error = SSL_get_error(s->ssl, ok);

            s->write_wants_read = ssl_error == SSL_ERROR_WANT_READ;
            if (ssl_error == SSL_ERROR_WANT_WRITE || s->write_wants_read) {
                errno = EAGAIN;
                *result = -1;
            } else {
                end_after_error(s, ssl_error, err);
                *result = -1;
            }
            break;
        }
        done += n;
    }
    return done;
}

ssize_t tls_sendv(struct tls_session *s, const struct iovec *iov, unsigned count)
{
    struct tls_parts p = {.iov = iov, .count = count};
    ssize_t result = 0;
    size_t total = 0;

    must_be_a_worker();
    if (s->is_broken) {
        errno = EPIPE;
        return -1;
    }
    s->write_wants_read = false;
    parts_skip(&p, 0);
    while (p.count > 0 && total < TLS_TURN_BYTES) {
        struct span piece = next_piece(s->w, &p);
        size_t done = write_piece(s, piece, &result);

        must(piece.len > 0 && done <= piece.len);

        total += done;
        if (done < piece.len) {
            break;
        }
        parts_skip(&p, done);
    }
    return total > 0 ? (ssize_t)total : result;
}

bool tls_write_wants_read(const struct tls_session *s)
{
    must_be_a_worker();
    return s->write_wants_read;
}

/* ---- names of the peer ------------------------------------------------------------------- */

/* The callback for names, and how many more names it may get. */
struct names {
    tls_name_fn fn;
    void *arg;
    unsigned left;
};

static void tell_name(struct names *n, const void *bytes, int len)
{
    struct span name = span_of(bytes, len > 0 ? (size_t)len : 0);

    if (name.len > 0 && n->left > 0 && memchr(name.ptr, '\0', name.len) == NULL) {
        n->left--;
        n->fn(n->arg, name);
    }
}

static void tell_common_names(struct names *n, X509 *certificate)
{
    X509_NAME *subject = X509_get_subject_name(certificate);
    int at = -1;

    while ((at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0) {
        unsigned char *text;
        int len = ASN1_STRING_to_UTF8(
            &text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));

        if (len >= 0) {
            tell_name(n, text, len);
            OPENSSL_free(text);
        }
    }
}

static void tell_other_names(struct names *n, X509 *certificate)
{
    GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);

    for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
        int type;
        const void *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(all, i), &type);

        if (type == GEN_DNS || type == GEN_EMAIL || type == GEN_URI) {
            tell_name(n, ASN1_STRING_get0_data(value), ASN1_STRING_length(value));
        }
    }
    GENERAL_NAMES_free(all);
}

void tls_each_peer_name(const struct tls_session *s, tls_name_fn fn, void *arg)
{
    struct names n = {fn, arg, TLS_PEER_NAMES_MAX};
    X509 *certificate;

    must_be_a_worker();
    if (s->is_broken || !s->is_open) {
        return;
    }
    certificate = SSL_get0_peer_certificate(s->ssl);
    if (certificate != NULL && SSL_get_verify_result(s->ssl) == X509_V_OK) {
        ERR_clear_error();
        tell_common_names(&n, certificate);
        tell_other_names(&n, certificate);
        ERR_clear_error();
    }
}
