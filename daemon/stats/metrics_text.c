/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See metrics.h. Formats: the text format 0.0.4 of Prometheus, and OpenMetrics 1.0, where
 * the name of a counter's family lacks _total, the unit is given, and the end is marked.
 *
 * The name of a metric is derived from its name in counters.def: mayfly_ is put before it,
 * microseconds and milliseconds become seconds, and a counter's name ends in _total. Figures of
 * `stats shards` have a sample for each shard or worker, with a label. All others are sums.
 */
#include "daemon/stats/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/version.h"
#include "daemon/options/settings.h"
#include "daemon/replica/replication.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/insight.h"
#include "lib/base/mem.h"
#include "lib/base/procfs.h"
#include "lib/engine/prefix.h"
#include "lib/shard/info.h"

#define NAME_MAX_BYTES 96

/* ---- one family -------------------------------------------------------------------------- */

struct writer {
    struct buf *out; /* [borrowed] */
    enum metrics_format format;
    bool is_short;             /* there was no memory for something */
    char name[NAME_MAX_BYTES]; /* of the samples of the family */
};

static const char *const units[] = {"seconds", "bytes", "ratio"};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The unit at the end of a name; NULL: none. */
static const char *unit_of(const char *name)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (ends_with(name, units[i])) {
            return units[i];
        }
    }
    return NULL;
}

/* Of the tables. */
enum figure_kind { NONE, GAUGE, COUNTER };

enum family_type { TYPE_GAUGE, TYPE_COUNTER, TYPE_HISTOGRAM };

/* base: without _total. */
static void put_head(struct writer *w, const char *base, enum family_type type,
                     const char *help)
{
    static const char *const types[] = {"gauge", "counter", "histogram"};
    bool is_open = w->format == METRICS_OPEN;
    const char *family = is_open ? base : w->name;

    snprintf(w->name, sizeof(w->name), "%s%s", base, type == TYPE_COUNTER ? "_total" : "");
    w->is_short |=
        !buf_printf(w->out, "# HELP %s %s\n# TYPE %s %s\n", family, help, family, types[type]);
    if (is_open && unit_of(base) != NULL) {
        w->is_short |= !buf_printf(w->out, "# UNIT %s %s\n", base, unit_of(base));
    }
}

/* label NULL: none. Counts are exact as far as a double can be. */
static void put_sample(struct writer *w, const char *label, uint32_t number, double value)
{
    if (label == NULL) {
        w->is_short |= !buf_printf(w->out, "%s %.16g\n", w->name, value);
    } else {
        w->is_short |= !buf_printf(w->out, "%s{%s=\"%u\"} %.16g\n", w->name, label,
                                   (unsigned)number, value);
    }
}

/* ---- counters ---------------------------------------------------------------------------- */

#define BY_SHARD (CTR_IN_MEMORY | CTR_IN_EXPIRY | CTR_IN_RELEASE)

static bool is_by_worker(const struct counter_row *row)
{
    return row->writer == CTR_WRITER_WORKER && (row->shown & CTR_IN_WORKER) != 0;
}

static bool is_by_shard(const struct counter_row *row)
{
    return (row->writer == CTR_WRITER_SHARD || row->writer == CTR_WRITER_NONE) &&
           (row->shown & BY_SHARD) != 0;
}

/* The metric name of a statistic, and its unit as a fraction of the base unit. */
static double name_metric(const char *name, char base[NAME_MAX_BYTES])
{
    static const struct {
        const char *end;
        double scale;
    } times[] = {{"_us", 1e-6}, {"_ms", 1e-3}};

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        if (ends_with(name, times[i].end)) {
            snprintf(base, NAME_MAX_BYTES, "mayfly_%.*s_seconds",
                     (int)(strlen(name) - strlen(times[i].end)), name);
            return times[i].scale;
        }
    }
    /* A prefix total_ of memcached is replaced by the suffix. */
    snprintf(base, NAME_MAX_BYTES, "mayfly_%s",
             strncmp(name, "total_", 6) == 0 ? name + 6 : name);
    return 1;
}

struct sums {
    uint64_t all[CTR_COUNT];
    uint64_t (*shards)[CTR_COUNT]; /* owned */
    uint32_t shard_count;          /* of these; the engine may have more meanwhile */
};

static bool sums_read(struct sums *s, const struct crew *crew)
{
    uint32_t n = crew->engine.shard_count;

    stats_sum_raw(crew, s->all);
    s->shards = mem_zalloc(n * sizeof(*s->shards));
    s->shard_count = n;
    for (uint32_t i = 0; s->shards != NULL && i < n; i++) {
        counters_sum(s->shards[i], shard_counters(crew->engine.shards[i]));
        counters_derive(s->shards[i]);
    }
    return s->shards != NULL;
}

