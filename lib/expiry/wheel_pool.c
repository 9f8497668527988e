/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chunks of a shard's expires: see wheel_pool.h. Runs inside the shard's lock; the
 * only calls that leave it are mem_*() for one block (or the directory, when it doubles).
 */
#include "lib/expiry/wheel_pool.h"

#include <string.h>

#include "lib/base/check.h"

#define BLOCK_BYTES (SLAB_NODES * sizeof(struct wheel_node))
#define NO_BLOCK    SLABS_MAX

/* Work of one call of wheel_pool_victim(): blocks compared, chunks looked at. */
#define VICTIM_BLOCKS 8u
#define VICTIM_CHUNKS 16u

static struct wheel_slab *block_at(const struct wheel_pool *p, uint32_t block)
{
    return (struct wheel_slab *)(void *)p->blocks[block];
}

static void count_bytes(struct wheel_pool *p, int64_t bytes)
{
    if (p->budget) {
        budget_add(p->budget, bytes);
    }
}

/* How many items fit into so many blocks, spread in the worst way. */
static uint64_t room_of(const struct wheel_pool *p, uint32_t blocks)
{
    uint64_t chunks = (uint64_t)blocks * SLAB_USABLE;

    if (chunks <= p->buckets) {
        return chunks;
    }
    return NODE_HANDLES * chunks - (NODE_HANDLES - 1) * (uint64_t)p->buckets;
}

/*
 * Room as it stands, and when to shrink: a block goes once the rest has room for a quarter
 * more items than there are and for a block's chunks besides, so that a count that goes up and
 * down does not move memory each time.
 */
static void update_room(struct wheel_pool *p)
{
    uint32_t sure = p->block_count - (p->victim != NO_BLOCK);
    uint64_t rest = p->block_count > 1 ? room_of(p, p->block_count - 1) : 0;

    p->room = room_of(p, sure);
    p->shrink_at = rest < SLAB_USABLE ? -1 : (int64_t)((rest - SLAB_USABLE) / 5 * 4);
}

static void partial_insert(struct wheel_pool *p, uint32_t block)
{
    struct wheel_slab *b = block_at(p, block);

    b->prev = NO_BLOCK;
    b->next = p->partial;
    if (p->partial != NO_BLOCK) {
        block_at(p, p->partial)->prev = block;
    }
    p->partial = block;
}

static void partial_remove(struct wheel_pool *p, uint32_t block)
{
    struct wheel_slab *b = block_at(p, block);

    if (b->prev != NO_BLOCK) {
        block_at(p, b->prev)->next = b->next;
    } else {
        must(p->partial == block);
        p->partial = b->next;
    }
    if (b->next != NO_BLOCK) {
        block_at(p, b->next)->prev = b->prev;
    }
}

static void release_block(struct wheel_pool *p, uint32_t block)
{
    mem_free(p->blocks[block]);
    p->blocks[block] = NULL;
    p->block_count--;
    if (block < p->slot_hint) {
        p->slot_hint = block;
    }
    count_bytes(p, -(int64_t)BLOCK_BYTES);
    update_room(p);
}

static bool grow_directory(struct wheel_pool *p)
{
    uint32_t slots = p->slots ? p->slots * 2 : 8;
    struct wheel_node **blocks;

    if (slots > SLABS_MAX) {
        return false;
    }
    blocks = mem_realloc(p->blocks, slots * sizeof(*blocks));
    if (!blocks) {
        return false;
    }
    memset(blocks + p->slots, 0, (slots - p->slots) * sizeof(*blocks));
    count_bytes(p, (int64_t)((slots - p->slots) * sizeof(*blocks)));
    p->blocks = blocks;
    p->slots = slots;
    return true;
}

void wheel_pool_init(struct wheel_pool *p, uint32_t buckets, struct budget *budget)
{
    memset(p, 0, sizeof(*p));
    p->buckets = buckets;
    p->budget = budget;
    p->partial = NO_BLOCK;
    p->victim = NO_BLOCK;
    update_room(p);
}

void wheel_pool_fini(struct wheel_pool *p)
{
    for (uint32_t i = 0; i < p->slots; i++) {
        mem_free(p->blocks[i]);
    }
    count_bytes(p, -(int64_t)wheel_pool_bytes(p));
    mem_free(p->blocks);
    memset(p, 0, sizeof(*p));
}

uint64_t wheel_pool_bytes(const struct wheel_pool *p)
{
    return p->block_count * BLOCK_BYTES + p->slots * sizeof(*p->blocks);
}

/* The victim is needed after all. */
static void spare_victim(struct wheel_pool *p)
{
    uint32_t block = p->victim;

    p->victim = NO_BLOCK;
    if (block_at(p, block)->used < SLAB_USABLE) {
        partial_insert(p, block);
    }
    update_room(p);
}

