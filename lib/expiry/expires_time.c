/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volatile items of a shard by deadline: time passes, coarse buckets are refined, what
 * is due is handed out. See expires_wheel.h for the terms. Runs inside the shard's lock. A
 * sample looks at no more items than it is asked for, and besides at the bitmap of buckets when
 * time has passed (33 words) and at MERGE_CHUNKS chunks when due items are in the way; so a
 * clock that leaps by days costs no more than one that ticks.
 */
#include "lib/expiry/expires.h"

#include "lib/base/check.h"
#include "lib/expiry/expires_wheel.h"

/* Chunks that one step hands from a bucket in the way to EXPIRES_DUE. */
#define MERGE_CHUNKS 32u

/* A sampler that wakes for refinement wants so many items at least, or all that are left. */
#define REFINE_BATCH 20u

/* Refinement aims to be done this fraction (1/n) of a bucket before its first deadline. */
#define REFINE_SPARE 4

/* ---- time -------------------------------------------------------------------------------- */

/* The buckets of a ring from number a up to b (not included) become due. */
static void mark_due(struct expires *e, const struct expires_level *lv, int64_t a, int64_t b)
{
    while (a < b) {
        unsigned id = lv->first + ((unsigned)a & (lv->ring - 1));
        unsigned bit = id % 64;
        int64_t n = b - a < 64 - (int64_t)bit ? b - a : 64 - (int64_t)bit;
        uint64_t mask = (n == 64 ? ~0ULL : (1ULL << n) - 1) << bit;
        uint64_t bits = e->occupied[id / 64] & ~e->due[id / 64] & mask;

        while (bits) {
            unsigned found = id - bit + (unsigned)__builtin_ctzll(bits);

            expires_set_due(e, found);
            e->due_keys += e->bucket[found].count;
            e->due_bytes += e->bucket[found].bytes;
            bits &= bits - 1;
        }
        a += n;
    }
}

void expires_advance(struct expires *e, msec_t now)
{
    msec_t was = e->tick;

    if (now < was) {
        return;
    }
    e->tick = now + 1;
    for (unsigned l = 0; l < EXPIRES_LEVELS; l++) {
        const struct expires_level *lv = &expires_levels[l];
        int64_t end = e->horizon[l] >> lv->shift;
        int64_t a = was >> lv->shift;
        int64_t b = e->tick >> lv->shift;

        if (a < end - lv->ring) {
            a = end - lv->ring;
        }
        mark_due(e, lv, a, b < end ? b : end);
    }
}

/* ---- the horizons move ------------------------------------------------------------------- */

/* The items of a due bucket's top chunk go to EXPIRES_DUE one by one. */
static void merge_items(struct expires *e, unsigned id, msec_t start)
{
    struct expires_bucket *b = &e->bucket[id];
    uint32_t number = b->top / EXPIRES_WORDS;

    while (b->top / EXPIRES_WORDS == number) {
        handle_t handle = *expires_handle_at(&e->pool, b->top);
        uint32_t bytes = item_bytes(item_at(e->base, handle));

        expires_pull(e, b->top, bytes);
        expires_put_due(e, handle, bytes, start);
    }
}

/*
 * The full top chunk of a due bucket goes to EXPIRES_DUE as it is, below the top one there,
 * which may be partly filled. The totals do not change, and no item is touched.
 */
static void merge_chunk(struct expires *e, unsigned id, msec_t start)
{
    struct expires_bucket *b = &e->bucket[id];
    struct expires_bucket *due = &e->bucket[EXPIRES_DUE];
    uint32_t number = b->top / EXPIRES_WORDS;
    uint32_t above = due->top / EXPIRES_WORDS;
    struct expires_chunk *c = expires_chunk_at(&e->pool, number);

    b->count -= EXPIRES_SLOTS;
    due->count += EXPIRES_SLOTS;
    if (c->next) {
        expires_chunk_at(&e->pool, c->next)->prev = 0;
        b->top = c->next * EXPIRES_WORDS + EXPIRES_WORD_LAST;
    } else {
        expires_bucket_emptied(e, id);
    }
    c->bucket = EXPIRES_DUE;
    c->prev = above;
    c->next = expires_chunk_at(&e->pool, above)->next;
    if (c->next) {
        expires_chunk_at(&e->pool, c->next)->prev = number;
    }
    expires_chunk_at(&e->pool, above)->next = number;
    if (start < e->due_oldest) {
        e->due_oldest = start;
    }
}

/* Merge a bucket as far as *chunks allows. */
static void merge_bucket(struct expires *e, unsigned id, msec_t start, unsigned *chunks)
{
    struct expires_bucket *b = &e->bucket[id];

    must(expires_is_due(e, id));
    for (; b->top && *chunks; --*chunks) {
        if (b->top % EXPIRES_WORDS != EXPIRES_WORD_LAST || e->bucket[EXPIRES_DUE].top == 0) {
            merge_items(e, id, start);
        } else {
            merge_chunk(e, id, start);
        }
    }
}