static void put_counter(struct writer *w, const struct crew *crew, const struct sums *sums,
                        enum counter id)
{
    const struct counter_row *row = &counter_rows[id];
    char base[NAME_MAX_BYTES];
    double scale = name_metric(row->name, base);

    put_head(w, base, row->kind == CTR_KIND_GAUGE ? TYPE_GAUGE : TYPE_COUNTER, row->meaning);
    if (is_by_worker(row)) {
        for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
            uint64_t n = ctr_get(&crew->workers[i].counters, id);

            put_sample(w, "worker", i, (double)n * scale);
        }
    } else if (is_by_shard(row)) {
        for (uint32_t i = 0; i < sums->shard_count; i++) {
            put_sample(w, "shard", i, (double)sums->shards[i][id] * scale);
        }
    } else {
        put_sample(w, NULL, 0, (double)sums->all[id] * scale);
    }
}

/* ---- the process and the shards ---------------------------------------------------------- */

struct process_figures {
    double start_s, cpu_s, resident_bytes, virtual_bytes, open_fds, max_fds;
};

static double seconds_of(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

/* Two of the numbers of /proc/self/statm, which are pages. */
static void read_memory(struct process_figures *p)
{
    double page = (double)sysconf(_SC_PAGESIZE);
    char text[128];
    unsigned long long pages[2];

    if (procfs_read("", "/proc/self/statm", text, sizeof(text)) &&
        sscanf(text, "%llu %llu", &pages[0], &pages[1]) == 2) {
        p->virtual_bytes = (double)pages[0] * page;
        p->resident_bytes = (double)pages[1] * page;
    }
}

static double count_open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    double n = 0;

    if (dir == NULL) {
        return 0;
    }
    for (const struct dirent *d = readdir(dir); d != NULL; d = readdir(dir)) {
        n += d->d_name[0] != '.';
    }
    closedir(dir);
    return n > 0 ? n - 1 : 0; /* that of the folder itself */
}

static void read_process(const struct crew *crew, struct process_figures *p)
{
    const struct engine *e = &crew->engine;
    struct rlimit files;
    struct rusage usage;

    memset(p, 0, sizeof(*p));
    p->start_s = (double)clock_unix_ms(&e->clock) / 1e3 -
                 (double)(clock_now(&e->clock) - e->started) / 1e3;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        p->cpu_s = seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime);
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        p->max_fds = (double)files.rlim_cur;
    }
    read_memory(p);
    p->open_fds = count_open_fds();
}

static void put_process(struct writer *w, const struct crew *crew)
{
    struct process_figures figures;
    const struct process_figures *p = &figures;

    read_process(crew, &figures);
#define PROCESS(name_, kind_, value_, help_)                                                   \
    put_head(w, name_, kind_ == COUNTER ? TYPE_COUNTER : TYPE_GAUGE, help_);                   \
    put_sample(w, NULL, 0, (double)(value_));
#include "daemon/stats/metrics.def"
    put_head(w, "mayfly_build_info", TYPE_GAUGE, "1; the label is the version of the program");
    w->is_short |= !buf_printf(w->out, "%s{version=\"%s\"} 1\n", w->name, MAYFLY_VERSION);
}

static void put_shards(struct writer *w, const struct crew *crew)
{
    uint32_t count = crew->engine.shard_count;
    struct shard_info *infos = mem_alloc(count * sizeof(*infos));

    if (infos == NULL) {
        w->is_short = true;
        return;
    }
    for (uint32_t n = 0; n < count; n++) {
        shard_info(crew->engine.shards[n], clock_now(&crew->engine.clock), &infos[n]);
    }
#define SHARD(name_, value_, help_)                                                            \
    put_head(w, name_, TYPE_GAUGE, help_);                                                     \
    for (uint32_t n = 0; n < count; n++) {                                                     \
        const struct shard_info *i = &infos[n];                                                \
                                                                                               \
        put_sample(w, "shard", n, (double)(value_));                                           \
    }
#include "daemon/stats/metrics.def"
    mem_free(infos);
}

/* ---- tables that stats has as well ------------------------------------------------------- */

static void put_figure(struct writer *w, const char *name, enum figure_kind kind, double value,
                       const char *help)
{
    char base[NAME_MAX_BYTES];

    if (kind != NONE) {
        double scale = name_metric(name, base);

        put_head(w, base, kind == COUNTER ? TYPE_COUNTER : TYPE_GAUGE, help);
        put_sample(w, NULL, 0, value * scale);
    }
}

#define PUT_ROW(name, unit, form, shown, kind, value, help)                                    \
    put_figure(w, name, kind, (double)(value), help);

