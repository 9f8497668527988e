/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of options and of access that are read again, and files of options that are written,
 * for SIGHUP and for `config reload` and `config rewrite`. Main reads files and says what they
 * shall be; a thread of its own writes them, because a disk may take its time, and main accepts
 * connections and tells the service manager that the server is alive.
 *
 * One rewrite is under way at a time. Who asks meanwhile gets the answer of the next one, which
 * has the values as they are then.
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
 * Answer those who wait, and stop the thread. Nothing that comes later is answered. Accepts
 * that it was never started. Context: main, the workers still take messages.
 */
void reconfigure_stop(struct server *s);

/* Release it, after the last run of main's loop. Context: main. */
void reconfigure_destroy(struct server *s);

#endif
