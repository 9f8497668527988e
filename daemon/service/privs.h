/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Setting up the process: descriptors 0 to 2, signals, background, limits, user, memory lock,
 * pid file.
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
 * Functions that return a status return 0, or print a message and return the exit status of the
 * process. The numbers are memcached's (sysexits.h).
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
 * -d: continue in a child with a session of its own, in the root folder (in the present one
 * with -r, for core files); without -d nothing happens. The parent never returns: it exits with
 * 0 once privs_ready() was called, or with the child's status if the child ends before that.
 * Returns a status in the child.
 */
int privs_daemonize(const struct settings *s);

/* SIGPIPE and SIGXFSZ are ignored; with -d SIGHUP too. */
void privs_ignore_signals(const struct settings *s);

/*
 * -r: raise the limit on core files to the maximum; without it no core file can be written, now
 * and after privs_drop(). -c: raise the limit on open descriptors to cover the connections and
 * the process's own needs (71 if that fails). Returns a status.
 */
int privs_set_limits(const struct settings *s);

/*
 * Does the limit on open files, which is stored in *limit_now, suit these connections and
 * workers? Context: any thread.
 */
bool privs_fit(const struct settings *s, uint32_t conn_limit, uint32_t threads,
               uint64_t *limit_now);

/*
 * -k: lock pages in memory when they are touched; reserved address space is not faulted in. A
 * failure is only a warning, unless -o lock_memory_required was given; then the exit status is
 * returned.
 */
int privs_lock_memory(const struct settings *s);

/*
 * Change from root to the user of -u: real, effective and saved ids, no supplementary groups.
 * Unless that is root again, all capabilities are dropped permanently. Checks that root cannot
 * be regained. Returns a status.
 */
int privs_drop(const struct settings *s);

/*
 * -P: write the process id to a new file that replaces any other (file.h). A failure is only
 * logged, as in memcached.
 */
void privs_write_pidfile(const struct settings *s);

/*
 * Remove the file if privs_write_pidfile() wrote it and it was not replaced; empty it if its
 * folder does not allow that.
 */
void privs_remove_pidfile(const struct settings *s);

/*
 * Leave the file to the program that replaces this one by exec: the process id does not change,
 * and the file could not be recreated in a folder of root. There, privs_write_pidfile() takes
 * it over.
 */
void privs_pass_pidfile(const struct settings *s);

/*
 * Clients are served now: with -d the parent exits, and the terminal is closed unless -v was
 * given. Does nothing without -d.
 */
void privs_ready(const struct settings *s);

/* ---- landlock.c -------------------------------------------------------------------------- */

/*
 * -o drop_privileges, second half: restricts access to files by Landlock, where the kernel has
 * it. These stay accessible:
 *
 *   read     the folders of the files of users (-Y) and rules (--access), of certificates and
 *            of files of options, which are read again, as they are named and as links lead to
 *            them; those of the link to another server likewise, as the options name them at
 *            the start, and the certificates that the system trusts; /proc; the files by which
 *            names of hosts are looked up (/etc/hosts, /etc/resolv.conf and two more), by
 *            themselves, as /etc has much else: one that is replaced by another of its name is
 *            out of reach until the next start; with -S everything, as plug-ins of SASL have
 *            files of their own
 *   written  the folders of files of options, which may be rewritten, of the pid file (-P) and
 *            of the unix sockets (-s, --control), whose files are removed at the end; /dev/null
 *
 * The process can execute nothing, bind no TCP socket (except for plug-ins of SASL), and send
 * signals only to itself. It can connect to any TCP address, because replicaof may change at
 * any time. With -r access is not restricted, as the system could not write a core file then.
 */

/*
 * Remember the folders of files that are named relative to the folder in which the process
 * starts, before it leaves that. Context: main, before start.
 */
void landlock_note(const struct settings *settings);

/*
 * Confine this thread and those that it creates from now on. If that is impossible, the reason
 * is logged, and access is not restricted. Cannot be undone. Context: main, before threads are
 * created.
 */
void landlock_confine(const struct settings *settings);

/* ---- filter.c ---------------------------------------------------------------------------- */

/*
 * -o drop_privileges, first half: restricts system calls by libseccomp. The rows of filter.def
 * are the calls that stay allowed.
 *
 * Any other call is not executed: a line says which it was, and the process ends by SIGSYS. It
 * may be a bug of mayflyd or injected code; in both cases the process must not continue.
 */

/*
 * Forbid io_uring from now on, for this thread and those that it creates. Requests in its rings
 * bypass the filter below. libuv, from version 1.45 on, creates a ring for each loop, and uses
 * a call that the filter does not allow; without rings it works as before. Returns 0, or the
 * exit status after a message was written. Context: main, before the first loop.
 */
int filter_prepare(const struct settings *settings);

/*
 * Confine all existing threads, and those that they might create. Cannot be undone. Returns 0,
 * or the exit status after a message was written. Context: main, when all threads run and
 * everything is loaded.
 */
int filter_install(const struct settings *settings);

#endif
