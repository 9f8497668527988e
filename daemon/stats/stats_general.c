/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sections of `stats` that are made of tables: `stats`, `stats settings`, `stats items`,
 * `stats slabs`, `stats expire` and `stats shards`. stats_lines.def has their lines, and
 * counters.def those of counters. The lines of `stats` are in memcached's order for people;
 * tools read them by name. Lines of mechanisms that do not exist here (slab pages, LRU threads)
 * are 0, because some tools expect them.
 *
 * There are no size classes: `stats items` and `stats slabs` show all items in class 1, whose
 * pages are segments and whose chunk size is the mean size of an item, so that tools that
 * compute fill and waste from these numbers get sensible results. An empty cache shows no
 * class.
 */
#include "daemon/stats/stats_parts.h"

#include <string.h>
#include <sys/resource.h>

#include "daemon/base/slab_class.h"
#include "daemon/base/version.h"
#include "daemon/options/settings.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/engine/prefix.h"

/* Descriptors of a thread: epoll, wake-up event, both ends of the signal pipe. */
#define FDS_OF_THREAD 4u

/* Input of the expressions in stats_lines.def. */
struct figures {
    const struct crew *crew;
    msec_t now;
    uint64_t sum[CTR_COUNT];
    struct shard_info shards; /* of one shard, or of all */
    struct rusage usage;
    uint32_t hz;
    uint64_t mean_bytes, pages, chunks; /* of the class that has all items */
};

enum stats_part { CLASS_OF_ITEMS, CLASS_OF_SLABS, SLABS, EXPIRE, POLICY, DEBT, DELAY, MEMORY };

static void read_figures(struct figures *f, struct worker *w)
{
    must_be_worker(w);
    memset(f, 0, sizeof(*f));
    f->crew = w->crew;
    f->now = worker_now(w);
    stats_sum(f->crew, f->sum);
    stats_sum_shards(f->crew, f->now, &f->shards);
}

/* ---- values ------------------------------------------------------------------------------ */

static uint64_t count_listeners(const struct figures *f)
{
    return f->crew->stats->sources.count_listeners(f->crew);
}

static uint64_t hash_power(const struct shard_info *i)
{
    return i->hash_buckets > 0 ? 63 - (uint64_t)__builtin_clzll(i->hash_buckets) : 0;
}

static uint64_t age_s(const struct shard_info *i, msec_t now)
{
    uint32_t now_s = (uint32_t)(now / 1000);

    return i->oldest_access_s != 0 && i->oldest_access_s < now_s ? now_s - i->oldest_access_s
                                                                 : 0;
}

/* ---- forms ------------------------------------------------------------------------------- */

#define PUT_U64                     stats_put_u64
#define PUT_I64                     stats_put_i64
#define PUT_TEXT                    stats_put_text
#define PUT_LOOP(o, name, value)    stats_putf(o, name, "uv-%s", value)
#define PUT_PERCENT(o, name, value) stats_putf(o, name, "%.2f", value)
#define PUT_WHOLE(o, name, value)   stats_putf(o, name, "%.0f", value)

/*
 * Six digits after the point: some readers parse the fraction as a number of microseconds.
 */
#define PUT_TIME(o, name, value)                                                               \
    stats_putf(o, name, "%ld.%06ld", (long)(value).tv_sec, (long)(value).tv_usec)

/* Only where TLS is on, as in memcached. */
#define PUT_IF_TLS(o, name, value)                                                             \
    if (f->crew->tls != NULL) {                                                                \
        stats_put_u64(o, name, value);                                                         \
    }

/* ---- lines ------------------------------------------------------------------------------- */

static void put_part(struct stats_out *o, const struct figures *f, enum stats_part part)
{
    const struct shard_info *i = &f->shards;

#define LINE(section, part_, name, unit, form, value, help)                                    \
    if (part == part_) {                                                                       \
        PUT_##form(o, name, value);                                                            \
    }
#include "daemon/stats/stats_lines.def"
}

/* The lines of `stats` before that of a counter. */
static void put_before(struct stats_out *o, const struct figures *f, enum counter id)
{
    const struct shard_info *i = &f->shards;

#define GENERAL(before, name, unit, form, value, help)                                         \
    if (id == CTR_##before) {                                                                  \
        PUT_##form(o, name, value);                                                            \
    }
#define LINE(section, part, name, unit, form, value, help)
#include "daemon/stats/stats_lines.def"
}

/* The lines of counters with a flag of enum counter_shown. */
static void put_counters(struct stats_out *o, enum counter_shown where, const uint64_t *sum)
{
    for (unsigned id = 0; id < CTR_COUNT; id++) {
        if ((counter_rows[id].shown & where) != 0) {
            stats_put_u64(o, counter_rows[id].line, sum[id]);
        }
    }
}