bool wheel_pool_grow(struct wheel_pool *p)
{
    struct wheel_slab *b;

    if (p->victim != NO_BLOCK) {
        spare_victim(p);
        return true;
    }
    while (p->slot_hint < p->slots && p->blocks[p->slot_hint]) {
        p->slot_hint++;
    }
    if (p->slot_hint == p->slots && !grow_directory(p)) {
        return false;
    }
    b = mem_alloc_aligned(BLOCK_BYTES, sizeof(struct wheel_node));
    if (!b) {
        return false;
    }
    *b = (struct wheel_slab){.fresh = 1};
    p->blocks[p->slot_hint] = (struct wheel_node *)(void *)b;
    partial_insert(p, p->slot_hint++);
    p->block_count++;
    count_bytes(p, BLOCK_BYTES);
    update_room(p);
    return true;
}

uint32_t wheel_pool_take(struct wheel_pool *p)
{
    uint32_t block = p->partial;
    struct wheel_slab *b;
    uint32_t chunk;

    must(block != NO_BLOCK);
    b = block_at(p, block);
    chunk = b->free_list;
    if (chunk) {
        b->free_list = wheel_node_at(p, chunk)->next;
    } else {
        chunk = block * SLAB_NODES + b->fresh++;
    }
    p->used++;
    if (++b->used == SLAB_USABLE) {
        partial_remove(p, block);
    }
    return chunk;
}

void wheel_pool_give(struct wheel_pool *p, uint32_t chunk, uint64_t count)
{
    uint32_t block = chunk / SLAB_NODES;
    struct wheel_slab *b = block_at(p, block);
    struct wheel_node *c = wheel_node_at(p, chunk);

    must(b->used > 0 && c->bucket != NODE_UNUSED);
    c->bucket = NODE_UNUSED;
    c->next = b->free_list;
    b->free_list = chunk;
    p->used--;
    b->used--;
    if (block == p->victim) {
        if (b->used == 0) {
            p->victim = NO_BLOCK;
            release_block(p, block);
        }
        return;
    }
    if (b->used == SLAB_USABLE - 1) {
        partial_insert(p, block);
    }
    if (b->used == 0 && p->victim == NO_BLOCK && (int64_t)count <= p->shrink_at) {
        partial_remove(p, block);
        release_block(p, block);
    }
}

/* Choose the emptiest of the next few blocks; false when none is near. */
static bool choose_victim(struct wheel_pool *p)
{
    uint32_t best = NO_BLOCK;

    for (uint32_t i = 0; i < VICTIM_BLOCKS && i < p->slots; i++) {
        p->hand = p->hand + 1 < p->slots ? p->hand + 1 : 0;
        if (p->blocks[p->hand] &&
            (best == NO_BLOCK || block_at(p, p->hand)->used < block_at(p, best)->used)) {
            best = p->hand;
        }
    }
    if (best == NO_BLOCK) {
        return false;
    }
    if (block_at(p, best)->used < SLAB_USABLE) {
        partial_remove(p, best);
    }
    if (block_at(p, best)->used == 0) {
        release_block(p, best);
        return false;
    }
    p->victim = best;
    p->look = 1;
    update_room(p);
    return true;
}

uint32_t wheel_pool_victim(struct wheel_pool *p, uint64_t count)
{
    if (p->victim == NO_BLOCK && ((int64_t)count > p->shrink_at || !choose_victim(p))) {
        return 0;
    }
    for (uint32_t i = 0; i < VICTIM_CHUNKS; i++) {
        if (p->look >= block_at(p, p->victim)->fresh) {
            p->look = 1;
        }
        if (p->blocks[p->victim][p->look].bucket != NODE_UNUSED) {
            return p->victim * SLAB_NODES + p->look++;
        }
        p->look++;
    }
    return 0;
}

/* Does one block agree with itself? Adds what it has to the totals. */
static bool verify_block(const struct wheel_pool *p, uint32_t block, uint32_t *used)
{
    const struct wheel_slab *b = block_at(p, block);
    uint32_t unused = 0;
    uint32_t listed = 0;

    if (b->fresh < 1 || b->fresh > SLAB_NODES) {
        return false;
    }
    for (uint32_t i = 1; i < b->fresh; i++) {
        unused += p->blocks[block][i].bucket == NODE_UNUSED;
    }
    for (uint32_t c = b->free_list; c && listed <= unused; c = wheel_node_at(p, c)->next) {
        if (c / SLAB_NODES != block) {
            return false;
        }
        listed++;
    }
    *used += b->used;
    return listed == unused && b->used == b->fresh - 1 - unused;
}

bool wheel_pool_verify(const struct wheel_pool *p)
{
    uint32_t blocks = 0;
    uint32_t used = 0;
    uint32_t with_room = 0;
    uint32_t listed = 0;

    for (uint32_t i = 0; i < p->slots; i++) {
        if (!p->blocks[i]) {
            continue;
        }
        blocks++;
        with_room += i != p->victim && block_at(p, i)->used < SLAB_USABLE;
        if (!verify_block(p, i, &used)) {
            return false;
        }
    }
    for (uint32_t i = p->partial; i != NO_BLOCK && listed <= with_room;
         i = block_at(p, i)->next) {
        if (i == p->victim || block_at(p, i)->used == SLAB_USABLE) {
            return false;
        }
        listed++;
    }
    return blocks == p->block_count && used == p->used && listed == with_room;
}
