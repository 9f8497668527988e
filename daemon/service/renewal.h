/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reloading certificates, for refresh_certs and SIGHUP. Any client may request it at any rate,
 * and reading files and checking keys takes milliseconds. So a separate thread does it, one
 * load at a time, and at most one in RENEWAL_LOAD_MS. Requests that come meanwhile get the
 * answer of the next load, because the present one may have read the files before they changed.
 */
#ifndef MAYFLY_DAEMON_SERVICE_RENEWAL_H
#define MAYFLY_DAEMON_SERVICE_RENEWAL_H

struct message;
struct server;

/*
 * From the beginning of one load to that of the next, milliseconds; and the same after one that
 * found the files unchanged.
 */
#define RENEWAL_LOAD_MS 1000
#define RENEWAL_LOOK_MS 100

/*
 * Prepare for it; without TLS nothing happens. Returns 0, or the exit status after a message
 * was written. Context: main, signals are blocked.
 */
int renewal_start(struct server *s);

/* Load soon, and log how it ended. Context: main, TLS is on. */
void renewal_want(struct server *s);

/* Takes a struct certs_ask, for struct crew. Context: main. */
void renewal_on_ask(struct message *m, void *receiver);

/*
 * Answer waiting requests, and stop the thread. Later requests are not answered. May be called
 * if it was never started. Context: main, the workers still take messages.
 */
void renewal_stop(struct server *s);

/* Release it, after the last run of main's loop. Context: main. */
void renewal_destroy(struct server *s);

#endif
