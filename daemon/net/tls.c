/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Certificates and options of TLS, as one immutable OpenSSL context. Each load makes a new
 * context and replaces the old one under a lock. A session has a reference to the context it
 * began with.
 *
 * A new context has new keys for session tickets, or takes over the old ones if neither the
 * server's key nor the file of trusted clients has changed: then a client that may resume a
 * session could also begin one.
 *
 * A load is skipped when the files are those in use, which costs a stat(2) for each. A file
 * that changed so lately that its next change might not show in its times is always read.
 */
#include "daemon/net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>

#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "daemon/net/tls_session.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* Room for the keys of session tickets, bytes. */
#define TICKET_KEYS_MAX 256

/* A file changed less than this before it was looked at may change again unseen, seconds. */
#define SETTLED_S 2

/* What tells one state of a file from another. */
struct tls_file {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified;
    struct timespec changed;
    bool is_settled; /* no later change has the same times */
};

/* The files as they were before they were read. */
struct files_id {
    struct tls_file chain;
    struct tls_file key;
    struct tls_file ca; /* settled zeros when there is none */
};

struct tls {
    /* [const] */
    const struct settings *settings; /* [borrowed] */
    char *chain;                     /* owned; absolute paths of the files */
    char *key;                       /* owned */
    char *ca;                        /* owned; NULL: none */

    struct files_id files; /* those in use; accessed by the thread that loads */

    pthread_mutex_t lock; /* a leaf */
    SSL_CTX *context;     /* [lock] a reference of ours */

    _Atomic usec_t loaded_at; /* [atomic] by clock_mono_us() */
};

/* ---- files ------------------------------------------------------------------------------- */

static struct tls_file identify(const char *path)
{
    struct tls_file id = {.is_settled = false};
    struct stat st;

    if (stat(path, &st) != 0) {
        return id; /* the load says what is wrong */
    }
    id.device = st.st_dev;
    id.inode = st.st_ino;
    id.size = st.st_size;
    id.modified = st.st_mtim;
    id.changed = st.st_ctim;
    id.is_settled = st.st_ctim.tv_sec + SETTLED_S <= clock_real_ns() / 1000000000;
    return id;
}

static struct files_id identify_all(const struct tls *t)
{
    static const struct tls_file none = {.is_settled = true};