static void put_persistence(struct writer *w, struct crew *crew)
{
    struct snapshots_info info;
    const struct snapshots_info *i = &info;
    struct exports_info exports;
    const struct exports_info *x = &exports;
    const struct attach *a = &crew->attach;

    snapshots_look(&crew->snapshots, &info);
    exports_look(&crew->exports, &exports);
#define PERSISTENCE_AS PUT_ROW
#include "daemon/stats/persistence.def"
}

static void put_replication(struct writer *w, struct crew *crew, const uint64_t *sum)
{
    struct repl_info info;
    const struct repl_info *i = &info;

    replication_look(crew->replication, &info);
#define REPLICATION_AS PUT_ROW
#include "daemon/stats/replication.def"
}

static void put_moves(struct writer *w, struct crew *crew)
{
    struct moving_info info;
    const struct moving_info *i = &info;

    moving_look(crew, &info);
#define MOVES_AS PUT_ROW
#include "daemon/stats/moves.def"
}

/* ---- how long requests take -------------------------------------------------------------- */

/* The bounds of buckets: powers of two, of nanoseconds, from 4 us to 4 s. */
#define BUCKET_FIRST_LOG2 12u
#define BUCKET_LAST_LOG2  32u

static void put_kind(struct writer *w, const char *kind, const struct latency_sum *sum)
{
    uint64_t below = 0;
    unsigned bin = 0;

    for (unsigned log2 = BUCKET_FIRST_LOG2; log2 <= BUCKET_LAST_LOG2; log2++) {
        unsigned end = histogram_bin(UINT64_C(1) << log2, LATENCY_BINS, LATENCY_STEPS_LOG2);

        for (; bin < end; bin++) {
            below += sum->bin[bin];
        }
        w->is_short |=
            !buf_printf(w->out, "%s_bucket{command=\"%s\",le=\"%.9g\"} %" PRIu64 "\n", w->name,
                        kind, (double)(UINT64_C(1) << log2) / 1e9, below);
    }
    w->is_short |= !buf_printf(w->out,
                               "%s_bucket{command=\"%s\",le=\"+Inf\"} %" PRIu64
                               "\n%s_sum{command=\"%s\"} %.16g\n"
                               "%s_count{command=\"%s\"} %" PRIu64 "\n",
                               w->name, kind, sum->count, w->name, kind,
                               (double)sum->sum_ns / 1e9, w->name, kind, sum->count);
}

static void put_latencies(struct writer *w, const struct crew *crew)
{
    put_head(w, "mayfly_request_duration_seconds", TYPE_HISTOGRAM,
             "how long requests took, from readable to answered, by kind of command");
    for (unsigned k = 0; k < LATENCY_KINDS; k++) {
        struct latency_sum sum = {0};

        latency_collect_all(crew, (enum command_kind)k, &sum);
        put_kind(w, command_kind_name((enum command_kind)k), &sum);
    }
}

/* ---- all of it --------------------------------------------------------------------------- */

const char *metrics_content_type(enum metrics_format format)
{
    return format == METRICS_OPEN ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                  : "text/plain; version=0.0.4; charset=utf-8";
}

/* Is the quality in the parameters of an element of Accept 0? */
static bool is_refused(const char *at, size_t len)
{
    for (size_t i = 0; i + 3 <= len; i++) {
        if (strncmp(at + i, ";q=0", 4) == 0 && strspn(at + i + 4, ".0") + i + 4 >= len) {
            return true;
        }
    }
    return false;
}

enum metrics_format metrics_format_for(const char *accept)
{
    static const char type[] = "application/openmetrics-text";

    while (accept != NULL && *accept != '\0') {
        accept += strspn(accept, ", ");
        size_t len = strcspn(accept, ",");
        if (strncmp(accept, type, sizeof(type) - 1) == 0 && !is_refused(accept, len)) {
            return METRICS_OPEN;
        }
        accept += len;
    }
    return METRICS_TEXT;
}

bool metrics_compose(struct crew *crew, enum metrics_format format, struct buf *out)
{
    struct writer w = {.out = out, .format = format};
    struct sums sums;

    if (!sums_read(&sums, crew)) {
        return false;
    }
    put_process(&w, crew);
    for (unsigned id = 0; id < CTR_COUNT; id++) {
        put_counter(&w, crew, &sums, (enum counter)id);
    }
    put_shards(&w, crew);
    put_persistence(&w, crew);
    put_replication(&w, crew, sums.all);
    put_moves(&w, crew);
    put_latencies(&w, crew);
    if (format == METRICS_OPEN) {
        w.is_short |= !buf_append(out, "# EOF\n", 6);
    }
    mem_free(sums.shards);
    return !w.is_short;
}
