/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that items are in: see server.h.
 */
#include "daemon/service/server.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/net/sockets.h"
#include "daemon/options/options_apply.h"
#include "daemon/service/notify.h"
#include "lib/base/context.h"

/*
 * memcached writes FILE.meta when it is stopped well, and removes it at the start. If there is
 * one, FILE has the items of a memcached, which would be overwritten.
 */
static bool is_of_memcached(const char *file)
{
    char meta[PATH_MAX];

    return snprintf(meta, sizeof(meta), "%s.meta", file) < (int)sizeof(meta) &&
           access(meta, F_OK) == 0;
}

#define KEPT_BY_MANAGER "fdstore"

bool memory_file_is_relative(const struct settings *set)
{
    return set->memory_file != NULL && set->memory_file[0] != '/' &&
           strcmp(set->memory_file, KEPT_BY_MANAGER) != 0;
}

void memory_file_name(const struct settings *set, int fd, char out[MEMORY_FILE_NAME_BYTES])
{
    struct stat st;

    if (set->memory_file == NULL || strcmp(set->memory_file, KEPT_BY_MANAGER) == 0) {
        snprintf(out, MEMORY_FILE_NAME_BYTES, "%s",
                 set->memory_file == NULL ? "none" : KEPT_BY_MANAGER);
    } else if (fd >= 0
                   ? fstat(fd, &st) != 0
                   : stat(set->memory_file, &st) != 0 || is_of_memcached(set->memory_file)) {
        snprintf(out, MEMORY_FILE_NAME_BYTES, "no use");
    } else {
        snprintf(out, MEMORY_FILE_NAME_BYTES, "%ju:%ju", (uintmax_t)st.st_dev,
                 (uintmax_t)st.st_ino);
    }
}

/* ---- pages that are gone ----------------------------------------------------------------- */

/* Data of the signal handler, which must not call other functions. */
static struct {
    const struct engine *engine; /* [borrowed] */
    char line[PATH_MAX + 160];
    size_t len;
    atomic_flag is_told; /* [atomic] by the first thread */
} guarded = {.is_told = ATOMIC_FLAG_INIT};

/*
 * Handler of SIGBUS. It may interrupt any code, perhaps under a lock, so it makes only system
 * calls. Several threads may touch lost pages at once: one of them ends the process, the
 * others wait for that. A fault of another kind is repeated with the default action.
 */
static void on_page_gone(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code != BUS_ADRERR || !attach_is_in_range(guarded.engine, info->si_addr)) {
        (void)signal(number, SIG_DFL);
        return;
    }
    if (!atomic_flag_test_and_set(&guarded.is_told)) {
        (void)!write(STDERR_FILENO, guarded.line, guarded.len);
        _exit(EX_IOERR);
    }
    for (;;) {
        (void)poll(NULL, 0, -1); /* allowed by the filter */
    }
}

/* Install the handler: if another process truncates the file, reads of items fault. */
static void guard_pages(const struct server *s)
{
    struct sigaction sa;
    int n;

    guarded.engine = &s->crew.engine;
    n = snprintf(
        guarded.line, sizeof(guarded.line),
        "error: memory, %s has lost pages that are in use (truncated, or its file system "
        "is full?); the items are lost, exiting\n",
        s->crew.settings->memory_file);
    guarded.len = n > 0 && n < (int)sizeof(guarded.line) ? (size_t)n : 0;
    memset(&sa, 0, sizeof(sa));
    sa.sa_sigaction = on_page_gone;
    sa.sa_flags = SA_SIGINFO;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGBUS, &sa, NULL);
}

/* ---- kept by the service manager --------------------------------------------------------- */

/* Tell the manager to drop the descriptors that it keeps: none can be used. */
static void forget_kept(const struct passed_on *passed)
{
    int fd = sockets_inherited_memory(passed, 0);

    if (fd < 0) {
        return;
    }
    for (uint32_t i = 1; fd >= 0; i++) {
        close(fd);
        fd = sockets_inherited_memory(passed, i);
    }
    notify_forget(SOCKETS_MEMORY_NAME);
}

static int open_new(struct attach *a)
{
    int fd = memfd_create(SOCKETS_MEMORY_NAME, MFD_CLOEXEC);

    if (fd < 0 || !attach_open_fd(a, fd)) {
        log_error("memory, cannot make a file in memory (%s)",
                  fd < 0 ? strerror(errno) : a->why);
        return EX_OSERR;
    }
    if (!notify_keep(SOCKETS_MEMORY_NAME, fd)) {
        log_warn("memory, the items will be lost at a restart (%s)",
                 notify_has_manager() ? "the service manager does not answer"
                                      : "there is no service manager");
    }
    return 0;
}

static int open_kept(struct passed_on *passed, struct attach *a)
{
    int fd = passed_on_take_memory(passed);

    if (fd >= 0 && attach_open_fd(a, fd)) {
        return 0; /* passed by the previous program; kept by the manager if it was before */
    }
    fd = sockets_inherited_memory(passed, 0);
    if (fd >= 0 && sockets_inherited_memory(passed, 1) < 0) {
        if (attach_open_fd(a, fd)) {
            return 0; /* it is still kept */
        }
        log_warn("memory, the memory kept by the service manager cannot be used (%s)", a->why);
        notify_forget(SOCKETS_MEMORY_NAME);
    } else {
        forget_kept(passed);
    }
    return open_new(a);
}

