/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to the service manager, on the main thread: one datagram each to the socket that
 * NOTIFY_SOCKET names, by its path or, after an @, as an abstract socket. sd_notify(3)
 * documents this protocol as stable. libsystemd is not used, because it loads six other
 * libraries, which together take a megabyte.
 */
#include "daemon/service/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/net/sockets_parts.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/num.h"

/* Longest message; a longer one is cut. */
#define NOTIFY_BYTES 512

/*
 * A manager that does not read from its socket must not block the server. Important messages
 * wait this long for room, milliseconds; others do not wait.
 */
#define PATIENCE_MS 500

/* Returns 0, or an errno. passed: a descriptor to send with it, or -1. */
static int send_to(const char *name, const char *state, int passed, bool may_wait)
{
    const struct timeval patience = {.tv_usec = PATIENCE_MS * 1000};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct sockaddr_un address;
    struct iovec text = {(void *)(uintptr_t)state, strlen(state)};
    struct msghdr message = {
        .msg_name = &address, .msg_iov = &text, .msg_iovlen = 1, .msg_control = NULL};
    socklen_t len;

    if ((name[0] != '/' && name[0] != '@') || name[1] == '\0' ||
        !sockets_unix_address(name, &address, &len)) {
        return EINVAL;
    }
    message.msg_namelen = len;
    if (passed >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &passed, sizeof(int));
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | (may_wait ? 0 : MSG_DONTWAIT));
    int error = sent < 0 ? errno : 0;
    (void)close(fd);
    return error;
}

static MF_PRINTF(2, 3) void send_state(bool may_wait, const char *fmt, ...)
{
    const char *name = getenv("NOTIFY_SOCKET");
    char state[NOTIFY_BYTES];

    must_be_main();
    MF_FORMAT(state, sizeof(state), fmt);
    int error = name != NULL ? send_to(name, state, -1, may_wait) : 0;
    if (error != 0) {
        log_debug("notify, message not delivered (%s)", strerror(error));
    }
}

void notify_ready(const char *status)
{
    send_state(true, "READY=1\nMAINPID=%ld\nSTATUS=%s", (long)getpid(), status);
}

void notify_reloading(void)
{
    send_state(true, "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading",
               (long long)clock_mono_us());
}

void notify_status(const char *status)
{
    send_state(false, "STATUS=%s", status);
}

void notify_takes_time(const char *status)
{
    send_state(false, "STATUS=%s\nEXTEND_TIMEOUT_USEC=30000000\nWATCHDOG=1", status);
}

void notify_alive(void)
{
    send_state(false, "WATCHDOG=1");
}

uint64_t notify_watchdog_us(void)
{
    const char *usec = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    uint64_t number;

    must_be_main();
    /* The variable may be meant for the process that started this one. */
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

/* Time limit for the manager to read the messages, in milliseconds. */
#define BARRIER_MS 2000

/* Wait until the manager has read all messages: then it closes the descriptor sent here. */
static bool wait_until_read(const char *name)
{
    struct pollfd p = {.events = 0};
    int ends[2];
    bool is_read = false;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    p.fd = ends[0];
    if (send_to(name, "BARRIER=1", ends[1], true) == 0) {
        (void)close(ends[1]);
        ends[1] = -1;
        is_read = poll(&p, 1, BARRIER_MS) == 1 && (p.revents & POLLHUP) != 0;
    }
    (void)close(ends[0]);
    if (ends[1] >= 0) {
        (void)close(ends[1]);
    }
    return is_read;
}

/* Request the manager to keep or drop a descriptor, and wait until it has read that. */
static bool tell_of_kept(const char *what, const char *name, int fd)
{
    const char *manager = getenv("NOTIFY_SOCKET");
    char state[NOTIFY_BYTES];

    must_be_main();
    snprintf(state, sizeof(state), "%s=1\nFDNAME=%s%s", what, name,
             fd >= 0 ? "\nFDPOLL=0" : "");
    return manager != NULL && send_to(manager, state, fd, true) == 0 &&
           wait_until_read(manager);
}

bool notify_keep(const char *name, int fd)
{
    return tell_of_kept("FDSTORE", name, fd);
}

bool notify_forget(const char *name)
{
    return tell_of_kept("FDSTOREREMOVE", name, -1);
}

void notify_stopping(void)
{
    send_state(true, "STOPPING=1\nSTATUS=stopping");
}
