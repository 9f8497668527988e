/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that speak TLS, with OpenSSL as the client: handshakes that have to wait their
 * turn, and those that come while the server stops. The key and the certificate are made here,
 * in a folder that is removed afterwards.
 */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

#include "daemon/conn/conn_steps.h"
#include "daemon/net/tls.h"
#include "tests/common/folder.h"
#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"
#include "tests/daemon/net/key_pair.h"

#define FLOODS      60
#define FLOOD_LINES 400u

static char chain[96];
static char key[96];
static SSL_CTX *client_context;

static const struct conn_origin secure = {.transport = CONN_TLS, .rights = RIGHTS_OPERATOR};

static struct tls *tls;

static void setup(void)
{
    folder_make();
    snprintf(chain, sizeof(chain), "%s/chain", folder);
    snprintf(key, sizeof(key), "%s/key", folder);
    key_pair_write("solo", chain, key);
    settings_init(&solo.settings);
    solo.settings.ssl_enabled = true;
    solo.settings.ssl_chain_cert = chain;
    solo.settings.ssl_key = key;
    ck_assert_int_eq(tls_open(&solo.settings, &tls), 0);
    solo_start(64 * (uint64_t)MIB);
    solo.crew.tls = tls;
    client_context = SSL_CTX_new(TLS_client_method());
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
}

static void teardown(void)
{
    if (solo.worker != NULL) {
        solo_stop();
    }
    solo.origin = NULL;
    SSL_CTX_free(client_context);
    tls_close(tls);
    solo.settings.ssl_chain_cert = NULL; /* ours */
    solo.settings.ssl_key = NULL;
    settings_fini(&solo.settings);
    folder_remove();
}

TEST_FIXTURE(setup, teardown)

static SSL *dial_tls(int *fd)
{
    SSL *client = SSL_new(client_context);

    solo.origin = &secure;
    *fd = wire_dial(0);
    solo.origin = NULL;
    ck_assert_int_eq(SSL_set_fd(client, *fd), 1);
    SSL_set_connect_state(client);
    return client;
}

/* Send the first bytes of a handshake, and do not wait for an answer. */
static void say_hello(SSL *client)
{
    BIO *out = BIO_new(BIO_s_mem());
    BIO *in = BIO_new(BIO_s_mem());
    int fd = SSL_get_fd(client);
    char *bytes;

    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(client, in, out);
    ck_assert_int_ne(SSL_do_handshake(client), 1);
    long n = BIO_get_mem_data(out, &bytes);
    wire_put(fd, bytes, (size_t)n);
    ERR_clear_error();
    BIO_up_ref(in);
    SSL_set_fd(client, fd); /* it goes on with the socket */
    BIO_free(in);
}

static void expect_version(SSL *client)
{
    static const char version[] = "VERSION 1.6.45\r\n";
    char got[sizeof(version)];
    size_t n = 0;

    ck_assert_msg(SSL_write(client, "version\r\n", 9) == 9, "the connection was closed");
    while (n < sizeof(version) - 1) {
        int more = SSL_read(client, got + n, (int)(sizeof(version) - 1 - n));

        ck_assert_msg(more > 0, "the connection was closed");
        n += (size_t)more;
    }
    ck_assert_int_eq(memcmp(got, version, n), 0);
}

/* More time than a handshake may take has passed. */
static void pass_time(struct worker *w)
{
    for (struct conn *c = w->conns->first; c != NULL; c = c->next) {
        c->deadline_since -= 2 * TLS_HANDSHAKE_MS;
    }
    conn_pace_check_deadlines(w);
}

/* Its event comes when the turn of the loop has done enough: it is a handshake all the same. */
TEST(a_handshake_that_has_to_wait_goes_on)
{
    int floods[FLOODS];
    struct solo_errand pause;
    int fd;

    for (unsigned i = 0; i < FLOODS; i++) {
        floods[i] = wire_dial(0);
    }
    SSL *client = dial_tls(&fd); /* last, so that its event is the last too */
    solo_pause(&pause);
    for (unsigned i = 0; i < FLOODS; i++) {
        wire_put_increments(floods[i], FLOOD_LINES);
    }
    say_hello(client);
    solo_resume(&pause);
    ck_assert_int_eq(SSL_do_handshake(client), 1);
    expect_version(client);
    ck_assert_uint_gt(solo_counter(CTR_conn_deferrals), 0);
    for (unsigned i = 0; i < FLOODS; i++) {
        wire_expect(floods[i], "VERSION 1.6.45\r\n");
        close(floods[i]);
    }
    /* It is over in time, so its limit is no more. */
    solo_run(pass_time);
    expect_version(client);
    SSL_free(client);
    close(fd);
}

/* A handshake that begins only when the server stops is not waited for. */
TEST(a_handshake_that_comes_with_the_stop_is_not_begun)
{
    struct solo_errand pause;
    char byte;
    int fd;

    solo_pause(&pause);
    worker_stop(solo.worker);
    SSL *client = dial_tls(&fd);
    say_hello(client);
    solo_resume(&pause);
    ck_assert_int_le(recv(fd, &byte, 1, 0), 0);
    SSL_free(client);
    close(fd);
    solo_end();
}

static enum conn_state state_seen;
static bool is_in[DEADLINES];

static void see(struct worker *w)
{
    state_seen = (enum conn_state)w->conns->first->state;
    for (unsigned i = 0; i < DEADLINES; i++) {
        is_in[i] = !list_is_empty(&w->conns->deadlines[i]);
    }
}

static char users[] = "users";

/* One place is enough: the limits follow each other. */
TEST(the_time_for_a_login_begins_after_the_handshake)
{
    char byte;
    int fd;

    solo.settings.auth_file = users; /* never read */
    SSL *client = dial_tls(&fd);
    solo_run(see);
    ck_assert_int_eq(state_seen, CONN_SHAKES);
    ck_assert(is_in[DEADLINE_HANDSHAKE] && !is_in[DEADLINE_LOGIN]);
    ck_assert_int_eq(SSL_do_handshake(client), 1);
    ck_assert_int_eq(SSL_write(client, "get k\r\n", 7), 7);
    ck_assert_int_eq(SSL_read(client, &byte, 1), 1); /* of the refusal */
    solo_run(see);
    ck_assert_int_eq(state_seen, CONN_INPUT);
    ck_assert(!is_in[DEADLINE_HANDSHAKE] && is_in[DEADLINE_LOGIN]);
    solo.settings.auth_file = NULL;
    SSL_free(client);
    close(fd);
}
