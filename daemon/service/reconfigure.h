/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reloading files of options and of access, and rewriting files of options, for SIGHUP and for
 * `config reload` and `config rewrite`. Main reads files and computes their new content. A
 * separate thread writes them, because a disk may be slow, and main has to accept connections
 * and notify the service manager that the server is alive.
 *
 * One rewrite runs at a time. Requests that come meanwhile get the answer of the next one,
 * which writes the values of that time.
 */
#ifndef MAYFLY_DAEMON_SERVICE_RECONFIGURE_H
#define MAYFLY_DAEMON_SERVICE_RECONFIGURE_H

struct message;
struct server;

/*
 * Prepare for it. Returns 0, or the exit status after a message was written. Context: main,
 * signals are blocked.
 */
int reconfigure_start(struct server *s);

/*
 * Read again what can change while the server runs (SIGHUP): options, users and rules at once,
 * and the certificates of TLS soon. A file that cannot be used is logged, and what was loaded
 * before stays in use. Context: main.
 */
void reconfigure_reload(struct server *s);

/* Takes a struct config_ask, for struct crew. Context: main. */
void reconfigure_on_ask(struct message *m, void *receiver);

/*
 * Answer waiting requests, and stop the thread. Later requests are not answered. May be called
 * if it was never started. Context: main, the workers still take messages.
 */
void reconfigure_stop(struct server *s);

/* Release it, after the last run of main's loop. Context: main. */
void reconfigure_destroy(struct server *s);

#endif
