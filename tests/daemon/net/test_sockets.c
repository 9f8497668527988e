/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listening sockets: what -l takes, and what may already be at the path of a unix socket. Each
 * test has a fresh folder, which is removed afterwards.
 */
#include "daemon/net/sockets.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sysexits.h>

#include "daemon/net/sockets_parts.h"
#include "daemon/options/settings.h"
#include "tests/common/folder.h"
#include "tests/common/unit.h"

static char path[108];
static struct settings settings;
static struct socket_list list;
static struct socket_list udp;

static void setup(void)
{
    folder_make();
    snprintf(path, sizeof(path), "%s/s", folder);
    settings_init(&settings);
    settings.unix_path = path;
    memset(&list, 0, sizeof(list));
    memset(&udp, 0, sizeof(udp));
}

static void close_all(void)
{
    for (uint32_t i = 0; i < list.count; i++) {
        socket_close(&list.items[i]);
    }
    socket_list_fini(&list);
    for (uint32_t i = 0; i < udp.count; i++) {
        socket_close(&udp.items[i]);
    }
    socket_list_fini(&udp);
}

static void teardown(void)
{
    close_all();
    folder_remove_with("s");
    settings.unix_path = NULL; /* ours */
    settings.listen = NULL;
    settings_fini(&settings);
}

TEST_FIXTURE(setup, teardown)

static void listen_to(char *text)
{
    settings.unix_path = NULL;
    settings.listen = text;
}

/* Leave a socket file that no process listens on. */
static void make_stale(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    memcpy(un.sun_path, path, strlen(path));
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&un, sizeof(un)), 0);
    close(fd);
}

static mode_t mode_of(const char *file)
{
    struct stat st;

    ck_assert_int_eq(lstat(file, &st), 0);
    return st.st_mode;
}

/* ---- unix sockets ------------------------------------------------------------------------ */

TEST(mode_is_exact_whatever_the_umask)
{
    static const mode_t masks[] = {0, 022, 077, 0777};

    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        mode_t old = umask(masks[i]);

        settings.unix_mask = 0750;
        ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
        ck_assert_uint_eq(umask(old), masks[i]);
        ck_assert_uint_eq(mode_of(path), S_IFSOCK | 0750);
        close_all();
        ck_assert_int_ne(access(path, F_OK), 0);
    }
}

TEST(default_mode_is_0700)
{
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    ck_assert_uint_eq(mode_of(path), S_IFSOCK | 0700);
}

TEST(stale_socket_is_replaced)
{
    make_stale();
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    ck_assert_uint_eq(list.count, 1);
    ck_assert_int_eq(list.items[0].origin.transport, CONN_UNIX);
}

TEST(live_socket_is_left_alone)
{
    struct socket_list other = {0};

    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    ck_assert_int_eq(sockets_open(&settings, &other, &udp), EX_OSERR);
    ck_assert_uint_eq(other.count, 0);
    ck_assert_uint_eq(mode_of(path) & S_IFMT, S_IFSOCK);
}

TEST(file_is_left_alone)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);

    ck_assert_int_eq(write(fd, "x", 1), 1);
    close(fd);
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), EX_OSERR);
    ck_assert_uint_eq(mode_of(path) & S_IFMT, S_IFREG);
}

TEST(link_is_left_alone)
{
    ck_assert_int_eq(symlink("nowhere", path), 0);
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), EX_OSERR);
    ck_assert_uint_eq(mode_of(path) & S_IFMT, S_IFLNK);
}

TEST(file_of_another_process_survives_the_close)
{
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    ck_assert_int_eq(unlink(path), 0);
    make_stale();
    close_all();
    ck_assert_int_eq(access(path, F_OK), 0);
}

TEST(path_may_have_107_bytes)
{
    size_t n = strlen(folder);

    memset(path + n, 'x', 107 - n);
    path[n] = '/';
    path[107] = '\0';
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    ck_assert_uint_eq(strlen(list.items[0].name), 5 + 107);
    ck_assert_str_eq(list.items[0].name + 5, path);
}

TEST(path_of_108_bytes_is_refused)
{
    char longer[128];

    snprintf(longer, sizeof(longer), "%s/", folder);
    memset(longer + strlen(folder) + 1, 'x', 108 - strlen(folder) - 1);
    longer[108] = '\0';
    settings.unix_path = longer;
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), EX_OSERR);
}