    return (struct files_id){
        .chain = identify(t->chain),
        .key = identify(t->key),
        .ca = t->ca != NULL ? identify(t->ca) : none,
    };
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Is a file still what it was when it was read? */
static bool is_same_file(const struct tls_file *then, const struct tls_file *now)
{
    return then->is_settled && then->device == now->device && then->inode == now->inode &&
           then->size == now->size && is_same_time(then->modified, now->modified) &&
           is_same_time(then->changed, now->changed);
}

static bool are_same_files(const struct files_id *then, const struct files_id *now)
{
    return is_same_file(&then->chain, &now->chain) && is_same_file(&then->key, &now->key) &&
           is_same_file(&then->ca, &now->ca);
}

/* ---- one load ---------------------------------------------------------------------------- */

/* Fill why by the oldest error of OpenSSL; without one the file is special. Returns false. */
static bool load_failed(char why[TLS_WHY_BYTES], const char *what, const char *name)
{
    char reason[256] = "not a regular file";
    unsigned long error = ERR_get_error();

    if (error != 0) {
        ERR_error_string_n(error, reason, sizeof(reason));
    }
    snprintf(why, TLS_WHY_BYTES, "Error loading the %s: %s : %s", what, name, reason);
    ERR_clear_error();
    return false;
}

/* A daemon cannot ask for the password of a key. */
static int no_password(char *buf, int size, int is_writing, void *arg)
{
    (void)buf;
    (void)size;
    (void)is_writing;
    (void)arg;
    return -1;
}

static bool load_files(const struct tls *t, SSL_CTX *context, char why[TLS_WHY_BYTES])
{
    const struct settings *s = t->settings;
    const char *key_name = s->ssl_key != NULL ? s->ssl_key : s->ssl_chain_cert;

    if (file_is_special(t->chain) ||
        SSL_CTX_use_certificate_chain_file(context, t->chain) != 1) {
        return load_failed(why, "certificate chain", s->ssl_chain_cert);
    }
    if (file_is_special(t->key) ||
        SSL_CTX_use_PrivateKey_file(context, t->key, (int)s->ssl_keyformat) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        return load_failed(why, "key", key_name);
    }
    if (t->ca != NULL) {
        STACK_OF(X509_NAME) *names =
            file_is_special(t->ca) ? NULL : SSL_load_client_CA_file(t->ca);

        if (names == NULL || SSL_CTX_load_verify_locations(context, t->ca, NULL) != 1) {
            sk_X509_NAME_pop_free(names, X509_NAME_free);
            return load_failed(why, "CA certificate", s->ssl_ca_cert);
        }
        SSL_CTX_set_client_CA_list(context, names); /* takes them */
    }
    return true;
}

/* Which clients, versions and ciphers are accepted. */
static bool set_rules(const struct settings *s, SSL_CTX *context, char why[TLS_WHY_BYTES])
{
    static const int versions[] = {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION,
                                   TLS1_3_VERSION};
    static const int modes[] = {
        SSL_VERIFY_NONE,
        SSL_VERIFY_PEER,
        SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
        SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT | SSL_VERIFY_CLIENT_ONCE,
    };

    SSL_CTX_set_verify(context, modes[s->ssl_verify_mode], NULL);
    if (SSL_CTX_set_min_proto_version(context, versions[s->ssl_min_version]) != 1) {
        return load_failed(why, "minimum version", "ssl_min_version");
    }
    if (s->ssl_ciphers != NULL && SSL_CTX_set_cipher_list(context, s->ssl_ciphers) != 1) {
        ERR_clear_error();
        snprintf(why, TLS_WHY_BYTES, "Error setting the provided cipher(s): %s",
                 s->ssl_ciphers);
        return false;
    }
    return true;
}

static void set_options(const struct settings *s, SSL_CTX *context)
{
    static const unsigned char name[] = "mayfly";
    uint64_t options = SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                       SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                       /* A request shows where it ends: a client may close without notice. */
                       SSL_OP_IGNORE_UNEXPECTED_EOF;

    if (s->ssl_kernel_tls) {
        options |= SSL_OP_ENABLE_KTLS;
    } else {
        /* One read brings the head of a record with its body, instead of two. */
        SSL_CTX_set_read_ahead(context, 1);
    }
    SSL_CTX_set_options(context, options);
    /*
     * What a full socket did not take moves to the output queue, and the buffers of an idle
     * session are released.
     */
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    /* Tickets cost the server nothing and are always issued; this is for clients without. */
    SSL_CTX_set_session_id_context(context, name, sizeof(name) - 1);
    SSL_CTX_set_session_cache_mode(context, s->ssl_session_cache ? SSL_SESS_CACHE_SERVER
                                                                 : SSL_SESS_CACHE_OFF);
    SSL_CTX_sess_set_new_cb(context, tls_session_on_new);
}

/* A context from the files as they are now, or NULL and why. */
static SSL_CTX *load_context(const struct tls *t, char why[TLS_WHY_BYTES])
{
    SSL_CTX *context;

    ERR_clear_error();
    context = SSL_CTX_new(TLS_server_method());
    if (context == NULL) {
        load_failed(why, "library", "OpenSSL");
        return NULL;
    }
    set_options(t->settings, context);
    if (!load_files(t, context, why) || !set_rules(t->settings, context, why)) {
        SSL_CTX_free(context);
        return NULL;
    }
    return context;
}

/* ---- exchange ---------------------------------------------------------------------------- */

SSL_CTX *tls_take_context(struct tls *t)
{
    SSL_CTX *context;

    pthread_mutex_lock(&t->lock);
    context = t->context;
    must(context != NULL);
    SSL_CTX_up_ref(context);
    pthread_mutex_unlock(&t->lock);
    return context;
}

/* Have the sessions of one context resumed by another. */
static void hand_tickets_on(SSL_CTX *from, SSL_CTX *to)
{
    unsigned char keys[TICKET_KEYS_MAX];
    long n = SSL_CTX_get_tlsext_ticket_keys(from, NULL, 0);

    if (n > 0 && (size_t)n <= sizeof(keys) &&
        SSL_CTX_get_tlsext_ticket_keys(from, keys, (size_t)n) == 1) {
        (void)SSL_CTX_set_tlsext_ticket_keys(to, keys, (size_t)n);
    }
    OPENSSL_cleanse(keys, sizeof(keys));
    ERR_clear_error(); /* without them clients begin new sessions */
}

/* May a client that has a ticket of one context come in by the other? */
static bool trusts_the_same(const struct tls *t, const struct files_id *now, SSL_CTX *before,
                            SSL_CTX *after)
{
    return is_same_file(&t->files.ca, &now->ca) &&
           EVP_PKEY_eq(SSL_CTX_get0_privatekey(before), SSL_CTX_get0_privatekey(after)) == 1;
}

static void exchange(struct tls *t, SSL_CTX *context, const struct files_id *files)
{
    SSL_CTX *before = t->context; /* nobody else changes it */

    if (before != NULL && trusts_the_same(t, files, before, context)) {
        hand_tickets_on(before, context);
    }
    pthread_mutex_lock(&t->lock);
    t->context = context;
    pthread_mutex_unlock(&t->lock);
    SSL_CTX_free(before);
    t->files = *files;
}

enum tls_renewal tls_reload(struct tls *t, char why[TLS_WHY_BYTES])
{
    struct files_id files = identify_all(t); /* before they are read: a later change is seen */
    enum tls_renewal result = TLS_UNCHANGED;

