/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volatile items of a shard by deadline: what statistics and tests want to know. Read off
 * the buckets; items are looked at only where a bucket is partly due, and no more than
 * WALK_KEYS of them. Runs inside the shard's lock.
 */
#include "lib/expiry/expires.h"

#include "lib/expiry/expires_wheel.h"

/* So many items are looked at for exact figures; with more, the figures are shares. */
#define WALK_KEYS 4096u

#define FORECASTS 4u

static const msec_t forecast_ms[FORECASTS] = {1000, 10000, 60000, 600000};

/* One expires_info() on its way. */
struct survey {
    const struct expires *e;
    struct expires_info *info;
    msec_t now;
    msec_t oldest; /* earliest deadline of what is due */
    uint64_t walk; /* items that may still be looked at */
};

/* What a walk does with each item. */
typedef void (*visit_fn)(struct survey *s, msec_t deadline, uint32_t bytes);

/* Visit all items of a bucket if there are not too many; false: not one was visited. */
static bool walk_bucket(struct survey *s, unsigned id, visit_fn visit)
{
    const struct expires *e = s->e;
    uint32_t pos = e->bucket[id].top;

    if (e->bucket[id].count > s->walk) {
        return false;
    }
    s->walk -= e->bucket[id].count;
    while (pos) {
        const struct item *it = item_at(e->base, *expires_handle_at(&e->pool, pos));

        visit(s, item_deadline(it), item_bytes(it));
        if (pos % EXPIRES_WORDS != EXPIRES_WORD_FIRST) {
            pos--;
        } else {
            uint32_t next = expires_chunk_at(&e->pool, pos / EXPIRES_WORDS)->next;

            pos = next ? next * EXPIRES_WORDS + EXPIRES_WORD_LAST : 0;
        }
    }
    return true;
}

static void note_oldest(struct survey *s, msec_t deadline)
{
    if (deadline < s->oldest) {
        s->oldest = deadline;
    }
}

static void visit_due(struct survey *s, msec_t deadline, uint32_t bytes)
{
    (void)bytes;
    note_oldest(s, deadline);
}