TEST(abstract_name_leaves_no_file)
{
    char name[64];

    snprintf(name, sizeof(name), "@mayfly-test-%ld", (long)getpid());
    settings.unix_path = name;
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    ck_assert_str_eq(list.items[0].name + 5, name);
    ck_assert_ptr_null(list.items[0].path);
}

TEST(unix_socket_turns_tcp_off_unless_both_are_wanted)
{
    settings.port = -1;
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    ck_assert_uint_eq(list.count, 1);
    close_all();
    settings.listen_both = true;
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    ck_assert_uint_ge(list.count, 2);
    ck_assert_int_eq(list.items[1].origin.transport, CONN_TCP);
}

/* ---- internet addresses ------------------------------------------------------------------ */

TEST(addresses_that_are_understood)
{
    static const struct {
        const char *text;
        const char *host;
        int port; /* -1: none */
    } cases[] = {
        {"127.0.0.1", "127.0.0.1", -1},
        {"127.0.0.1:11311", "127.0.0.1", 11311},
        {"localhost:0", "localhost", 0},
        {"::1", "::1", -1},
        {"fe80::1%lo", "fe80::1%lo", -1},
        {"[::1]", "::1", -1},
        {"[::1]:65535", "::1", 65535},
        {"*", "", -1},
        {"*:11311", "", 11311},
        {"notls:127.0.0.1:11311", "127.0.0.1", 11311},
        {"notls:[::1]:11311", "::1", 11311},
        {"notls:tag[a]:[::1]", "::1", -1},
        {"tag[a]:notls:h:1", "h", 1},
        {"btls:h:1", "h", 1},
        {"mtls:tag[a]:[::1]", "::1", -1},
        {"tag[abc]:127.0.0.1:11311", "127.0.0.1", 11311},
        {"tag_abc_:127.0.0.1:11311", "127.0.0.1", 11311},
        {"proto[negotiating]:h:1", "h", 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct listen_address addr;
        const char *error = listen_address_parse(span_str(cases[i].text), &addr);

        ck_assert_msg(error == NULL, "%s: %s", cases[i].text, error);
        ck_assert_str_eq(addr.host, cases[i].host);
        ck_assert_int_eq(addr.has_port ? (int)addr.port : -1, cases[i].port);
        ck_assert_int_eq(addr.is_plain, strstr(cases[i].text, "notls:") != NULL);
        ck_assert_int_eq(addr.verify, strncmp(cases[i].text, "btls:", 5) == 0 ? TLS_VERIFY_NONE
                                      : strncmp(cases[i].text, "mtls:", 5) == 0
                                          ? TLS_VERIFY_REQUIRE
                                          : TLS_VERIFY_BY_MODE);
    }
}

TEST(addresses_that_are_refused)
{
    static const char *const cases[] = {
        "",        "notls:",        "[::1",      "[::1]x",      "127.0.0.1:",
        "h:65536", "h:-1",          "h:12a",     "h:+1",        "[::1]:",
        "h: 1",    "h:99999999999", "tag_abc:h", "btls:mtls:h", "mtls:tag[a]:btls:h:1",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct listen_address addr;

        ck_assert_msg(listen_address_parse(span_str(cases[i]), &addr) != NULL, "%s", cases[i]);
    }
}

TEST(host_longer_than_any_name_is_refused)
{
    char text[300];
    struct listen_address addr;

    memset(text, 'h', sizeof(text));
    ck_assert_ptr_nonnull(listen_address_parse(span_of(text, sizeof(text)), &addr));
}

TEST(every_element_of_the_list_is_opened_once)
{
    settings.unix_path = NULL;
    settings.port = -1;
    settings.listen = (char *)(uintptr_t) "127.0.0.1:0, 127.0.0.2:0;127.0.0.3:0,";
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    ck_assert_uint_eq(list.count, 3);
}

static int tcp_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);

    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, option, &value, &len), 0);
    return value;
}

/* What accepted connections inherit. */
TEST(a_silent_client_is_given_up_as_the_options_say)
{
    static const int options[] = {TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT};
    static const int given[] = {51, 7, 3, 61000};
    int before[4];

    settings.port = -1;
    listen_to((char *)(uintptr_t) "127.0.0.1");
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    for (unsigned i = 0; i < 4; i++) {
        before[i] = tcp_option(list.items[0].fd, options[i]);
        ck_assert_int_ne(before[i], given[i]);
    }
    close_all();
    settings.tcp_keepalive_s = 51;
    settings.tcp_keepalive_interval_s = 7;
    settings.tcp_keepalive_probes = 3;
    settings.tcp_user_timeout_ms = 61000;
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);

    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons(socket_port(list.items[0].fd))};
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(client, (const struct sockaddr *)&to, sizeof(to)), 0);
    const int fd = accept(list.items[0].fd, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(tcp_option(fd, options[i]), given[i]);
    }
    close(fd);
    close(client);
}