/*
 * Is the half of a ring that begins with bucket `first` free for another turn? What stands
 * there is due: it is merged as far as *chunks allows.
 */
static bool clear_half(struct expires *e, unsigned l, unsigned first, unsigned *chunks)
{
    for (unsigned w = first / 64; w < (first + expires_levels[l].ring / 2) / 64; w++) {
        while (e->occupied[w]) {
            unsigned id = w * 64 + (unsigned)__builtin_ctzll(e->occupied[w]);

            if (*chunks == 0) {
                return false;
            }
            merge_bucket(e, id, expires_bucket_start(e, l, id), chunks);
        }
    }
    return true;
}

/*
 * Begin the next coarse bucket: the horizon moves half a ring, up to a whole coarse bucket
 * before its first deadline. If it lags by more (nobody called for a while) it leaps to the
 * present: what it passes over is due. False when it stays, as there is no need yet or due
 * items stand in the way; those have half the time to be handed out before they are merged.
 */
static bool begin_bucket(struct expires *e, unsigned l, unsigned *chunks)
{
    msec_t step = expires_step(l);
    msec_t was = e->horizon[l];
    msec_t present = e->tick & ~(step - 1);
    msec_t start = was < present ? present : was;
    unsigned allowed = e->tick >= start - step / 2 ? *chunks : 0;
    unsigned unused = allowed;
    bool is_clear;

    if (e->tick < start - step) {
        return false;
    }
    is_clear = clear_half(e, l, expires_slot(l, start), &unused) &&
               (start == was || clear_half(e, l, expires_slot(l, start - step), &unused));
    *chunks -= allowed - unused;
    if (!is_clear) {
        return false;
    }
    if (l + 1 < EXPIRES_LEVELS) {
        e->pace[l + 1] = (struct expires_pace){e->tick, start, 0};
        e->horizon[l] = start + step;
        e->pace[l + 1].keys = e->bucket[expires_slot(l + 1, start)].count;
        return true;
    }
    if (e->bucket[expires_far_sorted(e)].count) {
        return false;
    }
    e->pace[l + 1] = (struct expires_pace){e->tick, was, e->bucket[e->far].count};
    e->far = expires_far_sorted(e);
    e->horizon[l] = start + step;
    return true;
}

/* Move all horizons, the farthest first. */
static void begin_buckets(struct expires *e)
{
    unsigned chunks = MERGE_CHUNKS;

    for (unsigned l = EXPIRES_LEVELS; l-- > 0;) {
        if (e->tick >= e->horizon[l] - expires_step(l)) {
            while (begin_bucket(e, l, &chunks)) {
                continue;
            }
        }
    }
}

/* ---- refining ---------------------------------------------------------------------------- */

/*
 * A begun bucket of coarse level l (EXPIRES_LEVELS: far) that has items left to refine: with
 * which 0 the one whose time has come (partly due), with 1 the one after it. EXPIRES_NONE if
 * there is none.
 */
static unsigned unrefined(const struct expires *e, unsigned l, unsigned which)
{
    unsigned id;
    msec_t start;

    if (l == EXPIRES_LEVELS) {
        id = expires_far_sorted(e);
        return e->bucket[id].count && (e->pace[l].start > e->tick) == which ? id : EXPIRES_NONE;
    }
    start = ((e->tick >> expires_levels[l].shift) + which) << expires_levels[l].shift;
    if (start >= e->horizon[l - 1] || start >= e->horizon[l]) {
        return EXPIRES_NONE;
    }
    id = expires_slot(l, start);
    return e->bucket[id].count && !expires_is_due(e, id) ? id : EXPIRES_NONE;
}

/* Length of a bucket of coarse level l, and of what counts as one beyond the last. */
static msec_t coarse_length(unsigned l)
{
    return expires_step(l - 1);
}

/* The time that a refinement has, from its begin; at least 1. */
static msec_t pace_window(const struct expires_pace *p, unsigned l)
{
    msec_t end = p->start - coarse_length(l) / REFINE_SPARE;

    return end > p->begun ? end - p->begun : 1;
}

/* How many keys of coarse level l should have been refined by now and are not. */
static uint64_t level_behind(const struct expires *e, unsigned l, unsigned which)
{
    unsigned id = unrefined(e, l, which);
    const struct expires_pace *p = &e->pace[l];
    uint64_t left;
    uint64_t want_left = 0;
    msec_t window;
    msec_t elapsed;

    if (id == EXPIRES_NONE) {
        return 0;
    }
    left = e->bucket[id].count;
    if (which == 0) {
        return left;
    }
    window = pace_window(p, l);
    elapsed = e->tick - p->begun;
    if (elapsed < window) {
        want_left = p->keys - p->keys * (uint64_t)elapsed / (uint64_t)window;
    }
    return left > want_left ? left - want_left : 0;
}

