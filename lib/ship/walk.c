/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks: see walk.h. A walk visits the index of each shard in turn, position by position
 * (table_walk_ahead()). The items of a position are shipped in the order of their hashes. So if
 * a position has more than the sink takes at once, or a large value, the walk can leave it in
 * the middle and resume it in a later section, although its items may have been moved
 * meanwhile. If the index has shrunk by then, the position also has unvisited items of other
 * positions, and is restarted.
 *
 * No slot moves while a walk is in a shard. But a move may run between two shards of the walk.
 * Some slots may also be between two shards because a move found no room: when a writer finds
 * an item of such a slot, it moves the item to the new shard. In both cases items may move from
 * a shard not visited yet to one that was. So there are two more passes, for such slots only.
 * The first visits shards with slots that were moved since the beginning, even if they were
 * moved back. The second visits shards to which slots are moving. No move runs between these
 * passes.
 */
#include "lib/ship/walk.h"

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/shard/flush.h"
#include "lib/shard/prefix.h"
#include "lib/shard/shard.h"

/* A slot that was, or is, on its way. */
#define OWNER_MOVED UINT16_MAX

/* Positions in one section. */
#define SLICE_POSITIONS 64u

/* ---- flushes ----------------------------------------------------------------------------- */

static uint64_t flushes_of(const struct engine *e)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < e->shard_count; i++) {
        sum += atomic_load_explicit(&e->shards[i]->flushes, memory_order_acquire);
    }
    return sum;
}

static bool is_flush_due(const struct engine *e, uint32_t shard)
{
    return clock_now(&e->clock) >=
           atomic_load_explicit(&e->shards[shard]->flush_at, memory_order_acquire);
}

bool walk_was_flushed(const struct walk *w)
{
    bool is_due = false;

    /* One that is only hidden first: it may be carried out between the two looks. */
    for (uint32_t i = 0; i < w->engine->shard_count; i++) {
        is_due = is_due || is_flush_due(w->engine, i);
    }
    return is_due || flushes_of(w->engine) != w->flushes;
}

/* ---- slots that are, or were, on their way ----------------------------------------------- */

enum walk_pass {
    PASS_ALL,
    PASS_MOVED,   /* slots that were moved since the beginning */
    PASS_BETWEEN, /* slots that are on their way to another */
    PASSES,
};

/* The walk begins, or goes on after moves. */
static void note_owners(struct walk *w, bool begins)
{
    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        const struct route_slot *rs = &router_read(&w->engine->router)->slot[i];

        if (route_is_moving(rs) || (!begins && rs->from != w->owner[i])) {
            w->owner[i] = OWNER_MOVED;
        } else {
            w->owner[i] = rs->from;
        }
    }
    rcu_end();
}

/* Does this pass visit the slot in this shard? */
static bool is_of_pass(const struct walk *w, const struct route *rt, uint32_t slot,
                       uint32_t shard)
{
    const struct route_slot *rs = &rt->slot[slot];

    switch (w->pass) {
    case PASS_MOVED:
        return rs->from == shard && w->owner[slot] == OWNER_MOVED;
    case PASS_BETWEEN:
        return route_is_moving(rs) && rs->to == shard;
    default:
        return true;
    }
}

/* Has this pass anything to do in a shard? */
static bool has_any(const struct walk *w, const struct route *rt, uint32_t shard)
{
    uint32_t slot = 0;

    while (slot < ROUTE_SLOTS && !is_of_pass(w, rt, slot, shard)) {
        slot++;
    }
    return slot < ROUTE_SLOTS;
}

/* ---- begin and end ----------------------------------------------------------------------- */

bool walk_begin(struct walk *w, struct engine *e, const struct ship_ops *ops, void *arg,
                const _Atomic bool *stop)
{
    uint64_t total = 0;

    must_not_be_reading();
    w->engine = e;
    w->state = WALK_GOES_ON;
    w->at = (struct position){0};
    w->resume = 0;
    w->positions = 0;
    w->pass = PASS_ALL;
    w->has_paused = false;
    ship_init(&w->ship, ops, arg);
    atomic_store_explicit(&w->shipped, 0, memory_order_relaxed);
    atomic_store_explicit(&w->expired, 0, memory_order_relaxed);
    atomic_store_explicit(&w->total, 0, memory_order_relaxed);
    if (!moves_begin_walk(&e->moves, stop)) {
        return false;
    }
    note_owners(w, true);
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_flush(e->shards[i], clock_now(&e->clock)); /* if one is due */
        total += ctr_get(&e->shards[i]->counters, CTR_curr_items);
    }
    w->flushes = flushes_of(e);
    atomic_store_explicit(&w->total, total, memory_order_relaxed);
    return true;
}

