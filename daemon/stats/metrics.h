/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics for Prometheus, and answers for probes, over HTTP on sockets of their own:
 *
 *   /metrics   every counter and gauge; OpenMetrics 1.0 if the client accepts it, else the text
 *              format 0.0.4 of Prometheus
 *   /healthz   200 if every worker's loop has turned within a second of being asked, else 503
 *   /readyz    200 while connections are accepted, else 503
 *   /primary   200 if this server is a primary, else 503
 *   /replica   200 if it is a replica that is online, else 503; with ?lag=MS only if it has all
 *              that its primary had that number of milliseconds ago
 *
 * Methods are GET, HEAD and OPTIONS. Probes answer OPTIONS with the status of GET, since
 * balancers use it; other pages answer it with 204. The body of a probe is one line that says
 * why.
 *
 * metrics.[ch] has the sockets and the server of libmicrohttpd, metrics_text.[ch] the text of
 * /metrics, from the table of counters and that of metrics.def, places.[ch] the connections,
 * and which of them is closed to admit another. Service starts and stops it.
 *
 * The server has a thread of its own, and takes few connections and little memory, so a scrape
 * can delay only other scrapes.
 */
#ifndef MAYFLY_DAEMON_STATS_METRICS_H
#define MAYFLY_DAEMON_STATS_METRICS_H

struct crew;
struct metrics;
struct settings;

/*
 * Open the sockets of the option metrics, or take those that the service manager passed for
 * them; *out is NULL when there are none. Returns 0, or the
 * exit status after a message was written. Context: main, before privileges are dropped.
 */
int metrics_open(const struct settings *settings, struct metrics **out);

/* Can metrics be served, if they are asked for? Returns as above. Context: main. */
int metrics_check(const struct settings *settings);

/*
 * Begin to answer. Nothing happens to NULL. Returns as above. Context: main, workers run,
 * signals are blocked.
 */
int metrics_start(struct metrics *m, struct crew *crew);

/* Call fn with each socket that is open; accepts NULL. Context: main. */
void metrics_each_socket(const struct metrics *m, void (*fn)(void *arg, int fd), void *arg);

/*
 * Stop answering, close the sockets, null the pointer; accepts NULL. Context: main, while
 * workers run, if metrics_start() was called.
 */
void metrics_close(struct metrics **m);

#endif