/* ---- a file ------------------------------------------------------------------------------ */

static int refuse_memcached(const struct settings *set)
{
    option_fault(set, OPTION_memory_file,
                 "%s.meta is there: memcached has left its items in %s, which cannot be read "
                 "(remove both)",
                 set->memory_file, set->memory_file);
    return EX_DATAERR;
}

static int memory_file_refuse(const struct settings *set, const char *why)
{
    option_fault(set, OPTION_memory_file, "cannot use %s (%s)", set->memory_file, why);
    return EX_CANTCREAT;
}

/*
 * Check a file without creating it; another process may be using it. Returns the reason why it
 * cannot be used, or NULL.
 */
static const char *why_no_use(const char *file)
{
    char folder[PATH_MAX];
    struct stat st;

    if (stat(file, &st) == 0) {
        if (!S_ISREG(st.st_mode)) {
            return S_ISDIR(st.st_mode) ? strerror(EISDIR) : "it is no file";
        }
        if (st.st_uid != geteuid()) {
            return "it belongs to another user";
        }
        return access(file, R_OK | W_OK) == 0 ? NULL : strerror(errno);
    }
    if (errno != ENOENT || snprintf(folder, sizeof(folder), "%s", file) >= PATH_MAX) {
        return strerror(errno);
    }
    return access(dirname(folder), W_OK | X_OK) == 0 ? NULL : strerror(errno);
}

int memory_file_check(const struct settings *set)
{
    const char *file = set->memory_file;

    must_be_main();
    if (file == NULL || strcmp(file, KEPT_BY_MANAGER) == 0) {
        return 0;
    }
    if (is_of_memcached(file)) {
        return refuse_memcached(set);
    }
    const char *why = why_no_use(file);
    return why != NULL ? memory_file_refuse(set, why) : 0;
}

static int open_file(struct attach *a, const struct settings *set)
{
    const char *file = set->memory_file;

    if (is_of_memcached(file)) {
        return refuse_memcached(set);
    }
    if (!attach_open(a, file)) {
        return memory_file_refuse(set, a->why);
    }
    if (!a->is_in_memory) {
        log_warn("memory, %s is not on a tmpfs: unless it is persistent memory, the "
                 "system continuously writes it to disk",
                 file);
    }
    return 0;
}

int memory_file_open(struct server *s)
{
    struct attach *a = &s->crew.attach;
    const struct settings *set = s->crew.settings;
    const char *file = set->memory_file;
    int status;

    must_be_main();
    a->fd = -1;
    if (file != NULL && strcmp(file, KEPT_BY_MANAGER) == 0) {
        status = open_kept(set->passed, a);
    } else {
        forget_kept(set->passed);
        status = file != NULL ? open_file(a, set) : 0;
    }
    if (status != 0) {
        return status;
    }
    a->max_age_s = s->crew.settings->restart_max_age;
    a->marks_stale = s->crew.settings->restart_stale;
    return 0;
}

void memory_file_tell(struct server *s)
{
    const struct attach *a = &s->crew.attach;

    must_be_main();
    if (a->fd < 0) {
        return;
    }
    guard_pages(s);
    if (a->room_bytes != 0) {
        log_warn("memory, the file system of %s has room for %" PRIu64
                 " megabytes only; other files use it too",
                 s->crew.settings->memory_file, a->room_bytes >> 20);
    }
    if (a->state == ATTACH_COLD) {
        log_notice("memory, starts empty with %s (%s)", s->crew.settings->memory_file, a->why);
    } else {
        log_notice("memory, took over %s: %" PRIu64 " items in %" PRIu64 " ms, %" PRIu64
                   " had expired, %" PRIu64 " were flushed, saved %" PRIu64 ".%03u s ago",
                   s->crew.settings->memory_file, a->items, a->us / 1000, a->expired,
                   a->flushed, a->away_ms / 1000, (unsigned)(a->away_ms % 1000));
    }
    if (a->over_bytes != 0) {
        log_warn("memory, holds %" PRIu64 " megabytes more than the limit of %" PRIu64
                 " (memory-limit), which are evicted",
                 (a->over_bytes + (1 << 20) - 1) >> 20,
                 setting_get(s->crew.settings, memory_limit_bytes) >> 20);
    }
}

static bool is_removed(const struct settings *set, int fd)
{
    struct stat st;

    return strcmp(set->memory_file, KEPT_BY_MANAGER) != 0 && fstat(fd, &st) == 0 &&
           st.st_nlink == 0;
}

void memory_file_close(struct server *s)
{
    struct attach *a = &s->crew.attach;

    must_be_main();
    if (a->fd >= 0 && s->is_started) {
        if (is_removed(s->crew.settings, a->fd)) {
            snprintf(a->why, sizeof(a->why), "it was removed or replaced");
        }
        if (a->why[0] != '\0') {
            log_error("memory, %s is not usable by the next start (%s)",
                      s->crew.settings->memory_file, a->why);
        } else {
            log_notice("memory, left the items in %s for the next start",
                       s->crew.settings->memory_file);
        }
    }
    if (a->fd >= 0) {
        signal(SIGBUS, SIG_DFL);
        attach_close(a);
    }
}
