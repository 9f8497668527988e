/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to the service manager, on the main thread: one datagram each to the socket that
 * NOTIFY_SOCKET names, by its path or, after an @, by its name without one. sd_notify(3) says
 * so and promises that it stays so. libsystemd would do it too, but loads six other libraries,
 * and all together take a megabyte.
 */
#include "daemon/service/notify.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/num.h"

/* Longest message; a longer one is cut. */
#define NOTIFY_BYTES 512

/* False when there can be no such socket. */
static bool address_of(const char *name, struct sockaddr_un *address, socklen_t *len)
{
    size_t n = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || n < 2 || n >= sizeof(address->sun_path)) {
        return false;
    }
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, name, n);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (name[0] == '@') {
        address->sun_path[0] = '\0';
    }
    return true;
}

/*
 * A manager that keeps its socket and does not read from it holds nobody up: what it must hear
 * waits so long for room, milliseconds, the rest not at all.
 */
#define PATIENCE_MS 500

/* 0, or an errno. */
static int send_to(const char *name, const char *state, bool may_wait)
{
    const struct timeval patience = {.tv_usec = PATIENCE_MS * 1000};
    struct sockaddr_un address;
    socklen_t len;
    ssize_t sent;
    int error;
    int fd;

    if (!address_of(name, &address, &len)) {
        return EINVAL;
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL | (may_wait ? 0 : MSG_DONTWAIT),
                  (const struct sockaddr *)&address, len);
    error = sent < 0 ? errno : 0;
    (void)close(fd);
    return error;
}

static void send_state(const char *state, bool may_wait)
{
    const char *name = getenv("NOTIFY_SOCKET");
    int error = name != NULL ? send_to(name, state, may_wait) : 0;

    if (error != 0) {
        log_debug("notify, message not delivered (%s)", strerror(error));
    }
}

void notify_ready(const char *status)
{
    char state[NOTIFY_BYTES];

    must_be_main();
    snprintf(state, sizeof(state), "READY=1\nMAINPID=%ld\nSTATUS=%s", (long)getpid(), status);
    send_state(state, true);
}

void notify_reloading(void)
{
    char state[NOTIFY_BYTES];

    must_be_main();
    snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading",
             (long long)clock_mono_us());
    send_state(state, true);
}

void notify_status(const char *status)
{
    char state[NOTIFY_BYTES];

    must_be_main();
    snprintf(state, sizeof(state), "STATUS=%s", status);
    send_state(state, false);
}

void notify_takes_time(const char *status)
{
    char state[NOTIFY_BYTES];

    must_be_main();
    snprintf(state, sizeof(state), "STATUS=%s\nEXTEND_TIMEOUT_USEC=30000000\nWATCHDOG=1",
             status);
    send_state(state, false);
}

void notify_alive(void)
{
    must_be_main();
    send_state("WATCHDOG=1", false);
}

uint64_t notify_watchdog_us(void)
{
    const char *usec = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    uint64_t number;

    must_be_main();
    /* It may be meant for a process that started this one. */
    if (usec == NULL || (pid != NULL && (num_u64(span_str(pid), &number) != MF_OK ||
                                         number != (uint64_t)getpid()))) {
        return 0;
    }
    return num_u64(span_str(usec), &number) == MF_OK ? number : 0;
}

bool notify_has_manager(void)
{
    must_be_main();
    return getenv("NOTIFY_SOCKET") != NULL;
}

void notify_stopping(void)
{
    must_be_main();
    send_state("STOPPING=1\nSTATUS=stopping", true);
}
