/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The unix sockets of -s and --control.
 *
 * A file at its path is removed only when it is a socket that no process listens on, that is,
 * when a connect to it is refused. The umask sets the mode from the moment of the bind.
 */
#include "daemon/net/sockets_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/net/passed_on.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* Of the control socket, whatever -a says. */
#define CONTROL_MODE ((mode_t)0600)

static int unix_failed(const struct settings *settings, const char *path, const char *call)
{
    const bool is_control = settings->control_path != NULL && path == settings->control_path;

    return listen_fault(settings, &(struct listen_fault){
                                      .id = is_control ? OPTION_control_path : OPTION_unix_path,
                                      .where = span_str(path),
                                      .call = call,
                                  });
}

/* Is there nothing, or a socket? False with errno. */
static bool may_be_ours(const char *path)
{
    struct stat st;

    if (lstat(path, &st) != 0) {
        return errno == ENOENT;
    }
    errno = EEXIST;
    return S_ISSOCK(st.st_mode);
}

/*
 * Remove a socket that no process listens on. Returns 0 when the path is free, else -1 with
 * errno.
 */
static int remove_stale(const struct sockaddr_un *addr, socklen_t len)
{
    if (!may_be_ours(addr->sun_path)) {
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    int err = connect(fd, (const struct sockaddr *)addr, len) == 0 ? EADDRINUSE : errno;
    close(fd);
    if (err != ECONNREFUSED) {
        errno = err == EAGAIN ? EADDRINUSE : err;
        return err == ENOENT ? 0 : -1;
    }
    return unlink(addr->sun_path);
}

bool sockets_unix_address(const char *path, struct sockaddr_un *addr, socklen_t *len)
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
 * The socket is made before privileges are dropped, but clients that run as the user of -u must
 * be able to use it, as with memcached. file: the socket's, opened by O_PATH.
 */
static void give_to_user(const struct settings *settings, const char *path, int file)
{
    if (geteuid() != 0 || settings->user == NULL) {
        return;
    }
    const struct passwd *pw = getpwnam(settings->user);
    if (pw == NULL || fchownat(file, "", pw->pw_uid, pw->pw_gid, AT_EMPTY_PATH) != 0) {
        log_warn("listener, cannot change the owner of %s to %s (%s)", path, settings->user,
                 pw == NULL ? "no such user" : strerror(errno));
    }
}

/*
 * Remember which file it is, so that no other file is removed at the end, and give that file to
 * the user of -u. The owner of the folder may have replaced the file since the bind: only a
 * socket that has no other name is accepted as ours.
 */
static int adopt_file(const struct settings *settings, struct socket_open *s, const char *path)
{
    int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    size_t size = strlen(path) + 1;
    struct stat st;

    if (file < 0 || fstat(file, &st) != 0) {
        (void)unix_failed(settings, path, "open()");
    } else if (!S_ISSOCK(st.st_mode) || st.st_nlink != 1) {
        errno = EEXIST;
        (void)unix_failed(settings, path, "open()");
    } else if ((s->path = mem_alloc(size)) == NULL) {
        (void)unix_failed(settings, path, "open()");
    } else {
        memcpy(s->path, path, size);
        s->dev = st.st_dev;
        s->ino = st.st_ino;
        give_to_user(settings, path, file);
    }
    if (file >= 0) {
        close(file);
    }
    return s->path != NULL ? 0 : EX_OSERR;
}

/* Can a socket be made there, by its length, by its folder, and by what is there? */
static int check_path(const struct settings *settings, const char *path)
{
    struct sockaddr_un addr;
    char copy[sizeof(addr.sun_path)];
    char folder[sizeof(addr.sun_path) + 2];
    socklen_t len;

    if (!sockets_unix_address(path, &addr, &len)) {
        errno = ENAMETOOLONG;
        return unix_failed(settings, path, "bind()");
    }
    if (path[0] == '@') {
        return 0;
    }
    strcpy(copy, path);
    snprintf(folder, sizeof(folder), "%s/.", dirname(copy)); /* not if it is a file */
    return access(folder, W_OK | X_OK) == 0 && may_be_ours(path)
               ? 0
               : unix_failed(settings, path, "bind()");
}

int sockets_check_unix(const struct settings *settings)
{
    const int status =
        settings->unix_path != NULL ? check_path(settings, settings->unix_path) : 0;
    const int other =
        settings->control_path != NULL ? check_path(settings, settings->control_path) : 0;

    must_be_main();
    return status != 0 ? status : other;
}

static int open_path(const struct settings *settings, const char *path, mode_t mode,
                     const struct conn_origin *origin, struct socket_list *out)
{
    bool is_file = path[0] != '@';
    struct sockaddr_un addr;
    socklen_t len;
    int status;

    must_be_main();
    if (!sockets_unix_address(path, &addr, &len)) {
        errno = ENAMETOOLONG;
        return unix_failed(settings, path, "bind()");
    }
    int fd = passed_on_take(settings->passed, (const struct sockaddr *)&addr, len);
    if (fd >= 0 && is_file && access(path, F_OK) != 0) {
        close(fd); /* nobody can come to it any more */
        fd = -1;
    }
    if (fd >= 0) {
        status = socket_list_add(out, fd, origin);
        return status == 0 && is_file && !passed_on_is_shown(settings->passed)
                   ? adopt_file(settings, &out->items[out->count - 1], path)
                   : status;
    }
    if (is_file && remove_stale(&addr, len) != 0) {
        return unix_failed(settings, path, "bind()");
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return unix_failed(settings, path, "socket()");
    }
    mode_t old_mask = umask(~mode & 0777);
    status = bind(fd, (const struct sockaddr *)&addr, len);
    umask(old_mask);
    if (status != 0 || (status = socket_list_add(out, fd, origin)) != 0) {
        if (status < 0) {
            (void)unix_failed(settings, path, "bind()");
            close(fd);
        }
        return EX_OSERR;
    }
    if (is_file) {
        status = adopt_file(settings, &out->items[out->count - 1], path);
        if (status != 0) {
            return status;
        }
    }
    return listen(fd, (int)settings->backlog) != 0 ? unix_failed(settings, path, "listen()")
                                                   : 0;
}

int sockets_open_unix(const struct settings *settings, struct socket_list *out)
{
    const struct conn_origin origin = {.transport = CONN_UNIX,
                                       .protocol = (uint8_t)settings->protocol,
                                       .rights = RIGHTS_ORDINARY};

    return passed_on_excuse(
        settings->passed,
        open_path(settings, settings->unix_path, (mode_t)settings->unix_mask, &origin, out));
}

struct conn_origin sockets_control_origin(void)
{
    return (struct conn_origin){.transport = CONN_UNIX,
                                .protocol = PROTOCOL_ASCII,
                                .rights = RIGHTS_OPERATOR,
                                .is_control = true};
}

int sockets_open_control(const struct settings *settings, struct socket_list *out)
{
    const struct conn_origin origin = sockets_control_origin();

    return passed_on_excuse(settings->passed, open_path(settings, settings->control_path,
                                                        CONTROL_MODE, &origin, out));
}
