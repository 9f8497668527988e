/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process and its place in the system: standard descriptors, signals, limits, user, memory
 * lock. All on the main thread before there are others. -d and -P are in
 * privs_background.c.
 */
#include "daemon/service/privs.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/net/sockets.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"

/*
 * Descriptors not used for clients: three standard ones, listeners, and for the loop of each
 * thread an epoll, an event, a signal pair and a spare one.
 */
#define FDS_BASE       64
#define FDS_PER_THREAD 8

int privs_open_std_fds(void)
{
    must_be_main();
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) {
            continue;
        }
        /* The lowest free number is fd, as those below are already open. */
        if (open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) != fd) {
            return EX_OSERR;
        }
    }
    return 0;
}

static bool is_root(void)
{
    return getuid() == 0 || geteuid() == 0;
}

/* The user of -u, looked up each time it is needed. NULL: there is none. */
static struct passwd *find_user(const struct settings *s)
{
    errno = 0;
    return getpwnam(s->user);
}

int privs_check_user(const struct settings *s)
{
    must_be_main();
    if (!is_root()) {
        return 0;
    }
    if (s->user == NULL) {
        option_fault(s, OPTION_user,
                     "missing, and root does not serve (name a user to run as, or -u root)");
        return EX_USAGE;
    }
    if (find_user(s) == NULL) {
        option_fault(s, OPTION_user, "there is no user %s to switch to", s->user);
        return EX_NOUSER;
    }
    return 0;
}

void privs_ignore_signals(const struct settings *s)
{
    struct sigaction sa = {.sa_handler = SIG_IGN};

    must_be_main();
    sigemptyset(&sa.sa_mask);
    sigaction(SIGPIPE, &sa, NULL);
    sigaction(SIGXFSZ, &sa, NULL); /* a write beyond ulimit -f fails instead */
    if (s->daemonize) {
        sigaction(SIGHUP, &sa, NULL);
    }
}

/* As high as possible; the hard limit too if that is allowed. */
static int raise_core_limit(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_CORE, &limit) != 0) {
        if (getrlimit(RLIMIT_CORE, &limit) != 0) {
            return EX_OSERR;
        }
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_CORE, &limit) != 0) {
            return EX_OSERR;
        }
    }
    return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur > 0 ? 0 : EX_OSERR;
}

/*
 * The memory of the process has values, passwords before they become digests, and keys of TLS.
 * Without -r none of that may be written to a disk. The limit alone would not suffice: it does
 * not apply where the system pipes core files to a program. A process that cannot be dumped
 * cannot be traced either, except by root. A change of ids sets the flag again, so this is
 * called before and after it.
 */
static void allow_core(const struct settings *s)
{
    struct rlimit limit;

    prctl(PR_SET_DUMPABLE, s->coredumps ? 1 : 0, 0, 0, 0);
    if (!s->coredumps && getrlimit(RLIMIT_CORE, &limit) == 0) {
        limit.rlim_cur = 0;
        (void)setrlimit(RLIMIT_CORE, &limit); /* lowering it is always allowed */
    }
}

/* Descriptors for this many connections, and for the process itself. */
static rlim_t fds_for(const struct settings *s, uint32_t conn_limit, uint32_t threads)
{
    return (rlim_t)conn_limit + s->admin_conns + s->replica_conns + CONTROL_CONNS_MAX +
           FDS_BASE + (rlim_t)(threads + 2) * FDS_PER_THREAD;
}

/*
 * It goes up to the hard limit, because a later -c cannot raise it where privileges are
 * dropped. Where the system's limit leaves room for the connections alone, the server starts as
 * memcached does, and accepts less than -c says.
 */
static int raise_fd_limit(const struct settings *s)
{
    struct rlimit limit;
    const uint32_t clients = setting_get(s, conn_limit);
    const rlim_t wanted = fds_for(s, clients, setting_get(s, threads));
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return EX_OSERR;
    }
    const rlim_t hard = limit.rlim_max;
    const bool fits = limit.rlim_cur >= wanted; /* RLIM_INFINITY is the largest number */
    limit.rlim_max = hard > wanted ? hard : wanted;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || fits) {
        return 0;
    }
    limit.rlim_cur = hard;
    limit.rlim_max = hard;
    if (hard < clients || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return EX_OSERR;
    }
    log_warn("privs, fewer than %" PRIu32
             " connections can be served (limit on open files is %ju)",
             clients, (uintmax_t)hard);
    return 0;
}

