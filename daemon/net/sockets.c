/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All sockets together: those of the settings, or those of a service manager.
 */
#include "daemon/net/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/net/sockets_tcp.h"
#include "daemon/net/sockets_udp.h"
#include "daemon/net/sockets_unix.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"
#include "lib/base/num.h"

/* Descriptors that a service manager passes begin here (SD_LISTEN_FDS_START). */
#define INHERIT_FIRST 3
#define INHERIT_MAX   1024u

/* ---- sockets of a service manager -------------------------------------------------------- */

static bool is_listening_stream(int fd)
{
    int domain = socket_option(fd, SO_DOMAIN);

    return (domain == AF_INET || domain == AF_INET6 || domain == AF_UNIX) &&
           socket_option(fd, SO_TYPE) == SOCK_STREAM && socket_option(fd, SO_ACCEPTCONN) == 1;
}

/* The number of descriptors passed to this process; 0: none, or malformed variables. */
static uint32_t inherited_count(void)
{
    const char *pid = getenv("LISTEN_PID");
    const char *fds = getenv("LISTEN_FDS");
    uint64_t pid_number;
    uint32_t count;

    if (pid == NULL || fds == NULL || num_u64(span_str(pid), &pid_number) != MF_OK ||
        num_u32(span_str(fds), &count) != MF_OK || pid_number != (uint64_t)getpid()) {
        return 0;
    }
    return count < INHERIT_MAX ? count : INHERIT_MAX;
}

int sockets_inherit(const struct settings *settings, struct socket_list *out, bool *found)
{
    uint32_t count = inherited_count();
    uint32_t i;

    must_be_main();
    *found = false;
    for (i = 0; i < count; i++) {
        int fd = INHERIT_FIRST + (int)i;
        int flags = fcntl(fd, F_GETFL);
        struct conn_origin origin;
        int status;

        if (flags < 0 || !is_listening_stream(fd)) {
            log_warn("listener, ignored passed descriptor %d (not a listening stream socket)",
                     fd);
            continue;
        }
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
            fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
            log_error("listener, cannot use passed descriptor %d (%s)", fd, strerror(errno));
            return EX_OSERR;
        }
        origin = sockets_tcp_origin(settings, NULL);
        if (socket_option(fd, SO_DOMAIN) == AF_UNIX) {
            origin.transport = CONN_UNIX;
        } else {
            sockets_set_tcp_options(fd);
        }
        status = socket_list_add(out, fd, &origin);
        if (status != 0) {
            return status;
        }
        *found = true;
    }
    return 0;
}

/* ---- the file of ports ------------------------------------------------------------------- */

/* The sockets of one address are neighbours: its line is written once. */
static void write_ports_of(FILE *f, const struct socket_list *l, const char *protocol)
{
    const char *last = "";

    for (uint32_t i = 0; i < l->count; i++) {
        const struct socket_open *s = &l->items[i];

        if (s->origin.transport != CONN_UNIX && strcmp(s->name, last) != 0) {
            fprintf(f, "%s %s: %u\n", protocol, strchr(s->name, '[') != NULL ? "INET6" : "INET",
                    (unsigned)socket_port(s->fd));
            last = s->name;
        }
    }
}

static int write_ports(const struct socket_list *tcp, const struct socket_list *udp,
                       const char *path)
{
    FILE *f = fopen(path, "we");
    int err;

    if (f == NULL) {
        return -1;
    }
    write_ports_of(f, tcp, "TCP");
    write_ports_of(f, udp, "UDP");
    err = ferror(f);
    return fclose(f) != 0 || err != 0 ? -1 : 0;
}

/*
 * Write the ports to the file that MEMCACHED_PORT_FILENAME names, if it does, in memcached's
 * form ("TCP INET: 1234"), under a temporary name that is then renamed.
 */
static int write_port_file(const struct socket_list *tcp, const struct socket_list *udp)
{
    const char *path = getenv("MEMCACHED_PORT_FILENAME");
    char temporary[PATH_MAX];

    if (path == NULL || path[0] == '\0') {
        return 0;
    }
    if ((size_t)snprintf(temporary, sizeof(temporary), "%s.lck", path) >= sizeof(temporary)) {
        log_error("listener, cannot write the ports (name too long)");
        return EX_OSERR;
    }
    if (write_ports(tcp, udp, temporary) != 0 || rename(temporary, path) != 0) {
        log_error("listener, cannot write the ports to %s (%s)", path, strerror(errno));
        (void)unlink(temporary);
        return EX_OSERR;
    }
    return 0;
}

/* ---- the sockets of the settings --------------------------------------------------------- */

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
    if (status != 0 || (settings->port == 0 && settings->udp_port == 0)) {
        return status;
    }
    return write_port_file(out, udp);
}
