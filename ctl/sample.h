/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a server at one moment, and the changes since the previous one, for `top` and
 * `memory`. Made from `stats` and `stats shards`, and from `stats latency` and `stats
 * replication` if the server has them.
 */
#ifndef MAYFLY_CTL_SAMPLE_H
#define MAYFLY_CTL_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/ask.h"
#include "ctl/show.h"

enum figure_id {
#define FIGURE(id, letter, title, width, kind, unit, help) FIGURE_##id,
#include "ctl/figures.def"
#undef FIGURE
    FIGURE_COUNT
};

enum figure_kind { FIGURE_NOW, FIGURE_RATE, FIGURE_WORST };

struct figure_row {
    char letter;
    unsigned width;
    enum figure_kind kind;
    enum unit unit;
    const char *title;
    const char *help;
};

extern const struct figure_row figure_rows[FIGURE_COUNT];

/* More workers than this are not shown one by one; the daemon has 1024 at most. */
#define SAMPLE_SHARDS_MAX 1024

/* Figures of a shard with its worker, and the counters that they are computed from. */
struct shard_sample {
    double figure[FIGURE_COUNT]; /* NAN: not known */
    double gets, hits, ops, evicted, expired;
};

#define SAMPLE_KINDS_MAX 8

/* Latency of requests of a kind, since the start of the server or a reset. */
struct latency_sample {
    char kind[16];
    double p50_us, p99_us;
    double count;
};

struct stats_sample {
    double at_s; /* monotonic */
    struct stats general, shards;
    struct stats replication; /* empty: the server does not report it */
    struct stats moves;       /* the same */
    struct shard_sample all;
    struct shard_sample shard[SAMPLE_SHARDS_MAX];
    unsigned shard_count;
    struct latency_sample latency[SAMPLE_KINDS_MAX];
    unsigned latency_count;
};

/*
 * Release the memory; the sample is then empty, as a zeroed one is. It is too large for the
 * stack.
 */
void sample_fini(struct stats_sample *s);

/*
 * Take a sample: ask the server. before: the previous sample, or NULL; without it rates per
 * second, and the hit ratio of the interval, are unknown.
 */
enum ctl_status sample_take(struct ctl *c, struct stats_sample *s,
                            const struct stats_sample *before);

/* The same from answers that were read already: s->general and s->shards. */
void sample_derive(struct stats_sample *s, const struct stats_sample *before);

/* Read an answer to `stats latency`. */
void sample_read_latency(struct stats_sample *s, const struct stats *answer);

/*
 * From an answer to `stats moves`: are items moving to other shards? And the share of items
 * moved so far, 0 to 1: dropped items count as moved, and without items it is that of slots.
 */
bool sample_is_moving(const struct stats *moves);
double sample_move_share(const struct stats *moves);

/* The sum over all shards of a line of `stats shards`. */
double sample_sum(const struct stats_sample *s, const char *name);

#endif
