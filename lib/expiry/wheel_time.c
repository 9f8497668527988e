/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timing wheel: advancing the time, refining coarse buckets, and returning due items. See
 * wheel_shape.h for the terms. A sample reads no more items than requested. In addition it
 * reads the bitmap of buckets (33 words) when time has passed, and moves up to MERGE_NODES
 * nodes when due items are in the way; for coarse buckets it also reads their items. So a clock
 * that jumps by days costs little more than one that ticks.
 */
#include "lib/expiry/wheel.h"

#include "lib/base/check.h"
#include "lib/expiry/wheel_shape.h"

/* The most nodes that one step moves to WHEEL_DUE from buckets that are in the way. */
#define MERGE_NODES 32u

/*
 * A sampler that wakes up to refine should find at least this many items, or all that are left.
 */
#define REFINE_BATCH 20u

/* Refinement aims to finish this part (1/n) of a bucket before the first deadline of it. */
#define REFINE_SPARE 4

/* ---- time -------------------------------------------------------------------------------- */

/* The buckets of a ring from number a up to b, not included, become due. */
static void mark_due(struct wheel *w, const struct wheel_level *lv, int64_t a, int64_t b)
{
    while (a < b) {
        unsigned id = lv->first + ((unsigned)a & (lv->ring - 1));
        unsigned bit = id % 64;
        int64_t n = b - a < 64 - (int64_t)bit ? b - a : 64 - (int64_t)bit;
        uint64_t mask = (n == 64 ? ~0ULL : (1ULL << n) - 1) << bit;
        uint64_t bits = w->occupied[id / 64] & ~w->due[id / 64] & mask;

        while (bits) {
            unsigned found = id - bit + (unsigned)__builtin_ctzll(bits);

            wheel_mark_due(w, found);
            w->due_keys += w->bucket[found].count;
            w->due_bytes += w->bucket[found].bytes;
            bits &= bits - 1;
        }
        a += n;
    }
}

void wheel_advance(struct wheel *w, msec_t now)
{
    wheel_must_be_entered(w);
    msec_t was = w->tick;

    if (now < was) {
        return;
    }
    w->tick = now + 1;
    for (unsigned l = 0; l < WHEEL_LEVELS; l++) {
        const struct wheel_level *lv = &wheel_levels[l];
        int64_t end = w->horizon[l] >> lv->shift;
        int64_t a = was >> lv->shift;
        int64_t b = w->tick >> lv->shift;

        if (a < end - lv->ring) {
            a = end - lv->ring;
        }
        mark_due(w, lv, a, b < end ? b : end);
    }
}

/* ---- the horizons move ------------------------------------------------------------------- */

/* Move the items in the top node of a due bucket to WHEEL_DUE, one by one. */
static void merge_items(struct wheel *w, unsigned id)
{
    struct wheel_bucket *b = &w->bucket[id];
    uint32_t number = b->top / NODE_WORDS;

    while (b->top / NODE_WORDS == number) {
        handle_t handle = *wheel_handle_at(&w->pool, b->top);
        const struct item *it = item_at(w->base, handle);
        uint32_t bytes = item_bytes(it);

        wheel_pull(w, id, bytes);
        wheel_put_due(w, handle, item_deadline(it), bytes);
    }
}

/* The sum of the deadlines in a full node of a due bucket; in the finest all are the same. */
static __int128 node_deadlines(const struct wheel *w, const struct wheel_node *n, unsigned id,
                               msec_t start)
{
    __int128 sum = 0;

    if (id < wheel_levels[1].first) {
        return (__int128)wheel_summand(start) * NODE_HANDLES;
    }
    for (unsigned i = 0; i < NODE_HANDLES; i++) {
        __builtin_prefetch(item_ttl(item_at(w->base, n->handle[i])));
    }
    for (unsigned i = 0; i < NODE_HANDLES; i++) {
        sum += wheel_summand(item_deadline(item_at(w->base, n->handle[i])));
    }
    return sum;
}

