/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * -o drop_privileges, second half: the files that are left, by Landlock, where the kernel has
 * it.
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
 * Nothing is executed, no TCP socket is bound (but by plug-ins of SASL), and no process beyond
 * this one gets a signal. TCP sockets can be connected to any address, as the server that is
 * followed can be named at any time. With -r nothing is confined, as the system could not write
 * a core file then.
 */
#ifndef MAYFLY_DAEMON_SERVICE_LANDLOCK_H
#define MAYFLY_DAEMON_SERVICE_LANDLOCK_H

struct settings;

/*
 * Remember the folders of files that are named relative to the folder in which the process
 * starts, before it leaves that. Context: main, before start.
 */
void landlock_note(const struct settings *settings);

/*
 * Confine this thread and those that it makes from now on. Where that is not possible, a line
 * says why, and files are not confined. Cannot be undone. Context: main, before threads are
 * made.
 */
void landlock_confine(const struct settings *settings);

#endif
