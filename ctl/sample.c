/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/sample.h"

#include <math.h>
#include <string.h>

#include "lib/base/num.h"

const struct figure_row figure_rows[FIGURE_COUNT] = {
#define FIGURE(id, letter, title, width, kind, unit, help)                                     \
    [FIGURE_##id] = {letter, width, FIGURE_##kind, UNIT_##unit, title, help},
#include "ctl/figures.def"
#undef FIGURE
};

void sample_fini(struct stats_sample *s)
{
    stats_fini(&s->general);
    stats_fini(&s->shards);
    stats_fini(&s->replication);
    stats_fini(&s->moves);
}

/* Split "3:name" into 3 and "name". False: it is not the name of a shard's line. */
static bool split_shard(struct span name, uint32_t *shard, struct span *rest)
{
    struct span number;

    return span_split(name, ':', &number, rest) && num_u32(number, shard) == MF_OK;
}

double sample_sum(const struct stats_sample *s, const char *name)
{
    double sum = 0;

    for (size_t i = 0; i < s->shards.count; i++) {
        struct span rest;
        uint32_t shard;
        double v;

        if (split_shard(stats_name(&s->shards, i), &shard, &rest) && span_is(rest, name) &&
            num_fraction(stats_value(&s->shards, i), &v)) {
            sum += v;
        }
    }
    return sum;
}

/* ---- counters ---------------------------------------------------------------------------- */

/* Lines that are figures, and lines that are counters from which figures are computed. */
static const struct {
    const char *name;
    int figure;     /* enum figure_id, or -1 */
    size_t counter; /* offset in struct shard_sample, if figure is -1 */
} sources[] = {
    {"curr_items", FIGURE_items, 0},
    {"bytes", FIGURE_bytes, 0},
    {"expire_debt_keys", FIGURE_debt, 0},
    {"expire_lag_p99_ms", FIGURE_lag_ms, 0},
    {"lazyfree_pending_bytes", FIGURE_backlog, 0},
#define COUNTER(name, field) {name, -1, offsetof(struct shard_sample, field)},
    COUNTER("cmd_get", gets) COUNTER("get_hits", hits) COUNTER("cmd_get", ops)
        COUNTER("cmd_set", ops) COUNTER("cmd_touch", ops) COUNTER("delete_hits", ops)
            COUNTER("delete_misses", ops) COUNTER("incr_hits", ops) COUNTER("incr_misses", ops)
                COUNTER("decr_hits", ops) COUNTER("decr_misses", ops)
                    COUNTER("evictions", evicted) COUNTER("expired_lazy", expired)
                        COUNTER("expired_active", expired) COUNTER("expired_reclaim", expired)
#undef COUNTER
};

static void take_line(struct shard_sample *one, struct span name, double v)
{
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        double *to;

        if (!span_is(name, sources[i].name)) {
            continue;
        }
        if (sources[i].figure >= 0) {
            to = &one->figure[sources[i].figure];
            *to = isnan(*to) ? v : *to + v;
        } else {
            to = (double *)(void *)((char *)one + sources[i].counter);
            *to += v;
        }
    }
}

static void forget(struct shard_sample *one)
{
    memset(one, 0, sizeof(*one));
    for (unsigned f = 0; f < FIGURE_COUNT; f++) {
        one->figure[f] = NAN;
    }
}

/* By how much a counter has grown. If it fell, it was reset in between. */
static double grown(double now, double before)
{
    return now >= before ? now - before : now;
}

static void derive_rates(struct shard_sample *one, const struct shard_sample *before,
                         double seconds)
{
    double gets = grown(one->gets, before->gets);

    if (!(seconds > 0)) {
        return;
    }
    one->figure[FIGURE_ops] = grown(one->ops, before->ops) / seconds;
    one->figure[FIGURE_evicted] = grown(one->evicted, before->evicted) / seconds;
    one->figure[FIGURE_expired] = grown(one->expired, before->expired) / seconds;
    one->figure[FIGURE_hit_pct] =
        gets > 0 ? 100 * grown(one->hits, before->hits) / gets : (double)NAN;
}

static void add_up(struct stats_sample *s)
{
    for (unsigned i = 0; i < s->shard_count; i++) {
        const struct shard_sample *one = &s->shard[i];

        for (unsigned f = 0; f < FIGURE_COUNT; f++) {
            double *to = &s->all.figure[f];
            double v = one->figure[f];

            if (isnan(v)) {
                continue;
            }
            if (figure_rows[f].kind == FIGURE_WORST) {
                *to = isnan(*to) || v > *to ? v : *to;
            } else {
                *to = isnan(*to) ? v : *to + v;
            }
        }
        s->all.evicted += one->evicted;
        s->all.expired += one->expired;
    }
    s->all.figure[FIGURE_hit_pct] = NAN;
}