static uint64_t all_behind(const struct expires *e)
{
    uint64_t sum = 0;

    for (unsigned l = 1; l <= EXPIRES_LEVELS; l++) {
        sum += level_behind(e, l, 0) + level_behind(e, l, 1);
    }
    return sum;
}

/* One expires_sample() on its way. */
struct sample {
    handle_t *out;
    unsigned due;   /* handles in out */
    unsigned alive; /* looked at and moved */
    unsigned max;
    uint64_t ttl_ms;
};

static unsigned sample_left(const struct sample *s)
{
    return s->max - s->due - s->alive;
}

/* Look at an item on top of a coarse bucket and put it where it belongs. */
static void refine_item(struct expires *e, struct sample *s, uint32_t pos)
{
    handle_t handle = *expires_handle_at(&e->pool, pos);
    const struct item *it = item_at(e->base, handle);
    msec_t deadline = item_deadline(it);
    uint32_t bytes = item_bytes(it);

    expires_pull(e, pos, bytes);
    if (deadline < e->tick) {
        expires_put_due(e, handle, bytes, deadline);
        s->out[s->due++] = handle;
        return;
    }
    expires_put(e, handle, deadline, bytes);
    s->ttl_ms += (uint64_t)(deadline - e->tick) + 1;
    s->alive++;
}

/*
 * Refine up to `most` items of a bucket, a chunk's worth at a time: the deadline stands
 * in the item, so all of them are asked for before the first is looked at.
 */
static void refine_bucket(struct expires *e, struct sample *s, unsigned id, uint64_t most)
{
    const struct expires_bucket *b = &e->bucket[id];
    uint64_t left = most < sample_left(s) ? most : sample_left(s);

    while (left && b->top) {
        uint32_t n = b->top % EXPIRES_WORDS - EXPIRES_WORD_FIRST + 1;

        n = left < n ? (uint32_t)left : n;
        for (uint32_t i = 0; i < n; i++) {
            __builtin_prefetch(item_at(e->base, *expires_handle_at(&e->pool, b->top - i)), 1);
        }
        for (uint32_t i = 0; i < n; i++) {
            refine_item(e, s, b->top);
        }
        left -= n;
    }
}

/* What is partly due first, then what is behind, then anything begun; fine levels first. */
static void refine(struct expires *e, struct sample *s)
{
    for (unsigned pass = 0; pass < 3; pass++) {
        for (unsigned l = 1; l <= EXPIRES_LEVELS && sample_left(s); l++) {
            unsigned id = unrefined(e, l, pass > 0);

            if (id != EXPIRES_NONE) {
                refine_bucket(e, s, id, pass == 1 ? level_behind(e, l, 1) : UINT64_MAX);
            }
        }
    }
}

/* ---- sampling ---------------------------------------------------------------------------- */

/* Hand out items of a due bucket, the last ones first: then each removal takes the top. */
static void take_bucket(const struct expires *e, struct sample *s, unsigned id, unsigned most)
{
    uint32_t pos = e->bucket[id].top;

    while (pos && s->due < most) {
        handle_t handle = *expires_handle_at(&e->pool, pos);

        __builtin_prefetch(item_at(e->base, handle), 1);
        s->out[s->due++] = handle;
        if (pos % EXPIRES_WORDS != EXPIRES_WORD_FIRST) {
            pos--;
        } else {
            uint32_t next = expires_chunk_at(&e->pool, pos / EXPIRES_WORDS)->next;

            pos = next ? next * EXPIRES_WORDS + EXPIRES_WORD_LAST : 0;
        }
    }
}

/* Hand out items of the due buckets among 64. */
static void take_word(const struct expires *e, struct sample *s, unsigned word, unsigned most)
{
    for (uint64_t bits = e->due[word]; bits && s->due < most; bits &= bits - 1) {
        take_bucket(e, s, word * 64 + (unsigned)__builtin_ctzll(bits), most);
    }
}

/* Hand out due items: the coarse buckets (the oldest), then the milliseconds as they passed. */
static void take_due(const struct expires *e, struct sample *s, unsigned most)
{
    const unsigned fine = expires_levels[0].ring / 64;
    unsigned first = expires_slot(0, e->horizon[0]) / 64;
    uint64_t words = e->due_words >> fine << fine;

    while (words && s->due < most) {
        unsigned word = 63u - (unsigned)__builtin_clzll(words);

        take_word(e, s, word, most);
        words &= ~(1ULL << word);
    }
    words = e->due_words & ((1ULL << fine) - 1);
    for (unsigned half = 0; half < 2; half++, first ^= fine / 2) {
        uint64_t bits = words & (((1ULL << (fine / 2)) - 1) << first);

        for (; bits && s->due < most; bits &= bits - 1) {
            take_word(e, s, (unsigned)__builtin_ctzll(bits), most);
        }
    }
}

