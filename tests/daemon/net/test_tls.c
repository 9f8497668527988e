/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS sessions over socket pairs, with OpenSSL as the client: bytes sent in arbitrary portions
 * arrive, wherever the socket cuts a write short; received bytes are read to their end without
 * waiting for events that never come; ends are announced; certificates are replaced. Keys and
 * certificates are made here, in a folder that is removed afterwards.
 */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "daemon/net/tls.h"
#include "daemon/net/tls_session.h"
#include "daemon/options/settings.h"
#include "lib/base/clock.h"
#include "lib/base/counters.h"
#include "tests/common/folder.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"
#include "tests/daemon/net/key_pair.h"

#define STREAM_BYTES (600u * 1024)
#define PARTS_MAX    64u

static char chain[96];
static char key[96];
static struct settings settings;
static struct counters counters;
static struct tls_worker worker;
static struct tls *tls;
static struct tls_session *session;
static SSL_CTX *client_context;
static SSL *client;
static int fds[2];
static char *stream;
static char *got;

/* Seconds that the wall clock is ahead. */
static time_t clock_ahead_s;

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int result = __real_clock_gettime(id, t);

    t->tv_sec += id == CLOCK_REALTIME ? clock_ahead_s : 0;
    return result;
}

/* ---- certificates ------------------------------------------------------------------------ */

static void write_pair(const char *name)
{
    key_pair_write(name, chain, key);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    ck_assert_int_ge(fputs(text, f), 0);
    fclose(f);
}

/* ---- two ends ---------------------------------------------------------------------------- */