/* ---- stats, stats settings --------------------------------------------------------------- */

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

void stats_general(struct worker *w, struct stats_out *o)
{
    struct figures f;
    unsigned absent = absent_features(w->crew);

    read_figures(&f, w);
    (void)getrusage(RUSAGE_SELF, &f.usage);
    for (unsigned id = 0; id < CTR_COUNT; id++) {
        const struct counter_row *row = &counter_rows[id];

        put_before(o, &f, id);
        if ((row->shown & CTR_IN_STATS) != 0 && (row->shown & absent) == 0) {
            stats_put_u64(o, row->line, f.sum[id]);
        }
    }
    put_before(o, &f, CTR_COUNT);
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

/* ---- stats items, stats slabs ------------------------------------------------------------ */

static void put_class(struct stats_out *o, const struct figures *f, enum stats_part part,
                      const char *prefix)
{
    stats_prefix(o, "%s", prefix);
    put_part(o, f, part);
    stats_prefix(o, "%s", "");
}

void stats_items(struct worker *w, struct stats_out *o)
{
    struct figures f;

    read_figures(&f, w);
    if (f.shards.items > 0) {
        put_class(o, &f, CLASS_OF_ITEMS, "items:" SLAB_CLASS_OURS_TEXT ":");
    }
}

void stats_slabs(struct worker *w, struct stats_out *o)
{
    struct figures f;
    const struct shard_info *i = &f.shards;
    uint64_t items, mean;

    read_figures(&f, w);
    items = i->items > 0 ? i->items : 1;
    mean = (i->item_bytes + items - 1) / items;
    mean = (mean + ITEM_UNIT - 1) / ITEM_UNIT * ITEM_UNIT; /* whole units, as blocks are */
    f.mean_bytes = mean > 0 ? mean : ITEM_UNIT;
    f.pages = i->segments_used > 0 ? i->segments_used : 1;
    f.chunks = f.pages * i->segment_bytes / f.mean_bytes;
    f.chunks = f.chunks > i->items ? f.chunks : i->items;
    /* As in memcached, a class that has had items and is empty now is still shown. */
    if (i->items > 0 || i->segments_used > 0) {
        put_class(o, &f, CLASS_OF_SLABS, SLAB_CLASS_OURS_TEXT ":");
    }
    put_part(o, &f, SLABS);
}

/* ---- stats expire, stats shards ---------------------------------------------------------- */

/* The expiry of a shard, or of all. */
static void put_expiry(struct stats_out *o, const struct figures *f)
{
    put_part(o, f, DEBT);
    put_counters(o, CTR_IN_EXPIRY, f->sum);
    put_part(o, f, DELAY);
    put_counters(o, CTR_IN_RELEASE, f->sum);
}

void stats_expire(struct worker *w, struct stats_out *o)
{
    struct figures f;

    read_figures(&f, w);
    for (uint32_t i = 0; i < roster_created(&w->crew->roster); i++) {
        uint32_t hz = cron_hz(&w->crew->workers[i]);

        f.hz = hz > f.hz ? hz : f.hz;
    }
    put_part(o, &f, POLICY);
    put_part(o, &f, EXPIRE);
    put_expiry(o, &f);
    put_counters(o, CTR_IN_GRACE, f.sum);
}

/*
 * The shard and the worker of a number; their numbers may differ. Counters here count from the
 * start: `stats reset` keeps one baseline for the sum of all shards.
 */
static void put_number(struct stats_out *o, const struct crew *crew, uint32_t n, msec_t now)
{
    struct figures f = {.crew = crew, .now = now};
    bool is_worker = n < roster_created(&crew->roster);

    if (is_worker) {
        counters_sum(f.sum, &crew->workers[n].counters);
    }
    if (n < crew->engine.shard_count) {
        counters_sum(f.sum, shard_counters(crew->engine.shards[n]));
        counters_derive(f.sum);
        shard_info(crew->engine.shards[n], now, &f.shards);
        f.hz = cron_hz(&crew->workers[roster_home(&crew->roster, n)]);
        put_part(o, &f, POLICY);
        put_expiry(o, &f);
        put_counters(o, CTR_IN_MEMORY, f.sum);
        put_part(o, &f, MEMORY);
    }
    if (is_worker) {
        put_counters(o, CTR_IN_WORKER, f.sum);
        put_counters(o, CTR_IN_LOAD, f.sum);
    }
}

void stats_shards(struct worker *w, struct stats_out *o)
{
    const struct crew *crew = w->crew;
    uint32_t shards = crew->engine.shard_count;

    must_be_worker(w);
    stats_put_u64(o, "shards", shards);
    for (uint32_t i = 0; i < roster_created(&crew->roster) || i < shards; i++) {
        stats_prefix(o, "%u:", (unsigned)i);
        put_number(o, crew, i, worker_now(w));
    }
}
