/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exposure: which sockets let anybody in. They are bound and do not listen.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sysexits.h>

#include "daemon/net/sockets.h"
#include "daemon/options/settings.h"
#include "tests/common/unit.h"

static struct settings settings;
static struct socket_list tcp;
static struct socket_list udp;

static void setup(void)
{
    settings_init(&settings);
}

static void close_all(struct socket_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        socket_close(&l->items[i]);
    }
    socket_list_fini(l);
}

static void teardown(void)
{
    close_all(&tcp);
    close_all(&udp);
    settings.auth_file = NULL; /* no texts of ours */
    settings.listen = NULL;
    settings_fini(&settings);
}

TEST_FIXTURE(setup, teardown)

/* A bound socket; false: this machine does not have the address. */
static bool add(struct socket_list *l, const char *address, enum conn_transport transport)
{
    const struct conn_origin origin = {.transport = transport};
    union socket_address addr = {.any = {0}};
    const bool is_v6 = strchr(address, ':') != NULL;

    addr.sa.sa_family = is_v6 ? AF_INET6 : AF_INET;
    ck_assert_int_eq(inet_pton(addr.sa.sa_family, address,
                               is_v6 ? (void *)&addr.in6.sin6_addr : &addr.in.sin_addr),
                     1);
    int fd = socket(addr.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, &addr.sa, is_v6 ? sizeof(addr.in6) : sizeof(addr.in)) != 0) {
        close(fd);
        return false;
    }
    ck_assert_int_eq(socket_list_add(l, fd, &origin), 0);
    return true;
}

static int judge(void)
{
    return exposure_judge(&settings, &tcp, &udp);
}

TEST(loopback_is_for_this_machine)
{
    settings.protected_mode = true;
    ck_assert_int_eq(judge(), 0);
    ck_assert(add(&tcp, "127.0.0.1", CONN_TCP));
    ck_assert(add(&udp, "127.1.2.3", CONN_UDP));
    (void)add(&tcp, "::1", CONN_TCP);
    ck_assert_int_eq(judge(), 0);
}

TEST_LOOP(any_address_is_for_all, 3)
{
    if (!add(_i == 2 ? &udp : &tcp, _i == 1 ? "::" : "0.0.0.0", CONN_TCP)) {
        return;
    }
    ck_assert_int_eq(judge(), 0); /* with a warning */
    settings.protected_mode = true;
    ck_assert_int_eq(judge(), EX_USAGE);
    settings.sasl = true;
    ck_assert_int_eq(judge(), 0);
    settings.sasl = false;
    settings.auth_file = (char *)(uintptr_t) "users";
    ck_assert_int_eq(judge(), 0);
}

TEST(certificates_guard_tls_only)
{
    settings.protected_mode = true;
    ck_assert(add(&tcp, "0.0.0.0", CONN_TLS));
    ck_assert_int_eq(judge(), EX_USAGE);
    settings.ssl_verify_mode = 1;
    ck_assert_int_eq(judge(), EX_USAGE);
    settings.ssl_verify_mode = 2;
    ck_assert_int_eq(judge(), 0);
    ck_assert(add(&tcp, "0.0.0.0", CONN_TCP));
    ck_assert_int_eq(judge(), EX_USAGE);
}

static int check(const char *listen)
{
    settings.listen = (char *)(uintptr_t)listen;
    return exposure_check(&settings);
}

TEST(what_would_be_opened_is_judged_alike)
{
    settings.protected_mode = true;
    ck_assert_int_eq(check(NULL), 0);
    ck_assert_int_eq(check("127.0.0.1,[::1]:5,notls:127.9.9.9:6"), 0);
    ck_assert_int_eq(check("127.0.0.1,0.0.0.0:5"), EX_USAGE);
    ck_assert_int_eq(check("*"), EX_USAGE);
    ck_assert_int_eq(check("[::ffff:127.0.0.1]"), 0);
    ck_assert_int_eq(check("192.0.2.1"), EX_USAGE);
    settings.ssl_enabled = true;
    settings.ssl_verify_mode = 3;
    ck_assert_int_eq(check("192.0.2.1"), 0);
    ck_assert_int_eq(check("192.0.2.1,notls:192.0.2.2"), EX_USAGE);
    ck_assert_int_eq(check("192.0.2.1,btls:192.0.2.2"), EX_USAGE);
    settings.ssl_verify_mode = 0;
    ck_assert_int_eq(check("mtls:192.0.2.2"), 0);
    ck_assert_int_eq(check("192.0.2.1,mtls:192.0.2.2"), EX_USAGE);
    settings.port = 0;
    ck_assert_int_eq(check("notls:192.0.2.2"), 0);
    settings.udp_port = 11211;
    ck_assert_int_eq(check("192.0.2.2"), EX_USAGE);
}
