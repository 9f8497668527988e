/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See privs.h. The system calls are made directly, because the C library has no wrappers for
 * them and the system's header may be older than its kernel. Before they are made, the module
 * records which folders are to be accessible.
 */
#include "daemon/service/privs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/machine.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"

/* ---- the interface of the kernel (linux/landlock.h) -------------------------------------- */

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif

#define ASK_VERSION  1u /* LANDLOCK_CREATE_RULESET_VERSION */
#define PATH_BENEATH 1  /* LANDLOCK_RULE_PATH_BENEATH */

struct ruleset_attr {
    uint64_t fs;
    uint64_t net;   /* from version 4 on */
    uint64_t scope; /* from version 6 on */
};

struct path_attr {
    uint64_t allowed;
    int32_t fd;
}; /* the kernel reads 12 bytes */

/* LANDLOCK_ACCESS_FS_* */
#define FS_WRITE_FILE  (UINT64_C(1) << 1)
#define FS_READ_FILE   (UINT64_C(1) << 2)
#define FS_READ_DIR    (UINT64_C(1) << 3)
#define FS_REMOVE_FILE (UINT64_C(1) << 5)
#define FS_MAKE_REG    (UINT64_C(1) << 8)
#define FS_TRUNCATE    (UINT64_C(1) << 14)

/* All access rights that each version knows. */
#define FS_VERSION_1   ((UINT64_C(1) << 13) - 1)
#define FS_VERSION_2   ((UINT64_C(1) << 14) - 1) /* adds moving files between folders */
#define FS_VERSION_3   ((UINT64_C(1) << 15) - 1) /* adds truncating */
#define NET_BIND_TCP   UINT64_C(1)               /* from version 4 on; not for connecting */
#define SCOPE_ABSTRACT UINT64_C(1)               /* from version 6 on: abstract unix sockets */
#define SCOPE_SIGNAL   UINT64_C(2)

#define READ    (FS_READ_FILE | FS_READ_DIR)
#define REMOVE  (READ | FS_REMOVE_FILE | FS_WRITE_FILE | FS_TRUNCATE)
#define REPLACE (REMOVE | FS_MAKE_REG)

/* ---- recorded folders -------------------------------------------------------------------- */

/* Maximum number of folders; an ordinary configuration has far fewer. */
#define NOTES_MAX 64u

/* [main] */
static struct note {
    int fd;
    uint64_t allowed;
} notes[NOTES_MAX];
static unsigned note_count;

static void note(const char *folder, uint64_t allowed)
{
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        log_debug("privs, cannot open the folder %s (%s)", folder, strerror(errno));
    } else if (note_count == NOTES_MAX) {
        log_warn("privs, too many folders: %s will not be accessible", folder);
        close(fd);
    } else {
        notes[note_count++] = (struct note){fd, allowed};
    }
}

/* Record the folder of the file that a path names. */
static void note_parent(const char *path, uint64_t allowed)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t len = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);

    if (len < sizeof(folder)) {
        snprintf(folder, sizeof(folder), "%.*s", (int)len, path);
        note(len > 0 ? folder : ".", allowed);
    }
}

/*
 * Record the folder of a file that may be replaced by another one of the same name, and, if it
 * is a symbolic link, the folder of its target.
 */
static void note_file(const char *path, uint64_t allowed)
{
    char real[PATH_MAX];

    if (path == NULL || path[0] == '\0') {
        return;
    }
    note_parent(path, allowed);
    if (realpath(path, real) != NULL && strcmp(real, path) != 0) {
        note_parent(real, allowed);
    }
}

/* The link to another server rereads its files for each connection. */
static void note_files_of_link(const struct settings *s)
{
    char path[LIVE_TEXT_BYTES];

    setting_copy_text(s, replica_password_file, path, sizeof(path));
    note_file(path, READ);
    setting_copy_text(s, replica_tls_ca_cert, path, sizeof(path));
    note_file(path, READ);
    setting_copy_text(s, replica_tls_cert, path, sizeof(path));
    note_file(path, READ);
    setting_copy_text(s, replica_tls_key, path, sizeof(path));
    note_file(path, READ);
}

void landlock_note(const struct settings *s)
{
    must_be_main();
    if (!s->drop_privileges) {
        return;
    }
    note_file(s->auth_file, READ);
    note_file(s->access_file, READ);
    note_file(s->log_file, REPLACE);
    if (s->ssl_enabled) {
        note_file(s->ssl_chain_cert, READ);
        note_file(s->ssl_key, READ);
        note_file(s->ssl_ca_cert, READ);
    }
    note_files_of_link(s);
    if (s->dir != NULL) {
        note(s->dir, REPLACE);
    }
    for (const struct option_file *f = s->files; f != NULL; f = f->next) {
        note_file(f->name, REPLACE);
    }
}

