/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unix sockets, inherited sockets and names; internet addresses are in sockets_inet.c.
 *
 * A file that stands where a unix socket shall be is removed only when it is a socket nobody
 * listens on: a connect to it is refused. The umask holds the mode from the moment of the bind.
 */
#include "daemon/net/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/net/sockets_inet.h"
#include "daemon/net/sockets_udp.h"
#include "daemon/options/settings.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"

/* Descriptors that a service manager passes begin here (SD_LISTEN_FDS_START). */
#define INHERIT_FIRST 3
#define INHERIT_MAX   1024u

/* ---- the list ---------------------------------------------------------------------------- */

int socket_list_add(struct socket_list *l, int fd, const struct conn_origin *origin)
{
    struct socket_open *items = mem_realloc(l->items, (l->count + 1) * sizeof(*items));
    struct socket_open *s;

    if (items == NULL) {
        log_error("listener, no memory for a socket");
        close(fd);
        return EX_OSERR;
    }
    l->items = items;
    s = &items[l->count++];
    memset(s, 0, sizeof(*s));
    s->fd = fd;
    s->origin = *origin;
    socket_name(fd, s->name);
    return 0;
}

void socket_close(struct socket_open *s)
{
    close(s->fd);
    if (s->path != NULL) {
        struct stat st;

        if (lstat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino) {
            /*
             * Not worth a word when it fails: the folder may belong to root, and we no longer
             * do.
             */
            (void)unlink(s->path);
        }
        mem_free(s->path);
        s->path = NULL;
    }
}

void sockets_fini(struct socket_list *l)
{
    mem_free(l->items);
    l->items = NULL;
    l->count = 0;
}

/* ---- names ------------------------------------------------------------------------------- */

static void unix_name(const struct sockaddr_un *un, socklen_t len, char out[SOCKET_NAME_MAX])
{
    size_t n = len > offsetof(struct sockaddr_un, sun_path)
                   ? len - offsetof(struct sockaddr_un, sun_path)
                   : 0;

    if (n > 0 && un->sun_path[0] == '\0') {
        snprintf(out, SOCKET_NAME_MAX, "unix:@%.*s", (int)(n - 1), un->sun_path + 1);
    } else {
        snprintf(out, SOCKET_NAME_MAX, "unix:%.*s", (int)strnlen(un->sun_path, n),
                 un->sun_path);
    }
}

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

void socket_name(int fd, char out[SOCKET_NAME_MAX])
{
    const char *protocol = socket_option(fd, SO_TYPE) == SOCK_DGRAM ? "udp" : "tcp";
    union {
        struct sockaddr_storage any;
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    } addr;
    socklen_t len = sizeof(addr);
    char text[INET6_ADDRSTRLEN];

    memset(&addr, 0, sizeof(addr));
    if (getsockname(fd, &addr.sa, &len) != 0) {
        snprintf(out, SOCKET_NAME_MAX, "?:<%d>", errno);
    } else if (addr.sa.sa_family == AF_INET) {
        inet_ntop(AF_INET, &addr.in.sin_addr, text, sizeof(text));
        snprintf(out, SOCKET_NAME_MAX, "%s:%s:%u", protocol, text,
                 (unsigned)ntohs(addr.in.sin_port));
    } else if (addr.sa.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &addr.in6.sin6_addr, text, sizeof(text));
        snprintf(out, SOCKET_NAME_MAX, "%s6:[%s]:%u", protocol, text,
                 (unsigned)ntohs(addr.in6.sin6_port));
    } else if (addr.sa.sa_family == AF_UNIX) {
        unix_name(&addr.un, len, out);
    } else {
        snprintf(out, SOCKET_NAME_MAX, "?:<AF %d>", (int)addr.sa.sa_family);
    }
}

/* ---- unix sockets ------------------------------------------------------------------------ */

static int unix_failed(const char *path, const char *what)
{
    log_error("listener, failed to listen on UNIX socket: %s (%s: %s)", path, what,
              strerror(errno));
    return EX_OSERR;
}

/*
 * Make way for a socket at this path. Returns 0 when nothing stands there (any more), else -1
 * with errno.
 */