/* Keys that fall due within [first, last], evenly. */
static void add_forecast(struct survey *s, msec_t first, msec_t last, uint64_t keys,
                         uint64_t bytes)
{
    for (unsigned i = 0; i < FORECASTS; i++) {
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

static void add_debt(struct survey *s, msec_t oldest, uint64_t keys, uint64_t bytes)
{
    s->info->debt_keys += keys;
    s->info->debt_bytes += bytes;
    note_oldest(s, oldest);
}

static void visit_mixed(struct survey *s, msec_t deadline, uint32_t bytes)
{
    if (deadline <= s->now) {
        add_debt(s, deadline, 1, bytes);
    } else {
        add_forecast(s, deadline, deadline, 1, bytes);
    }
}

/* A bucket of [first, last] whose time has come but is not over. */
static void survey_partly_due(struct survey *s, unsigned id, msec_t first, msec_t last)
{
    const struct expires_bucket *b = &s->e->bucket[id];
    double share = (double)(s->now - first + 1) / (double)(last - first + 1);
    uint64_t keys = (uint64_t)(share * b->count);
    uint64_t bytes = (uint64_t)(share * (double)b->bytes);

    if (!walk_bucket(s, id, visit_mixed)) {
        add_debt(s, first, keys, bytes);
        add_forecast(s, s->now + 1, last, b->count - keys, b->bytes - bytes);
    }
}

static void survey_bucket(struct survey *s, unsigned l, unsigned id)
{
    const struct expires_bucket *b = &s->e->bucket[id];
    msec_t first = expires_bucket_start(s->e, l, id);
    msec_t last = first + ((msec_t)1 << expires_levels[l].shift) - 1;

    if (expires_is_due(s->e, id)) {
        if (l == 0 || !walk_bucket(s, id, visit_due)) {
            note_oldest(s, first);
        }
    } else if (first <= s->now) {
        survey_partly_due(s, id, first, last);
    } else {
        add_forecast(s, first, last, b->count, b->bytes);
    }
}

static void survey_level(struct survey *s, unsigned l)
{
    const struct expires_level *lv = &expires_levels[l];

    for (unsigned w = lv->first / 64; w < (lv->first + lv->ring) / 64; w++) {
        for (uint64_t bits = s->e->occupied[w]; bits; bits &= bits - 1) {
            survey_bucket(s, l, w * 64 + (unsigned)__builtin_ctzll(bits));
        }
    }
}

/*
 * What is far is of interest only when the clock has leapt by weeks: those of them
 * that are too many to be looked at are then not in the figures until they were sorted.
 */
static void survey_far(struct survey *s)
{
    const struct expires *e = s->e;
    msec_t soon = s->now + forecast_ms[FORECASTS - 1];

    if (e->pace[EXPIRES_LEVELS].start <= soon) {
        walk_bucket(s, expires_far_sorted(e), visit_mixed);
    }
    if (e->horizon[EXPIRES_LEVELS - 1] <= soon) {
        walk_bucket(s, e->far, visit_mixed);
    }
}

uint64_t expires_bytes(const struct expires *e)
{
    return sizeof(*e) + expires_pool_bytes(&e->pool);
}

void expires_info(struct expires *e, msec_t now, struct expires_info *info)
{
    struct survey s = {
        .e = e, .info = info, .now = now, .oldest = MSEC_NEVER, .walk = WALK_KEYS};

    expires_advance(e, now);
    if (s.now < e->tick - 1) {
        s.now = e->tick - 1; /* somebody was here with a later clock */
    }
    *info = (struct expires_info){.keys = expires_size(e),
                                  .debt_keys = e->due_keys,
                                  .debt_bytes = e->due_bytes,
                                  .bytes = expires_bytes(e)};
    if (e->bucket[EXPIRES_DUE].count && !walk_bucket(&s, EXPIRES_DUE, visit_due)) {
        note_oldest(&s, e->due_oldest);
    }
    for (unsigned l = 0; l < EXPIRES_LEVELS; l++) {
        survey_level(&s, l);
    }
    survey_far(&s);
    info->debt_oldest_ms = info->debt_keys ? s.now - s.oldest : 0;
}

/* ---- verify ------------------------------------------------------------------------------ */

/* What deadlines a bucket may hold, both included. */
struct range {
    msec_t first;
    msec_t last;
};

static struct range range_of(const struct expires *e, unsigned id)
{
    struct range r = {INT64_MIN, MSEC_NEVER - 1};

    if (id == EXPIRES_DUE || expires_is_due(e, id)) {
        r.last = e->tick - 1;
    } else if (id < EXPIRES_RINGS) {
        unsigned l = EXPIRES_LEVELS - 1;

        while (id < expires_levels[l].first) {
            l--;
        }
        r.first = expires_bucket_start(e, l, id);
        r.last = r.first + ((msec_t)1 << expires_levels[l].shift) - 1;
        if (r.last < e->tick) {
            r.last = r.first - 1; /* should be marked as due: nothing fits */
        }
    } else if (id == e->far) {
        r.first = e->horizon[EXPIRES_LEVELS - 1];
    } else {
        r.first = e->pace[EXPIRES_LEVELS].start;
    }
    return r;
}

static bool verify_item(const struct expires *e, uint32_t pos, struct range r, uint64_t *bytes)
{
    const struct item *it = item_at(e->base, *expires_handle_at(&e->pool, pos));

    if (!item_has_ttl(it) ||
        atomic_load_explicit(&item_ttl(it)->expires_pos, memory_order_relaxed) != pos) {
        return false;
    }
    *bytes += item_bytes(it);
    return item_deadline(it) >= r.first && item_deadline(it) <= r.last;
}

static bool verify_bucket(const struct expires *e, unsigned id, uint64_t *bytes,
                          uint32_t *chunks)
{
    const struct expires_bucket *b = &e->bucket[id];
    struct range r = range_of(e, id);
    uint32_t above = 0;
    uint32_t count = 0;

    *bytes = 0;
    for (uint32_t pos = b->top; pos;) {
        uint32_t number = pos / EXPIRES_WORDS;
        const struct expires_chunk *c = expires_chunk_at(&e->pool, number);

        if (c->bucket != id || c->prev != above || pos % EXPIRES_WORDS < EXPIRES_WORD_FIRST) {
            return false;
        }
        for (; pos / EXPIRES_WORDS == number && pos % EXPIRES_WORDS >= EXPIRES_WORD_FIRST;
             pos--) {
            if (!verify_item(e, pos, r, bytes) || ++count > b->count) {
                return false;
            }
        }
        ++*chunks;
        above = number;
        pos = c->next ? c->next * EXPIRES_WORDS + EXPIRES_WORD_LAST : 0;
    }
    return count == b->count &&
           ((e->occupied[id / 64] >> (id % 64) & 1) != 0) == (b->count != 0) &&
           (b->count != 0 || (b->bytes == 0 && b->top == 0));
}

static bool verify_bitmaps(const struct expires *e)
{
    for (unsigned w = 0; w < EXPIRES_BITMAP; w++) {
        if ((e->due_words >> w & 1) != (e->due[w] != 0) || (e->due[w] & ~e->occupied[w]) ||
            (e->occupied_words >> w & 1) != (e->occupied[w] != 0)) {
            return false;
        }
    }
    return true;
}

bool expires_verify(const struct expires *e)
{
    uint64_t count = 0;
    uint64_t due_keys = 0;
    uint64_t due_bytes = 0;
    uint32_t chunks = 0;

    for (unsigned id = 0; id < EXPIRES_BUCKETS; id++) {
        uint64_t bytes;

        if (!verify_bucket(e, id, &bytes, &chunks)) {
            return false;
        }
        count += e->bucket[id].count;
        if (expires_is_due(e, id)) {
            due_keys += e->bucket[id].count;
            due_bytes += bytes;
        } else if (bytes != e->bucket[id].bytes) {
            return false;
        }
    }
    return count == expires_size(e) && due_keys == e->due_keys && due_bytes == e->due_bytes &&
           chunks == e->pool.used && count <= e->pool.room && verify_bitmaps(e) &&
           expires_pool_verify(&e->pool);
}
