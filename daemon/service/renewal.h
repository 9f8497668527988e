/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Certificates that are loaded again, for refresh_certs and SIGHUP. Any client may ask for it
 * as often as it likes, and it takes milliseconds to read files and check keys. So a thread of
 * its own does that, one load at a time, and no more than one in RENEWAL_LOAD_MS. Whoever asks
 * meanwhile gets the answer of the next one: a load that is under way may have read the files
 * before they were changed.
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
 * Answer those who wait, and stop the thread. Nothing that comes later is answered. Accepts
 * that it was never started. Context: main, the workers still take messages.
 */
void renewal_stop(struct server *s);

/* Release it, after the last run of main's loop. Context: main. */
void renewal_destroy(struct server *s);

#endif
