/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All sockets together: those of the settings, or those of a service manager.
 */
#include "daemon/net/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "daemon/net/passed_on.h"
#include "daemon/net/sockets_parts.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"

#define INHERIT_MAX 1024u

#define METRICS_NAME "metrics"
#define CONTROL_NAME "control"

/* ---- sockets of a service manager -------------------------------------------------------- */

static bool is_listening_stream(int fd)
{
    int domain = socket_option(fd, SO_DOMAIN);

    return (domain == AF_INET || domain == AF_INET6 || domain == AF_UNIX) &&
           socket_option(fd, SO_TYPE) == SOCK_STREAM && socket_option(fd, SO_ACCEPTCONN) == 1;
}

/* 0: none, or malformed variables. */
uint32_t sockets_inherited_count(const struct passed_on *passed)
{
    const char *pid = getenv("LISTEN_PID");
    const char *fds = getenv("LISTEN_FDS");
    uint64_t pid_number;
    uint32_t count;

    if (pid == NULL || fds == NULL || num_u64(span_str(pid), &pid_number) != MF_OK ||
        num_u32(span_str(fds), &count) != MF_OK ||
        (pid_number != (uint64_t)getpid() &&
         !(passed_on_is_shown(passed) && pid_number == (uint64_t)getppid()))) {
        return 0;
    }
    return count < INHERIT_MAX ? count : INHERIT_MAX;
}

/* The name of the descriptor with this number among those that were passed; empty: none. */
static struct span inherited_name(uint32_t number)
{
    const char *names = getenv("LISTEN_FDNAMES");

    for (; names != NULL; number--) {
        size_t len = strcspn(names, ":");

        if (number == 0) {
            return span_of(names, len);
        }
        names = names[len] == ':' ? names + len + 1 : NULL;
    }
    return span_of("", 0);
}

/* Make a passed descriptor ours. Returns 0, or the exit status after a message was written. */
static int adopt_inherited(const struct settings *settings, int fd, struct span name,
                           struct socket_list *out)
{
    struct conn_origin origin = sockets_tcp_origin(settings, NULL);
    const bool is_unix = socket_option(fd, SO_DOMAIN) == AF_UNIX;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        log_error("listener, cannot use passed descriptor %d (%s)", fd, strerror(errno));
        return EX_OSERR;
    }
    if (span_is(name, CONTROL_NAME)) {
        if (!is_unix) {
            log_error("listener, passed descriptor %d is for control, but is not a unix socket",
                      fd);
            return EX_USAGE;
        }
        origin = sockets_control_origin();
        return socket_list_add(out, fd, &origin);
    }
    if (is_unix) {
        origin.transport = CONN_UNIX;
        return socket_list_add(out, fd, &origin);
    }
    origin.is_proxied = span_is(name, "proxied");
    if (span_is(name, "client")) {
        origin.transport = CONN_TCP;
    } else if (span_is(name, "tls") && origin.transport != CONN_TLS) {
        log_error("listener, passed descriptor %d is for TLS, which is off (-Z)", fd);
        return EX_USAGE;
    }
    if (!passed_on_is_shown(settings->passed)) {
        sockets_set_tcp_options(settings, fd);
    }
    return socket_list_add(out, fd, &origin);
}

static enum inherit_for purpose_of(struct span name)
{
    if (span_is(name, METRICS_NAME)) {
        return INHERIT_METRICS;
    }
    if (span_is(name, SOCKETS_MEMORY_NAME)) {
        return INHERIT_MEMORY;
    }
    return span_is(name, CONTROL_NAME) ? INHERIT_CONTROL : INHERIT_CLIENTS;
}

int sockets_inherited_memory(const struct passed_on *passed, uint32_t number)
{
    uint32_t count = sockets_inherited_count(passed);

    must_be_main();
    for (uint32_t i = 0; i < count; i++) {
        int fd = SOCKETS_INHERIT_FIRST + (int)i;

        if (purpose_of(inherited_name(i)) == INHERIT_MEMORY && number-- == 0) {
            return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? fd : -1;
        }
    }
    return -1;
}