static void setup(void)
{
    clock_ahead_s = 0;
    folder_make();
    snprintf(chain, sizeof(chain), "%s/chain", folder);
    snprintf(key, sizeof(key), "%s/key", folder);
    write_pair("first");
    settings_init(&settings);
    settings.ssl_enabled = true;
    settings.ssl_chain_cert = chain;
    settings.ssl_key = key;
    memset(&counters, 0, sizeof(counters));
    ck_assert_int_eq(tls_open(&settings, &tls), 0);
    ck_assert(tls_worker_init(&worker, &settings, &counters));
    client_context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_mode(client_context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    stream = malloc(STREAM_BYTES);
    got = malloc(STREAM_BYTES);
    session = NULL;
    client = NULL;
}

/* A pair of sockets that takes little at once, and both ends of a session over it. */
static void dial(void)
{
    int small = 4096;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    session = tls_session_create(tls_take_context(tls), &worker, fds[0], TLS_VERIFY_BY_MODE);
    ck_assert_ptr_nonnull(session);
    client = SSL_new(client_context);
    ck_assert_int_eq(SSL_set_fd(client, fds[1]), 1);
    SSL_set_connect_state(client);
}

static void hang_up(void)
{
    if (session != NULL) {
        tls_session_destroy(session);
        SSL_free(client);
        close(fds[0]);
        close(fds[1]);
        session = NULL;
    }
}

static void teardown(void)
{
    hang_up();
    free(got);
    free(stream);
    SSL_CTX_free(client_context);
    tls_worker_fini(&worker);
    tls_close(tls);
    settings.ssl_chain_cert = NULL; /* ours */
    settings.ssl_key = NULL;
    settings_fini(&settings);
    folder_remove();
}

TEST_FIXTURE(setup, teardown)

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void shake_hands(void)
{
    enum tls_step step = TLS_WANTS_READ;
    bool client_is_open = false;

    dial();
    while (step != TLS_OPEN || !client_is_open) {
        step = tls_handshake(session);
        ck_assert_int_ne(step, TLS_FAILED);
        client_is_open = SSL_do_handshake(client) == 1;
        ERR_clear_error();
    }
}

static void fill_stream(struct rng *rng)
{
    for (size_t i = 0; i < STREAM_BYTES; i++) {
        stream[i] = (char)rng_below(rng, 256);
    }
}

/* ---- sending ----------------------------------------------------------------------------- */

/* Offer a run of bytes in random parts, each at a fresh address. */
static ssize_t offer(struct rng *rng, const char *from, size_t len)
{
    struct iovec iov[PARTS_MAX];
    char *copy = malloc(len);
    unsigned n = 0;
    size_t at = 0;

    memcpy(copy, from, len);
    while (at < len) {
        size_t most = rng_below(rng, 2) == 0 ? 300 : 50000;
        size_t take = n + 1 < PARTS_MAX ? rng_below(rng, (uint32_t)most) : len - at;

        take = take < len - at ? take : len - at;
        iov[n++] = (struct iovec){copy + at, take}; /* sometimes empty */
        at += take;
    }
    ssize_t sent = tls_sendv(session, iov, n);
    free(copy);
    return sent;
}

/* The client reads what has arrived, if anything; returns the new sum. */
static size_t take(struct rng *rng, size_t have)
{
    int n = SSL_read(
        client, got + have,
        (int)(1 + rng_below(rng, (uint32_t)(STREAM_BYTES - have < 40000 ? STREAM_BYTES - have
                                                                        : 40000))));

    ERR_clear_error();
    return n > 0 ? have + (size_t)n : have;
}

TEST(what_is_sent_arrives)
{
    uint64_t seed = rng_seed();
    struct rng rng;

    printf("seed %llu\n", (unsigned long long)seed);
    rng_init(&rng, seed);
    for (unsigned round = 0; round < 8; round++) {
        size_t composed = 0; /* what may be sent by now */
        size_t sent = 0;
        size_t have = 0;

        fill_stream(&rng);
        shake_hands();
        while (have < STREAM_BYTES) {
            composed += rng_below(&rng, 60000);
            composed = composed < STREAM_BYTES ? composed : STREAM_BYTES;
            if (sent < composed) {
                ssize_t n = offer(&rng, stream + sent, composed - sent);

                ck_assert(n > 0 || errno == EAGAIN);
                sent += n > 0 ? (size_t)n : 0;
                ck_assert_uint_le(sent, composed);
            }
            for (uint32_t i = rng_below(&rng, 8); i > 0 && have < STREAM_BYTES; i--) {
                have = take(&rng, have);
            }
        }
        ck_assert_int_eq(memcmp(got, stream, STREAM_BYTES), 0);
        hang_up();
    }
}

/* Take the raw bytes that the client wrote. */
static void *drain(void *arg)
{
    static char bytes[65536];

    while (read(fds[1], bytes, sizeof(bytes)) > 0) {
    }
    return NULL;
}

/* Even a socket that takes everything gets no more in one turn: others wait for theirs. */
TEST(a_turn_of_sending_is_bounded)
{
    const size_t all = 4 * (size_t)TLS_TURN_BYTES;
    struct iovec iov = {.iov_base = calloc(1, all), .iov_len = all};
    pthread_t drainer;

    shake_hands();
    /* Sends wait for the other side, so none is cut short. */
    ck_assert_int_eq(fcntl(fds[0], F_SETFL, 0), 0);
    ck_assert_int_eq(fcntl(fds[1], F_SETFL, 0), 0);
    ck_assert_int_eq(pthread_create(&drainer, NULL, drain, NULL), 0);
    ssize_t n = tls_sendv(session, &iov, 1);
    ck_assert_int_ge(n, (ssize_t)TLS_TURN_BYTES);
    ck_assert_int_le(n, (ssize_t)(TLS_TURN_BYTES + 64 * 1024));
    pthread_cancel(drainer); /* it is in read(), or will be */
    pthread_join(drainer, NULL);
    free(iov.iov_base);
}

/* ---- reading ----------------------------------------------------------------------------- */

static ssize_t read_parts(struct rng *rng, char *to, size_t room)
{
    struct iovec iov[2];
    size_t first = 1 + rng_below(rng, 40000);

    first = first < room ? first : room;
    iov[0] = (struct iovec){to, first};
    iov[1] = (struct iovec){to + first, room - first};
    return tls_readv(session, iov, room > first ? 2 : 1);
}

/*
 * The server reads only when the socket is readable or the session says so; if that were wrong,
 * the exchange would hang.
 */
TEST(what_comes_is_read)
{
    struct rng rng;

    rng_init(&rng, rng_seed() + 1);
    for (unsigned round = 0; round < 8; round++) {
        size_t sent = 0;
        size_t owed = 0; /* left by a write that the socket did not take */
        size_t have = 0;

        fill_stream(&rng);
        shake_hands();
        while (have < STREAM_BYTES) {
            bool moved = false;

            if (sent < STREAM_BYTES) {
                if (owed == 0) {
                    owed = 1 + rng_below(&rng, rng_below(&rng, 2) == 0 ? 100 : 40000);
                    owed = owed < STREAM_BYTES - sent ? owed : STREAM_BYTES - sent;
                }
                int done = SSL_write(client, stream + sent, (int)owed);
                owed = done > 0 ? 0 : owed; /* or it has to be tried again as it was */
                ERR_clear_error();
                moved = done > 0;
                sent += done > 0 ? (size_t)done : 0;
            }
            if (is_readable(fds[0]) || tls_has_more(session)) {
                size_t room = 1 + rng_below(&rng, rng_below(&rng, 2) == 0 ? 1000 : 100000);

                room = room < STREAM_BYTES - have ? room : STREAM_BYTES - have;
                ssize_t n = read_parts(&rng, got + have, room);
                ck_assert(n > 0 || errno == EAGAIN);
                have += n > 0 ? (size_t)n : 0;
                moved = true;
            }
            ck_assert_msg(moved, "stuck at %zu of %zu, of which %zu were sent", have,
                          (size_t)STREAM_BYTES, sent);
        }
        ck_assert_int_eq(memcmp(got, stream, STREAM_BYTES), 0);
        ck_assert(!tls_has_more(session) || tls_readv(session, &(struct iovec){got, 1}, 1) < 0);
        hang_up();
    }
}

TEST(end_after_data_is_seen)
{
    char byte;
    char room[64];

    shake_hands();
    ck_assert_int_eq(SSL_write(client, "last", 4), 4);
    SSL_shutdown(client);
    ck_assert(is_readable(fds[0]));
    ck_assert_int_eq(tls_readv(session, &(struct iovec){room, sizeof(room)}, 1), 4);
    /* All bytes of the socket are taken, the end too: the session must report it. */
    ck_assert(is_readable(fds[0]) || tls_has_more(session));
    ck_assert_int_eq(tls_readv(session, &(struct iovec){&byte, 1}, 1), 0);
    ck_assert_int_eq(tls_readv(session, &(struct iovec){&byte, 1}, 1), 0);
}

/* Many records of one byte: a turn takes some of them, and reports that there are more. */
TEST(tiny_records_do_not_hold_a_turn)
{
    const size_t all = 3000;
    struct iovec room = {got, STREAM_BYTES};
    int large = 1 << 20;
    size_t have = 0;
    char *bytes;
    BIO *made = BIO_new(BIO_s_mem());

    memset(stream, 'x', all);
    shake_hands();
    setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &large, sizeof(large));
    SSL_set0_wbio(client, made);
    for (size_t i = 0; i < all; i++) {
        ck_assert_int_eq(SSL_write(client, stream, 1), 1);
    }
    long len = BIO_get_mem_data(made, &bytes);
    ck_assert_int_eq(write(fds[1], bytes, (size_t)len), len); /* all of them are there */
    while (have < all) {
        ck_assert(is_readable(fds[0]) || tls_has_more(session));
        ssize_t n = tls_readv(session, &room, 1);
        ck_assert_int_gt(n, 0);
        ck_assert_int_le(n, 500);
        have += (size_t)n;
    }
    ck_assert_uint_eq(have, all);
}