static int remove_stale(const struct sockaddr_un *addr, socklen_t len)
{
    struct stat st;
    int fd;
    int err;

    if (lstat(addr->sun_path, &st) != 0) {
        return errno == ENOENT ? 0 : -1;
    }
    if (!S_ISSOCK(st.st_mode)) {
        errno = EEXIST;
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    err = connect(fd, (const struct sockaddr *)addr, len) == 0 ? EADDRINUSE : errno;
    close(fd);
    if (err != ECONNREFUSED) {
        errno = err == EAGAIN ? EADDRINUSE : err;
        return -1;
    }
    return unlink(addr->sun_path);
}

/*
 * The address of a path, or of an abstract name that is written with a leading @. False: too
 * long.
 */
static bool unix_address(const char *path, struct sockaddr_un *addr, socklen_t *len)
{
    size_t n = strlen(path);

    memset(addr, 0, sizeof(*addr));
    addr->sun_family = AF_UNIX;
    if (n == 0 || n >= sizeof(addr->sun_path)) {
        return false;
    }
    memcpy(addr->sun_path, path, n);
    if (path[0] == '@') {
        addr->sun_path[0] = '\0';
        *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    } else {
        *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    }
    return true;
}

/*
 * The socket is made before privileges are dropped, but clients of the user we become shall be
 * able to use it as they could use memcached's.
 */
static void give_to_user(const struct settings *settings, const char *path)
{
    const struct passwd *pw;

    if (geteuid() != 0 || settings->user == NULL) {
        return;
    }
    pw = getpwnam(settings->user);
    if (pw == NULL || lchown(path, pw->pw_uid, pw->pw_gid) != 0) {
        log_warn("listener, cannot give %s to %s (%s)", path, settings->user,
                 pw == NULL ? "no such user" : strerror(errno));
    }
}

/* Remember which file it is, so that nobody else's is removed at the end. */
static int remember_file(struct socket_open *s, const char *path)
{
    struct stat st;
    size_t size = strlen(path) + 1;

    s->path = mem_alloc(size);
    if (s->path == NULL || lstat(path, &st) != 0) {
        mem_free(s->path);
        s->path = NULL;
        return unix_failed(path, "lstat()");
    }
    memcpy(s->path, path, size);
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    return 0;
}

static int open_unix(const struct settings *settings, struct socket_list *out)
{
    const char *path = settings->unix_path;
    struct conn_origin origin = {.transport = CONN_UNIX,
                                 .protocol = (uint8_t)settings->protocol};
    bool is_file = path[0] != '@';
    struct sockaddr_un addr;
    socklen_t len;
    mode_t old_mask;
    int status;
    int fd;

    if (!unix_address(path, &addr, &len)) {
        errno = ENAMETOOLONG;
        return unix_failed(path, "bind()");
    }
    if (is_file && remove_stale(&addr, len) != 0) {
        return unix_failed(path, "bind()");
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return unix_failed(path, "socket()");
    }
    old_mask = umask(~(mode_t)settings->unix_mask & 0777);
    status = bind(fd, (const struct sockaddr *)&addr, len);
    umask(old_mask);
    if (status != 0 || (status = socket_list_add(out, fd, &origin)) != 0) {
        if (status < 0) {
            (void)unix_failed(path, "bind()");
            close(fd);
        }
        return EX_OSERR;
    }
    if (is_file) {
        status = remember_file(&out->items[out->count - 1], path);
        if (status != 0) {
            return status;
        }
        give_to_user(settings, path);
    }
    if (listen(fd, (int)settings->backlog) != 0) {
        return unix_failed(path, "listen()");
    }
    return 0;
}

/* ---- sockets of a service manager -------------------------------------------------------- */

static bool is_listening_stream(int fd)
{
    int domain = socket_option(fd, SO_DOMAIN);

    return (domain == AF_INET || domain == AF_INET6 || domain == AF_UNIX) &&
           socket_option(fd, SO_TYPE) == SOCK_STREAM && socket_option(fd, SO_ACCEPTCONN) == 1;
}

/* How many descriptors were passed to this very process; 0 for none and for nonsense. */
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

    *found = false;
    for (i = 0; i < count; i++) {
        int fd = INHERIT_FIRST + (int)i;
        int flags = fcntl(fd, F_GETFL);
        struct conn_origin origin;
        int status;

        if (flags < 0 || !is_listening_stream(fd)) {
            log_warn(
                "listener, passed descriptor %d is left alone (no listening stream socket)",
                fd);
            continue;
        }
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
            fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
            log_error("listener, cannot use passed descriptor %d (%s)", fd, strerror(errno));
            return EX_OSERR;
        }
        origin = inet_origin(settings, NULL);
        if (socket_option(fd, SO_DOMAIN) == AF_UNIX) {
            origin.transport = CONN_UNIX;
        } else {
            inet_set_options(fd);
        }
        status = socket_list_add(out, fd, &origin);
        if (status != 0) {
            return status;
        }
        *found = true;
    }
    return 0;
}

/* ---- all of them ------------------------------------------------------------------------- */

int sockets_open(const struct settings *settings, struct socket_list *out,
                 struct socket_list *udp)
{
    int status = 0;

    if (settings->unix_path != NULL) {
        status = open_unix(settings, out);
        if (status != 0 || !settings->listen_both) {
            return status;
        }
    }
    if (settings->port != 0) {
        status = inet_open(settings, out);
    }
    if (status == 0) {
        status = udp_sockets_open(settings, udp);
    }
    if (status != 0 || (settings->port == 0 && settings->udp_port == 0)) {
        return status;
    }
    return inet_write_ports(out, udp);
}
