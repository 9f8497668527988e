/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timing wheel: figures for statistics. They come from the buckets; items are read only
 * where a bucket is partly due, and no more than WALK_KEYS of them.
 */
#include "lib/expiry/wheel.h"

#include "lib/expiry/wheel_shape.h"

/* Most items read for exact figures; beyond that, the figures are estimates. */
#define WALK_KEYS 4096u

static const msec_t forecast_ms[WHEEL_FORECASTS] = {1000, 10000, 60000, 600000};

/* The state of one wheel_info(). */
struct survey {
    const struct wheel *w;
    struct wheel_info *info;
    msec_t now;
    msec_t oldest; /* the earliest deadline that is due */
    uint64_t walk; /* how many more items may be read */
    __int128 due;  /* the sum of the deadlines that are due; estimated where no item was read */
    /* What the times to live of all that are alive add up to, by the bounds of their buckets */
    __int128 ttl_min;
    __int128 ttl_max;
};

/* Called by a walk for each item. */
typedef void (*visit_fn)(struct survey *s, msec_t deadline, uint32_t bytes);

/* Visit all items of a bucket if there are not too many; false: none was visited. */
static bool walk_bucket(struct survey *s, unsigned id, visit_fn visit)
{
    const struct wheel *w = s->w;
    uint32_t pos = w->bucket[id].top;

    if (w->bucket[id].count > s->walk) {
        return false;
    }
    s->walk -= w->bucket[id].count;
    while (pos) {
        const struct item *it = item_at(w->base, *wheel_handle_at(&w->pool, pos));

        visit(s, item_deadline(it), item_bytes(it));
        pos = wheel_pos_below(w, pos);
    }
    return true;
}

static void note_oldest(struct survey *s, msec_t deadline)
{
    if (deadline < s->oldest) {
        s->oldest = deadline;
    }
}

static void visit_oldest(struct survey *s, msec_t deadline, uint32_t bytes)
{
    (void)bytes;
    note_oldest(s, deadline);
}

static void visit_due(struct survey *s, msec_t deadline, uint32_t bytes)
{
    (void)bytes;
    note_oldest(s, deadline);
    s->due += wheel_summand(deadline);
}

/* Add the deadlines of keys that have come within [first, last], as if evenly spread. */
static void add_due(struct survey *s, msec_t first, msec_t last, uint64_t keys)
{
    note_oldest(s, first);
    s->due += ((__int128)wheel_summand(first) + wheel_summand(last)) * keys / 2;
}

/* Add keys that fall due within [first, last], evenly spread. */
static void add_alive(struct survey *s, msec_t first, msec_t last, uint64_t keys,
                      uint64_t bytes)
{
    s->info->alive_keys += keys;
    s->ttl_min += ((__int128)wheel_summand(first) - s->now) * keys;
    s->ttl_max += ((__int128)wheel_summand(last) - s->now) * keys;
    for (unsigned i = 0; i < WHEEL_FORECASTS; i++) {
        msec_t end = s->now + forecast_ms[i];

        if (last <= end) {
            s->info->forecast_keys[i] += keys;
            s->info->forecast_bytes[i] += bytes;
        } else if (first <= end) {
            double share = (double)(end - first + 1) / (double)(last - first + 1);

            s->info->forecast_keys[i] += (uint64_t)(share * (double)keys);
            s->info->forecast_bytes[i] += (uint64_t)(share * (double)bytes);
        }
    }
}

static void add_debt(struct survey *s, msec_t first, msec_t last, uint64_t keys, uint64_t bytes)
{
    s->info->debt_keys += keys;
    s->info->debt_bytes += bytes;
    add_due(s, first, last, keys);
}

static void visit_mixed(struct survey *s, msec_t deadline, uint32_t bytes)
{
    if (deadline <= s->now) {
        add_debt(s, deadline, deadline, 1, bytes);
    } else {
        add_alive(s, deadline, deadline, 1, bytes);
    }
}

