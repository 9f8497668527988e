/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link over TLS, against a server of OpenSSL's in a thread of its own: bytes that are cut
 * anywhere arrive, whether they go through the buffer of the link or straight to the caller,
 * and a wrong certificate is refused.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "lib/base/mem.h"
#include "lib/link/link.h"
#include "tests/common/folder.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"
#include "tests/daemon/net/key_pair.h"
#include "tests/lib/link/into.h"

#define STREAM_BYTES 600011u

static char chain[96];
static char key[96];
static char port[8];
static int listener;
static int cancel;
static char *stream;
static struct rng rng;
static struct rng sender;
static struct link_target target;
static struct link *l;
static char why[400];

static void setup(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(a);

    folder_make();
    snprintf(chain, sizeof(chain), "%s/chain", folder);
    snprintf(key, sizeof(key), "%s/key", folder);
    key_pair_write("cache.example", chain, key);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
    ck_assert_int_eq(listen(listener, 4), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    snprintf(port, sizeof(port), "%u", ntohs(a.sin_port));
    cancel = eventfd(0, EFD_CLOEXEC);
    rng_init(&rng, rng_seed());
    stream = mem_alloc(STREAM_BYTES);
    for (size_t i = 0; i < STREAM_BYTES; i++) {
        stream[i] = (char)rng_next(&rng);
    }
    sender = rng;
    target = (struct link_target){.host = "127.0.0.1",
                                  .port = port,
                                  .uses_tls = true,
                                  .ca = chain,
                                  .tls_name = "cache.example",
                                  .timeout_ms = MSEC_NEVER,
                                  .cancel = &cancel};
}

static void teardown(void)
{
    link_close(&l);
    mem_free(stream);
    close(cancel);
    close(listener);
    folder_remove();
}

TEST_FIXTURE(setup, teardown)

/* Take one connection, and the stream from it, and send the stream; then wait for its end. */
static void *serve(void *arg)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    char *got = mem_alloc(STREAM_BYTES);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    size_t at = 0;
    char end;

    ck_assert(SSL_CTX_use_certificate_file(context, chain, SSL_FILETYPE_PEM) == 1);
    ck_assert(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1);
    SSL *ssl = SSL_new(context);
    ck_assert(fd >= 0 && SSL_set_fd(ssl, fd) == 1);
    if (SSL_accept(ssl) == 1) {
        for (int n = 1; at < STREAM_BYTES && n > 0; at += n > 0 ? (size_t)n : 0) {
            n = SSL_read(ssl, got + at, (int)(STREAM_BYTES - at));
        }
        ck_assert(at == STREAM_BYTES && memcmp(got, stream, STREAM_BYTES) == 0);
        for (at = 0; at < STREAM_BYTES;) {
            size_t n = 1 + rng_below(&sender, 30011);

            n = n < STREAM_BYTES - at ? n : STREAM_BYTES - at;
            ck_assert(SSL_write(ssl, stream + at, (int)n) == (int)n);
            at += n;
        }
        (void)SSL_read(ssl, &end, 1);
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(fd);
    mem_free(got);
    return NULL;
}

TEST(a_stream_arrives_whole_in_both_directions)
{
    pthread_t thread;
    char *out = mem_alloc(STREAM_BYTES);
    const uint64_t one = 1;
    size_t at = 0;

    ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
    l = link_open(&target, why, sizeof(why));
    ck_assert_msg(l != NULL, "%s", why);
    ck_assert_int_eq(link_send(l, span_of(stream, STREAM_BYTES)), LINK_OK);
    while (at < STREAM_BYTES) {
        size_t n = 1 + rng_below(&rng, rng_below(&rng, 2) == 0 ? 97 : 40009);
        size_t got;
        struct span bytes;

        n = n < STREAM_BYTES - at ? n : STREAM_BYTES - at;
        got = n;
        switch (rng_below(&rng, 3)) {
        case 0:
            ck_assert(link_bytes(l, n, &bytes) == LINK_OK && bytes.len == n);
            memcpy(out + at, bytes.ptr, n);
            break;
        case 1:
            ck_assert(link_some(l, out + at, n, &got) == LINK_OK && got > 0 && got <= n);
            break;
        default:
            ck_assert(link_into(l, out + at, n) == LINK_OK);
            break;
        }
        at += got;
    }
    ck_assert_int_eq(memcmp(out, stream, STREAM_BYTES), 0);
    ck_assert_int_eq(write(cancel, &one, sizeof(one)), sizeof(one));
    ck_assert_int_eq(link_into(l, out, 1), LINK_INTERRUPTED);
    link_close(&l);
    pthread_join(thread, NULL);
    mem_free(out);
}

TEST(a_certificate_of_another_name_is_refused)
{
    pthread_t thread;

    target.tls_name = "other.example";
    ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
    l = link_open(&target, why, sizeof(why));
    ck_assert_ptr_null(l);
    ck_assert_ptr_nonnull(strstr(why, "the certificate of the server: "));
    ck_assert_ptr_null(strchr(why, '('));
    pthread_join(thread, NULL);

    target.name_option = "the name";
    ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
    l = link_open(&target, why, sizeof(why));
    ck_assert_ptr_null(l);
    ck_assert_ptr_nonnull(strstr(why, "mismatch (the name)"));
    pthread_join(thread, NULL);
}

TEST(a_certificate_of_another_authority_is_refused)
{
    char other[96];
    char its_key[96];
    pthread_t thread;

    snprintf(other, sizeof(other), "%s/other", folder);
    snprintf(its_key, sizeof(its_key), "%s/other.key", folder);
    key_pair_write("authority.example", other, its_key);
    target.ca = other;
    target.ca_option = "the authorities";
    ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
    l = link_open(&target, why, sizeof(why));
    ck_assert_ptr_null(l);
    ck_assert_ptr_nonnull(strstr(why, "the certificate of the server: "));
    ck_assert_ptr_nonnull(strstr(why, " (the authorities)"));
    pthread_join(thread, NULL);
}

/* The server is not asked before they are read, but it is connected to. */
TEST(files_that_cannot_be_used_are_named)
{
    char none[96];

    snprintf(none, sizeof(none), "%s/none", folder);
    target.ca = none;
    l = link_open(&target, why, sizeof(why));
    ck_assert_ptr_null(l);
    ck_assert_msg(strstr(why, "/none: No such file or directory") != NULL, "%s", why);
    target.ca = chain;
    target.cert = key;
    l = link_open(&target, why, sizeof(why));
    ck_assert_ptr_null(l);
    ck_assert_msg(strstr(why, "/key: ") != NULL, "%s", why);
}

/* It sends an alert, in TLS 1.3 after our side of the handshake has ended. */
static void *want_a_certificate(void *arg)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    SSL_CTX_set_max_proto_version(context, *(const int *)arg);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    ck_assert(SSL_CTX_use_certificate_file(context, chain, SSL_FILETYPE_PEM) == 1);
    ck_assert(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1);
    SSL *ssl = SSL_new(context);
    ck_assert(fd >= 0 && SSL_set_fd(ssl, fd) == 1);
    ck_assert(SSL_accept(ssl) != 1);
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(fd);
    return NULL;
}

