/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table is an array of rows, in the order of their first use, and a hash index over it. Rows
 * are never removed one by one, so a dump may go over them in slices by position while more are
 * added. A table belongs to its worker's thread. `stats reset` raises the shared epoch; each
 * table empties itself when it is next used.
 *
 * The dump merges the tables of all workers, a range of hashes at a time: so it holds the rows
 * of one range, however many there are and however slowly its client reads. Ranges are cut as
 * rows are found.
 */
#include "daemon/stats/stats_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/worker/crew.h"
#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "proto/encode.h"

#define FIRST_ROWS 64u

/* Of a range in a dump: rows, and bytes of their lines at most. */
#define RANGE_ROWS  128u
#define RANGE_BYTES (32u * 1024)

#define OVERFLOW_NAME "(more)"

struct detail_row {
    char *prefix; /* owned */
    uint32_t hash;
    uint8_t prefix_len; /* keys are shorter than 256 */
    uint64_t count[4];  /* by enum stats_detail_op */
};

struct detail_table {
    struct detail_row *rows; /* owned */
    uint32_t *index; /* owned; position in rows + 1; 0: empty; at most half are in use */
    uint32_t used;
    uint32_t cap; /* rows; half of the places */
    uint32_t index_mask;
    uint32_t epoch;
    uint64_t overflow[4]; /* of prefixes without a row */
};

/* ---- the table --------------------------------------------------------------------------- */

static struct detail_table *table_create(void)
{
    struct detail_table *t = mem_zalloc(sizeof(*t));

    if (t == NULL) {
        return NULL;
    }
    t->cap = FIRST_ROWS;
    t->index_mask = 2 * FIRST_ROWS - 1;
    t->rows = mem_alloc(t->cap * sizeof(t->rows[0]));
    t->index = mem_zalloc(((size_t)t->index_mask + 1) * sizeof(t->index[0]));
    if (t->rows == NULL || t->index == NULL) {
        detail_table_destroy(&t);
    }
    return t;
}

static void table_clear(struct detail_table *t)
{
    for (uint32_t i = 0; i < t->used; i++) {
        mem_free(t->rows[i].prefix);
    }
    t->used = 0;
    memset(t->index, 0, ((size_t)t->index_mask + 1) * sizeof(t->index[0]));
    memset(t->overflow, 0, sizeof(t->overflow));
}

void detail_table_destroy(struct detail_table **t)
{
    if (*t == NULL) {
        return;
    }
    if ((*t)->index != NULL) {
        table_clear(*t);
    }
    mem_free((*t)->index);
    mem_free((*t)->rows);
    mem_free(*t);
    *t = NULL;
}

static uint32_t *index_place(const struct detail_table *t, uint32_t hash, const char *prefix,
                             size_t len)
{
    uint32_t i = hash & t->index_mask;

    must(t->used <= t->cap && 2 * t->cap <= t->index_mask + 1); /* a place is free */
    while (t->index[i] != 0) {
        const struct detail_row *r = &t->rows[t->index[i] - 1];

        if (r->hash == hash && r->prefix_len == len && memcmp(r->prefix, prefix, len) == 0) {
            break;
        }
        i = (i + 1) & t->index_mask;
    }
    return &t->index[i];
}

/* Enter all rows into an index that is empty. */
static void fill_index(const struct detail_table *t, uint32_t *index, uint32_t mask)
{
    for (uint32_t i = 0; i < t->used; i++) {
        uint32_t at = t->rows[i].hash & mask;

        while (index[at] != 0) {
            at = (at + 1) & mask;
        }
        index[at] = i + 1;
    }
}

static bool table_grow(struct detail_table *t)
{
    uint32_t cap = t->cap * 2;
    uint32_t mask = 2 * cap - 1;
    struct detail_row *rows = mem_realloc(t->rows, cap * sizeof(rows[0]));
    uint32_t *index;

    if (rows == NULL) {
        return false;
    }
    t->rows = rows;
    index = mem_zalloc(((size_t)mask + 1) * sizeof(index[0]));
    if (index == NULL) {
        return false;
    }
    fill_index(t, index, mask);
    mem_free(t->index);
    t->index = index;
    t->index_mask = mask;
    t->cap = cap;
    return true;
}