bool privs_fit(const struct settings *s, uint32_t conn_limit, uint32_t threads,
               uint64_t *limit_now)
{
    struct rlimit limit = {0, 0};

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    *limit_now = limit.rlim_cur;
    return limit.rlim_cur >= fds_for(s, conn_limit, threads);
}

int privs_set_limits(const struct settings *s)
{
    must_be_main();
    allow_core(s);
    if (s->coredumps && raise_core_limit() != 0) {
        option_fault(s, OPTION_coredumps,
                     "the limit on core files is 0 and cannot be raised (ulimit -c)");
        return EX_OSERR;
    }
    if (raise_fd_limit(s) != 0) {
        option_fault(s, OPTION_conn_limit,
                     "%" PRIu32
                     " connections are more than the limit on open files allows (start "
                     "as root, or raise it: ulimit -n)",
                     setting_get(s, conn_limit));
        return EX_OSERR;
    }
    return 0;
}

/*
 * Locking is unlimited for a process that has CAP_IPC_LOCK, which is given up soon: the limit
 * must be lifted as well. With a finite one later mappings (reserved address space counts in
 * full) would fail, and the server with them.
 */
static bool lift_lock_limit(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        return true;
    }
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_max != RLIM_INFINITY) {
        return false;
    }
    limit.rlim_cur = RLIM_INFINITY;
    return setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
}

/* errno has the reason. */
static int cannot_lock(const struct settings *s, const char *what)
{
    if (s->lock_memory_required) {
        option_fault(s, OPTION_lock_memory_required, "memory cannot be locked (%s: %s)", what,
                     strerror(errno));
        return EX_OSERR;
    }
    log_warn("privs, -k has no effect (%s: %s)", what, strerror(errno));
    return 0;
}

int privs_lock_memory(const struct settings *s)
{
    must_be_main();
    if (!s->lock_memory && !s->lock_memory_required) {
        return 0;
    }
    if (!lift_lock_limit()) {
        return cannot_lock(s, "the limit on locked memory is finite");
    }
    return mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0 ? 0
                                                                 : cannot_lock(s, "mlockall");
}

/*
 * No program executed later, and no remaining capability set, may restore a privilege. The
 * bounding set can be emptied only with CAP_SETPCAP, that is, by root; without it there are no
 * privileges to drop.
 */
static void close_way_back(void)
{
    prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
        prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/*
 * Empty the permitted, effective and inheritable sets. Under a system call filter that forbids
 * even this (the service manager's), it is enough if they are empty already.
 */
static bool clear_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    memset(data, 0, sizeof(data));
    if (syscall(SYS_capset, &header, data) == 0) {
        return true;
    }
    const int why = errno;
    if (syscall(SYS_capget, &header, data) == 0) {
        uint32_t left = 0;
        for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
            left |= data[i].permitted | data[i].effective | data[i].inheritable;
        }
        if (left == 0) {
            return true;
        }
    }
    errno = why;
    return false;
}

static int change_user(const struct settings *s)
{
    const struct passwd *pw = find_user(s);
    if (pw == NULL) {
        option_fault(s, OPTION_user, "there is no user %s to switch to", s->user);
        return EX_NOUSER;
    }
    if (pw->pw_uid != 0) {
        close_way_back();
    }
    if (setgroups(0, NULL) != 0) {
        option_fault(s, OPTION_user, "failed to drop supplementary groups: %s",
                     strerror(errno));
        return EX_OSERR;
    }
    if (setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) != 0 ||
        setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) != 0) {
        option_fault(s, OPTION_user, "failed to become %s: %s", s->user, strerror(errno));
        return EX_OSERR;
    }
    if (pw->pw_uid != 0 && (setuid(0) == 0 || seteuid(0) == 0)) {
        option_fault(s, OPTION_user, "failed to give up root for %s", s->user);
        return EX_OSERR;
    }
    return 0;
}

int privs_drop(const struct settings *s)
{
    must_be_main();
    if (is_root()) {
        const int status = change_user(s);
        if (status != 0) {
            return status;
        }
    }
    allow_core(s);
    if (is_root()) {
        return 0; /* -u root: as asked */
    }
    if (!clear_capabilities()) {
        option_say(NULL, "failed to drop capabilities: %s", strerror(errno));
        return EX_OSERR;
    }
    return 0;
}
