/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the process may do and how it stands in the system: descriptors 0 to 2, signals,
 * background, limits, user, memory lock, pid file.
 *
 * The order of a start (context of all: main; no other threads yet, except for the last two):
 *
 *     privs_open_std_fds()      first of all, before anything opens a descriptor
 *     options_parse(), log_init()
 *     privs_check_user()        root without -u, unknown user
 *     privs_daemonize()         the parent stays here until privs_ready()
 *     privs_ignore_signals()
 *     privs_set_limits()        -r, -c
 *     ... open sockets ...
 *     privs_lock_memory()       -k; after the fork, as locks are not inherited
 *     privs_write_pidfile()     -P; before the user changes, as /run belongs to root
 *     privs_drop()              before any thread: capabilities are a thread's own
 *     landlock_confine()        files, with -o drop_privileges: also a thread's own
 *     ... start threads ...
 *     filter_install()          system calls of all threads
 *     privs_ready()             -d: lets the parent go; then notify_ready()
 *     ... serve ...
 *     privs_remove_pidfile()
 *
 * Functions that return a status return 0, or the exit status of the process after they printed
 * why; the numbers are memcached's (sysexits.h).
 */
#ifndef MAYFLY_DAEMON_SERVICE_PRIVS_H
#define MAYFLY_DAEMON_SERVICE_PRIVS_H

#include <stdbool.h>
#include <stdint.h>

struct settings;

/*
 * Descriptors 0, 1, 2 that are closed become /dev/null, so that no socket ever gets their
 * number and no log line ever reaches a client. Returns a status.
 */
int privs_open_std_fds(void);

/* Root must name a user (64), and that user must exist (67). Returns a status. */
int privs_check_user(const struct settings *s);

/*
 * -d: go on in a child with a session of its own, in the root folder (in the present one with
 * -r, for core files); nothing without -d. The parent never returns: it exits with 0 once
 * privs_ready() was called, or with the child's status if the child ends before that. Returns a
 * status in the child.
 */
int privs_daemonize(const struct settings *s);

/* SIGPIPE is ignored; with -d SIGHUP too. */
void privs_ignore_signals(const struct settings *s);

/*
 * -r: the limit on core files goes up as far as it may; without it no core file can be
 * written, here and after privs_drop(). -c: the limit on open descriptors
 * covers the connections and what the process needs for itself (71 when it cannot). Returns a
 * status.
 */
int privs_set_limits(const struct settings *s);

/*
 * Raise the limit on open files to what these connections and workers need, up to the hard
 * limit, which is stored in *limit_now. False: they would not all find a descriptor, and
 * nothing was changed. Context: any thread.
 */
bool privs_fit(const struct settings *s, uint32_t conn_limit, uint32_t threads,
               uint64_t *limit_now);

/*
 * -k: pages that are touched stay in memory; reserved address space is not faulted in. A
 * failure is only a warning, unless -o lock_memory_required was given; then the exit status is
 * returned.
 */
int privs_lock_memory(const struct settings *s);

/*
 * Root becomes the user of -u: real, effective and saved ids, no supplementary groups. Unless
 * that is root again, all capabilities go and none can come back. Checks that the way back is
 * closed. Returns a status.
 */
int privs_drop(const struct settings *s);

/*
 * -P: write the process id to a new file that takes the place of any other (file.h). A failure
 * is only a message, as in memcached.
 */
void privs_write_pidfile(const struct settings *s);

/*
 * Remove the file if privs_write_pidfile() wrote it and nobody has replaced it; empty it if its
 * folder does not allow that.
 */
void privs_remove_pidfile(const struct settings *s);

/*
 * Leave the file to the program that this process becomes: the number in it stays right, and
 * in a folder of root it could not be made again. privs_write_pidfile() takes it there.
 */
void privs_pass_pidfile(const struct settings *s);

/*
 * The server serves clients now: -d lets the parent go, and closes the terminal unless -v was
 * given. Nothing without -d.
 */
void privs_ready(const struct settings *s);

#endif