/* Drop the rows with a hash above `last`. */
static void table_cut(struct detail_table *t, uint32_t last)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < t->used; i++) {
        if (t->rows[i].hash <= last) {
            t->rows[kept++] = t->rows[i];
        } else {
            mem_free(t->rows[i].prefix);
        }
    }
    t->used = kept;
    memset(t->index, 0, ((size_t)t->index_mask + 1) * sizeof(t->index[0]));
    fill_index(t, t->index, t->index_mask);
}

/* The counts of a prefix; those of the common row if the table is full. */
static uint64_t *table_counts(struct detail_table *t, uint64_t seed, const char *prefix,
                              size_t len)
{
    uint32_t hash = (uint32_t)hash_key(seed, prefix, len);
    uint32_t *place = index_place(t, hash, prefix, len);

    must(len <= UINT8_MAX);
    if (*place != 0) {
        return t->rows[*place - 1].count;
    }
    if (t->used >= DETAIL_PREFIXES_MAX || (t->used == t->cap && !table_grow(t))) {
        return t->overflow;
    }
    char *copy = mem_alloc(len + 1);
    if (copy == NULL) {
        return t->overflow;
    }
    memcpy(copy, prefix, len);
    copy[len] = '\0';
    place = index_place(t, hash, prefix, len);
    struct detail_row *r = &t->rows[t->used++];
    *place = t->used;
    memset(r, 0, sizeof(*r));
    r->prefix = copy;
    r->hash = hash;
    r->prefix_len = (uint8_t)len;
    return r->count;
}

/* The worker's table as of the last reset; NULL when there is none and none can be made. */
static struct detail_table *table_of(struct worker *w)
{
    uint32_t epoch = atomic_load_explicit(&w->crew->stats->detail_epoch, memory_order_relaxed);

    must_be_worker(w);
    if (w->detail == NULL) {
        w->detail = table_create();
        if (w->detail == NULL) {
            return NULL;
        }
        w->detail->epoch = epoch;
    }
    if (w->detail->epoch != epoch) {
        table_clear(w->detail);
        w->detail->epoch = epoch;
    }
    return w->detail;
}

/* ---- counting ---------------------------------------------------------------------------- */

void stats_detail_count(struct worker *w, enum stats_detail_op op, const char *key,
                        size_t key_len)
{
    const char *end = memchr(key, w->settings->prefix_delimiter, key_len);
    struct detail_table *t;

    must_be_worker(w);
    /* A key without the delimiter has no prefix and is not counted. */
    if (end == NULL || (t = table_of(w)) == NULL) {
        return;
    }
    table_counts(t, w->engine->config.seed, key, (size_t)(end - key))[op]++;
}

/* ---- the dump ---------------------------------------------------------------------------- */

struct detail_dump {
    struct stats_gather gather;
    struct detail_table *sum; /* owned; of the current range; NULL: not started */
    uint32_t next;            /* row of the table that is being visited */
    uint32_t first, last;     /* the range: hashes from and to, both included */
    uint32_t shown;
    uint64_t more[4]; /* of prefixes without a row */
};

static struct detail_dump *dump_of(struct stats_gather *g)
{
    return (struct detail_dump *)(void *)g; /* its first member */
}

static void add_counts(uint64_t *to, const uint64_t *from)
{
    for (unsigned op = 0; op < 4; op++) {
        to[op] += from[op];
    }
}

/* Where the clock is read next, of `used` rows. */
static uint32_t look_at(uint32_t next, uint32_t used)
{
    return used - next < STEPS_A_LOOK ? used : next + STEPS_A_LOOK;
}

/* As many as may have a row were shown: the others are added up. */
static bool is_full(const struct detail_dump *d)
{
    return d->shown >= DETAIL_PREFIXES_MAX;
}

static bool range_is_too_large(const struct detail_table *sum)
{
    size_t bytes = 0;

    if (sum->used > RANGE_ROWS) {
        return true;
    }
    for (uint32_t i = 0; i < sum->used; i++) {
        bytes += ENCODE_URI_BYTES((size_t)sum->rows[i].prefix_len) + 32; /* a line */
    }
    return bytes > RANGE_BYTES;
}

