/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats` without an argument, and `stats settings`. The lines come in memcached's order for
 * people; tools read them by name. Those of counters follow from the rows of counters.def; the
 * table here has the others. Lines of mechanisms that do not exist here (slab pages, LRU
 * threads) are 0, because some tools expect them.
 */
#include "daemon/stats/stats_general.h"

#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/version.h"
#include "daemon/net/tls.h"
#include "daemon/options/settings.h"
#include "daemon/stats/stats.h"
#include "daemon/stats/stats_sum.h"
#include "daemon/worker/crew.h"
#include "lib/base/check.h"
#include "lib/base/context.h"

/* What the rows are computed from. */
struct general {
    const struct crew *crew;
    uint64_t sum[CTR_COUNT];
    struct shard_info shards;
    struct rusage usage;
    msec_t now;
};

typedef uint64_t (*number_fn)(const struct general *g);
typedef void (*line_fn)(const struct general *g, struct stats_out *o, const char *name);

/* ---- numbers that are not counters ------------------------------------------------------- */

static uint64_t get_pid(const struct general *g)
{
    (void)g;
    return (uint64_t)getpid();
}

static uint64_t get_uptime(const struct general *g)
{
    return (uint64_t)(g->now - g->crew->engine.started) / 1000;
}

static uint64_t get_time(const struct general *g)
{
    return (uint64_t)(clock_unix_ms(&g->crew->engine.clock) / 1000);
}

static uint64_t get_pointer_size(const struct general *g)
{
    (void)g;
    return sizeof(void *) * 8;
}

static uint64_t get_max_connections(const struct general *g)
{
    return setting_get(g->crew->settings, conn_limit);
}

static uint64_t get_connection_structures(const struct general *g)
{
    return g->sum[CTR_curr_connections] + g->crew->stats->sources.count_listeners(g->crew);
}

static uint64_t get_watchers(const struct general *g)
{
    return atomic_load_explicit(&g->crew->watch.count, memory_order_relaxed);
}

static uint64_t get_threads(const struct general *g)
{
    return roster_active(&g->crew->roster);
}

static uint64_t get_threads_wanted(const struct general *g)
{
    return setting_get(g->crew->settings, threads);
}

static uint64_t get_threads_created(const struct general *g)
{
    return roster_created(&g->crew->roster);
}

static uint64_t get_threads_leaving(const struct general *g)
{
    return roster_leaving(&g->crew->roster);
}

static uint64_t get_conns_moving(const struct general *g)
{
    return roster_conns_moving(&g->crew->roster);
}

static uint64_t get_read_buf_bytes(const struct general *g)
{
    return (uint64_t)roster_active(&g->crew->roster) * WORKER_RBUF_BYTES +
           g->sum[CTR_in_pending_bytes];
}

static uint64_t get_reserved_fds(const struct general *g)
{
    /*
     * Of a worker: epoll, wake-up event, signal pipe. Of main the same, the signals' pipe and
     * the listeners.
     */
    return (roster_created(&g->crew->roster) + 1) * 4 +
           g->crew->stats->sources.count_listeners(g->crew);
}

static uint64_t get_limit_maxbytes(const struct general *g)
{
    return (uint64_t)budget_limit(&g->crew->engine.budget);
}

static uint64_t get_accepting(const struct general *g)
{
    return atomic_load(&g->crew->is_accepting) ? 1 : 0;
}

static uint64_t get_hash_power(const struct general *g)
{
    uint64_t buckets = g->shards.hash_buckets;

    return buckets > 0 ? 63 - (uint64_t)__builtin_clzll(buckets) : 0;
}

static uint64_t get_hash_bytes(const struct general *g)
{
    return g->shards.hash_bytes;
}

static uint64_t get_hash_is_expanding(const struct general *g)
{
    return g->shards.is_resizing ? 1 : 0;
}

static uint64_t get_cycles(const struct general *g)
{
    return g->sum[CTR_expire_cycles_slow] + g->sum[CTR_expire_cycles_fast];
}

static uint64_t get_free_segments(const struct general *g)
{
    return g->shards.segments_free;
}

static uint64_t get_none(const struct general *g)
{
    (void)g;
    return 0;
}

/* ---- lines that are not numbers ---------------------------------------------------------- */

static void put_version(const struct general *g, struct stats_out *o, const char *name)
{
    (void)g;
    stats_put_text(o, name, MEMCACHED_LEVEL);
}

static void put_loop_version(const struct general *g, struct stats_out *o, const char *name)
{
    (void)g;
    stats_putf(o, name, "uv-%s", uv_version_string());
}

/*
 * Six digits after the point: some readers take the fraction for a whole number of
 * microseconds.
 */
static void put_time(struct stats_out *o, const char *name, const struct timeval *t)
{
    stats_putf(o, name, "%ld.%06ld", (long)t->tv_sec, (long)t->tv_usec);
}

static void put_user_time(const struct general *g, struct stats_out *o, const char *name)
{
    put_time(o, name, &g->usage.ru_utime);
}

static void put_system_time(const struct general *g, struct stats_out *o, const char *name)
{
    put_time(o, name, &g->usage.ru_stime);
}

/* Only where TLS is on, as in memcached. */
static void put_ssl_age(const struct general *g, struct stats_out *o, const char *name)
{
    if (g->crew->tls != NULL) {
        stats_put_u64(o, name, tls_age_s(g->crew->tls));
    }
}

static void put_own_version(const struct general *g, struct stats_out *o, const char *name)
{
    (void)g;
    stats_put_text(o, name, PACKAGE_VERSION);
}

/* ---- the table --------------------------------------------------------------------------- */

/*
 * A line that is not a counter's, or has another name than its counter, and the counter whose
 * line follows it.
 */
struct line {
    const char *name;
    enum counter before; /* CTR_COUNT: it stands at the end */
    enum counter id;     /* CTR_COUNT: not a counter */
    number_fn number;
    line_fn line;
};

#define AS(before, name, id)                                                                   \
    {                                                                                          \
        name, CTR_##before, CTR_##id, NULL, NULL                                               \
    }
#define N(before, name, fn)                                                                    \
    {                                                                                          \
        name, CTR_##before, CTR_COUNT, fn, NULL                                                \
    }
#define L(before, name, fn)                                                                    \
    {                                                                                          \
        name, CTR_##before, CTR_COUNT, NULL, fn                                                \
    }
#define ZERO(before, name)                                                                     \
    {                                                                                          \
        name, CTR_##before, CTR_COUNT, get_none, NULL                                          \
    }

/* In the order of the counters that they stand before. */
static const struct line lines[] = {
    N(curr_connections, "pid", get_pid),
    N(curr_connections, "uptime", get_uptime),
    N(curr_connections, "time", get_time),
    L(curr_connections, "version", put_version),
    L(curr_connections, "libevent", put_loop_version),
    N(curr_connections, "pointer_size", get_pointer_size),
    L(curr_connections, "rusage_user", put_user_time),
    L(curr_connections, "rusage_system", put_system_time),
    N(curr_connections, "max_connections", get_max_connections),
    N(response_obj_oom, "connection_structures", get_connection_structures),
    ZERO(read_buf_oom, "response_obj_count"),
    AS(read_buf_oom, "response_obj_bytes", out_pending_bytes),
    N(read_buf_oom, "read_buf_count", get_threads),
    N(read_buf_oom, "read_buf_bytes", get_read_buf_bytes),
    ZERO(read_buf_oom, "read_buf_bytes_free"),
    N(cmd_get, "reserved_fds", get_reserved_fds),
    N(listen_disabled_num, "limit_maxbytes", get_limit_maxbytes),
    N(listen_disabled_num, "accepting_conns", get_accepting),
    N(conn_yields, "threads", get_threads),
    N(log_worker_dropped, "hash_power_level", get_hash_power),
    N(log_worker_dropped, "hash_bytes", get_hash_bytes),
    N(log_worker_dropped, "hash_is_expanding", get_hash_is_expanding),
    ZERO(log_worker_dropped, "slab_reassign_rescues"),
    ZERO(log_worker_dropped, "slab_reassign_chunk_rescues"),
    ZERO(log_worker_dropped, "slab_reassign_inline_reclaim"),
    ZERO(log_worker_dropped, "slab_reassign_busy_items"),
    ZERO(log_worker_dropped, "slab_reassign_busy_deletes"),
    ZERO(log_worker_dropped, "slab_reassign_busy_nomem"),
    ZERO(log_worker_dropped, "slab_reassign_last_busy_status"),
    ZERO(log_worker_dropped, "slab_reassign_running"),
    ZERO(log_worker_dropped, "slabs_moved"),
    ZERO(log_worker_dropped, "lru_crawler_running"),
    N(log_worker_dropped, "lru_crawler_starts", get_cycles),
    ZERO(log_worker_dropped, "lru_maintainer_juggles"),
    ZERO(log_worker_dropped, "malloc_fails"),
    N(ssl_new_sessions, "log_watchers", get_watchers),
    L(item_bytes, "time_since_server_cert_refresh", put_ssl_age),
    ZERO(item_bytes, "unexpected_napi_ids"),
    ZERO(item_bytes, "round_robin_fallback"),
    N(expired_unfetched, "slab_global_page_pool", get_free_segments),
    AS(expire_checked, "crawler_reclaimed", expired_active),
    ZERO(moves_to_main, "lrutail_reflocked"),
    ZERO(moves_to_main, "moves_to_cold"),
    N(conns_moved, "mayfly_threads_wanted", get_threads_wanted),
    N(conns_moved, "mayfly_threads_created", get_threads_created),
    N(conns_moved, "mayfly_threads_leaving", get_threads_leaving),
    N(conns_moved, "mayfly_conns_moving", get_conns_moving),
    ZERO(udp_datagrams, "lru_bumps_dropped"),
    L(COUNT, "mayfly_version", put_own_version),
};

static const size_t line_count = sizeof(lines) / sizeof(lines[0]);

/* The conditions of counters' lines that do not hold here. */
static unsigned absent_features(const struct crew *crew)
{
    unsigned absent = 0;

    if (setting_get(crew->settings, idle_timeout_s) == 0) {
        absent |= CTR_IF_IDLE;
    }
    if (crew->settings->udp_port == 0) {
        absent |= CTR_IF_UDP;
    }
    if (crew->tls == NULL) {
        absent |= CTR_IF_TLS | CTR_IF_SESSIONS;
    }
    if (crew->settings->auth_file == NULL && !crew->settings->sasl) {
        absent |= CTR_IF_AUTH;
    }
    if (!crew->settings->ssl_session_cache) {
        absent |= CTR_IF_SESSIONS;
    }
    return absent;
}

/* The lines before that of a counter, from the n-th on; returns the number of those done. */
static size_t put_lines_before(const struct general *g, struct stats_out *o, unsigned id,
                               size_t n)
{
    for (; n < line_count && lines[n].before == id; n++) {
        const struct line *l = &lines[n];

        if (l->line != NULL) {
            l->line(g, o, l->name);
        } else {
            stats_put_u64(o, l->name, l->number != NULL ? l->number(g) : g->sum[l->id]);
        }
    }
    return n;
}

void stats_general(struct worker *w, struct stats_out *o)
{
    struct general g = {.crew = w->crew, .now = worker_now(w)};
    unsigned absent = absent_features(g.crew);
    size_t n = 0;
    unsigned id;

    must_be_worker(w);
    stats_sum(g.crew, g.sum);
    stats_sum_shards(g.crew, g.now, &g.shards);
    (void)getrusage(RUSAGE_SELF, &g.usage);
    for (id = 0; id < CTR_COUNT; id++) {
        const struct counter_row *row = &counter_rows[id];

        n = put_lines_before(&g, o, id, n);
        if ((row->shown & CTR_IN_STATS) != 0 && (row->shown & absent) == 0) {
            stats_put_u64(o, row->line, g.sum[id]);
        }
    }
    n = put_lines_before(&g, o, CTR_COUNT, n);
    must(n == line_count); /* else they are not in order */
}

static void put_setting(void *arg, const char *name, const char *value)
{
    stats_put_text(arg, name, value);
}

void stats_settings(struct worker *w, struct stats_out *o)
{
    must_be_worker(w);
    settings_each_line(w->settings, put_setting, o);
}