TEST(port_0_opens_nothing)
{
    settings.unix_path = NULL;
    settings.port = 0;
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    ck_assert_uint_eq(list.count, 0);
}

TEST(port_file_names_every_port)
{
    char file[108];
    char line[64];
    unsigned port;

    snprintf(file, sizeof(file), "%s/ports", folder);
    setenv("MEMCACHED_PORT_FILENAME", file, 1);
    settings.unix_path = NULL;
    settings.port = -1;
    settings.listen = (char *)(uintptr_t) "127.0.0.1";
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    unsetenv("MEMCACHED_PORT_FILENAME");
    FILE *f = fopen(file, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
    ck_assert_int_eq(sscanf(line, "TCP INET: %u", &port), 1);
    ck_assert_ptr_null(fgets(line, sizeof(line), f));
    fclose(f);
    unlink(file);
    snprintf(line, sizeof(line), "tcp:127.0.0.1:%u", port);
    ck_assert_str_eq(list.items[0].name, line);
}

/* ---- ports that cannot be had ------------------------------------------------------------ */

/* Another program's socket on loopback, and its port; -1: there is no such loopback. */
static int occupy(int family, int type, unsigned *port)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } addr;
    socklen_t len = family == AF_INET6 ? sizeof(addr.in6) : sizeof(addr.in);
    int on = 1;
    int fd = socket(family, type, 0);

    if (fd < 0) {
        return -1;
    }
    memset(&addr, 0, sizeof(addr));
    addr.sa.sa_family = (sa_family_t)family;
    if (family == AF_INET6) {
        addr.in6.sin6_addr = in6addr_loopback;
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    } else {
        addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    if (bind(fd, &addr.sa, len) != 0 || (type == SOCK_STREAM && listen(fd, 1) != 0)) {
        close(fd);
        return -1;
    }
    ck_assert_int_eq(getsockname(fd, &addr.sa, &len), 0);
    *port = ntohs(family == AF_INET6 ? addr.in6.sin6_port : addr.in.sin_port);
    return fd;
}

TEST(loopback_is_the_default)
{
    settings.unix_path = NULL;
    settings.port = -1;
    settings.udp_port = -1;
    settings.threads = 3;
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
    ck_assert(list.count == 1 || list.count == 2);
    ck_assert_int_eq(strncmp(list.items[0].name, "tcp:127.0.0.1:", 14), 0);
    ck_assert(udp.count == 3 || udp.count == 6);
    ck_assert_int_eq(strncmp(udp.items[0].name, "udp:127.0.0.1:", 14), 0);
    for (uint32_t i = 1; i < udp.count; i++) {
        ck_assert((strcmp(udp.items[i].name, udp.items[i - 1].name) == 0) == (i % 3 != 0));
    }
    if (list.count == 2) {
        ck_assert_int_eq(strncmp(list.items[1].name, "tcp6:[::1]:", 11), 0);
    }
    if (udp.count == 6) {
        ck_assert_int_eq(strncmp(udp.items[3].name, "udp6:[::1]:", 11), 0);
    }
}

/* By default and with -l, IPv4 and IPv6, streams and datagrams. */
TEST_LOOP(port_of_another_process_is_refused, 8)
{
    const int family = (_i & 1) != 0 ? AF_INET6 : AF_INET;
    const bool is_udp = (_i & 2) != 0;
    char text[64];
    unsigned port;
    int fd = occupy(family, is_udp ? SOCK_DGRAM : SOCK_STREAM, &port);

    if (fd < 0) {
        ck_assert_int_eq(family, AF_INET6);
        return;
    }
    settings.unix_path = NULL;
    settings.port = is_udp ? 0 : (int32_t)port;
    settings.udp_port = is_udp ? (int32_t)port : 0;
    if ((_i & 4) != 0) {
        snprintf(text, sizeof(text), "%s", family == AF_INET6 ? "[::1]" : "127.0.0.1");
        listen_to(text);
    }
    ck_assert_int_eq(sockets_open(&settings, &list, &udp), EX_OSERR);
    close(fd);
}