/*
 * Move the full top node of a due bucket to WHEEL_DUE as it is, below the top node there, which
 * may be partly filled. The totals do not change, and items are read only in a coarse bucket.
 */
static void merge_node(struct wheel *w, unsigned id, msec_t start)
{
    struct wheel_bucket *b = &w->bucket[id];
    struct wheel_bucket *due = &w->bucket[WHEEL_DUE];
    uint32_t number = b->top / NODE_WORDS;
    uint32_t above = due->top / NODE_WORDS;
    struct wheel_node *n = wheel_node_at(&w->pool, number);

    must(b->count >= NODE_HANDLES && above != 0);
    w->due_deadlines += node_deadlines(w, n, id, start);
    b->count -= NODE_HANDLES;
    due->count += NODE_HANDLES;
    if (n->next) {
        wheel_node_at(&w->pool, n->next)->prev = 0;
        b->top = n->next * NODE_WORDS + NODE_WORD_LAST;
    } else {
        wheel_bucket_emptied(w, id);
    }
    n->bucket = WHEEL_DUE;
    n->prev = above;
    n->next = wheel_node_at(&w->pool, above)->next;
    if (n->next) {
        wheel_node_at(&w->pool, n->next)->prev = number;
    }
    wheel_node_at(&w->pool, above)->next = number;
    if (start < w->due_oldest) {
        w->due_oldest = start;
    }
}

/* Move a due bucket to WHEEL_DUE, as far as *nodes allows. */
static void merge_bucket(struct wheel *w, unsigned id, msec_t start, unsigned *nodes)
{
    struct wheel_bucket *b = &w->bucket[id];

    must(wheel_is_due(w, id));
    for (; b->top && *nodes; --*nodes) {
        if (b->top % NODE_WORDS != NODE_WORD_LAST || w->bucket[WHEEL_DUE].top == 0) {
            merge_items(w, id);
        } else {
            merge_node(w, id, start);
        }
    }
}

/*
 * Is the half of a ring that begins with bucket `first` free for another turn? Items that are
 * still there are due: they are merged into WHEEL_DUE as far as *nodes allows.
 */
static bool clear_half(struct wheel *w, unsigned l, unsigned first, unsigned *nodes)
{
    for (unsigned word = first / 64; word < (first + wheel_levels[l].ring / 2) / 64; word++) {
        while (w->occupied[word]) {
            unsigned id = word * 64 + (unsigned)__builtin_ctzll(w->occupied[word]);

            if (*nodes == 0) {
                return false;
            }
            merge_bucket(w, id, wheel_bucket_start(w, l, id), nodes);
        }
    }
    return true;
}

/*
 * Begin the next coarse bucket, at the earliest a whole coarse bucket before its first
 * deadline: the horizon moves on by half a ring. If it is later than that, because there was no
 * call for a while, the horizon jumps to the present; everything it passes over is due. Returns
 * false when the horizon stays, because it is too early or because due items are in the way.
 * They are not merged before half of a coarse bucket's length is left, so that sampling can
 * hand them out first.
 */
static bool begin_bucket(struct wheel *w, unsigned l, unsigned *nodes)
{
    msec_t step = wheel_step(l);
    msec_t was = w->horizon[l];
    msec_t present = w->tick & ~(step - 1);
    msec_t start = was < present ? present : was;
    unsigned allowed = w->tick >= start - step / 2 ? *nodes : 0;
    unsigned unused = allowed;

    if (w->tick < start - step) {
        return false;
    }
    bool is_clear =
        clear_half(w, l, wheel_bucket_at(l, start), &unused) &&
        (start == was || clear_half(w, l, wheel_bucket_at(l, start - step), &unused));
    *nodes -= allowed - unused;
    if (!is_clear) {
        return false;
    }
    if (l + 1 < WHEEL_LEVELS) {
        w->pace[l + 1] = (struct wheel_pace){w->tick, start, 0};
        w->horizon[l] = start + step;
        w->pace[l + 1].keys = w->bucket[wheel_bucket_at(l + 1, start)].count;
        return true;
    }
    if (w->bucket[wheel_far_sorted(w)].count) {
        return false;
    }
    w->pace[l + 1] = (struct wheel_pace){w->tick, was, w->bucket[w->far].count};
    w->far = wheel_far_sorted(w);
    w->horizon[l] = start + step;
    return true;
}

