/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * passed_on: sockets that an earlier program has left are found by their addresses, once; what
 * nobody takes is closed, and what is in the way of another address. What it has written of
 * connections is read. That a program takes over is shown by tests/it/it_upgrade.py.
 */
#include "daemon/net/passed_on.h"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/common/unit.h"

static struct passed_on passed;

static union socket_address at(in_addr_t host, uint16_t port)
{
    union socket_address a;

    memset(&a, 0, sizeof(a));
    a.in.sin_family = AF_INET;
    a.in.sin_addr.s_addr = htonl(host);
    a.in.sin_port = htons(port);
    return a;
}

static int listening(void)
{
    union socket_address a = at(INADDR_LOOPBACK, 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_eq(bind(fd, &a.sa, sizeof(a.in)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

static union socket_address at_loopback6(uint16_t port)
{
    union socket_address a;

    memset(&a, 0, sizeof(a));
    a.in6.sin6_family = AF_INET6;
    a.in6.sin6_addr = in6addr_loopback;
    a.in6.sin6_port = htons(port);
    return a;
}

/* -1: this host has no IPv6. */
static int listening6(void)
{
    union socket_address a = at_loopback6(0);
    int fd = socket(AF_INET6, SOCK_STREAM, 0);

    if (fd >= 0 && (bind(fd, &a.sa, sizeof(a.in6)) != 0 || listen(fd, 1) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int take6(uint16_t port)
{
    union socket_address a = at_loopback6(port);

    return passed_on_take(&passed, &a.sa, sizeof(a.in6));
}

static int take(in_addr_t host, uint16_t port)
{
    union socket_address a = at(host, port);

    return passed_on_take(&passed, &a.sa, sizeof(a.in));
}

static bool makes_way(in_addr_t host, uint16_t port)
{
    union socket_address a = at(host, port);

    return passed_on_makes_way(&passed, &a.sa, SOCK_STREAM);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* In a process of its own, whose environment it changes. Returns its exit status. */
static int look_at_shown(void)
{
    int fd = listening();
    const uint16_t port = socket_port(fd);
    char text[16];

    snprintf(text, sizeof(text), "%d,", fd);
    setenv("MAYFLY_UPGRADE_SOCKETS", text, 1);
    passed_on_init(&passed);
    if (!passed_on_is_shown(&passed) || passed_on_is(&passed) ||
        passed_on_excuse(&passed, 7) != 7) {
        return 1;
    }
    /* The server that asks still serves it. */
    if (!makes_way(INADDR_ANY, port) || !is_open(fd) || !makes_way(INADDR_ANY, port)) {
        return 2;
    }
    return take(INADDR_LOOPBACK, port) == fd ? 0 : 3;
}

TEST(sockets_that_are_shown_stay_open)
{
    const pid_t child = fork();
    int status;

    if (child == 0) {
        _exit(look_at_shown());
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static const char written[] = "what was written";

TEST(sockets_are_found_by_their_addresses)
{
    int fds[] = {listening(), listening(), socket(AF_INET, SOCK_STREAM, 0), listening()};
    int fd6 = listening6();
    int memory = open("/dev/null", O_RDONLY);
    struct buf bytes = {0};
    char text[64];

    snprintf(text, sizeof(text), "0,1,2,%d,%d,nonsense,%d,9999,%d,%d", fds[0], fds[1], fds[2],
             fds[3], fd6);
    setenv("MAYFLY_PASSED_SOCKETS", text, 1);
    snprintf(text, sizeof(text), "%d", memory);
    setenv("MAYFLY_PASSED_MEMORY", text, 1);
    int file = memfd_create("test", 0);
    ck_assert_int_eq(write(file, written, sizeof(written)), sizeof(written));
    snprintf(text, sizeof(text), "%d", file);
    setenv("MAYFLY_PASSED_CONNS", text, 1);
    passed_on_init(&passed);
    ck_assert(passed_on_is(&passed));
    /* Programs that it starts know nothing of it. */
    ck_assert_ptr_null(getenv("MAYFLY_PASSED_SOCKETS"));
    ck_assert_ptr_null(getenv("MAYFLY_PASSED_MEMORY"));
    ck_assert_ptr_null(getenv("MAYFLY_PASSED_CONNS"));
    ck_assert_int_eq(fcntl(fds[1], F_GETFD), FD_CLOEXEC);

    ck_assert(passed_on_take_conns(&passed, &bytes));
    ck_assert_uint_eq(buf_len(&bytes), sizeof(written));
    ck_assert_int_eq(memcmp(buf_begin(&bytes), written, sizeof(written)), 0);
    buf_fini(&bytes);
    ck_assert(!is_open(file) && !passed_on_take_conns(&passed, &bytes));

    ck_assert_int_eq(take(INADDR_ANY, socket_port(fds[1])), -1);
    ck_assert_int_eq(take(INADDR_LOOPBACK, 1), -1);
    ck_assert_int_eq(take(INADDR_LOOPBACK, socket_port(fds[1])), fds[1]);
    ck_assert_int_eq(take(INADDR_LOOPBACK, socket_port(fds[1])), -1);
    ck_assert_int_eq(take(INADDR_LOOPBACK, 0), fds[0]);
    if (fd6 >= 0) {
        ck_assert_int_eq(take6((uint16_t)(socket_port(fd6) ^ 1)), -1);
        ck_assert_int_eq(take6(socket_port(fd6)), fd6);
        close(fd6);
    }
    ck_assert_int_eq(passed_on_excuse(&passed, 7), 0);
    ck_assert(!passed_on_is_shown(&passed));
    ck_assert(!makes_way(INADDR_ANY, 1) && !makes_way(INADDR_ANY, socket_port(fds[1])));
    ck_assert(is_open(fds[1]) && is_open(fds[3]));
    ck_assert(makes_way(INADDR_ANY, socket_port(fds[3])));
    ck_assert(!is_open(fds[3]));
    passed_on_close_rest(&passed);
    ck_assert(passed_on_is(&passed));
    ck_assert(is_open(fds[0]) && is_open(fds[1]));
    ck_assert(is_open(0) && is_open(1) && is_open(2)); /* these are never passed on */
    ck_assert(!is_open(fds[2]) && !is_open(fds[3]) && !is_open(memory));
    ck_assert_int_eq(take(INADDR_LOOPBACK, 0), -1);
    ck_assert_int_eq(passed_on_take_memory(&passed), -1);
    close(fds[0]);
    close(fds[1]);
}

TEST(without_a_descriptor_memory_is_not_noted)
{
    passed_on_init(&passed);
    ck_assert(!passed_on_note_memory(&passed, -1));
    ck_assert_int_eq(errno, EBADF);
}
