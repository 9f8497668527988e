/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link, password: against listeners on loopback, whose side of the connection is played here.
 * Time passes only where the test says so: when nothing happens in a wait, the clock goes on by
 * as much as the wait was to take.
 */
#include "lib/link/link.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "lib/base/mem.h"
#include "lib/link/password.h"
#include "tests/common/folder.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"
#include "tests/lib/link/into.h"

static char why[400];

/* ---- time, and what the C library is asked ----------------------------------------------- */

usec_t __real_clock_mono_us(void);
usec_t __wrap_clock_mono_us(void);
int __real_poll(struct pollfd *p, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int timeout_ms);
ssize_t __real_recv(int fd, void *out, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *out, size_t n, int flags);
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
void __real_freeaddrinfo(struct addrinfo *found);
void __wrap_freeaddrinfo(struct addrinfo *found);

static bool is_frozen;
static usec_t now_us;
static const void *received_at;
static struct addrinfo *addresses; /* of the name "many" */
static unsigned looked_up;         /* names that were no numeric address */

usec_t __wrap_clock_mono_us(void)
{
    return is_frozen ? now_us : __real_clock_mono_us();
}

/* A moment for what is on its way; then the time has passed. */
int __wrap_poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
    if (!is_frozen) {
        return __real_poll(p, n, timeout_ms);
    }
    int ready = __real_poll(p, n, 10);
    now_us += ready == 0 ? (usec_t)timeout_ms * 1000 : 0;
    return ready;
}

ssize_t __wrap_recv(int fd, void *out, size_t n, int flags)
{
    ssize_t got = __real_recv(fd, out, n, flags);

    received_at = got > 0 ? out : received_at;
    return got;
}

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    looked_up += (hints->ai_flags & AI_NUMERICHOST) == 0;
    if (strcmp(host, "many") != 0) {
        return __real_getaddrinfo(host, port, hints, found);
    }
    if ((hints->ai_flags & AI_NUMERICHOST) != 0) {
        return EAI_NONAME;
    }
    *found = addresses;
    return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *found)
{
    if (found != addresses) {
        __real_freeaddrinfo(found);
    }
}

/* ---- the other side ---------------------------------------------------------------------- */

/* A listener on loopback, on a port that the system chose. */
static int listen_on(char port[8], int backlog)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    ck_assert_int_eq(listen(fd, backlog), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    snprintf(port, 8, "%u", ntohs(a.sin_port));
    return fd;
}

static int listener;
static int peer;
static int cancel;
static char port[8];
static struct link *l;
static struct link_target target;

static void setup(void)
{
    listener = listen_on(port, 16);
    cancel = eventfd(0, EFD_CLOEXEC);
    ck_assert_int_ge(cancel, 0);
    peer = -1;
    l = NULL;
    is_frozen = false;
    target = (struct link_target){
        .host = "127.0.0.1", .port = port, .timeout_ms = MSEC_NEVER, .cancel = &cancel};
}

static void teardown(void)
{
    link_close(&l);
    ck_assert_ptr_null(l);
    close(listener);
    close(cancel);
    if (peer >= 0) {
        close(peer);
    }
}

TEST_FIXTURE(setup, teardown)

static void open_link(void)
{
    l = link_open(&target, why, sizeof(why));
    ck_assert_msg(l != NULL, "%s", why);
    peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(peer, 0);
}