/* Move all horizons, the farthest one first. */
static void begin_buckets(struct wheel *w)
{
    unsigned nodes = MERGE_NODES;

    for (unsigned l = WHEEL_LEVELS; l-- > 0;) {
        if (w->tick >= w->horizon[l] - wheel_step(l)) {
            while (begin_bucket(w, l, &nodes)) {
                continue;
            }
        }
    }
}

/* ---- refining ---------------------------------------------------------------------------- */

/*
 * A bucket of coarse level l (WHEEL_LEVELS: far) that was begun and has items left to refine:
 * for which = 0 the one whose time has come (partly due), for 1 the one after it. WHEEL_NONE
 * if there is none.
 */
static unsigned unrefined(const struct wheel *w, unsigned l, unsigned which)
{
    unsigned id;

    if (l == WHEEL_LEVELS) {
        id = wheel_far_sorted(w);
        return w->bucket[id].count && (w->pace[l].start > w->tick) == which ? id : WHEEL_NONE;
    }
    msec_t start = ((w->tick >> wheel_levels[l].shift) + which) << wheel_levels[l].shift;
    if (start >= w->horizon[l - 1] || start >= w->horizon[l]) {
        return WHEEL_NONE;
    }
    id = wheel_bucket_at(l, start);
    return w->bucket[id].count && !wheel_is_due(w, id) ? id : WHEEL_NONE;
}

/* The length of a bucket of coarse level l, or of what counts as one beyond the last level. */
static msec_t coarse_length(unsigned l)
{
    return wheel_step(l - 1);
}

/* Time limit of a refinement from its start; at least 1. */
static msec_t pace_window(const struct wheel_pace *p, unsigned l)
{
    msec_t end = p->start - coarse_length(l) / REFINE_SPARE;

    return end > p->begun ? end - p->begun : 1;
}

/* Number of keys of coarse level l whose refinement is late. */
static uint64_t level_behind(const struct wheel *w, unsigned l, unsigned which)
{
    unsigned id = unrefined(w, l, which);
    const struct wheel_pace *p = &w->pace[l];
    uint64_t want_left = 0;

    if (id == WHEEL_NONE) {
        return 0;
    }
    uint64_t left = w->bucket[id].count;
    if (which == 0) {
        return left;
    }
    msec_t window = pace_window(p, l);
    msec_t elapsed = w->tick - p->begun;
    if (elapsed < window) {
        want_left = p->keys - p->keys * (uint64_t)elapsed / (uint64_t)window;
    }
    return left > want_left ? left - want_left : 0;
}

static uint64_t all_behind(const struct wheel *w)
{
    uint64_t sum = 0;

    for (unsigned l = 1; l <= WHEEL_LEVELS; l++) {
        sum += level_behind(w, l, 0) + level_behind(w, l, 1);
    }
    return sum;
}

/* The state of one wheel_sample(). */
struct sample {
    handle_t *out;
    unsigned due;   /* handles in out */
    unsigned alive; /* read and moved */
    unsigned max;
};

static unsigned sample_left(const struct sample *s)
{
    return s->max - s->due - s->alive;
}

