/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See sockets_parts.h. The kernel lists sockets with their inodes, and the descriptors of each
 * process as links to these.
 */
#include "daemon/net/sockets_parts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/options/options_apply.h"
#include "lib/base/context.h"

#define PORT_OWNER_BYTES 64

#define STATE_LISTEN 0x0au

/* The inode of a socket in this table of /proc that has the port; 0: none. */
static uint64_t find_in_table(const char *path, uint16_t port, int type)
{
    FILE *table = fopen(path, "re");
    char line[512];
    uint64_t found = 0;

    while (table != NULL && found == 0 && fgets(line, sizeof(line), table) != NULL) {
        unsigned local, state;
        uint64_t inode;

        /* "0: 0100007F:2BCB 00000000:0000 0A 0:0 0:0 0 0 0 INODE", with more zeros */
        if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*u %*u %" SCNu64,
                   &local, &state, &inode) == 3 &&
            local == port && (type != SOCK_STREAM || state == STATE_LISTEN)) {
            found = inode;
        }
    }
    if (table != NULL) {
        (void)fclose(table);
    }
    return found;
}

static uint64_t find_socket(uint16_t port, int type)
{
    const bool is_tcp = type == SOCK_STREAM;
    const uint64_t inode =
        find_in_table(is_tcp ? "/proc/net/tcp" : "/proc/net/udp", port, type);

    return inode != 0 ? inode
                      : find_in_table(is_tcp ? "/proc/net/tcp6" : "/proc/net/udp6", port, type);
}

/* Has this process a descriptor that is a link to that? Not, if it may not be looked at. */
static bool has_descriptor(const char *pid, const char *link)
{
    char path[64];
    char target[64];
    DIR *dir;
    bool is_found = false;

    snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
    dir = opendir(path);
    for (const struct dirent *e; dir != NULL && !is_found && (e = readdir(dir)) != NULL;) {
        const ssize_t len = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

        target[len > 0 ? len : 0] = '\0';
        is_found = strcmp(target, link) == 0;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return is_found;
}

/* The name of the program, as the kernel has it. */
static void read_name(const char *pid, char *name, size_t size)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
    f = fopen(path, "re");
    if (f == NULL || fgets(name, (int)size, f) == NULL) {
        snprintf(name, size, "a process");
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    for (char *p = name; *p != '\0'; p++) {
        *p = *p == '\n' ? '\0' : isprint((unsigned char)*p) ? *p : '?';
    }
}

/*
 * "by NAME, pid NUMBER" for the process whose socket uses this port, or "" if that is not
 * visible. Fills text.
 */
static const char *port_owner(uint16_t port, int type, char text[PORT_OWNER_BYTES])
{
    const uint64_t inode = find_socket(port, type);
    DIR *dir = inode != 0 ? opendir("/proc") : NULL;
    char link[64];
    char name[24];

    must_be_main();
    text[0] = '\0';
    snprintf(link, sizeof(link), "socket:[%" PRIu64 "]", inode);
    for (const struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (isdigit((unsigned char)e->d_name[0]) && has_descriptor(e->d_name, link)) {
            read_name(e->d_name, name, sizeof(name));
            snprintf(text, PORT_OWNER_BYTES, " by %s, pid %.20s", name, e->d_name);
            break;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return text;
}

int listen_fault(const struct settings *settings, const struct listen_fault *f)
{
    const int error = errno;
    const char *reason = f->reason != NULL ? f->reason : strerror(error);
    char owner[PORT_OWNER_BYTES];

    must_be_main();
    if (f->reason == NULL && error == EADDRINUSE && f->port != 0) {
        option_fault(
            settings, f->id,
            "cannot listen on %.*s: port %u is in use%s (stop it, or choose another port)",
            (int)f->where.len, f->where.ptr, (unsigned)f->port,
            port_owner(f->port, f->type, owner));
    } else if (f->call != NULL) {
        option_fault(settings, f->id, "cannot listen on %.*s: %s (%s)", (int)f->where.len,
                     f->where.ptr, reason, f->call);
    } else {
        option_fault(settings, f->id, "cannot listen on %.*s: %s", (int)f->where.len,
                     f->where.ptr, reason);
    }
    errno = error;
    return EX_OSERR;
}
