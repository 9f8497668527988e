/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats` without an argument, and `stats settings`. The rows stand in memcached's order, since
 * people read them; tools read them by name. Rows of mechanisms that do not exist here
 * (slab pages, LRU threads, log streams) are 0, because some tools miss them else.
 */
#include "daemon/stats/stats_general.h"

#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/version.h"
#include "daemon/net/tls.h"
#include "daemon/options/options.h"
#include "daemon/stats/stats.h"
#include "daemon/stats/stats_sum.h"
#include "daemon/worker/crew.h"

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

/* ---- numbers that are no counters -------------------------------------------------------- */

static uint64_t get_pid(const struct general *g)
{
    (void)g;
    return (uint64_t)getpid();
}

static uint64_t get_uptime(const struct general *g)
{
    return (uint64_t)(g->now - CLOCK_FIRST_MS) / 1000;
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
    return g->crew->settings->conn_limit;
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
    return g->crew->worker_count;
}

static uint64_t get_read_buf_bytes(const struct general *g)
{
    return (uint64_t)g->crew->worker_count * WORKER_RBUF_BYTES;
}

static uint64_t get_reserved_fds(const struct general *g)
{
    /*
     * Of a worker: epoll, wake-up event, signal pipe. Of main the same, the signals' pipe and
     * the listeners.
     */
    return (g->crew->worker_count + 1) * 4 + g->crew->stats->sources.count_listeners(g->crew);
}

static uint64_t get_limit_maxbytes(const struct general *g)
{
    return (uint64_t)atomic_load_explicit(&g->crew->engine.budget.limit_bytes,
                                          memory_order_relaxed);
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

/* ---- lines that are no numbers ----------------------------------------------------------- */

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
 * Six digits behind the point: some readers take the fraction for a whole number of
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

/* Only where connections can be closed for being idle, as in memcached. */
static void put_idle_kicks(const struct general *g, struct stats_out *o, const char *name)
{
    if (g->crew->settings->idle_timeout_s != 0) {
        stats_put_u64(o, name, g->sum[CTR_idle_kicks]);
    }
}

/* Only where there is UDP. */
static void put_udp(const struct general *g, struct stats_out *o, const char *name)
{
    static const enum counter rows[] = {CTR_udp_datagrams, CTR_udp_errors, CTR_udp_dropped};

    (void)name;
    for (size_t i = 0; g->crew->settings->udp_port != 0 && i < 3; i++) {
        stats_put_u64(o, counter_rows[rows[i]].stat, g->sum[rows[i]]);
    }
}

/* The next four only where TLS is on, as in memcached; the first with the session cache. */
static void put_ssl_sessions(const struct general *g, struct stats_out *o, const char *name)
{
    if (g->crew->tls != NULL && g->crew->settings->ssl_session_cache) {
        stats_put_u64(o, name, g->sum[CTR_ssl_new_sessions]);
    }
}

static void put_ssl_handshakes(const struct general *g, struct stats_out *o, const char *name)
{
    if (g->crew->tls != NULL) {
        stats_put_u64(o, name, g->sum[CTR_ssl_handshake_errors]);
    }
}

static void put_ssl_errors(const struct general *g, struct stats_out *o, const char *name)
{
    if (g->crew->tls != NULL) {
        stats_put_u64(o, name, g->sum[CTR_ssl_proto_errors]);
    }
}

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

struct row {
    const char *name; /* NULL: the counter's own */
    enum counter id;  /* CTR_COUNT: not a counter */
    number_fn number;
    line_fn line;
};

#define C(id)                                                                                  \
    {                                                                                          \
        NULL, CTR_##id, NULL, NULL                                                             \
    }
#define AS(name, id)                                                                           \
    {                                                                                          \
        name, CTR_##id, NULL, NULL                                                             \
    }
#define N(name, fn)                                                                            \
    {                                                                                          \
        name, CTR_COUNT, fn, NULL                                                              \
    }
#define L(name, fn)                                                                            \
    {                                                                                          \
        name, CTR_COUNT, NULL, fn                                                              \
    }
#define ZERO(name)                                                                             \
    {                                                                                          \
        name, CTR_COUNT, get_none, NULL                                                        \
    }

static const struct row rows[] = {
    N("pid", get_pid),
    N("uptime", get_uptime),
    N("time", get_time),
    L("version", put_version),
    L("libevent", put_loop_version),
    N("pointer_size", get_pointer_size),
    L("rusage_user", put_user_time),
    L("rusage_system", put_system_time),
    N("max_connections", get_max_connections),
    C(curr_connections),
    C(total_connections),
    C(rejected_connections),
    N("connection_structures", get_connection_structures),
    C(response_obj_oom),
    ZERO("response_obj_count"),
    AS("response_obj_bytes", out_pending_bytes),
    N("read_buf_count", get_threads),
    N("read_buf_bytes", get_read_buf_bytes),
    ZERO("read_buf_bytes_free"),
    C(read_buf_oom),
    N("reserved_fds", get_reserved_fds),
    C(cmd_get),
    C(cmd_set),
    C(cmd_flush),
    C(cmd_touch),
    C(cmd_meta),
    C(get_hits),
    C(get_misses),
    C(get_expired),
    C(get_flushed),
    C(delete_misses),
    C(delete_hits),
    C(incr_misses),
    C(incr_hits),
    C(decr_misses),
    C(decr_hits),
    C(cas_misses),
    C(cas_hits),
    C(cas_badval),
    C(touch_hits),
    C(touch_misses),
    C(store_too_large),
    C(store_no_memory),
    C(auth_cmds),
    C(auth_errors),
    L("idle_kicks", put_idle_kicks),
    C(bytes_read),
    C(bytes_written),
    N("limit_maxbytes", get_limit_maxbytes),
    N("accepting_conns", get_accepting),
    C(listen_disabled_num),
    C(listen_disabled_us),
    N("threads", get_threads),
    C(conn_yields),
    N("hash_power_level", get_hash_power),
    N("hash_bytes", get_hash_bytes),
    N("hash_is_expanding", get_hash_is_expanding),
    ZERO("slab_reassign_rescues"),
    ZERO("slab_reassign_chunk_rescues"),
    ZERO("slab_reassign_inline_reclaim"),
    ZERO("slab_reassign_busy_items"),
    ZERO("slab_reassign_busy_deletes"),
    ZERO("slab_reassign_busy_nomem"),
    ZERO("slab_reassign_last_busy_status"),
    ZERO("slab_reassign_running"),
    ZERO("slabs_moved"),
    ZERO("lru_crawler_running"),
    N("lru_crawler_starts", get_cycles),
    ZERO("lru_maintainer_juggles"),
    ZERO("malloc_fails"),
    C(log_worker_dropped),
    C(log_worker_written),
    C(log_watcher_skipped),
    C(log_watcher_sent),
    N("log_watchers", get_watchers),
    L("ssl_new_sessions", put_ssl_sessions),
    L("ssl_handshake_errors", put_ssl_handshakes),
    L("ssl_proto_errors", put_ssl_errors),
    L("time_since_server_cert_refresh", put_ssl_age),
    ZERO("unexpected_napi_ids"),
    ZERO("round_robin_fallback"),
    C(item_bytes),
    C(curr_items),
    C(total_items),
    N("slab_global_page_pool", get_free_segments),
    C(expired_unfetched),
    C(evicted_unfetched),
    C(evicted_active),
    C(evictions),
    C(reclaimed),
    AS("crawler_reclaimed", expired_active),
    C(expire_checked),
    ZERO("lrutail_reflocked"),
    ZERO("moves_to_cold"),
    C(moves_to_main),
    C(moves_within),
    C(direct_reclaims),
    ZERO("lru_bumps_dropped"),
    L("mayfly_udp", put_udp),
    L("mayfly_version", put_own_version),
};

void stats_general(struct worker *w, struct stats_out *o)
{
    struct general g = {.crew = w->crew, .now = worker_now(w)};
    size_t i;

    stats_sum(g.crew, g.sum);
    stats_sum_shards(g.crew, g.now, &g.shards);
    (void)getrusage(RUSAGE_SELF, &g.usage);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *r = &rows[i];

        if (r->line != NULL) {
            r->line(&g, o, r->name);
        } else if (r->number != NULL) {
            stats_put_u64(o, r->name, r->number(&g));
        } else {
            stats_put_u64(o, r->name != NULL ? r->name : counter_rows[r->id].stat,
                          g.sum[r->id]);
        }
    }
}

static void put_setting(void *arg, const char *name, const char *value)
{
    stats_put_text(arg, name, value);
}

void stats_settings(struct worker *w, struct stats_out *o)
{
    options_each_setting(w->settings, put_setting, o);
}
