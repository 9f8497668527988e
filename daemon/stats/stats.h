/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats` and its sub-commands.
 *
 * daemon/stats/ is the folder of statistics: it reads counters and shards, queries other
 * workers by messages (stats_gather.c), and writes the answers as text. It receives connections
 * and listeners only as rows from struct stats_sources. Figures that are not counters are rows
 * of its tables (*.def). metrics.[ch] serves the same figures over HTTP. It includes itself,
 * replica, worker, persist, access, net, options, base, proto (for replies) and lib.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_H
#define MAYFLY_DAEMON_STATS_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
#include "lib/base/buf.h"
#include "lib/base/counters.h"
#include "lib/base/span.h"
#include "lib/shard/info.h"

/* One socket in `stats conns`: a listener, a datagram socket or a connection. */
struct stats_socket {
    int fd;
    bool takes_datagrams;
    const char *addr;        /* [borrowed] tcp:127.0.0.1:53412, tcp6:[::1]:..., unix:path */
    const char *listen_addr; /* [borrowed] empty: not shown */
    const char *tag;         /* [borrowed] of the listening socket; empty: none */
    const char *state;       /* [borrowed] memcached's names: conn_read, conn_nread, ... */
    msec_t last_cmd;
    uint32_t resps_waiting;
};

typedef void (*stats_socket_fn)(void *arg, const struct stats_socket *socket);

/* A position in the connections of a worker. It is moved on when its connection closes. */
struct stats_conn_cursor {
    struct conn *next_conn; /* [borrowed] to be shown next */
    struct list_link link;  /* in a list of the worker that has it */
};

/* Where the sockets are found: functions of the folders above. */
struct stats_sources {
    /* Every listening socket, and how many there are. Context: any thread. */
    void (*each_listener)(const struct crew *crew, stats_socket_fn fn, void *arg);
    uint32_t (*count_listeners)(const struct crew *crew);

    /* Every datagram socket of a worker. Context: that worker. */
    void (*each_datagram)(struct worker *w, stats_socket_fn fn, void *arg);

    /*
     * The next `max` connections of a worker, the newest first. The cursor is all zero at the
     * beginning, and the worker has it in a list until the end; connections may come and go
     * between calls: those that stay are seen once. False: there are no more.
     * Context: that worker.
     */
    bool (*each_conn)(struct worker *w, struct stats_conn_cursor *cursor, uint32_t max,
                      stats_socket_fn fn, void *arg);
    /* Give up before the end. Context: that worker. */
    void (*leave_conns)(struct stats_conn_cursor *cursor);
};

/* State of statistics shared by the workers. Created by the server. */
struct stats_shared {
    struct stats_sources sources; /* [const] */
    /* [atomic] */
    _Atomic bool tracks_sizes; /* stats sizes */
    _Atomic uint32_t
        detail_epoch; /* raised by stats reset: older tables of stats detail are void */
    _Atomic uint64_t base[CTR_COUNT]; /* sums at the last `stats reset` */
};

enum stats_result { STATS_DONE, STATS_LATER, STATS_NO_MEMORY };

struct stats_gather;

/*
 * Called on the requesting worker, after STATS_LATER. When the answer is complete, rest is
 * NULL, and the caller owns out again. Before that a long answer is passed in portions of whole
 * lines: the function takes the text from out, releases its memory, and calls stats_go_on(rest)
 * for more.
 */
typedef void (*stats_done_fn)(void *arg, struct buf *out, struct stats_gather *rest);

/*
 * Continue an answer of which a portion was passed. is_wanted: false to end it; later portions
 * are meaningless then. The answer continues later, not within this call. Context: the
 * requesting worker.
 */
void stats_go_on(struct stats_gather *rest, bool is_wanted);

/*
 * Answer `stats <args>`: appends the whole reply with its last line (END, RESET, OK or an
 * error) to out. STATS_LATER: other workers must be queried (conns, sizes, detail); out and
 * done are kept until done was called for the last time; meanwhile the caller reads no further
 * input of that client. Context: worker, outside a read-side section.
 */
enum stats_result stats_command(struct worker *w, struct span args, struct buf *out,
                                stats_done_fn done, void *arg);

/*
 * The rights that `stats <args>` requires, a set of enum command_needs. has_all_keys: the
 * client is not limited to prefixes. A limited client has to be an operator to see statistics
 * with keys of others. Context: any thread.
 */
uint8_t stats_needs(struct span args, bool has_all_keys);

/*
 * stats detail: count by key prefix while it is on. One relaxed load when off. Context: worker.
 */
enum stats_detail_op {
    STATS_DETAIL_GET_HIT,
    STATS_DETAIL_GET_MISS,
    STATS_DETAIL_SET,
    STATS_DETAIL_DELETE
};
static inline bool stats_detail_is_on(const struct worker *w)
{
    return setting_get(w->settings, detail_enabled);
}

void stats_detail_count(struct worker *w, enum stats_detail_op op, const char *key,
                        size_t key_len);

/*
 * The counts of a worker: a table that stats_detail_count() fills. Tables are bounded; prefixes
 * that find the table full are counted in one common row, which the dump shows as "(more)".
 */

/* Release a table; takes the address and nulls it; accepts NULL. Context: its worker. */
void detail_table_destroy(struct detail_table **t);

/* ---- stats_sum.c ------------------------------------------------------------------------- */

/*
 * Sums of all counters and of all shards, as of one moment, for `stats`.
 */

/* Sums of all writers of each counter since start. Context: any thread. */
void stats_sum_raw(const struct crew *crew, uint64_t sum[CTR_COUNT]);

/*
 * The same since the last `stats reset`, for counters that it resets; for the longest slice the
 * largest instead of the sum. Context: any thread.
 */
void stats_sum(const struct crew *crew, uint64_t sum[CTR_COUNT]);

/* Set the baseline of all counters (`stats reset`). Context: any thread. */
void stats_sum_reset(struct crew *crew);

/*
 * All shards as one: counts are added, ages and lags are those of the worst shard, estimates
 * are means weighted by volatile keys. Context: any thread, outside a shard.
 */
void stats_sum_shards(const struct crew *crew, msec_t now, struct shard_info *sum);

#endif