static void say(const char *text)
{
    ck_assert_int_eq(send(peer, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void stop_waits(void)
{
    const uint64_t one = 1;

    ck_assert_int_eq(write(cancel, &one, sizeof(one)), sizeof(one));
}

static void *stop_waits_late(void *arg)
{
    stop_waits();
    return NULL;
}

/* ---- lines and bytes --------------------------------------------------------------------- */

TEST(a_link_reads_lines_and_bytes_and_sends)
{
    struct span line, bytes;
    char got[8];

    open_link();
    ck_assert(link_is_local(l));
    say("one\r\ntwo\nabcdefthree\r\n");
    ck_assert_int_eq(link_line(l, &line), LINK_OK);
    ck_assert(span_is(line, "one"));
    ck_assert_int_eq(link_line_patiently(l, &line), LINK_OK);
    ck_assert(span_is(line, "two"));
    ck_assert_int_eq(link_bytes(l, 6, &bytes), LINK_OK);
    ck_assert(span_is(bytes, "abcdef"));
    ck_assert_int_eq(link_line(l, &line), LINK_OK);
    ck_assert(span_is(line, "three"));
    ck_assert_int_eq(link_send(l, span_of("hello", 5)), LINK_OK);
    ck_assert_int_eq(recv(peer, got, 5, MSG_WAITALL), 5);
    ck_assert_int_eq(memcmp(got, "hello", 5), 0);
    close(peer);
    peer = -1;
    ck_assert_int_eq(link_line(l, &line), LINK_CLOSED);
    ck_assert_str_eq(link_why(l), "the server closed the connection");
}

TEST(a_line_without_an_end_is_refused)
{
    static char much[LINK_LINE_MAX + 64 * 1024];
    struct span line;

    memset(much, 'x', sizeof(much));
    open_link();
    ck_assert_int_eq(send(peer, much, sizeof(much), MSG_NOSIGNAL), sizeof(much));
    ck_assert_int_eq(link_line(l, &line), LINK_TOO_LONG);
}

TEST(a_tcp_connection_is_kept_alive_and_sends_at_once)
{
    int values[2] = {0, 0};
    socklen_t len = sizeof(int);
    int found = 0;

    open_link();
    /* The descriptor is the link's own: it is the one whose other end the peer is. */
    for (int fd = 0; fd < 256 && found == 0; fd++) {
        struct sockaddr_in mine, its;
        socklen_t mine_len = sizeof(mine), its_len = sizeof(its);

        if (fd != peer && getsockname(fd, (struct sockaddr *)&mine, &mine_len) == 0 &&
            getpeername(peer, (struct sockaddr *)&its, &its_len) == 0 &&
            mine.sin_family == AF_INET && mine.sin_port == its.sin_port) {
            found = fd;
        }
    }
    ck_assert_int_gt(found, 0);
    ck_assert_int_eq(getsockopt(found, IPPROTO_TCP, TCP_NODELAY, &values[0], &len), 0);
    ck_assert_int_eq(getsockopt(found, SOL_SOCKET, SO_KEEPALIVE, &values[1], &len), 0);
    ck_assert_int_ne(values[0], 0);
    ck_assert_int_ne(values[1], 0);
}

/* ---- straight into the caller's memory --------------------------------------------------- */

#define STREAM_BYTES 1000003u

static char *stream;

static void *send_stream(void *arg)
{
    struct rng rng = *(struct rng *)arg;
    size_t at = 0;

    while (at < STREAM_BYTES) {
        size_t n = 1 + rng_below(&rng, 70001);

        n = n < STREAM_BYTES - at ? n : STREAM_BYTES - at;
        ssize_t sent = send(peer, stream + at, n, MSG_NOSIGNAL);
        ck_assert(sent > 0);
        at += (size_t)sent;
    }
    return NULL;
}

TEST(some_bytes_and_all_bytes_arrive_in_order)
{
    struct rng rng, sender;
    pthread_t thread;
    char *out = mem_alloc(STREAM_BYTES);
    size_t at = 0;

    rng_init(&rng, rng_seed());
    stream = mem_alloc(STREAM_BYTES);
    for (size_t i = 0; i < STREAM_BYTES; i++) {
        stream[i] = (char)rng_next(&rng);
    }
    open_link();
    sender = rng;
    ck_assert_int_eq(pthread_create(&thread, NULL, send_stream, &sender), 0);
    while (at < STREAM_BYTES) {
        size_t n = rng_below(&rng, rng_below(&rng, 2) == 0 ? 97 : 40009);
        size_t got = n;
        struct span bytes;

        n = n < STREAM_BYTES - at ? n : STREAM_BYTES - at;
        switch (rng_below(&rng, 3)) {
        case 0: /* what comes beyond these bytes waits in the buffer */
            ck_assert(link_bytes(l, n, &bytes) == LINK_OK && bytes.len == n);
            memcpy(out + at, bytes.ptr, n);
            got = n;
            break;
        case 1:
            n += n == 0;
            ck_assert(link_some(l, out + at, n, &got) == LINK_OK && got > 0 && got <= n);
            break;
        default:
            ck_assert(link_into(l, out + at, n) == LINK_OK);
            got = n;
            break;
        }
        at += got;
    }
    ck_assert_int_eq(memcmp(out, stream, STREAM_BYTES), 0);
    pthread_join(thread, NULL);
    mem_free(out);
    mem_free(stream);
}

TEST(bytes_that_are_not_buffered_go_straight_to_the_caller)
{
    char out[16];
    size_t got;
    struct span line;

    open_link();
    say("line\r\nrest");
    ck_assert_int_eq(link_line(l, &line), LINK_OK);
    received_at = NULL;
    ck_assert_int_eq(link_some(l, out, 3, &got), LINK_OK);
    ck_assert_uint_eq(got, 3);
    ck_assert_int_eq(link_some(l, out + 3, sizeof(out) - 3, &got), LINK_OK);
    ck_assert_uint_eq(got, 1);
    ck_assert_int_eq(memcmp(out, "rest", 4), 0);
    ck_assert_ptr_null(received_at); /* all of it was buffered */
    say("more");
    ck_assert_int_eq(link_some(l, out, sizeof(out), &got), LINK_OK);
    ck_assert_ptr_eq(received_at, out);
    ck_assert_uint_eq(got, 4);
    say("!");
    ck_assert_int_eq(link_into(l, out + 4, 1), LINK_OK);
    ck_assert_ptr_eq(received_at, out + 4);
    ck_assert_int_eq(link_into(l, out, 0), LINK_OK);
    ck_assert_int_eq(memcmp(out, "more!", 5), 0);
}

TEST(bytes_that_end_early_are_no_success)
{
    char out[16];

    open_link();
    say("12345");
    ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
    ck_assert_int_eq(link_into(l, out, 6), LINK_CLOSED);
}

/* ---- time limits ------------------------------------------------------------------------- */

TEST(a_silent_server_has_its_time_and_loses_nothing_by_it)
{
    struct span line;
    char out[4];
    size_t got;

    target.timeout_ms = 4000;
    target.timeout_option = "--timeout";
    open_link();
    is_frozen = true;
    now_us = 0;
    say("ab");
    ck_assert_int_eq(link_line(l, &line), LINK_SILENT);
    ck_assert_str_eq(link_why(l), "the server is silent for too long (--timeout)");
    ck_assert_int_eq(now_us, 4000000);
    link_set_timeout(l, 1500);
    ck_assert_int_eq(link_bytes(l, 3, &line), LINK_SILENT);
    ck_assert_int_eq(now_us, 5500000);
    link_set_timeout(l, 0);
    ck_assert_int_eq(link_line(l, &line), LINK_SILENT);
    ck_assert_int_eq(now_us, 5500000);
    is_frozen = false;
    link_set_timeout(l, MSEC_NEVER);
    say("c\r\nd");
    ck_assert_int_eq(link_line(l, &line), LINK_OK);
    ck_assert(span_is(line, "abc"));
    ck_assert_int_eq(link_into(l, out, 1), LINK_OK);
    link_set_timeout(l, 0);
    ck_assert_int_eq(link_some(l, out, sizeof(out), &got), LINK_SILENT);
    ck_assert_uint_eq(got, 0);
}

/* A full queue of connections: further clients get no answer. */
static void fill_queue(const char *its_port, int fds[8])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

    a.sin_port = htons((uint16_t)atoi(its_port));
    for (int i = 0; i < 8; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ck_assert_int_ge(fds[i], 0);
        (void)connect(fds[i], (struct sockaddr *)&a, sizeof(a));
    }
}

static void close_all(int fds[8])
{
    for (int i = 0; i < 8; i++) {
        close(fds[i]);
    }
}

TEST(all_addresses_of_a_name_are_tried_within_the_time)
{
    char ports[3][8];
    int refuses = listen_on(ports[0], 1);
    int is_full = listen_on(ports[1], 0);
    int waiting[8];
    struct sockaddr_in a[3];
    struct addrinfo list[3];

    close(refuses);
    fill_queue(ports[1], waiting);
    memcpy(ports[2], port, sizeof(port));
    for (int i = 0; i < 3; i++) {
        a[i] = (struct sockaddr_in){.sin_family = AF_INET,
                                    .sin_addr = {htonl(INADDR_LOOPBACK)},
                                    .sin_port = htons((uint16_t)atoi(ports[i]))};
        list[i] = (struct addrinfo){.ai_family = AF_INET,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_addr = (struct sockaddr *)&a[i],
                                    .ai_addrlen = sizeof(a[i]),
                                    .ai_next = i < 2 ? &list[i + 1] : NULL};
    }
    addresses = list;
    target.host = "many";
    target.timeout_ms = 20000;
    is_frozen = true;
    now_us = 0;
    open_link();
    ck_assert_int_gt(now_us, 0); /* the second one was waited for */
    ck_assert_int_lt(now_us, 20000000);
    close_all(waiting);
    close(is_full);
}

TEST(an_address_is_not_looked_up)
{
    looked_up = 0;
    open_link();
    ck_assert_uint_eq(looked_up, 0);
    link_close(&l);
    close(peer);
    target.host = "localhost";
    open_link();
    ck_assert_uint_eq(looked_up, 1);
    ck_assert(link_is_local(l));
}

TEST(who_refuses_is_named)
{
    close(listener);
    l = link_open(&target, why, sizeof(why));
    ck_assert_ptr_null(l);
    ck_assert_ptr_nonnull(strstr(why, "no connection to 127.0.0.1 port "));
    ck_assert_ptr_nonnull(strstr(why, strerror(ECONNREFUSED)));
    listener = listen_on(port, 1);
}

/* ---- interruptions ----------------------------------------------------------------------- */

enum wait {
    WAIT_LINE,
    WAIT_LINE_PATIENTLY,
    WAIT_BYTES,
    WAIT_SOME,
    WAIT_INTO,
    WAIT_SEND,
    WAITS
};

static enum link_result wait_for(enum wait what)
{
    static char much[1 << 20];
    struct span span;
    enum link_result result = LINK_OK;
    char out[16];
    size_t got;

    switch (what) {
    case WAIT_LINE:
        return link_line(l, &span);
    case WAIT_LINE_PATIENTLY:
        return link_line_patiently(l, &span);
    case WAIT_BYTES:
        return link_bytes(l, 10, &span);
    case WAIT_SOME:
        return link_some(l, out, sizeof(out), &got);
    case WAIT_INTO:
        return link_into(l, out, sizeof(out));
    default:
        while (result == LINK_OK) { /* until nothing more fits */
            result = link_send(l, span_of(much, sizeof(much)));
        }
        return result;
    }
}

TEST_LOOP(a_descriptor_ends_every_wait, WAITS)
{
    open_link();
    stop_waits();
    ck_assert_int_eq(wait_for((enum wait)_i), LINK_INTERRUPTED);
    ck_assert_str_eq(link_why(l), "interrupted");
}

TEST_LOOP(a_descriptor_ends_waits_that_have_begun, WAITS)
{
    pthread_t thread;

    open_link();
    ck_assert_int_eq(pthread_create(&thread, NULL, stop_waits_late, NULL), 0);
    ck_assert_int_eq(wait_for((enum wait)_i), LINK_INTERRUPTED);
    pthread_join(thread, NULL);
}

TEST(an_interrupted_link_goes_on)
{
    struct span line;
    uint64_t count;

    open_link();
    say("half ");
    stop_waits();
    ck_assert_int_eq(link_line(l, &line), LINK_INTERRUPTED);
    ck_assert_int_eq(read(cancel, &count, sizeof(count)), sizeof(count));
    say("and half\r\n");
    ck_assert_int_eq(link_line(l, &line), LINK_OK);
    ck_assert(span_is(line, "half and half"));
}

static bool is_signalled;

static bool has_signal(void)
{
    return is_signalled;
}

TEST_LOOP(a_signal_ends_every_wait, WAITS)
{
    target.cancel = NULL;
    target.is_interrupted = has_signal;
    is_signalled = false;
    open_link();
    is_signalled = true;
    ck_assert_int_eq(wait_for((enum wait)_i), LINK_INTERRUPTED);
}

TEST(a_descriptor_ends_connecting)
{
    char its_port[8];
    int is_full = listen_on(its_port, 0);
    int waiting[8];
    pthread_t thread;

    fill_queue(its_port, waiting);
    target.port = its_port;
    ck_assert_int_eq(pthread_create(&thread, NULL, stop_waits_late, NULL), 0);
    l = link_open(&target, why, sizeof(why));
    ck_assert_ptr_null(l);
    ck_assert_ptr_nonnull(strstr(why, ": interrupted"));
    pthread_join(thread, NULL);
    close_all(waiting);
    close(is_full);
}

TEST(a_descriptor_ends_waiting_for_a_full_unix_socket)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    folder_make();
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/socket", folder);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    ck_assert_int_eq(listen(fd, 0), 0);
    target.path = a.sun_path;
    struct link *first = link_open(&target, why, sizeof(why));
    ck_assert_msg(first != NULL, "%s", why);
    ck_assert(link_is_local(first));
    stop_waits();
    l = link_open(&target, why, sizeof(why));
    ck_assert_ptr_null(l);
    ck_assert_ptr_nonnull(strstr(why, "/socket: interrupted"));
    link_close(&first);
    close(fd);
    folder_remove();
}

#ifdef HAVE_OPENSSL
/* Connected by the kernel, and nobody answers the greeting. */
TEST(a_descriptor_ends_a_handshake)
{
    pthread_t thread;

    target.uses_tls = true;
    ck_assert_int_eq(pthread_create(&thread, NULL, stop_waits_late, NULL), 0);
    l = link_open(&target, why, sizeof(why));
    ck_assert_ptr_null(l);
    ck_assert_ptr_nonnull(strstr(why, ": interrupted"));
    pthread_join(thread, NULL);
}

TEST(a_silent_handshake_has_its_time)
{
    target.uses_tls = true;
    target.timeout_ms = 3000;
    is_frozen = true;
    l = link_open(&target, why, sizeof(why));
    ck_assert_ptr_null(l);
    ck_assert_ptr_nonnull(strstr(why, "the server is silent for too long"));
}
#endif

/* ---- logging in -------------------------------------------------------------------------- */

TEST(a_login_is_the_first_command)
{
    static const char want[] = "set login 0 0 10\r\nops secret\r\n";
    char got[sizeof(want)] = "";
    struct span answer;

    open_link();
    say("STORED\r\n");
    ck_assert_int_eq(link_login(l, "ops", "secret", &answer), LINK_OK);
    ck_assert_int_eq(recv(peer, got, sizeof(want) - 1, MSG_WAITALL), sizeof(want) - 1);
    ck_assert_str_eq(got, want);
}

TEST(a_refused_login_says_what_the_server_said)
{
    struct span answer;

    open_link();
    say("CLIENT_ERROR \033[1mno\r\n");
    ck_assert_int_eq(link_login(l, "ops", "secret", &answer), LINK_REFUSED);
    ck_assert(span_is(answer, "CLIENT_ERROR \033[1mno"));
    ck_assert_str_eq(link_why(l), "the server answers: CLIENT_ERROR ?[1mno");
    close(peer);
    peer = -1;
    ck_assert_int_ne(link_login(l, "ops", "secret", NULL), LINK_REFUSED);
}

TEST(names_of_users_are_words)
{
    char name[LINK_NAME_BYTES + 1];

    ck_assert(link_user_is_valid("ops"));
    ck_assert(!link_user_is_valid(""));
    ck_assert(!link_user_is_valid("a b"));
    ck_assert(!link_user_is_valid("a\r"));
    ck_assert(!link_user_is_valid("a\n"));
    memset(name, 'x', sizeof(name));
    name[LINK_NAME_BYTES - 1] = '\0';
    ck_assert(link_user_is_valid(name));
    name[LINK_NAME_BYTES - 1] = 'x';
    name[LINK_NAME_BYTES] = '\0';
    ck_assert(!link_user_is_valid(name));
}

/* ---- files of passwords ------------------------------------------------------------------ */

TEST(a_password_is_the_first_line_of_a_file)
{
    static const struct {
        const char *text;
        const char *password; /* NULL: none */
        mode_t mode;
    } cases[] = {
        {"secret\nsecond\n", "secret", 0600},
        {"secret", "secret", 0640},
        {"\n", "", 0600},
        {"a b", "a b", 0604},
        {"", NULL, 0600},
        {"a\rb\n", NULL, 0620},
    };
    char path[96];
    char out[LINK_NAME_BYTES];
    bool is_exposed;

    folder_make();
    snprintf(path, sizeof(path), "%s/password", folder);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        folder_put("password", cases[i].text);
        ck_assert_int_eq(chmod(path, cases[i].mode), 0);
        why[0] = '\0';
        ck_assert_int_eq(password_read_file(path, out, &is_exposed, NULL, why, sizeof(why)),
                         cases[i].password != NULL);
        ck_assert_int_eq(is_exposed, cases[i].mode != 0600);
        if (cases[i].password != NULL) {
            ck_assert_str_eq(out, cases[i].password);
        } else {
            ck_assert_ptr_nonnull(strstr(why, "its first line is not a password"));
        }
    }
    ck_assert_int_eq(unlink(path), 0);
    ck_assert(!password_read_file(path, out, &is_exposed, NULL, why, sizeof(why)));
    ck_assert_ptr_nonnull(strstr(why, strerror(ENOENT)));
    folder_remove();
}

TEST(a_password_that_is_too_long_is_none)
{
    char text[LINK_NAME_BYTES + 1];
    char out[LINK_NAME_BYTES];
    int fds[2];

    memset(text, 'x', sizeof(text));
    for (size_t len = LINK_NAME_BYTES - 2; len < LINK_NAME_BYTES; len++) {
        ck_assert_int_eq(pipe(fds), 0);
        text[len] = '\n';
        ck_assert_int_eq(write(fds[1], text, len + 1), (ssize_t)len + 1);
        ck_assert_int_eq(password_read_line(fds[0], out, NULL), len < LINK_NAME_BYTES - 1);
        text[len] = 'x';
        close(fds[0]);
        close(fds[1]);
    }
}
