/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chunks of a shard's expires: see expires_pool.h. Runs inside the shard's lock; the
 * only calls that leave it are mem_*() for one block (or the directory, when it doubles).
 */
#include "lib/expiry/expires_pool.h"

#include <string.h>

#include "lib/base/check.h"

#define BLOCK_BYTES (EXPIRES_BLOCK_CHUNKS * sizeof(struct expires_chunk))
#define NO_BLOCK    EXPIRES_BLOCKS_MAX

/* Work of one call of expires_pool_victim(): blocks compared, chunks looked at. */
#define VICTIM_BLOCKS 8u
#define VICTIM_CHUNKS 16u

static struct expires_block *block_at(const struct expires_pool *p, uint32_t block)
{
    return (struct expires_block *)(void *)p->blocks[block];
}

static void count_bytes(struct expires_pool *p, int64_t bytes)
{
    if (p->budget) {
        budget_add(p->budget, bytes);
    }
}

/* How many items fit into so many blocks, spread in the worst way. */
static uint64_t room_of(const struct expires_pool *p, uint32_t blocks)
{
    uint64_t chunks = (uint64_t)blocks * EXPIRES_BLOCK_USABLE;

    if (chunks <= p->buckets) {
        return chunks;
    }
    return EXPIRES_SLOTS * chunks - (EXPIRES_SLOTS - 1) * (uint64_t)p->buckets;
}

/*
 * Room as it stands, and when to shrink: a block goes once the rest has room for a quarter
 * more items than there are and for a block's chunks besides, so that a count that goes up and
 * down does not move memory each time.
 */
static void update_room(struct expires_pool *p)
{
    uint32_t sure = p->block_count - (p->victim != NO_BLOCK);
    uint64_t rest = p->block_count > 1 ? room_of(p, p->block_count - 1) : 0;

    p->room = room_of(p, sure);
    p->shrink_at =
        rest < EXPIRES_BLOCK_USABLE ? -1 : (int64_t)((rest - EXPIRES_BLOCK_USABLE) / 5 * 4);
}

static void partial_insert(struct expires_pool *p, uint32_t block)
{
    struct expires_block *b = block_at(p, block);

    b->prev = NO_BLOCK;
    b->next = p->partial;
    if (p->partial != NO_BLOCK) {
        block_at(p, p->partial)->prev = block;
    }
    p->partial = block;
}