/*
 * Halve the range until it has few rows. Rows outside of it are dropped: they are visited
 * again, for another range.
 */
static void narrow(struct detail_dump *d)
{
    while (range_is_too_large(d->sum) && d->last > d->first) {
        d->last = d->first + (d->last - d->first) / 2;
        table_cut(d->sum, d->last);
    }
}

static void add_row(struct detail_dump *d, const struct detail_row *r)
{
    if (r->hash < d->first || r->hash > d->last) {
        return;
    }
    if (is_full(d)) {
        add_counts(d->more, r->count);
        return;
    }
    uint32_t used = d->sum->used;
    add_counts(
        table_counts(d->sum, d->gather.asker->engine->config.seed, r->prefix, r->prefix_len),
        r->count);
    if (d->sum->used > used && (d->sum->used > RANGE_ROWS || d->sum->used % 16 == 0)) {
        narrow(d);
    }
}

static bool visit(struct stats_gather *g, struct worker *w)
{
    struct detail_dump *d = dump_of(g);
    const struct detail_table *t = table_of(w);

    if (d->sum == NULL && d->first == 0) {
        d->last = UINT32_MAX; /* of the first range */
    }
    if (d->sum == NULL && (d->sum = table_create()) == NULL) {
        g->out.is_short = true;
        return true;
    }
    if (t == NULL) {
        return true;
    }
    while (d->next < t->used) {
        uint32_t end = look_at(d->next, t->used);

        for (; d->next < end; d->next++) {
            add_row(d, &t->rows[d->next]);
        }
        if (d->next < t->used && stats_gather_pauses(g, w)) {
            return false;
        }
    }
    if (d->first == 0) {
        add_counts(d->more, t->overflow);
    }
    d->next = 0;
    return true;
}

static void put_row(struct stats_out *o, struct span prefix, const uint64_t *count)
{
    char name[ENCODE_URI_BYTES(UINT8_MAX)];
    char line[sizeof(name) + 4 * 24 + 32];
    int name_len = (int)encode_line_key(name, prefix);

    snprintf(line, sizeof(line),
             "PREFIX %.*s get %" PRIu64 " hit %" PRIu64 " set %" PRIu64 " del %" PRIu64 "\r\n",
             name_len, name, count[STATS_DETAIL_GET_HIT] + count[STATS_DETAIL_GET_MISS],
             count[STATS_DETAIL_GET_HIT], count[STATS_DETAIL_SET], count[STATS_DETAIL_DELETE]);
    stats_put_raw(o, line);
}

/* The next range, twice as long as this one; the last one if no rows will be shown. */
static void begin_range(struct detail_dump *d)
{
    uint32_t length = d->last - d->first;

    d->first = d->last + 1;
    d->last = UINT32_MAX;
    if (!is_full(d) && length < (UINT32_MAX - d->first) / 2) {
        d->last = d->first + 2 * length + 1;
    }
}

static void put_range(struct detail_dump *d)
{
    for (uint32_t i = 0; i < d->sum->used; i++) {
        const struct detail_row *r = &d->sum->rows[i];

        if (is_full(d)) {
            add_counts(d->more, r->count);
        } else {
            put_row(&d->gather.out, span_of(r->prefix, r->prefix_len), r->count);
            d->shown++;
        }
    }
    add_counts(d->more, d->sum->overflow);
}

static enum gather_end finish(struct stats_gather *g)
{
    struct detail_dump *d = dump_of(g);
    const uint64_t *more = d->more;

    if (d->sum != NULL) {
        put_range(d);
        detail_table_destroy(&d->sum);
    }
    if (d->last < UINT32_MAX && !g->out.is_short) {
        begin_range(d);
        return GATHER_AGAIN;
    }
    if ((more[0] | more[1] | more[2] | more[3]) != 0) {
        put_row(&g->out, span_str(OVERFLOW_NAME), more);
    }
    return GATHER_DONE;
}

static void drop(struct stats_gather *g, struct worker *w)
{
    must_be_worker(w);
    detail_table_destroy(&dump_of(g)->sum);
}

const struct gather_kind gather_detail = {
    .size = sizeof(struct detail_dump), .visit = visit, .finish = finish, .drop = drop};