/* Read the deadline of the top item of a coarse bucket, and put it where it belongs. */
static void refine_item(struct wheel *w, struct sample *s, unsigned id)
{
    handle_t handle = *wheel_handle_at(&w->pool, w->bucket[id].top);
    const struct item *it = item_at(w->base, handle);
    msec_t deadline = item_deadline(it);
    uint32_t bytes = item_bytes(it);

    debug_must(deadline != MSEC_NEVER);
    wheel_pull(w, id, bytes);
    if (deadline < w->tick) {
        wheel_put_due(w, handle, deadline, bytes);
        s->out[s->due++] = handle;
        return;
    }
    wheel_put(w, handle, deadline, bytes);
    s->alive++;
}

/*
 * Refine up to `most` items of a bucket, a node at a time. The deadline is in the item, so all
 * items of a node are prefetched before the first one is read.
 */
static void refine_bucket(struct wheel *w, struct sample *s, unsigned id, uint64_t most)
{
    const struct wheel_bucket *b = &w->bucket[id];
    uint64_t left = most < sample_left(s) ? most : sample_left(s);

    while (left && b->top) {
        uint32_t n = b->top % NODE_WORDS - NODE_WORD_FIRST + 1;

        n = left < n ? (uint32_t)left : n;
        for (uint32_t i = 0; i < n; i++) {
            __builtin_prefetch(item_at(w->base, *wheel_handle_at(&w->pool, b->top - i)), 1);
        }
        for (uint32_t i = 0; i < n; i++) {
            refine_item(w, s, id);
        }
        left -= n;
    }
}

/* Refine: first partly due buckets, then late ones, then any begun one; fine levels first. */
static void refine(struct wheel *w, struct sample *s)
{
    for (unsigned pass = 0; pass < 3; pass++) {
        for (unsigned l = 1; l <= WHEEL_LEVELS && sample_left(s); l++) {
            unsigned id = unrefined(w, l, pass > 0);

            if (id != WHEEL_NONE) {
                refine_bucket(w, s, id, pass == 1 ? level_behind(w, l, 1) : UINT64_MAX);
            }
        }
    }
}

/* ---- sampling ---------------------------------------------------------------------------- */

/* Hand out items of a due bucket, the last ones first, so that each removal is at the top. */
static void take_bucket(const struct wheel *w, struct sample *s, unsigned id, unsigned most)
{
    uint32_t pos = w->bucket[id].top;

    while (pos && s->due < most) {
        handle_t handle = *wheel_handle_at(&w->pool, pos);

        __builtin_prefetch(item_at(w->base, handle), 1);
        s->out[s->due++] = handle;
        pos = wheel_pos_below(w, pos);
    }
}

/* Return items of the due buckets in one word of the bitmap. */
static void take_word(const struct wheel *w, struct sample *s, unsigned word, unsigned most)
{
    for (uint64_t bits = w->due[word]; bits && s->due < most; bits &= bits - 1) {
        take_bucket(w, s, word * 64 + (unsigned)__builtin_ctzll(bits), most);
    }
}

/* Hand out due items: the coarse buckets, which are oldest, then the milliseconds in order. */
static void take_due(const struct wheel *w, struct sample *s, unsigned most)
{
    const unsigned fine = wheel_levels[0].ring / 64;
    unsigned first = wheel_bucket_at(0, w->horizon[0]) / 64;
    uint64_t words = w->due_words >> fine << fine;

    while (words && s->due < most) {
        unsigned word = 63u - (unsigned)__builtin_clzll(words);

        take_word(w, s, word, most);
        words &= ~(1ULL << word);
    }
    words = w->due_words & ((1ULL << fine) - 1);
    for (unsigned half = 0; half < 2; half++, first ^= fine / 2) {
        uint64_t bits = words & (((1ULL << (fine / 2)) - 1) << first);

        for (; bits && s->due < most; bits &= bits - 1) {
            take_word(w, s, (unsigned)__builtin_ctzll(bits), most);
        }
    }
}