/* The second of two: opening only the first is a failure. */
TEST(one_bad_address_of_several_is_refused)
{
    static const char *const cases[] = {
        "127.0.0.1:0,127.0.0.1:x",
        "127.0.0.1:0,[::1",
        "127.0.0.1:0,127.0.0.1:70000",
        /* A host name that is too long is not looked up. */
        ("127.0.0.1:0,xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx."
         "invalid:0"),
        "127.0.0.1:0,proto[telnet]:127.0.0.1:0",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        settings.port = -1;
        listen_to((char *)(uintptr_t)cases[i]);
        ck_assert_msg(sockets_open(&settings, &list, &udp) == EX_OSERR, "%s", cases[i]);
        close_all();
        /* Without TCP, opening the datagram socket reports it. */
        settings.port = 0;
        settings.udp_port = -1;
        ck_assert_msg(sockets_open(&settings, &list, &udp) == EX_OSERR, "%s", cases[i]);
        close_all();
        settings.udp_port = 0;
    }
}

TEST_LOOP(address_named_twice_is_opened_once, 2)
{
    char text[128];
    unsigned port;
    int status = EX_OSERR;

    settings.udp_port = -1;
    settings.threads = 2;
    /* The port that the system chose a moment ago is still free, except by rare coincidence. */
    for (int tries = 0; status != 0 && tries < 10; tries++) {
        int fd = occupy(_i != 0 ? AF_INET6 : AF_INET, SOCK_STREAM, &port);

        if (fd < 0) {
            return;
        }
        close(fd);
        close_all();
        snprintf(text, sizeof(text),
                 _i != 0 ? "[::1]:%u,[::1]:%u" : "127.0.0.1:%u,127.0.0.1:%u", port, port);
        listen_to(text);
        status = sockets_open(&settings, &list, &udp);
    }
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(list.count, 1);
    ck_assert_uint_eq(udp.count, 2);
}

/* Interfaces of one card share its link-local address; -l names each with its scope. */
TEST(addresses_of_two_scopes_are_two)
{
    const struct conn_origin origin = {.transport = CONN_TCP};
    union socket_address addr = {.in6 = {.sin6_family = AF_INET6}};
    unsigned port;
    int fd = occupy(AF_INET6, SOCK_STREAM, &port);

    if (fd < 0) {
        return;
    }
    ck_assert_int_eq(socket_list_add(&list, fd, &origin), 0);
    addr.in6.sin6_addr = in6addr_loopback;
    addr.in6.sin6_port = htons((uint16_t)port);
    ck_assert(socket_list_has(&list, &addr, false));
    addr.in6.sin6_scope_id = 7;
    ck_assert(!socket_list_has(&list, &addr, false));
}

/* As the owner of the folder may do when the server starts as root. */
TEST(the_port_file_follows_no_link_and_waits_for_no_fifo)
{
    static const char *const names[] = {"ports", "ports.lck"};
    char file[108];
    char precious[108];
    char trap[108];
    struct stat st;

    snprintf(file, sizeof(file), "%s/ports", folder);
    snprintf(precious, sizeof(precious), "%s/precious", folder);
    settings.port = -1;
    listen_to((char *)(uintptr_t) "127.0.0.1");
    for (int i = 0; i < 4; i++) {
        snprintf(trap, sizeof(trap), "%s/%s", folder, names[i % 2]);
        ck_assert_int_eq(i < 2 ? symlink(precious, trap) : mkfifo(trap, 0600), 0);
        setenv("MEMCACHED_PORT_FILENAME", file, 1);
        ck_assert_int_eq(sockets_open(&settings, &list, &udp), 0);
        unsetenv("MEMCACHED_PORT_FILENAME");
        close_all();
        ck_assert_int_ne(lstat(precious, &st), 0);
        ck_assert_int_eq(lstat(file, &st), 0);
        ck_assert(S_ISREG(st.st_mode) && st.st_size > 0);
        unlink(file);
        unlink(trap);
    }
}