unsigned expires_sample(struct expires *e, msec_t now, handle_t *out, unsigned max,
                        unsigned *sampled)
{
    struct sample s = {.out = out, .max = max};
    uint64_t behind;
    unsigned kept = 0;

    expires_advance(e, now);
    begin_buckets(e);
    behind = all_behind(e);
    if (behind) {
        /* Debt must not stop the refinement, or it would end in looking at everything. */
        kept = behind < (max + 1) / 2 ? (unsigned)behind : (max + 1) / 2;
    }
    take_due(e, &s, max - kept);
    if (sample_left(&s)) {
        refine(e, &s);
    }
    if (expires_wants_shrink(e)) {
        expires_shrink_step(e);
    }
    e->sampled_ttl_ms = s.ttl_ms;
    *sampled = s.due + s.alive;
    return s.due;
}

uint64_t expires_sampled_ttl_ms(const struct expires *e)
{
    return e->sampled_ttl_ms;
}

uint64_t expires_debt(struct expires *e, msec_t now)
{
    expires_advance(e, now);
    return e->due_keys;
}

uint64_t expires_behind(struct expires *e, msec_t now)
{
    expires_advance(e, now);
    begin_buckets(e);
    return all_behind(e);
}

/* ---- what comes next --------------------------------------------------------------------- */

/*
 * First bucket of a ring that has items, as number of its level; -1: none. Nothing is due: so
 * all that is occupied lies ahead, and the ring is searched from the present on, around.
 */
static int64_t first_bucket(const struct expires *e, unsigned l)
{
    const struct expires_level *lv = &expires_levels[l];
    int64_t present = e->tick >> lv->shift;
    unsigned here = expires_slot(l, e->tick);
    unsigned word = here / 64;
    uint64_t ring = ((1ULL << (lv->ring / 64)) - 1) << (lv->first / 64);
    uint64_t words = e->occupied_words & ring;
    uint64_t bits = e->occupied[word] >> (here % 64);
    uint64_t later = words & (~1ULL << word);
    unsigned id;

    if (words == 0) {
        return -1;
    }
    if (bits) {
        return present + __builtin_ctzll(bits);
    }
    /* If nothing comes later in the ring it goes on at its start, up to this very word. */
    word = (unsigned)__builtin_ctzll(later ? later : words);
    id = word * 64 + (unsigned)__builtin_ctzll(e->occupied[word]);
    return present + ((id - here) & (lv->ring - 1));
}

/*
 * When a coarse bucket wants its next batch refined: when it falls behind by one, or
 * by all that is left of it.
 */
static msec_t next_batch(const struct expires *e, unsigned l, msec_t start, uint64_t left)
{
    struct expires_pace p = e->pace[l];
    uint64_t batch = left < REFINE_BATCH ? left : REFINE_BATCH;
    uint64_t done;
    uint64_t window;

    if (start <= e->tick) {
        return e->tick - 1;
    }
    if (p.start != start || p.keys < left) {
        p.begun = start - coarse_length(l) > e->tick ? start - coarse_length(l) : e->tick;
        p.start = start;
        p.keys = left;
    }
    window = (uint64_t)pace_window(&p, l);
    done = p.keys - left + batch;
    return p.begun + (msec_t)((done * window + p.keys - 1) / p.keys) - 1;
}

static msec_t earlier(msec_t a, msec_t b)
{
    return a < b ? a : b;
}

msec_t expires_next(const struct expires *e)
{
    msec_t next = MSEC_NEVER;
    int64_t n;

    if (e->due_keys) {
        return e->tick - 1;
    }
    n = first_bucket(e, 0);
    if (n >= 0) {
        next = n;
    }
    for (unsigned l = 1; l < EXPIRES_LEVELS; l++) {
        n = first_bucket(e, l);
        if (n >= 0) {
            uint64_t left = e->bucket[expires_slot(l, n << expires_levels[l].shift)].count;

            next = earlier(next, next_batch(e, l, n << expires_levels[l].shift, left));
        }
    }
    if (e->bucket[expires_far_sorted(e)].count) {
        next = earlier(next, next_batch(e, EXPIRES_LEVELS, e->pace[EXPIRES_LEVELS].start,
                                        e->bucket[expires_far_sorted(e)].count));
    }
    if (e->bucket[e->far].count) {
        next = earlier(next, next_batch(e, EXPIRES_LEVELS, e->horizon[EXPIRES_LEVELS - 1],
                                        e->bucket[e->far].count));
    }
    return next;
}
