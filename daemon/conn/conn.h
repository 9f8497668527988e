/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interface of connections and datagrams for the server: assigning accepted and inherited
 * connections to workers, and the callbacks of workers and statistics.
 *
 * daemon/conn/ is the folder of connections (conn*.[ch]; conn_state.h lists them, conn_steps.h
 * has their functions) and of datagrams (udp.c): it passes bytes from clients to commands and
 * replies back, and handles clients that send too slowly, too fast or not at all. It includes
 * itself, command, stats, worker, access, net, options, base, proto and lib. The worker calls
 * it through conn_duties.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_H
#define MAYFLY_DAEMON_CONN_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/mailbox.h"
#include "daemon/net/origin.h"
#include "daemon/net/passed_conns.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/crew.h"

/* Callbacks of connections and datagrams on a worker's thread. */
extern const struct worker_duties conn_duties;

/* ---- conn_arrivals.c --------------------------------------------------------------------- */

/*
 * Accepted sockets on their way to the worker that serves them: one message for many sockets. A
 * worker makes at most CONN_ADOPTED_MAX of them connections in a turn of its loop, however many
 * came while it was busy. The others wait for the next turn, in order.
 */

#define CONN_ARRIVALS_MAX 64u
#define CONN_ADOPTED_MAX  64u

struct conn_arrivals {
    struct message message;
    uint32_t count;
    uint32_t adopted;
    bool is_deferred; /* it waits for the worker's next turn */
    struct {
        int fd;
        const struct conn_origin *origin; /* [borrowed] of the listening socket */
    } items[CONN_ARRIVALS_MAX];
};

/*
 * Take over an accepted, non-blocking socket; owns the descriptor from here on, also on failure
 * (false: no memory; it is closed). Borrows the origin for the connection's life. Context:
 * worker.
 */
bool conn_adopt(struct worker *w, int fd, const struct conn_origin *origin);

/* Make an empty batch; NULL: no memory. Context: any thread. */
struct conn_arrivals *conn_arrivals_create(void);

/* Add a socket. There must be room. Context: the thread that has the batch. */
void conn_arrivals_put(struct conn_arrivals *b, int fd, const struct conn_origin *origin);

/* Give it to a worker; takes the address and nulls it. Context: any thread. */
void conn_arrivals_post(struct conn_arrivals **b, struct worker *w);

/* ---- conn_heirs.c ------------------------------------------------------------------------ */

/*
 * Connections inherited from the previous program (conn_steps.h), on their way to the worker
 * that continues them.
 */

/* Allocate a list of up to `max` connections for one worker. NULL: no memory. Any thread. */
struct conn_heirs *conn_heirs_create(uint32_t max);

/*
 * Add a connection with this origin. True: the list owns the descriptor and has copied the
 * other data. False: no memory. Context: the thread that has the list.
 */
bool conn_heirs_put(struct conn_heirs *h, const struct passed_conn *state,
                    const struct conn_origin *origin);

/*
 * Pass them to a worker, which serves them, and null the pointer; accepts NULL. They have been
 * counted as opened (crew_conn_opened()) already. Context: any thread.
 */
void conn_heirs_post(struct conn_heirs **h, struct worker *w);

/* ---- conn_info.c ------------------------------------------------------------------------- */

/* struct stats_sources: each_conn(). */
bool conn_each(struct worker *w, struct stats_conn_cursor *cursor, uint32_t max,
               stats_socket_fn fn, void *arg);

/* struct stats_sources: leave_conns(). */
void conn_each_end(struct stats_conn_cursor *cursor);

/* ---- udp.c ------------------------------------------------------------------------------- */

/*
 * Requests received by UDP. Every worker has its own socket for each address. The kernel
 * distributes datagrams to them by the client's address. A datagram holds complete requests, or
 * is rejected. A reply is sent in as many datagrams as necessary, up to a limit.
 *
 * The source address of a datagram may be forged, and be that of a victim. So the answer to a
 * datagram from another machine is at most udp_reply_max bytes long, however many requests it
 * has. Replies are not answered, and administrative requests are rejected.
 */

/*
 * Serve a bound, non-blocking datagram socket on this worker until it drains. Owns the
 * descriptor from here on, also on failure (false: no memory). number: of the worker for which
 * the socket was opened, modulo the number of workers. Context: worker.
 */
bool udp_adopt(struct worker *w, int fd, uint32_t number);

/* worker_duties: move sockets that now belong to other workers. Context: worker. */
void udp_give(struct worker *w);
bool udp_has_any(const struct worker *w);

/* Close all of them: the worker stops. Context: worker. */
void udp_close_all(struct worker *w);

/* struct stats_sources: each_datagram(). */
void udp_each(struct worker *w, stats_socket_fn fn, void *arg);

#endif
