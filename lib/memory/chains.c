/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chains and bins: see chains.h.
 */
#include "lib/memory/chains.h"

#include "lib/base/check.h"

/* ---- bins of sealed segments ------------------------------------------------------------- */

static void bin_remove(struct memory *m, segment_t n)
{
    struct segment *segs = m->arena.segments;
    struct segment *g = &segs[n];

    if (g->bin == NO_BIN) {
        return;
    }
    if (g->bin_prev != 0) {
        segs[g->bin_prev].bin_next = g->bin_next;
    } else {
        m->blocks.bin[g->bin] = g->bin_next;
        if (g->bin_next == 0) {
            m->blocks.bin_bits &= ~(1u << g->bin);
        }
    }
    if (g->bin_next != 0) {
        segs[g->bin_next].bin_prev = g->bin_prev;
    }
    g->bin = NO_BIN;
}

static void bin_insert(struct memory *m, segment_t n, unsigned bin)
{
    struct segment *segs = m->arena.segments;
    segment_t first = m->blocks.bin[bin];

    segs[n].bin = (uint8_t)bin;
    segs[n].bin_prev = 0;
    segs[n].bin_next = first;
    if (first != 0) {
        segs[first].bin_prev = n;
    }
    m->blocks.bin[bin] = n;
    m->blocks.bin_bits |= 1u << bin;
}

/* ---- chains ------------------------------------------------------------------------------ */

static void chain_insert(struct memory *m, enum chain_id id, segment_t after, segment_t n)
{
    struct segment *segs = m->arena.segments;
    struct chain *c = &m->blocks.chain[id];
    struct segment *g = &segs[n];

    g->chain = (uint8_t)id;
    g->bin = NO_BIN;
    g->prev = after;
    g->next = after != 0 ? segs[after].next : 0;
    g->is_passed = after != 0 ? segs[after].is_passed : 0;
    if (after != 0) {
        segs[after].next = n;
    } else {
        must(c->head == 0);
        c->head = n;
    }
    if (g->next != 0) {
        segs[g->next].prev = n;
    } else {
        c->tail = n;
    }
    c->count++;
}

void chains_enter(struct memory *m, segment_t n, enum chain_id id)
{
    memory_must_be_entered(m);
    chain_insert(m, id, m->blocks.chain[id].tail, n);
}

void chains_entered(struct memory *m, segment_t n)
{
    memory_must_be_entered(m);
    bin_insert(m, n, chains_bin_for(m, &m->arena.segments[n]));
}

/* What is stored from now on is younger than what is in a segment. */
static void note_age(struct memory *m, struct segment *g)
{
    g->sealed_s = (uint32_t)(clock_now(m->clock) / 1000);
    g->sealed_cas = (uint32_t)m->ops->next_cas(m->owner);
}

/* Nothing is appended to it any more: it gets a bin, and may be emptied. */
static void close_segment(struct memory *m, segment_t n)
{
    struct segment *g = &m->arena.segments[n];
    struct chain *c = &m->blocks.chain[g->chain];

    memory_must_be_entered(m);
    if (c->open == n) {
        c->open = 0;
    } else if (c->compact == n) {
        c->compact = 0;
    } else if (m->blocks.rest[g->chain] == n) {
        m->blocks.rest[g->chain] = 0;
    }
    g->state = SEG_SEALED;
    bin_insert(m, n, chains_bin_for(m, g));
}

static void seal(struct memory *m, segment_t n)
{
    note_age(m, &m->arena.segments[n]);
    close_segment(m, n);
}

/* A segment has more dead bytes: is the owner to be told that there is much to tidy? */
static bool wants_look(const struct memory *m, const struct segment *g)
{
    return !m->tidy.is_watched &&
           (g->live == 0 || m->blocks.dead_bytes > chains_dead_allowance(m));
}

void chains_move_bin(struct memory *m, segment_t n)
{
    const struct segment *g = &m->arena.segments[n];
    unsigned bin = chains_bin_for(m, g);

    memory_must_be_entered(m);
    if (g->state == SEG_OPEN && n == m->blocks.rest[g->chain] && bin != 0) {
        seal(m, n);
    }
    if (g->state != SEG_SEALED || g->bin == NO_BIN) {
        return;
    }
    if (g->bin != bin) {
        bin_remove(m, n);
        bin_insert(m, n, bin);
    }
    if (wants_look(m, g)) {
        m->tidy.is_watched = true;
        m->ops->wants_tidy(m->owner);
    }
}

void chains_claim(struct memory *m, segment_t n)
{
    memory_must_be_entered(m);
    bin_remove(m, n);
}

void chains_unclaim(struct memory *m, segment_t n)
{
    const struct segment *g = &m->arena.segments[n];

    memory_must_be_entered(m);
    must(g->state == SEG_SEALED && g->bin == NO_BIN);
    bin_insert(m, n, chains_bin_for(m, g));
}

void chains_close(struct memory *m, segment_t n)
{
    memory_must_be_entered(m);
    if (m->arena.segments[n].state == SEG_OPEN) {
        seal(m, n);
    }
}

void chains_detach(struct memory *m, segment_t n)
{
    struct segment *segs = m->arena.segments;
    struct segment *g = &segs[n];
    struct chain *c = &m->blocks.chain[g->chain];

    memory_must_be_entered(m);
    bin_remove(m, n);
    if (g->prev != 0) {
        segs[g->prev].next = g->next;
    } else {
        c->head = g->next;
    }
    if (g->next != 0) {
        segs[g->next].prev = g->prev;
    } else {
        c->tail = g->prev;
    }
    c->count--;
    m->blocks.dead_bytes -= g->dead;
}