void walk_end(struct walk *w)
{
    must_not_be_reading();
    if (w->state != WALK_PAUSED) {
        moves_end_walk(&w->engine->moves);
    }
}

bool walk_passed(const struct walk *w, uint32_t shard, uint64_t hash)
{
    must_be_reading();
    if ((w->state != WALK_GOES_ON && w->state != WALK_PAUSED) || w->pass != PASS_ALL ||
        w->has_paused || shard < w->at.shard ||
        route_is_moving(&router_read(&w->engine->router)->slot[route_slot_number(hash)])) {
        return true;
    }
    /* Where a position was left in the middle: perhaps. */
    return shard == w->at.shard &&
           (w->resume != 0 || (w->at.cursor != 0 && table_walk_passed(w->at.cursor, hash)));
}

/* ---- one position ------------------------------------------------------------------------ */

/*
 * The items of a position that are to be shipped, by their hashes. More than it has, usually.
 */
#define PICKS_MAX 64u

struct pick {
    uint64_t hash;
    const struct item *item;
};

struct picks {
    const struct shard *shard;
    const struct walk *walk;
    const struct route *route; /* after the first pass; in that NULL */
    uint64_t from;             /* hashes below it are passed over */
    unsigned n;
    struct pick at[PICKS_MAX]; /* those with the lowest hashes, in order */
};

static void pick(void *arg, handle_t h, uint64_t hash)
{
    struct picks *p = arg;
    unsigned i;

    if (hash < p->from ||
        (p->route != NULL &&
         !is_of_pass(p->walk, p->route, route_slot_number(hash), p->walk->at.shard))) {
        return;
    }
    if (p->n == PICKS_MAX) {
        if (hash >= p->at[PICKS_MAX - 1].hash) {
            return;
        }
        p->n--;
    }
    for (i = p->n++; i > 0 && p->at[i - 1].hash > hash; i--) {
        p->at[i] = p->at[i - 1];
    }
    p->at[i] = (struct pick){hash, shard_item(p->shard, h)};
}

/*
 * The cache lines of an item are prefetched this many items ahead, except the first two lines,
 * which the index has prefetched. After AHEAD_LINES lines the CPU's own prefetcher takes over.
 */
#define AHEAD_ITEMS 6u
#define AHEAD_LINES 16u

static void prefetch_rest(const struct picks *p, unsigned i)
{
    if (i < p->n) {
        const char *line = (const char *)p->at[i].item;
        const size_t lines = item_bytes(p->at[i].item) / MF_LINE_BYTES;

        for (size_t n = 2; n <= lines && n < AHEAD_LINES; n++) {
            __builtin_prefetch(line + n * MF_LINE_BYTES);
        }
    }
}

/* The block of an item that was unlinked since it was picked. False: the item is gone. */
static bool find_again(struct picks *p, unsigned i)
{
    const struct item *was = p->at[i].item;

    p->at[i].item = table_find(&p->shard->table, p->shard->memory.arena.base, p->at[i].hash,
                               item_key(was), was->key_len);
    return p->at[i].item != NULL;
}

/* An item that is unlinked after this check is not live when it is shipped: searched again. */
static bool is_hidden(const struct picks *p, unsigned i)
{
    const struct item *it = p->at[i].item;

    return shard_hides(p->shard, p->at[i].hash, item_key(it), it->key_len);
}

/*
 * Ship what was picked. w->resume says where the position goes on; 0: that was all of it.
 * Returns SHIP_DONE if the section may go on.
 */
static enum shipped ship_picks(struct walk *w, struct picks *p, msec_t now)
{
    /* If there may be more, resume at the hash of the last one: other keys may have it too. */
    unsigned n = p->n < PICKS_MAX ? p->n : PICKS_MAX - 1;
    uint64_t shipped = 0;
    uint64_t expired = 0;
    enum shipped out = SHIP_DONE;
    unsigned i = 0;