TEST(ports_that_cannot_be_written_are_an_error)
{
    char file[PATH_MAX + 16];

    settings.port = -1;
    listen_to((char *)(uintptr_t) "127.0.0.1");
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof(file), "%s/none/ports", folder);
        if (i != 0) {
            memset(file, 'x', PATH_MAX);
            file[0] = '/';
            file[PATH_MAX] = '\0';
        }
        setenv("MEMCACHED_PORT_FILENAME", file, 1);
        ck_assert_int_eq(sockets_open(&settings, &list, &udp), EX_OSERR);
        unsetenv("MEMCACHED_PORT_FILENAME");
        close_all();
    }
}

/* ---- inherited sockets ------------------------------------------------------------------- */

static void set_inherited(const char *pid, const char *fds)
{
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", fds, 1);
}

TEST(nonsense_in_the_environment_is_no_socket)
{
    static const char *const counts[] = {"", "x", "-1", "0", "99999999999", "1 2"};
    char pid[16];
    bool found;

    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        set_inherited(pid, counts[i]);
        ck_assert_int_eq(sockets_inherit(&settings, INHERIT_CLIENTS, &list, &found), 0);
        ck_assert(!found);
    }
    set_inherited("1", "1");
    ck_assert_int_eq(sockets_inherit(&settings, INHERIT_CLIENTS, &list, &found), 0);
    ck_assert(!found);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
}

/* A listener on an address, and the end of a connection to it that it accepts. */
static int listen_at(const char *host, int family, union socket_address *at)
{
    int fd = socket(family, SOCK_STREAM, 0);
    socklen_t len = sizeof(*at);

    memset(at, 0, sizeof(*at));
    at->sa.sa_family = (sa_family_t)family;
    ck_assert_int_eq(
        inet_pton(family, host,
                  family == AF_INET ? (void *)&at->in.sin_addr : (void *)&at->in6.sin6_addr),
        1);
    if (bind(fd, &at->sa, family == AF_INET ? sizeof(at->in) : sizeof(at->in6)) != 0 ||
        listen(fd, 1) != 0) {
        close(fd);
        return -1;
    }
    ck_assert_int_eq(getsockname(fd, &at->sa, &len), 0);
    return fd;
}

static int accept_one(int listening, const char *host, const union socket_address *at)
{
    union socket_address to = *at;
    int client = socket(at->sa.sa_family, SOCK_STREAM, 0);

    ck_assert_int_eq(inet_pton(at->sa.sa_family, host,
                               at->sa.sa_family == AF_INET ? (void *)&to.in.sin_addr
                                                           : (void *)&to.in6.sin6_addr),
                     1);
    ck_assert_int_eq(
        connect(client, &to.sa, to.sa.sa_family == AF_INET ? sizeof(to.in) : sizeof(to.in6)),
        0);
    int fd = accept(listening, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    close(client);
    return fd;
}

TEST(a_connection_belongs_to_the_listener_at_its_address)
{
    union socket_address at[3];
    int any = listen_at("0.0.0.0", AF_INET, &at[0]);
    int one = listen_at("127.0.0.1", AF_INET, &at[1]);
    int six = listen_at("::1", AF_INET6, &at[2]);
    int of_any = accept_one(any, "127.0.0.1", &at[0]);
    int of_one = accept_one(one, "127.0.0.1", &at[1]);
    int pair[2];

    ck_assert(socket_accepts_for(any, of_any));
    ck_assert(socket_accepts_for(one, of_one));
    ck_assert(!socket_accepts_for(any, of_one));
    ck_assert(!socket_accepts_for(one, of_any));
    if (six >= 0) { /* not every machine has it */
        int of_six = accept_one(six, "::1", &at[2]);

        ck_assert(socket_accepts_for(six, of_six));
        ck_assert(!socket_accepts_for(any, of_six) && !socket_accepts_for(six, of_any));
        close(of_six);
        close(six);
    }
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ck_assert(!socket_accepts_for(any, pair[0]));
    ck_assert(!socket_accepts_for(any, -1));
    close(of_any);
    close(of_one);
    close(any);
    close(one);
    close(pair[0]);
    close(pair[1]);
}

TEST(an_ended_connection_is_not_reset)
{
    int pair[2];
    char got[8];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ck_assert_int_eq(send(pair[1], "unread", 6, 0), 6);
    ck_assert_int_eq(send(pair[0], "reply", 5, 0), 5);
    socket_end(pair[0]);
    ck_assert_int_eq(recv(pair[1], got, sizeof(got), 0), 5);
    ck_assert_int_eq(recv(pair[1], got, sizeof(got), 0), 0);
    close(pair[1]);
}