void chains_renew(struct memory *m, segment_t n)
{
    struct segment *g = &m->arena.segments[n];
    enum chain_id id = (enum chain_id)g->chain;

    memory_must_be_entered(m);
    must(g->state == SEG_SEALED && g->busy == 0);
    chains_detach(m, n);
    m->blocks.dead_bytes += g->dead;
    chain_insert(m, id, m->blocks.chain[id].tail, n);
    note_age(m, g);
    bin_insert(m, n, chains_bin_for(m, g));
}

static bool has_place(const struct memory *m, segment_t n, uint32_t bytes)
{
    return n != 0 && m->arena.segments[n].fill + bytes <= segment_bytes(&m->arena);
}

/*
 * What was open waits for blocks that fit into the rest of it; only one in a chain does. If
 * much of it is dead, it is better cleaned.
 */
static void leave_open(struct memory *m, enum chain_id chain, segment_t n)
{
    struct segment *g = &m->arena.segments[n];

    if (m->blocks.rest[chain] != 0) {
        seal(m, m->blocks.rest[chain]);
    }
    if (chains_bin_for(m, g) != 0) {
        seal(m, n);
        return;
    }
    m->blocks.chain[chain].open = 0;
    m->blocks.rest[chain] = n;
    note_age(m, g);
}

/* The segment that a block is appended to; 0: none has place. */
static segment_t segment_for(const struct memory *m, enum chain_id chain, uint32_t bytes,
                             segment_t after, bool is_part)
{
    const struct chain *c = &m->blocks.chain[chain];
    segment_t n = after != 0 ? c->compact : c->open;

    if (after == 0 && !is_part && has_place(m, m->blocks.rest[chain], bytes)) {
        return m->blocks.rest[chain];
    }
    return has_place(m, n, bytes) ? n : 0;
}

handle_t chains_append(struct memory *m, enum chain_id chain, uint32_t units, segment_t after,
                       bool is_part)
{
    uint32_t bytes = units * ITEM_UNIT;
    segment_t n = segment_for(m, chain, bytes, after, is_part);

    memory_must_be_entered(m);
    if (n == 0) {
        return 0;
    }

    struct segment *g = &m->arena.segments[n];
    handle_t h = segment_handle(&m->arena, n) + g->fill / ITEM_UNIT;

    g->fill += bytes;
    g->live++;
    m->blocks.chain[chain].bytes += bytes;
    return h;
}

void chains_open(struct memory *m, enum chain_id chain, segment_t after, segment_t n)
{
    struct chain *c = &m->blocks.chain[chain];
    segment_t *open = after != 0 ? &c->compact : &c->open;

    memory_must_be_entered(m);
    if (*open != 0 && after != 0) {
        seal(m, *open);
    } else if (*open != 0) {
        leave_open(m, chain, *open);
    }
    *open = n;
    chain_insert(m, chain, after != 0 ? after : c->tail, n);
}

/* ---- the segment to empty ---------------------------------------------------------------- */

segment_t chains_oldest(struct memory *m, enum chain_id id)
{
    const struct chain *c = &m->blocks.chain[id];

    memory_must_be_entered(m);
    for (segment_t n = c->head; n != 0; n = m->arena.segments[n].next) {
        if (m->arena.segments[n].busy != 0) {
            continue;
        }
        if (n == c->compact) {
            seal(m, n);
        } else if (n == m->blocks.rest[id]) {
            close_segment(m, n); /* only what was stored since it was left is young */
        }
        if (m->arena.segments[n].state == SEG_SEALED) {
            return n;
        }
    }
    return 0;
}

segment_t chains_seal_open(struct memory *m, enum chain_id id, uint32_t spared)
{
    const struct chain *c = &m->blocks.chain[id];
    segment_t open[] = {c->open, c->compact};

    memory_must_be_entered(m);
    for (int i = 0; i < 2; i++) {
        if (open[i] != 0 && m->arena.segments[open[i]].busy == 0) {
            seal(m, open[i]);
            /* What is in the younger half of what was stored since is young. */
            m->arena.segments[open[i]].sealed_cas -= 2 * spared;
            return open[i];
        }
    }
    return 0;
}

uint32_t chains_items_open(const struct memory *m, enum chain_id id)
{
    segment_t n = m->blocks.chain[id].open;
    uint32_t count = 0;

    memory_must_be_entered(m);
    for (uint32_t at = 0; n != 0 && at < m->arena.segments[n].fill;) {
        const struct item *it = memory_item(m, segment_handle(&m->arena, n) + at / ITEM_UNIT);

        count += item_is_live(it) && it->key_len != 0;
        at += item_bytes(it);
    }
    return count;
}

segment_t chains_emptiest(const struct memory *m, uint32_t least)
{
    memory_must_be_entered(m);
    for (uint32_t bits = m->blocks.bin_bits; bits != 0;) {
        unsigned bin = 31u - (unsigned)__builtin_clz(bits);

        for (segment_t n = m->blocks.bin[bin]; n != 0; n = m->arena.segments[n].bin_next) {
            if (m->arena.segments[n].busy == 0) {
                return m->arena.segments[n].dead >= least ? n : 0;
            }
        }
        bits &= ~(1u << bin);
    }
    return 0;
}