static void forget_notes(void)
{
    while (note_count > 0) {
        close(notes[--note_count].fd);
    }
}

/* ---- confinement ------------------------------------------------------------------------- */

static bool allow(int ruleset, int fd, uint64_t allowed, uint64_t handled)
{
    const struct path_attr attr = {allowed & handled, fd};

    return syscall(SYS_landlock_add_rule, ruleset, PATH_BENEATH, &attr, 0) == 0;
}

/* Paths that do not exist need no rule. */
static bool allow_path(int ruleset, const char *path, uint64_t allowed, uint64_t handled)
{
    const int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat st;

    if (fd < 0) {
        return true;
    }
    if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode)) {
        allowed &= FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE;
    }
    bool is_done = allow(ruleset, fd, allowed, handled);
    close(fd);
    return is_done;
}

static bool allow_all(const struct settings *s, int ruleset, uint64_t handled)
{
    /* These files were created relative to the current working directory. */
    const char *const made[] = {s->pidfile, s->unix_path, s->control_path};
    static const char *const names_files[] = {"/etc/hosts", "/etc/resolv.conf",
                                              "/etc/host.conf", "/etc/gai.conf"};
    /* The targets of the symbolic links in the last of them. */
    static const char *const trusted[] = {"/usr/share/ca-certificates",
                                          "/usr/local/share/ca-certificates", "/etc/ssl/certs"};

    for (unsigned i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        if (made[i] != NULL) {
            note_parent(made[i], REMOVE);
        }
    }
    for (unsigned i = 0; i < note_count; i++) {
        if (!allow(ruleset, notes[i].fd, notes[i].allowed, handled)) {
            return false;
        }
    }
    /* Files that the C library reads for name lookups. */
    for (unsigned i = 0; i < sizeof(names_files) / sizeof(names_files[0]); i++) {
        if (!allow_path(ruleset, names_files[i], FS_READ_FILE, handled)) {
            return false;
        }
    }
    /* Certificates that a link trusts by default. */
    for (unsigned i = 0; i < sizeof(trusted) / sizeof(trusted[0]); i++) {
        if (!allow_path(ruleset, trusted[i], READ, handled)) {
            return false;
        }
    }
    /* Limits of the cgroups, which may change. */
    if (!allow_path(ruleset, "/sys/fs/cgroup", READ, handled) ||
        (machine_root()[0] != '\0' && !allow_path(ruleset, machine_root(), READ, handled))) {
        return false;
    }
    return allow_path(ruleset, "/dev/null", FS_READ_FILE | FS_WRITE_FILE, handled) &&
           allow_path(ruleset, s->sasl ? "/" : "/proc", READ, handled);
}

/* Messages go to a service manager, whose socket may be an abstract one. */
static uint64_t scopes(void)
{
    const char *manager = getenv("NOTIFY_SOCKET");

    return manager != NULL && manager[0] == '@' ? SCOPE_SIGNAL : SCOPE_SIGNAL | SCOPE_ABSTRACT;
}

/* Returns the kernel's Landlock version, or -1 with errno. */
static long confine(const struct settings *s)
{
    const long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
    struct ruleset_attr attr = {
        .fs = version >= 3   ? FS_VERSION_3
              : version == 2 ? FS_VERSION_2
                             : FS_VERSION_1,
        .net = version >= 4 && !s->sasl ? NET_BIND_TCP : 0,
        .scope = version >= 6 && !s->sasl ? scopes() : 0,
    };
    const size_t size = version >= 6   ? sizeof(attr)
                        : version >= 4 ? offsetof(struct ruleset_attr, scope)
                                       : offsetof(struct ruleset_attr, net);

    if (version < 1) {
        return -1;
    }
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (ruleset < 0) {
        return -1;
    }
    bool is_done = allow_all(s, ruleset, attr.fs) &&
                   prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                   syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
    int why = errno;
    close(ruleset);
    errno = why;
    return is_done ? version : -1;
}

void landlock_confine(const struct settings *s)
{
    long version;

    must_be_main();
    if (!s->drop_privileges) {
        return;
    }
    if (s->coredumps) {
        log_notice("privs, file access is not restricted (-r allows core files)");
    } else if ((version = confine(s)) < 0) {
        log_notice("privs, file access is not restricted (Landlock: %s)", strerror(errno));
    } else {
        log_info("privs, file access is restricted (Landlock version %ld)", version);
    }
    forget_notes();
}