    for (unsigned j = 0; j < AHEAD_ITEMS; j++) {
        prefetch_rest(p, j);
    }
    while (i < n && out != SHIP_FULL && out != SHIP_LARGE) {
        if (MF_UNLIKELY(item_is_due(p->at[i].item, now)) && !w->ship.ops->takes_due) {
            expired++;
        } else if (MF_UNLIKELY(is_hidden(p, i))) {
            out = SHIP_DONE; /* its prefix is being flushed */
        } else {
            prefetch_rest(p, i + AHEAD_ITEMS);
            out = ship_put(&w->ship, p->shard, p->at[i].item);
            if (MF_UNLIKELY(out == SHIP_GONE) && find_again(p, i)) {
                continue;
            }
            shipped += out == SHIP_DONE || out == SHIP_LARGE;
        }
        i += out != SHIP_FULL;
    }
    w->resume = i < p->n ? p->at[i].hash : 0;
    if (out == SHIP_LARGE && i < p->n && w->resume == p->at[i - 1].hash) {
        w->resume++; /* two keys of one hash: on with the others, not in circles */
    }
    atomic_fetch_add_explicit(&w->shipped, shipped, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->expired, expired, memory_order_relaxed);
    return out == SHIP_FULL || out == SHIP_LARGE ? out : SHIP_DONE;
}

/* ---- slices ------------------------------------------------------------------------------ */

/* Skip to the next shard that the pass has to visit, or to the end. */
static void skip_idle(struct walk *w)
{
    rcu_begin();
    const struct route *rt = router_read(&w->engine->router);
    while (w->pass < PASSES) {
        while (w->at.shard < w->engine->shard_count && !has_any(w, rt, w->at.shard)) {
            position_go(&w->at, 0);
        }
        if (w->at.shard < w->engine->shard_count) {
            break;
        }
        w->pass++;
        w->at.shard = 0;
    }
    rcu_end();
    if (w->pass == PASSES) {
        w->state = WALK_DONE;
    }
}

/* A shard is done. Before the last passes a move gets its turn, and not again. */
static void next_shard(struct walk *w)
{
    w->resume = 0;
    if (w->pass == PASS_ALL && moves_pause_walk(&w->engine->moves)) {
        w->state = WALK_PAUSED;
        w->has_paused = true;
    } else {
        skip_idle(w);
    }
}

/* Positions in one section, until the sink is full or the shard is done. */
static enum shipped walk_positions(struct walk *w)
{
    const uint32_t shard = w->at.shard;
    const struct shard *s = w->engine->shards[shard];
    msec_t now = clock_now(&w->engine->clock);
    enum shipped out = SHIP_DONE;
    struct picks p = {.shard = s, .walk = w};

    must_be_reading();
    p.route = w->pass != PASS_ALL ? router_read(&w->engine->router) : NULL;
    if (now >= atomic_load_explicit(&s->flush_at, memory_order_acquire)) {
        position_go(&w->at, 0); /* what a flush hides is not shipped: it is carried out soon */
    }
    for (unsigned i = 0; i < SLICE_POSITIONS && w->at.shard == shard && out == SHIP_DONE; i++) {
        uint64_t positions;

        p.from = w->resume;
        p.n = 0;
        uint64_t next = position_look(&w->at, s, pick, &p, &positions);
        if (w->resume != 0 && positions < w->positions) {
            w->resume = 0;
            continue;
        }
        w->positions = positions;
        out = ship_picks(w, &p, now);
        if (w->resume == 0) {
            position_go(&w->at, next);
        }
    }
    return out;
}

bool walk_slice(struct walk *w)
{
    const uint32_t shard = w->at.shard;
    bool is_wanted = true;

    must_not_be_reading();
    if (w->state == WALK_PAUSED) {
        if (moves_resume_walk(&w->engine->moves)) {
            w->state = WALK_GOES_ON;
            note_owners(w, false);
            skip_idle(w);
        }
        return w->state != WALK_DONE;
    }
    if (w->state != WALK_GOES_ON) {
        return false;
    }
    rcu_begin();
    enum shipped out = walk_positions(w);
    rcu_end();
    if (out == SHIP_LARGE) {
        is_wanted = ship_large(&w->ship);
    }
    if (!is_wanted || !ship_rest(&w->ship)) {
        w->state = WALK_REFUSED;
    } else if (w->at.shard != shard) {
        next_shard(w);
    }
    return w->state == WALK_GOES_ON || w->state == WALK_PAUSED;
}
