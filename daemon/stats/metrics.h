/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics for Prometheus, and health checks, over HTTP on separate sockets:
 *
 *   /metrics   every counter and gauge; OpenMetrics 1.0 if the client accepts it, else the text
 *              format 0.0.4 of Prometheus
 *   /healthz   200 if every worker's loop answers within a second, else 503
 *   /readyz    200 while connections are accepted, else 503
 *   /primary   200 if this server is a primary, else 503
 *   /replica   200 if it is a replica that is online, else 503; with ?lag=MS only if it has all
 *              that its primary had that number of milliseconds ago
 *
 * Methods are GET, HEAD and OPTIONS. Health checks answer OPTIONS with the status of GET, since
 * balancers use it; other pages answer it with 204. The body of a health check is one line with
 * the reason.
 *
 * metrics.[ch] has the sockets and the server of libmicrohttpd, metrics_text.c the text of
 * /metrics, from the table of counters and that of metrics.def, places.c the connections,
 * and which of them is closed to admit another. Service starts and stops it.
 *
 * The server has a separate thread and accepts few connections, so a scrape can delay only
 * other scrapes.
 */
#ifndef MAYFLY_DAEMON_STATS_METRICS_H
#define MAYFLY_DAEMON_STATS_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"

struct crew;
struct metrics;
struct settings;

/*
 * Open the sockets of the option metrics, or take those that the service manager passed for
 * them; *out is NULL when there are none. Returns 0, or the
 * exit status after a message was written. Context: main, before privileges are dropped.
 */
int metrics_open(const struct settings *settings, struct metrics **out);

/* Can metrics be served, if they are configured? Returns as above. Context: main. */
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

/* ---- metrics_text.c ---------------------------------------------------------------------- */

/*
 * The text of /metrics. Counters count from the start of the process: `stats reset` does not
 * change them, because Prometheus takes a falling counter for a restart.
 */

enum metrics_format { METRICS_TEXT, METRICS_OPEN };

/* The Content-Type of a format. */
const char *metrics_content_type(enum metrics_format format);

/*
 * Does a client with this Accept header (NULL: it has none) take OpenMetrics? It does if it
 * names application/openmetrics-text, unless with a quality of 0.
 */
enum metrics_format metrics_format_for(const char *accept);

/*
 * Append all metrics. False if there is no memory; the appended text is then incomplete.
 * Context: any thread, outside a shard, while workers run.
 */
bool metrics_compose(struct crew *crew, enum metrics_format format, struct buf *out);

/* ---- places.c ---------------------------------------------------------------------------- */

/*
 * The places of one metrics socket: its open connections, their addresses, and since when each
 * sends a request or reads an answer. These rules ensure that slow connections cannot block a
 * scrape or a health check:
 *
 *   - loopback has reserved places, and each other address has a few
 *   - when all are taken, a new connection replaces the one that has been in a request, or
 *     between two, for the longest time; else one that has been reading its answer for more
 *     than PLACES_PATIENCE_US
 *   - a request must arrive completely within PLACES_REQUEST_US, and an answer must be read
 *     within PLACES_ANSWER_US
 *
 * A connection that loses its place is only shut down here; the HTTP server notices and closes
 * it. Context of all: the thread of the socket's server.
 */

/* Places of addresses other than loopback, of one of these, and of loopback. */
#define PLACES_REMOTE   16u
#define PLACES_ADDRESS  8u
#define PLACES_LOOPBACK 16u

/* All places, with room for connections that were shut down but not closed yet. */
#define PLACES_MAX (PLACES_REMOTE + PLACES_LOOPBACK + 16u)

#define PLACES_REQUEST_US  (5 * INT64_C(1000000))
#define PLACES_ANSWER_US   (30 * INT64_C(1000000))
#define PLACES_PATIENCE_US INT64_C(1000000)

enum place_state {
    PLACE_FREE,
    PLACE_ASKS,  /* it sends a request, or may send one */
    PLACE_TAKES, /* an answer is on its way */
    PLACE_CUT,   /* it was shut down */
};

struct place {
    enum place_state state;
    int fd;            /* [borrowed] */
    bool is_loopback;  /* also: of a unix socket */
    uint8_t whose[16]; /* address in IPv6 form; only the half that a client cannot choose */
    usec_t since;      /* of the state; clock_mono_us() */
};

struct places {
    struct place place[PLACES_MAX];
};

/*
 * May a connection from this address be accepted? Shuts down connections whose time is over,
 * and may shut down another one to make room.
 */
bool places_admit(struct places *p, const struct sockaddr *from, usec_t now);

/* Add an accepted connection. NULL: no room, which the HTTP server's own limit prevents. */
struct place *places_enter(struct places *p, int fd, const struct sockaddr *from, usec_t now);

/*
 * Its answer is being sent (place_takes()); was taken (place_asks()). Accept NULL, as the next.
 */
void place_takes(struct place *at, usec_t now);
void place_asks(struct place *at, usec_t now);

/* It is about to be closed. */
void place_leave(struct place *at);

#endif