unsigned wheel_sample(struct wheel *w, msec_t now, handle_t *out, unsigned max,
                      unsigned *sampled)
{
    struct sample s = {.out = out, .max = max};
    unsigned kept = 0;

    wheel_must_be_entered(w);
    wheel_advance(w, now);
    begin_buckets(w);
    uint64_t behind = all_behind(w);
    if (behind) {
        /* Debt must not stop refinement: in the end every item would be partly due. */
        kept = behind < (max + 1) / 2 ? (unsigned)behind : (max + 1) / 2;
    }
    take_due(w, &s, max - kept);
    if (sample_left(&s)) {
        refine(w, &s);
    }
    if (wheel_wants_shrink(w)) {
        wheel_shrink_step(w);
    }
    *sampled = s.due + s.alive;
    return s.due;
}

uint64_t wheel_debt(struct wheel *w, msec_t now)
{
    wheel_must_be_entered(w);
    wheel_advance(w, now);
    return w->due_keys;
}

uint64_t wheel_behind(struct wheel *w, msec_t now)
{
    wheel_must_be_entered(w);
    wheel_advance(w, now);
    begin_buckets(w);
    return all_behind(w);
}

/* ---- what comes next --------------------------------------------------------------------- */

/*
 * The first bucket of a ring that has items, counted in buckets of its level; -1: there is
 * none. Nothing is due when this is called. So everything that is occupied is ahead, and the
 * ring is searched once around from the present.
 */
static int64_t first_bucket(const struct wheel *w, unsigned l)
{
    const struct wheel_level *lv = &wheel_levels[l];
    unsigned here = wheel_bucket_at(l, w->tick);
    unsigned id = wheel_first_from(w, l, here);

    return id == WHEEL_NONE ? -1 : (w->tick >> lv->shift) + ((id - here) & (lv->ring - 1));
}

/*
 * When the next batch of a coarse bucket should be refined: when a batch of its items, or all
 * that are left, should have been refined already.
 */
static msec_t next_batch(const struct wheel *w, unsigned l, msec_t start, uint64_t left)
{
    struct wheel_pace p = w->pace[l];
    uint64_t batch = left < REFINE_BATCH ? left : REFINE_BATCH;

    if (start <= w->tick) {
        return w->tick - 1;
    }
    if (p.start != start || p.keys < left) {
        p.begun = start - coarse_length(l) > w->tick ? start - coarse_length(l) : w->tick;
        p.start = start;
        p.keys = left;
    }
    uint64_t window = (uint64_t)pace_window(&p, l);
    uint64_t done = p.keys - left + batch;
    return p.begun + (msec_t)((done * window + p.keys - 1) / p.keys) - 1;
}

static msec_t earlier(msec_t a, msec_t b)
{
    return a < b ? a : b;
}

msec_t wheel_time(const struct wheel *w)
{
    wheel_must_be_entered(w);
    return w->tick - 1;
}

msec_t wheel_next(const struct wheel *w)
{
    msec_t next = MSEC_NEVER;

    wheel_must_be_entered(w);
    if (w->due_keys) {
        return w->tick - 1;
    }
    int64_t n = first_bucket(w, 0);
    if (n >= 0) {
        next = n;
    }
    for (unsigned l = 1; l < WHEEL_LEVELS; l++) {
        n = first_bucket(w, l);
        if (n >= 0) {
            uint64_t left = w->bucket[wheel_bucket_at(l, n << wheel_levels[l].shift)].count;

            next = earlier(next, next_batch(w, l, n << wheel_levels[l].shift, left));
        }
    }
    if (w->bucket[wheel_far_sorted(w)].count) {
        next = earlier(next, next_batch(w, WHEEL_LEVELS, w->pace[WHEEL_LEVELS].start,
                                        w->bucket[wheel_far_sorted(w)].count));
    }
    if (w->bucket[w->far].count) {
        next = earlier(next, next_batch(w, WHEEL_LEVELS, w->horizon[WHEEL_LEVELS - 1],
                                        w->bucket[w->far].count));
    }
    return next;
}
