/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests that speak TLS: a key, and a certificate of it that it has signed itself, in two
 * files.
 */
#ifndef MAYFLY_TESTS_DAEMON_NET_KEY_PAIR_H
#define MAYFLY_TESTS_DAEMON_NET_KEY_PAIR_H

#include <check.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>

/* name: of its subject; chain, key: the files. */
static void key_pair_write(const char *name, const char *chain, const char *key)
{
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_NAME *subject = X509_get_subject_name(cert);

    ck_assert_ptr_nonnull(pair);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1,
                               0);
    X509_set_issuer_name(cert, subject);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, pair);
    ck_assert_int_gt(X509_sign(cert, pair, EVP_sha256()), 0);
    FILE *f = fopen(chain, "w");
    ck_assert_int_eq(PEM_write_X509(f, cert), 1);
    fclose(f);
    f = fopen(key, "w");
    ck_assert_int_eq(PEM_write_PrivateKey(f, pair, NULL, NULL, 0, NULL, NULL), 1);
    fclose(f);
    X509_free(cert);
    EVP_PKEY_free(pair);
}

#endif
