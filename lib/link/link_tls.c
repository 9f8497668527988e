/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/link/link_tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/mem.h"

struct link_tls {
    SSL_CTX *context;
    SSL *ssl;
    const char *ca_option, *cert_option, *name_option; /* [borrowed] of link_tls_create() */
    char why[256];
};

/* The newest complaint of the library; forgets all of them. */
static void explain(char *why, size_t why_bytes, const char *what)
{
    unsigned long e = ERR_get_error();
    const char *reason = e == 0                ? NULL
                         : ERR_SYSTEM_ERROR(e) ? strerror(ERR_GET_REASON(e))
                                               : ERR_reason_error_string(e);

    snprintf(why, why_bytes, "%s: %s", what, reason != NULL ? reason : "no reason was given");
    ERR_clear_error();
}

/* What to look at. option NULL: nothing is said. */
static void add_hint(struct link_tls *t, const char *what, const char *option)
{
    const size_t n = strlen(t->why);

    if (option != NULL) {
        snprintf(t->why + n, sizeof(t->why) - n, " (%s%s)", what, option);
    }
}

/* The option that concerns this fault of the server's certificate; NULL: none of ours. */
static const char *option_of_verdict(const struct link_tls *t, long verdict)
{
    switch (verdict) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return t->name_option;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_UNTRUSTED:
        return t->ca_option;
    default:
        return NULL;
    }
}

/* Does the server say by this that it does not accept our certificate, or wants one? */
static bool is_about_our_certificate(int reason)
{
    return reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED ||
           reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA ||
           reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
           reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE ||
           reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED ||
           reason == SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED ||
           reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN ||
           reason == SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE;
}

/* pem_password_cb: where there is no terminal. */
static int no_password(char *buf, int size, int is_writing, void *arg)
{
    (void)buf;
    (void)size;
    (void)is_writing;
    (void)arg;
    return -1;
}

static bool trust(SSL_CTX *context, const struct link_target *target)
{
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    return target->ca != NULL ? SSL_CTX_load_verify_file(context, target->ca) == 1
                              : SSL_CTX_set_default_verify_paths(context) == 1;
}

/* Returns the file that cannot be used, or NULL. */
static const char *identify(SSL_CTX *context, const struct link_target *target)
{
    const char *key = target->key != NULL ? target->key : target->cert;

    if (target->cert == NULL) {
        return NULL;
    }
    if (SSL_CTX_use_certificate_chain_file(context, target->cert) != 1) {
        return target->cert;
    }
    return SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1 &&
                   SSL_CTX_check_private_key(context) == 1
               ? NULL
               : key;
}

/* The certificate is to be this host's. */
static bool expect(SSL *ssl, const struct link_target *target)
{
    const char *name = target->tls_name != NULL ? target->tls_name : target->host;
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

    if (name == NULL) {
        return true; /* a unix socket */
    }
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1) {
        return true;
    }
    ERR_clear_error();
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

void link_tls_prepare(void)
{
    (void)OPENSSL_init_ssl(0, NULL);
}

struct link_tls *link_tls_create(const struct link_target *target, int fd, char *why,
                                 size_t why_bytes)
{
    struct link_tls *t = mem_zalloc(sizeof(*t));
    const char *file;

    if (t == NULL) {
        snprintf(why, why_bytes, "no memory");
        return NULL;
    }
    t->ca_option = target->ca_option;
    t->cert_option = target->cert_option;
    t->name_option = target->name_option;
    t->context = SSL_CTX_new(TLS_client_method());
    if (t->context != NULL && !target->has_terminal) {
        SSL_CTX_set_default_passwd_cb(t->context, no_password);
    }
    if (t->context == NULL) {
        explain(why, why_bytes, "TLS");
    } else if (!trust(t->context, target)) {
        explain(why, why_bytes, target->ca != NULL ? target->ca : "the system's certificates");
    } else if ((file = identify(t->context, target)) != NULL) {
        explain(why, why_bytes, file);
    } else {
        t->ssl = SSL_new(t->context);
        if (t->ssl != NULL && expect(t->ssl, target) && SSL_set_fd(t->ssl, fd) == 1) {
            SSL_set_connect_state(t->ssl);
            return t;
        }
        explain(why, why_bytes, "TLS");
    }
    link_tls_destroy(&t);
    return NULL;
}

void link_tls_destroy(struct link_tls **t)
{
    if (*t != NULL) {
        SSL_free((*t)->ssl);
        SSL_CTX_free((*t)->context);
        mem_free(*t);
        *t = NULL;
    }
}

static ssize_t outcome(struct link_tls *t, int result)
{
    int error = SSL_get_error(t->ssl, result);

    switch (error) {
    case SSL_ERROR_WANT_READ:
        return LINK_TLS_WANTS_READ;
    case SSL_ERROR_WANT_WRITE:
        return LINK_TLS_WANTS_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        break;
    }
    long verdict = SSL_get_verify_result(t->ssl);
    if (verdict != X509_V_OK) {
        snprintf(t->why, sizeof(t->why), "the certificate of the server: %s",
                 X509_verify_cert_error_string(verdict));
        add_hint(t, "", option_of_verdict(t, verdict));
        ERR_clear_error();
    } else if (error == SSL_ERROR_SYSCALL && ERR_peek_error() == 0) {
        snprintf(t->why, sizeof(t->why), "TLS: the server closed the connection");
    } else {
        const int reason = ERR_GET_REASON(ERR_peek_error());

        explain(t->why, sizeof(t->why), "TLS");
        if (is_about_our_certificate(reason)) {
            add_hint(t, "the server wants another certificate: ", t->cert_option);
        } else if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
            add_hint(t, "the server does not speak TLS at this port", "");
        }
    }
    return LINK_TLS_FAILED;
}

ssize_t link_tls_greet(struct link_tls *t)
{
    ERR_clear_error();
    int result = SSL_do_handshake(t->ssl);
    return result == 1 ? 1 : outcome(t, result);
}

ssize_t link_tls_read(struct link_tls *t, void *out, size_t n)
{
    ERR_clear_error();
    int result = SSL_read(t->ssl, out, n > INT32_MAX ? INT32_MAX : (int)n);
    return result > 0 ? result : outcome(t, result);
}

ssize_t link_tls_write(struct link_tls *t, const void *bytes, size_t n)
{
    ERR_clear_error();
    int result = SSL_write(t->ssl, bytes, n > INT32_MAX ? INT32_MAX : (int)n);
    return result > 0 ? result : outcome(t, result);
}

const char *link_tls_why(const struct link_tls *t)
{
    return t->why;
}