/* ---- records without data ---------------------------------------------------------------- */

/* The client notes what it writes instead of sending it, until push_notes(). */
static BIO *note_writes(void)
{
    BIO *made = BIO_new(BIO_s_mem());

    SSL_set0_wbio(client, made);
    return made;
}

/* All of it is there before the server looks. */
static void push_notes(BIO *made)
{
    int large = 1 << 20;
    char *bytes;
    long len = BIO_get_mem_data(made, &bytes);

    setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &large, sizeof(large));
    ck_assert_int_eq(write(fds[1], bytes, (size_t)len), len);
    ck_assert_int_eq(BIO_reset(made), 1);
}

static void renew_keys(unsigned times)
{
    while (times-- > 0) {
        ck_assert_int_eq(SSL_key_update(client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        ck_assert_int_eq(SSL_do_handshake(client), 1);
    }
}

static ssize_t read_once(size_t room)
{
    return tls_readv(session, &(struct iovec){got, room}, 1);
}

TEST(some_records_without_data_are_welcome)
{
    BIO *made;

    shake_hands();
    made = note_writes();
    for (unsigned round = 0; round < 100; round++) {
        renew_keys(1);
        ck_assert_int_eq(SSL_write(client, stream, 16 * 1024), 16 * 1024);
        push_notes(made);
        for (size_t have = 0; have < 16 * 1024;) {
            ssize_t n = read_once(16 * 1024);

            ck_assert_int_gt(n, 0);
            have += (size_t)n;
        }
    }
    renew_keys(20);
    push_notes(made);
    ck_assert_int_eq(read_once(100), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_eq(ctr_get(&counters, CTR_ssl_floods), 0);
}

/* A peer that renews its keys without end is closed, even if it mixes that with some data. */
TEST(too_many_records_without_data_end_the_session)
{
    for (unsigned data = 0; data <= 1; data++) {
        BIO *made;
        ssize_t n;
        size_t have = 0;

        shake_hands();
        made = note_writes();
        for (unsigned i = 0; i < 300; i++) {
            renew_keys(1);
            if (data > 0) {
                ck_assert_int_eq(SSL_write(client, stream, 1), 1);
            }
        }
        push_notes(made);
        while ((n = read_once(1000)) > 0) {
            have += (size_t)n;
        }
        ck_assert_int_eq(n, -1);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_uint_lt(have, 100);
        ck_assert_uint_eq(ctr_get(&counters, CTR_ssl_floods), data + 1);
        ck_assert_int_eq(read_once(1000), -1);
        hang_up();
    }
    ck_assert_uint_eq(ctr_get(&counters, CTR_ssl_proto_errors), 0);
}

/* A handshake in records of one byte: given up long before all of them are looked at. */
TEST(records_of_a_handshake_are_bounded)
{
    enum { RECORDS = 2000 };
    static char bytes[RECORDS * 6];
    int large = 1 << 20;

    for (unsigned i = 0; i < RECORDS; i++) {
        static const char hello[] = {1, 0, 0x7f, 0x00}; /* a long ClientHello begins */

        memcpy(bytes + (size_t)i * 6, "\x16\x03\x01\x00\x01", 5);
        bytes[(size_t)i * 6 + 5] = i < sizeof(hello) ? hello[i] : 3;
    }
    dial();
    setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &large, sizeof(large));
    ck_assert_int_eq(write(fds[1], bytes, sizeof(bytes)), sizeof(bytes));
    ck_assert_int_eq(tls_handshake(session), TLS_FAILED);
    ck_assert_uint_eq(ctr_get(&counters, CTR_ssl_handshake_errors), 1);
    ck_assert_uint_eq(ERR_peek_error(), 0);
}

/*
 * A peer may ask for new keys, and a read writes the answer. When the peer takes no answers,
 * reading waits for room in the socket, then continues.
 */
TEST(reading_may_wait_for_room)
{
    size_t sent = 0;
    size_t have = 0;
    char byte;

    memset(stream, 'x', STREAM_BYTES);
    shake_hands();
    while (!tls_read_wants_write(session)) {
        ck_assert_int_eq(SSL_key_update(client, SSL_KEY_UPDATE_REQUESTED), 1);
        ck_assert_int_eq(SSL_write(client, stream, 1), 1);
        sent++;
        ssize_t n = tls_readv(session, &(struct iovec){got, 100}, 1);
        ck_assert(n > 0 || errno == EAGAIN);
        have += n > 0 ? (size_t)n : 0;
        ck_assert_uint_lt(sent, 10000);
    }
    ck_assert(!tls_has_more(session));
    ck_assert_int_le(SSL_read(client, &byte, 1), 0); /* it takes the answers now */
    ERR_clear_error();
    while (have < sent) {
        ssize_t n = tls_readv(session, &(struct iovec){got, 100}, 1);

        ck_assert_int_gt(n, 0);
        have += (size_t)n;
    }
}

TEST(own_end_is_announced)
{
    char byte;

    shake_hands();
    ck_assert(tls_send_end(session));
    ck_assert(tls_send_end(session));
    ck_assert_int_le(SSL_read(client, &byte, 1), 0);
    ck_assert_int_eq(SSL_get_shutdown(client) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
}

TEST(own_end_waits_for_room)
{
    int least = 1;
    ssize_t n;
    char byte;

    shake_hands();
    memset(stream, 'x', STREAM_BYTES);
    do {
        n = tls_sendv(session, &(struct iovec){stream, 1}, 1);
    } while (n == 1);
    ck_assert_int_eq(errno, EAGAIN);
    /* The byte that was not taken goes first. Then the socket is made to take less. */
    while (tls_sendv(session, &(struct iovec){stream, 1}, 1) != 1) {
        ck_assert_int_eq(SSL_read(client, &byte, 1), 1);
    }
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
    ck_assert(!tls_send_end(session));
    while (!tls_send_end(session)) {
        ck_assert_int_eq(SSL_read(client, &byte, 1), 1);
    }
    while (SSL_read(client, &byte, 1) == 1) {
    }
    ck_assert_int_eq(SSL_get_shutdown(client) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
}

TEST(noise_breaks_the_session)
{
    static const char record[] = "\x17\x03\x03\x00\x10garbagegarbage!!";
    char byte;

    shake_hands();
    ck_assert_int_eq(write(fds[1], record, sizeof(record) - 1), sizeof(record) - 1);
    ck_assert_int_eq(tls_readv(session, &(struct iovec){&byte, 1}, 1), -1);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_uint_eq(ctr_get(&counters, CTR_ssl_proto_errors), 1);
    ck_assert_int_eq(tls_readv(session, &(struct iovec){&byte, 1}, 1), -1);
    ck_assert_int_eq(tls_sendv(session, &(struct iovec){&byte, 1}, 1), -1);
    ck_assert_int_eq(errno, EPIPE);
    ck_assert_uint_eq(ctr_get(&counters, CTR_ssl_proto_errors), 1);
}

/* ---- handshakes -------------------------------------------------------------------------- */

TEST(plain_bytes_fail_the_handshake)
{
    dial();
    ck_assert_int_eq(tls_handshake(session), TLS_WANTS_READ);
    ck_assert_int_eq(write(fds[1], "get key\r\n", 9), 9);
    ck_assert_int_eq(tls_handshake(session), TLS_FAILED);
    ck_assert_uint_eq(ctr_get(&counters, CTR_ssl_handshake_errors), 1);
}

TEST(look_at_the_port_is_no_failure)
{
    dial();
    ck_assert_int_eq(shutdown(fds[1], SHUT_WR), 0);
    ck_assert_int_eq(tls_handshake(session), TLS_FAILED);
    ck_assert_uint_eq(ctr_get(&counters, CTR_ssl_handshake_errors), 0);
}

/* ---- certificates ------------------------------------------------------------------------ */

static void check_subject(const char *name)
{
    char text[64];

    shake_hands();
    X509 *cert = SSL_get1_peer_certificate(client);
    ck_assert_ptr_nonnull(cert);
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, text, sizeof(text));
    ck_assert_str_eq(text, name);
    X509_free(cert);
    hang_up();
}

TEST(certificates_are_exchanged)
{
    char why[TLS_WHY_BYTES];

    check_subject("first");
    shake_hands();
    struct tls_session *before = session;
    write_pair("second");
    usec_t began = clock_mono_us();
    ck_assert_int_eq(tls_reload(tls, why), TLS_RENEWED);
    ck_assert_uint_le(tls_age_s(tls), (uint64_t)(clock_mono_us() - began) / 1000000);
    /* The open session continues. */
    ck_assert_int_eq(tls_sendv(before, &(struct iovec){stream, 5}, 1), 5);
    ck_assert_int_eq(SSL_read(client, got, 100), 5);
    hang_up();
    check_subject("second");
}

TEST(useless_files_change_nothing)
{
    char why[TLS_WHY_BYTES];
    char text[TLS_WHY_BYTES];

    write_text(chain, "no certificate\n");
    ck_assert_int_eq(tls_reload(tls, why), TLS_KEPT);
    snprintf(text, sizeof(text), "Error loading the certificate chain: %s : error:", chain);
    ck_assert_msg(strncmp(why, text, strlen(text)) == 0, "%s", why);
    check_subject("first");
    write_pair("second");
    write_text(key, "no key\n");
    ck_assert_int_eq(tls_reload(tls, why), TLS_KEPT);
    snprintf(text, sizeof(text), "Error loading the key: %s : error:", key);
    ck_assert_msg(strncmp(why, text, strlen(text)) == 0, "%s", why);
    ck_assert_int_eq(unlink(key), 0);
    ck_assert_int_eq(tls_reload(tls, why), TLS_KEPT);
    ck_assert_msg(strstr(why, "No such file or directory") != NULL, "%s", why);
    check_subject("first");
    ck_assert_uint_eq(ERR_peek_error(), 0);
}

TEST(unchanged_files_are_not_read)
{
    char why[TLS_WHY_BYTES];

    /* As new as they are, their next change might have the same time. */
    ck_assert_int_eq(tls_reload(tls, why), TLS_RENEWED);
    clock_ahead_s = 60;
    ck_assert_int_eq(tls_reload(tls, why), TLS_RENEWED);
    SSL_CTX *before = tls_take_context(tls);
    ck_assert_int_eq(tls_reload(tls, why), TLS_UNCHANGED);
    SSL_CTX *after = tls_take_context(tls);
    ck_assert_ptr_eq(before, after);
    SSL_CTX_free(before);
    SSL_CTX_free(after);
    write_pair("second");
    ck_assert_int_eq(tls_reload(tls, why), TLS_RENEWED);
    check_subject("second");
    ck_assert_int_eq(unlink(key), 0);
    ck_assert_int_eq(tls_reload(tls, why), TLS_KEPT);
}

/* The client's session, for another connection. */
static SSL_SESSION *take_ticket(void)
{
    SSL_SESSION *ticket;
    char byte;

    SSL_CTX_set_max_proto_version(client_context, TLS1_2_VERSION);
    shake_hands();
    (void)SSL_read(client, &byte, 1);
    ERR_clear_error();
    ticket = SSL_get1_session(client);
    ck_assert(SSL_SESSION_has_ticket(ticket));
    SSL_set_shutdown(client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    hang_up();
    return ticket;
}

static bool is_resumed(SSL_SESSION *ticket)
{
    enum tls_step step = TLS_WANTS_READ;
    bool client_is_open = false;

    dial();
    SSL_set_session(client, ticket);
    while (step != TLS_OPEN || !client_is_open) {
        step = tls_handshake(session);
        ck_assert_int_ne(step, TLS_FAILED);
        client_is_open = SSL_do_handshake(client) == 1;
        ERR_clear_error();
    }
    bool is_reused = SSL_session_reused(client) == 1;
    SSL_set_shutdown(client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    hang_up();
    return is_reused;
}

/* A new certificate for the same key leaves tickets valid, another key does not. */
TEST(tickets_outlive_certificates_but_not_keys)
{
    SSL_SESSION *ticket = take_ticket();
    char why[TLS_WHY_BYTES];

    ck_assert(is_resumed(ticket));
    FILE *f = fopen(chain, "a"); /* the file changes, the key does not */
    ck_assert_int_ge(fputs("\n", f), 0);
    fclose(f);
    ck_assert_int_eq(tls_reload(tls, why), TLS_RENEWED);
    ck_assert(is_resumed(ticket));
    write_pair("second");
    ck_assert_int_eq(tls_reload(tls, why), TLS_RENEWED);
    ck_assert(!is_resumed(ticket));
    SSL_SESSION_free(ticket);
}

TEST(without_the_option_there_is_nothing)
{
    struct tls_worker none;
    struct tls *off;

    settings.ssl_enabled = false;
    ck_assert_int_eq(tls_open(&settings, &off), 0);
    ck_assert_ptr_null(off);
    tls_close(off);
    ck_assert(tls_worker_init(&none, &settings, &counters));
    ck_assert_ptr_null(none.buf);
    tls_worker_fini(&none);
}