TEST(a_server_that_wants_a_certificate_is_understood)
{
    int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    struct span line;

    target.cert_option = "our certificate";
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, want_a_certificate, &versions[i]), 0);
        l = link_open(&target, why, sizeof(why));
        if (l != NULL) {
            ck_assert_int_eq(link_line(l, &line), LINK_BROKEN);
            snprintf(why, sizeof(why), "%s", link_why(l));
        }
        ck_assert_msg(strstr(why, "wants another certificate: our certificate") != NULL, "%s",
                      why);
        link_close(&l);
        pthread_join(thread, NULL);
    }
}

/* A key with a password is refused without a question, as nobody is there to answer. */
TEST(a_key_with_a_password_is_refused)
{
    char locked[96];
    EVP_PKEY *pair = EVP_EC_gen("P-256");

    snprintf(locked, sizeof(locked), "%s/locked", folder);
    FILE *f = fopen(locked, "w");
    ck_assert_int_eq(PEM_write_PrivateKey(f, pair, EVP_aes_256_cbc(), (unsigned char *)"secret",
                                          6, NULL, NULL),
                     1);
    fclose(f);
    EVP_PKEY_free(pair);
    target.cert = chain;
    target.key = locked;
    l = link_open(&target, why, sizeof(why));
    ck_assert_ptr_null(l);
    ck_assert_msg(strstr(why, "/locked: ") != NULL, "%s", why);
}