/* A bucket of [first, last] that has begun but not ended: its keys are debt or forecast. */
static void survey_partly_due(struct survey *s, unsigned id, msec_t first, msec_t last)
{
    const struct wheel_bucket *b = &s->w->bucket[id];
    double share = (double)(s->now - first + 1) / (double)(last - first + 1);
    uint64_t keys = (uint64_t)(share * b->count);
    uint64_t bytes = (uint64_t)(share * (double)b->bytes);

    if (!walk_bucket(s, id, visit_mixed)) {
        add_debt(s, first, s->now, keys, bytes);
        add_alive(s, s->now + 1, last, b->count - keys, b->bytes - bytes);
    }
}

static void survey_bucket(struct survey *s, unsigned l, unsigned id)
{
    const struct wheel_bucket *b = &s->w->bucket[id];
    msec_t first = wheel_bucket_start(s->w, l, id);
    msec_t last = first + ((msec_t)1 << wheel_levels[l].shift) - 1;

    if (wheel_is_due(s->w, id)) {
        if (l == 0 || !walk_bucket(s, id, visit_due)) {
            add_due(s, first, last, b->count);
        }
    } else if (first <= s->now) {
        survey_partly_due(s, id, first, last);
    } else {
        add_alive(s, first, last, b->count, b->bytes);
    }
}

static void survey_level(struct survey *s, unsigned l)
{
    const struct wheel_level *lv = &wheel_levels[l];

    for (unsigned word = lv->first / 64; word < (lv->first + lv->ring) / 64; word++) {
        for (uint64_t bits = s->w->occupied[word]; bits; bits &= bits - 1) {
            survey_bucket(s, l, word * 64 + (unsigned)__builtin_ctzll(bits));
        }
    }
}

/*
 * Far items matter for debt and forecast only after the clock has jumped by weeks. If there
 * are too many to read them, they count as far until they have been sorted.
 */
static void survey_far_bucket(struct survey *s, unsigned id, msec_t start)
{
    const struct wheel_bucket *b = &s->w->bucket[id];
    msec_t end = s->now + forecast_ms[WHEEL_FORECASTS - 1];

    if (start > end || !walk_bucket(s, id, visit_mixed)) {
        add_alive(s, start > end ? start : end + 1, MSEC_NEVER - 1, b->count, b->bytes);
    }
}

static void survey_far(struct survey *s)
{
    const struct wheel *w = s->w;

    survey_far_bucket(s, wheel_far_sorted(w), w->pace[WHEEL_LEVELS].start);
    survey_far_bucket(s, w->far, w->horizon[WHEEL_LEVELS - 1]);
}

/*
 * The sum of all deadlines, less those that are due, says it exactly, unless the latter were
 * estimated. Then the buckets of those that are alive bound it.
 */
static unsigned __int128 ttl_sum(const struct survey *s)
{
    __int128 sum = s->w->deadlines - s->due - (__int128)s->now * s->info->alive_keys;

    sum = sum < s->ttl_min ? s->ttl_min : sum > s->ttl_max ? s->ttl_max : sum;
    return sum > 0 ? (unsigned __int128)sum : 0;
}

uint64_t wheel_bytes(const struct wheel *w)
{
    return sizeof(*w) + wheel_pool_bytes(&w->pool);
}

void wheel_info(struct wheel *w, msec_t now, struct wheel_info *info)
{
    struct survey s = {.w = w,
                       .info = info,
                       .now = now,
                       .oldest = MSEC_NEVER,
                       .walk = WALK_KEYS,
                       .due = w->due_deadlines};

    wheel_must_be_entered(w);
    wheel_advance(w, now);
    if (s.now < w->tick - 1) {
        s.now = w->tick - 1; /* an earlier call had a later clock */
    }
    *info = (struct wheel_info){.keys = wheel_size(w),
                                .debt_keys = w->due_keys,
                                .debt_bytes = w->due_bytes,
                                .bytes = wheel_bytes(w)};
    if (w->bucket[WHEEL_DUE].count && !walk_bucket(&s, WHEEL_DUE, visit_oldest)) {
        note_oldest(&s, w->due_oldest);
    }
    for (unsigned l = 0; l < WHEEL_LEVELS; l++) {
        survey_level(&s, l);
    }
    survey_far(&s);
    info->debt_oldest_ms = info->debt_keys ? s.now - s.oldest : 0;
    info->ttl_sum_ms = ttl_sum(&s);
}
