/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * -d and -P: going on in the background, telling the parent when the server serves clients, and
 * the pid file. On the main thread. Between the calls it remembers the descriptor of the pipe
 * to the parent, and which file the pid file is.
 */
#include "daemon/service/privs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/settings.h"
#include "daemon/service/server.h"
#include "lib/base/context.h"
#include "lib/base/num.h"

/* Device, number and path of the file, for the program that this process becomes. */
#define PIDFILE_VARIABLE "MAYFLY_PASSED_PIDFILE"

/* [main] */
static int ready_fd = -1; /* write end of the pipe to the parent; -1: no parent waits */
static bool is_pidfile_ours;
static struct file_id pidfile_id; /* valid if it is ours */

/*
 * The parent waits until the child is ready, or ends, and exits. If the child ended, it has
 * printed its messages already, so the parent only exits with its status.
 */
_Noreturn static void wait_for_child(int fd, pid_t child)
{
    char byte;
    int wait_status;

    if (TEMP_FAILURE_RETRY(read(fd, &byte, 1)) == 1) {
        _exit(EXIT_SUCCESS);
    }
    if (TEMP_FAILURE_RETRY(waitpid(child, &wait_status, 0)) < 0) {
        _exit(EX_OSERR);
    }
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != 0) {
        _exit(WEXITSTATUS(wait_status));
    }
    option_say(NULL, "ended before it was ready");
    _exit(EX_OSERR);
}

static bool names_data_from_here(const struct settings *s)
{
    return memory_file_is_relative(s) || (s->dir != NULL && s->dir[0] != '/');
}

int privs_daemonize(const struct settings *s)
{
    int fds[2];

    must_be_main();
    if (!s->daemonize) {
        return 0;
    }
    if (pipe2(fds, O_CLOEXEC) != 0) {
        option_fault(s, OPTION_daemonize, "cannot go to the background: %s", strerror(errno));
        return EX_OSERR;
    }
    fflush(NULL); /* buffered output must not be written twice */
    const pid_t child = fork();
    if (child < 0) {
        option_fault(s, OPTION_daemonize, "cannot go to the background: %s", strerror(errno));
        close(fds[0]);
        close(fds[1]);
        return EX_OSERR;
    }
    if (child > 0) {
        close(fds[1]);
        wait_for_child(fds[0], child);
    }
    close(fds[0]);
    ready_fd = fds[1];
    setsid();
    /*
     * Change to the root folder, so that no file system is kept busy. Not with -r, because core
     * files are written to the current folder, and not if data files have relative paths, which
     * a program that takes over must find too.
     */
    if (!s->coredumps && !names_data_from_here(s) && chdir("/") != 0) {
        option_fault(s, OPTION_daemonize, "cannot change to the root folder: %s",
                     strerror(errno));
        return EX_OSERR;
    }
    return 0;
}

/*
 * Redirect the standard descriptors to /dev/null; with -v log lines stay visible, as in
 * memcached.
 */
static void leave_terminal(const struct settings *s)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) {
        log_warn("privs, cannot open /dev/null (%s)", strerror(errno));
        return;
    }
    dup2(null, STDIN_FILENO);
    if (setting_get(s, verbosity) == 0) {
        log_flush(); /* the lines logged until here are for the process that started us */
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    close(null);
}

void privs_ready(const struct settings *s)
{
    must_be_main();
    if (ready_fd < 0) {
        return;
    }
    leave_terminal(s);
    (void)TEMP_FAILURE_RETRY(write(ready_fd, "r", 1));
    /* If the parent was killed meanwhile, the daemon continues. */
    close(ready_fd);
    ready_fd = -1;
}

/* The process id in this file, if that process is alive; else 0. */
static pid_t read_live_pid(const char *path)
{
    char line[32];
    int64_t pid;

    if (file_read_start(path, line, sizeof(line)) < 0 ||
        num_i64(span_of(line, strcspn(line, "\n")), &pid) != MF_OK || pid < 1 ||
        pid > INT_MAX) {
        return 0;
    }
    return kill((pid_t)pid, 0) == 0 ? (pid_t)pid : 0;
}

/*
 * Take over the pid file that the previous program has passed. False: there is none, so a new
 * one is written.
 */
static bool take_passed(const struct settings *s)
{
    const char *passed = getenv(PIDFILE_VARIABLE);
    bool is_same = false;
    uintmax_t dev;
    uintmax_t ino;
    int at = 0;

    if (passed != NULL && sscanf(passed, "%ju:%ju:%n", &dev, &ino, &at) == 2 && at > 0) {
        pidfile_id = (struct file_id){.dev = (dev_t)dev, .ino = (ino_t)ino};
        is_same = s->pidfile != NULL && strcmp(s->pidfile, passed + at) == 0 &&
                  read_live_pid(s->pidfile) == getpid();
        if (!is_same && !file_remove(passed + at, &pidfile_id)) {
            log_warn("privs, cannot remove the pid file %s (%s)", passed + at, strerror(errno));
        }
    }
    unsetenv(PIDFILE_VARIABLE);
    return is_same;
}

/*
 * A file written as root stays root's. Root may send signals to the process that the file
 * names, so the unprivileged server must not be able to change it.
 */
void privs_write_pidfile(const struct settings *s)
{
    char line[32];

    must_be_main();
    is_pidfile_ours = take_passed(s);
    if (s->pidfile == NULL || is_pidfile_ours) {
        return;
    }
    const pid_t other = read_live_pid(s->pidfile);
    if (other != 0 && other != getpid()) {
        log_warn("privs, pid file %s named the running process %ld", s->pidfile, (long)other);
    }
    const int len = snprintf(line, sizeof(line), "%ld\n", (long)getpid());
    if (!file_replace(s->pidfile, span_of(line, (size_t)len), 0644, &pidfile_id)) {
        log_warn("privs, cannot write the pid file %s (%s)", s->pidfile, strerror(errno));
        return;
    }
    is_pidfile_ours = true;
}

void privs_pass_pidfile(const struct settings *s)
{
    char passed[PATH_MAX + 64];

    must_be_main();
    if (is_pidfile_ours) {
        snprintf(passed, sizeof(passed), "%ju:%ju:%s", (uintmax_t)pidfile_id.dev,
                 (uintmax_t)pidfile_id.ino, s->pidfile);
        setenv(PIDFILE_VARIABLE, passed, 1);
        is_pidfile_ours = false;
    }
}

void privs_remove_pidfile(const struct settings *s)
{
    must_be_main();
    if (!is_pidfile_ours) {
        return;
    }
    is_pidfile_ours = false;
    if (!file_remove(s->pidfile, &pidfile_id)) {
        log_notice("privs, leaves the pid file %s (%s)", s->pidfile, strerror(errno));
    }
}