    must_not_be_reading();
    if (!are_same_files(&t->files, &files)) {
        SSL_CTX *context = load_context(t, why);

        if (context == NULL) {
            return TLS_KEPT;
        }
        exchange(t, context, &files);
        result = TLS_RENEWED;
    }
    atomic_store_explicit(&t->loaded_at, clock_mono_us(), memory_order_relaxed);
    return result;
}

uint64_t tls_age_s(const struct tls *t)
{
    usec_t loaded_at = atomic_load_explicit(&t->loaded_at, memory_order_relaxed);

    return (uint64_t)(clock_mono_us() - loaded_at) / 1000000;
}

/* ---- life -------------------------------------------------------------------------------- */

static bool set_names(struct tls *t)
{
    const struct settings *s = t->settings;

    t->chain = path_absolute(s->ssl_chain_cert);
    t->key = path_absolute(s->ssl_key != NULL ? s->ssl_key : s->ssl_chain_cert);
    t->ca = s->ssl_ca_cert != NULL ? path_absolute(s->ssl_ca_cert) : NULL;
    return t->chain != NULL && t->key != NULL && (t->ca != NULL || s->ssl_ca_cert == NULL);
}

int tls_open(const struct settings *settings, struct tls **out)
{
    char why[TLS_WHY_BYTES];
    struct tls *t;

    must_be_main();
    *out = NULL;
    if (!settings->ssl_enabled) {
        return 0;
    }
    /*
     * The library must not clean up by itself when the process exits: other threads may still
     * use it.
     */
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) != 1) {
        log_error("tls, cannot start (OpenSSL is not usable)");
        return EX_OSERR;
    }
    t = mem_zalloc(sizeof(*t));
    if (t == NULL) {
        log_error("tls, cannot start (out of memory)");
        return EX_OSERR;
    }
    t->settings = settings;
    pthread_mutex_init(&t->lock, NULL);
    if (!set_names(t)) {
        log_error("tls, cannot start (out of memory)");
        tls_close(t);
        return EX_OSERR;
    }
    if (tls_reload(t, why) == TLS_KEPT) {
        option_fault(settings, OPTION_ssl_enabled, "%s", why);
        tls_close(t);
        return EX_USAGE;
    }
    if (settings->ssl_verify_mode > 0 && settings->ssl_ca_cert == NULL) {
        log_warn("tls, no client certificate will be trusted (ssl_ca_cert is not set)");
    }
    if (settings->udp_port != 0) {
        log_warn("tls, UDP is not encrypted");
    }
    *out = t;
    return 0;
}

void tls_close(struct tls *t)
{
    must_be_main();
    if (t == NULL) {
        return;
    }
    SSL_CTX_free(t->context);
    pthread_mutex_destroy(&t->lock);
    mem_free(t->ca);
    mem_free(t->key);
    mem_free(t->chain);
    mem_free(t);
}