void sample_derive(struct stats_sample *s, const struct stats_sample *before)
{
    double seconds = before != NULL ? s->at_s - before->at_s : 0;
    struct shard_sample whole;

    s->shard_count = 0;
    for (size_t i = 0; i < s->shards.count; i++) {
        struct span rest;
        uint32_t shard;
        double v;

        if (!split_shard(stats_name(&s->shards, i), &shard, &rest) ||
            shard >= SAMPLE_SHARDS_MAX || !num_fraction(stats_value(&s->shards, i), &v)) {
            continue;
        }
        while (s->shard_count <= shard) {
            forget(&s->shard[s->shard_count++]);
        }
        take_line(&s->shard[shard], rest, v);
    }
    forget(&s->all);
    add_up(s);

    /* `stats` has the sums over all workers, even from a server that reports no shards. */
    forget(&whole);
    for (size_t i = 0; i < s->general.count; i++) {
        double v;

        if (num_fraction(stats_value(&s->general, i), &v)) {
            take_line(&whole, stats_name(&s->general, i), v);
        }
    }
    s->all.gets = whole.gets;
    s->all.hits = whole.hits;
    s->all.ops = whole.ops;
    s->all.evicted = whole.evicted;
    s->all.figure[FIGURE_items] = whole.figure[FIGURE_items];
    s->all.figure[FIGURE_bytes] = whole.figure[FIGURE_bytes];
    if (before != NULL) {
        derive_rates(&s->all, &before->all, seconds);
        for (unsigned i = 0; i < s->shard_count && i < before->shard_count; i++) {
            derive_rates(&s->shard[i], &before->shard[i], seconds);
        }
    }
}

/* ---- latency ----------------------------------------------------------------------------- */

/* The kind of that name, which is added if it is new. NULL: there is no room for it. */
static struct latency_sample *kind_of(struct stats_sample *s, struct span name)
{
    struct latency_sample *l;

    for (unsigned i = 0; i < s->latency_count; i++) {
        if (span_is(name, s->latency[i].kind)) {
            return &s->latency[i];
        }
    }
    if (s->latency_count == SAMPLE_KINDS_MAX || name.len >= sizeof(l->kind)) {
        return NULL;
    }
    l = &s->latency[s->latency_count++];
    *l = (struct latency_sample){.p50_us = (double)NAN, .p99_us = (double)NAN};
    memcpy(l->kind, name.ptr, name.len);
    return l;
}

void sample_read_latency(struct stats_sample *s, const struct stats *answer)
{
    s->latency_count = 0;
    for (size_t i = 0; i < answer->count; i++) {
        struct span name = stats_name(answer, i);
        struct span kind, what;
        struct latency_sample *l;
        double v;

        if (!span_split(name, ':', &kind, &what) || kind.len == 0 ||
            !num_fraction(stats_value(answer, i), &v) || (l = kind_of(s, kind)) == NULL) {
            continue;
        }
        if (span_is(what, "p50_us")) {
            l->p50_us = v;
        } else if (span_is(what, "p99_us")) {
            l->p99_us = v;
        } else if (span_is(what, "count")) {
            l->count = v;
        }
    }
}

/* ---- asking ------------------------------------------------------------------------------ */

enum ctl_status sample_take(struct ctl *c, struct stats_sample *s,
                            const struct stats_sample *before)
{
    struct stats latency = {0};
    enum ctl_status status = ask_stats(c, "", &s->general);

    s->at_s = ctl_now_s();
    status = ask_stats_if_any(c, status, "shards", &s->shards);
    status = ask_stats_if_any(c, status, "latency", &latency);
    status = ask_stats_if_any(c, status, "replication", &s->replication);
    status = ask_stats_if_any(c, status, "moves", &s->moves);
    if (status == CTL_OK) {
        sample_read_latency(s, &latency);
        sample_derive(s, before);
    }
    stats_fini(&latency);
    return status;
}

bool sample_is_moving(const struct stats *moves)
{
    return stats_is(moves, "move_state", "moving") || stats_is(moves, "move_state", "waiting");
}

double sample_move_share(const struct stats *moves)
{
    const double items = stats_get(moves, "move_items_all");
    const double slots = stats_get(moves, "move_slots_all");
    double share = 1;

    if (items > 0) {
        share = (stats_get(moves, "move_items_done") + stats_get(moves, "move_expired") +
                 stats_get(moves, "move_evicted")) /
                items;
    } else if (slots > 0) {
        share = stats_get(moves, "move_slots_done") / slots;
    }
    return share < 1 ? share : 1;
}