static void partial_remove(struct expires_pool *p, uint32_t block)
{
    struct expires_block *b = block_at(p, block);

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

static void release_block(struct expires_pool *p, uint32_t block)
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

static bool grow_directory(struct expires_pool *p)
{
    uint32_t slots = p->slots ? p->slots * 2 : 8;
    struct expires_chunk **blocks;

    if (slots > EXPIRES_BLOCKS_MAX) {
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

void expires_pool_init(struct expires_pool *p, uint32_t buckets, struct budget *budget)
{
    memset(p, 0, sizeof(*p));
    p->buckets = buckets;
    p->budget = budget;
    p->partial = NO_BLOCK;
    p->victim = NO_BLOCK;
    update_room(p);
}

void expires_pool_fini(struct expires_pool *p)
{
    for (uint32_t i = 0; i < p->slots; i++) {
        mem_free(p->blocks[i]);
    }
    count_bytes(p, -(int64_t)expires_pool_bytes(p));
    mem_free(p->blocks);
    memset(p, 0, sizeof(*p));
}

uint64_t expires_pool_bytes(const struct expires_pool *p)
{
    return p->block_count * BLOCK_BYTES + p->slots * sizeof(*p->blocks);
}

/* The victim is needed after all. */
static void spare_victim(struct expires_pool *p)
{
    uint32_t block = p->victim;

    p->victim = NO_BLOCK;
    if (block_at(p, block)->used < EXPIRES_BLOCK_USABLE) {
        partial_insert(p, block);
    }
    update_room(p);
}

bool expires_pool_grow(struct expires_pool *p)
{
    struct expires_block *b;

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
    b = mem_alloc_aligned(BLOCK_BYTES, sizeof(struct expires_chunk));
    if (!b) {
        return false;
    }
    *b = (struct expires_block){.fresh = 1};
    p->blocks[p->slot_hint] = (struct expires_chunk *)(void *)b;
    partial_insert(p, p->slot_hint++);
    p->block_count++;
    count_bytes(p, BLOCK_BYTES);
    update_room(p);
    return true;
}

uint32_t expires_pool_take(struct expires_pool *p)
{
    uint32_t block = p->partial;
    struct expires_block *b;
    uint32_t chunk;

    must(block != NO_BLOCK);
    b = block_at(p, block);
    chunk = b->free_list;
    if (chunk) {
        b->free_list = expires_chunk_at(p, chunk)->next;
    } else {
        chunk = block * EXPIRES_BLOCK_CHUNKS + b->fresh++;
    }
    p->used++;
    if (++b->used == EXPIRES_BLOCK_USABLE) {
        partial_remove(p, block);
    }
    return chunk;
}

void expires_pool_give(struct expires_pool *p, uint32_t chunk, uint64_t count)
{
    uint32_t block = chunk / EXPIRES_BLOCK_CHUNKS;
    struct expires_block *b = block_at(p, block);
    struct expires_chunk *c = expires_chunk_at(p, chunk);

    must(b->used > 0 && c->bucket != EXPIRES_CHUNK_UNUSED);
    c->bucket = EXPIRES_CHUNK_UNUSED;
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
    if (b->used == EXPIRES_BLOCK_USABLE - 1) {
        partial_insert(p, block);
    }
    if (b->used == 0 && p->victim == NO_BLOCK && (int64_t)count <= p->shrink_at) {
        partial_remove(p, block);
        release_block(p, block);
    }
}

/* Choose the emptiest of the next few blocks; false when none is near. */
static bool choose_victim(struct expires_pool *p)
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
    if (block_at(p, best)->used < EXPIRES_BLOCK_USABLE) {
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

uint32_t expires_pool_victim(struct expires_pool *p, uint64_t count)
{
    if (p->victim == NO_BLOCK && ((int64_t)count > p->shrink_at || !choose_victim(p))) {
        return 0;
    }
    for (uint32_t i = 0; i < VICTIM_CHUNKS; i++) {
        if (p->look >= block_at(p, p->victim)->fresh) {
            p->look = 1;
        }
        if (p->blocks[p->victim][p->look].bucket != EXPIRES_CHUNK_UNUSED) {
            return p->victim * EXPIRES_BLOCK_CHUNKS + p->look++;
        }
        p->look++;
    }
    return 0;
}

/* Does one block agree with itself? Adds what it has to the totals. */
static bool verify_block(const struct expires_pool *p, uint32_t block, uint32_t *used)
{
    const struct expires_block *b = block_at(p, block);
    uint32_t unused = 0;
    uint32_t listed = 0;

    if (b->fresh < 1 || b->fresh > EXPIRES_BLOCK_CHUNKS) {
        return false;
    }
    for (uint32_t i = 1; i < b->fresh; i++) {
        unused += p->blocks[block][i].bucket == EXPIRES_CHUNK_UNUSED;
    }
    for (uint32_t c = b->free_list; c && listed <= unused; c = expires_chunk_at(p, c)->next) {
        if (c / EXPIRES_BLOCK_CHUNKS != block) {
            return false;
        }
        listed++;
    }
    *used += b->used;
    return listed == unused && b->used == b->fresh - 1 - unused;
}

bool expires_pool_verify(const struct expires_pool *p)
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
        with_room += i != p->victim && block_at(p, i)->used < EXPIRES_BLOCK_USABLE;
        if (!verify_block(p, i, &used)) {
            return false;
        }
    }
    for (uint32_t i = p->partial; i != NO_BLOCK && listed <= with_room;
         i = block_at(p, i)->next) {
        if (i == p->victim || block_at(p, i)->used == EXPIRES_BLOCK_USABLE) {
            return false;
        }
        listed++;
    }
    return blocks == p->block_count && used == p->used && listed == with_room;
}
