/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts a daemon for a test: in a fresh temporary directory, on a unix socket there and, when
 * asked, on an ephemeral TCP port; waits until it serves; stops it by its process id and
 * removes the directory. The daemon dies with the test.
 */
#ifndef MAYFLY_TESTS_COMMON_DAEMON_H
#define MAYFLY_TESTS_COMMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum test_daemon_kind {
    TEST_DAEMON_UNIX,    /* unix socket only */
    TEST_DAEMON_TCP,     /* TCP on 127.0.0.1 only */
    TEST_DAEMON_CONTROL, /* unix socket, and the control sockets of both kinds */
};

struct test_daemon {
    pid_t pid;
    uint16_t port;            /* TCP */
    char folder[64];          /* temporary, removed by test_daemon_stop() */
    char socket[96];          /* path of the unix socket */
    char control[96];         /* path of the control socket of mayflyd-test */
    char operator_socket[96]; /* path of the server's control socket (--control) */
};

/*
 * The path of a built program: `name` in the build tree, or the value of the environment
 * variable `env`. Fills `out`; false when there is no such program. Context: any thread.
 */
bool test_program(const char *name, const char *env, char *out, size_t out_size);

/*
 * Start a program that takes memcached's options, with the extra ones (NULL at the end; may be
 * NULL). False when it does not serve after some seconds; prints why to stderr. Context: main.
 */
bool test_daemon_start(struct test_daemon *d, const char *program, enum test_daemon_kind kind,
                       const char *const *extra);

/*
 * Connect, and return the blocking socket; -1 and a message when that fails. To the control
 * socket of the server, to the daemon, and to the control socket of mayflyd-test. Context: any
 * thread.
 */
int test_operator_connect(const struct test_daemon *d);
int test_daemon_connect(const struct test_daemon *d);
int test_control_connect(const struct test_daemon *d);

/*
 * SIGTERM, then wait; after 100 s SIGKILL. Returns the exit status, or 128 + signal. Removes
 * the directory. Context: main.
 */
int test_daemon_stop(struct test_daemon *d);

/* Write all; false when the other side is gone. Context: any thread. */
bool test_send(int fd, const void *bytes, size_t n);

#endif