int sockets_inherit(const struct settings *settings, enum inherit_for what,
                    struct socket_list *out, bool *found)
{
    uint32_t count = sockets_inherited_count(settings->passed);

    must_be_main();
    *found = false;
    for (uint32_t i = 0; i < count; i++) {
        int fd = SOCKETS_INHERIT_FIRST + (int)i;
        struct span name = inherited_name(i);

        if (purpose_of(name) != what) {
            continue;
        }
        if (!is_listening_stream(fd)) {
            log_warn("listener, ignored passed descriptor %d (not a listening stream socket)",
                     fd);
            continue;
        }
        int status = adopt_inherited(settings, fd, name, out);
        if (status != 0) {
            return status;
        }
        *found = true;
    }
    return 0;
}

/* ---- the file of ports ------------------------------------------------------------------- */

/* "TCP INET6: 65535" and its end, rounded up. */
#define PORT_LINE_BYTES 24

/*
 * Append the lines of a list to text; returns the new length. The sockets of one address are
 * neighbours: its line is written once.
 */
static size_t put_ports(char *text, size_t len, const struct socket_list *l,
                        const char *protocol)
{
    const char *last = "";

    for (uint32_t i = 0; i < l->count; i++) {
        const struct socket_open *s = &l->items[i];

        if (s->origin.transport != CONN_UNIX && strcmp(s->name, last) != 0) {
            len += (size_t)snprintf(text + len, PORT_LINE_BYTES, "%s %s: %u\n", protocol,
                                    strchr(s->name, '[') != NULL ? "INET6" : "INET",
                                    (unsigned)socket_port(s->fd));
            last = s->name;
        }
    }
    return len;
}

/*
 * Write the ports to the file that MEMCACHED_PORT_FILENAME names, if it does, in memcached's
 * form ("TCP INET: 1234"). Root may do this in a folder of the user it becomes.
 */
static int write_port_file(const struct passed_on *passed, const struct socket_list *tcp,
                           const struct socket_list *udp)
{
    const char *path = getenv("MEMCACHED_PORT_FILENAME");
    struct file_id id;
    int status = 0;

    if (path == NULL || path[0] == '\0' || passed_on_is_shown(passed)) {
        return 0;
    }
    char *text = mem_alloc(((size_t)tcp->count + udp->count + 1) * PORT_LINE_BYTES);
    if (text == NULL) {
        log_error("listener, cannot write the ports to %s (out of memory)", path);
        return EX_OSERR;
    }
    size_t len = put_ports(text, 0, tcp, "TCP");
    len = put_ports(text, len, udp, "UDP");
    if (!file_replace(path, span_of(text, len), 0666, &id)) {
        log_error("listener, cannot write the ports to %s (%s)", path, strerror(errno));
        status = passed_on_excuse(passed, EX_OSERR);
    }
    mem_free(text);
    return status;
}

/* ---- the sockets of the settings --------------------------------------------------------- */

int sockets_check(const struct settings *settings)
{
    int other;

    must_be_main();
    int status = sockets_check_unix(settings);
    if (settings->port != 0 && (settings->unix_path == NULL || settings->listen_both)) {
        other = sockets_check_tcp(settings);
        status = status != 0 ? status : other;
    }
    other = sockets_check_metrics(settings);
    return status != 0 ? status : other;
}

int sockets_open(const struct settings *settings, struct socket_list *out,
                 struct socket_list *udp)
{
    int status = 0;

    must_be_main();
    if (settings->unix_path != NULL) {
        status = sockets_open_unix(settings, out);
        if (status != 0 || !settings->listen_both) {
            return status;
        }
    }
    if (settings->port != 0) {
        status = sockets_open_tcp(settings, out);
    }
    if (status == 0) {
        status = sockets_open_udp(settings, udp);
    }
    return status != 0 ? status : write_port_file(settings->passed, out, udp);
}
