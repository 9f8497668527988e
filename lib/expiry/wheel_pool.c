/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The nodes of a wheel: see wheel_pool.h. The only calls that leave the folder are mem_*(), for
 * one slab, or for the directory when it doubles.
 */
#include "lib/expiry/wheel_pool.h"

#include <string.h>

#include "lib/base/check.h"

#define SLAB_BYTES (SLAB_NODES * sizeof(struct wheel_node))
#define NO_SLAB    SLABS_MAX

/* The work of one call of wheel_pool_victim(): slabs compared, nodes checked. */
#define VICTIM_SLABS 8u
#define VICTIM_NODES 16u

/* When so few items more fit, there should be a spare slab. */
#define SPARE_ITEMS 128u

#define CAPACITY_MIN 8u

static void count_bytes(struct wheel_pool *p, int64_t bytes)
{
    if (p->budget) {
        budget_add(p->budget, bytes);
    }
}

/* Number of items that fit into the slabs when they are spread in the worst way. */
static uint64_t room_of(const struct wheel_pool *p, uint32_t slabs)
{
    uint64_t nodes = (uint64_t)slabs * SLAB_USABLE;

    if (nodes <= p->buckets) {
        return nodes;
    }
    return NODE_HANDLES * nodes - (NODE_HANDLES - 1) * (uint64_t)p->buckets;
}

/*
 * Compute the room, and when to shrink: a slab is released once the others have room for a
 * quarter more items than there are, and for one slab of nodes on top. So a count that goes up
 * and down does not move memory each time.
 */
static void update_room(struct wheel_pool *p)
{
    uint32_t sure = p->slab_count - (p->victim != NO_SLAB);
    uint64_t rest = p->slab_count > 1 ? room_of(p, p->slab_count - 1) : 0;

    p->room = room_of(p, sure);
    p->enough =
        p->room > SPARE_ITEMS && p->spare.slab == NULL ? p->room - SPARE_ITEMS : p->room;
    p->shrink_at = rest < SLAB_USABLE ? -1 : (int64_t)((rest - SLAB_USABLE) / 5 * 4);
}

static void partial_insert(struct wheel_pool *p, uint32_t slab)
{
    struct wheel_slab *s = wheel_slab_at(p, slab);

    s->prev = NO_SLAB;
    s->next = p->partial;
    if (p->partial != NO_SLAB) {
        wheel_slab_at(p, p->partial)->prev = slab;
    }
    p->partial = slab;
}

static void partial_remove(struct wheel_pool *p, uint32_t slab)
{
    struct wheel_slab *s = wheel_slab_at(p, slab);

    if (s->prev != NO_SLAB) {
        wheel_slab_at(p, s->prev)->next = s->next;
    } else {
        must(p->partial == slab);
        p->partial = s->next;
    }
    if (s->next != NO_SLAB) {
        wheel_slab_at(p, s->next)->prev = s->prev;
    }
}

static void release_slab(struct wheel_pool *p, uint32_t slab)
{
    mem_free(p->slabs[slab]);
    p->slabs[slab] = NULL;
    p->slab_count--;
    if (slab < p->free_hint) {
        p->free_hint = slab;
    }
    count_bytes(p, -(int64_t)SLAB_BYTES);
    update_room(p);
}

static uint32_t next_capacity(const struct wheel_pool *p)
{
    return p->capacity ? p->capacity * 2 : CAPACITY_MIN;
}

/* Use another directory, which is longer; returns the old one. */
static struct wheel_node **exchange_directory(struct wheel_pool *p, struct wheel_node **slabs,
                                              uint32_t capacity)
{
    struct wheel_node **old = p->slabs;

    if (p->capacity > 0) {
        memcpy(slabs, old, p->capacity * sizeof(*slabs));
    }
    memset(slabs + p->capacity, 0, (capacity - p->capacity) * sizeof(*slabs));
    count_bytes(p, (int64_t)((capacity - p->capacity) * sizeof(*slabs)));
    p->slabs = slabs;
    p->capacity = capacity;
    return old;
}

static bool grow_directory(struct wheel_pool *p)
{
    uint32_t capacity = next_capacity(p);
    struct wheel_node **slabs;

    if (capacity > SLABS_MAX) {
        return false;
    }
    slabs = mem_alloc(capacity * sizeof(*slabs));
    if (!slabs) {
        return false;
    }
    mem_free(exchange_directory(p, slabs, capacity));
    return true;
}

/* The spare slab, else a new one; NULL: no memory. */
static struct wheel_slab *take_slab(struct wheel_pool *p)
{
    struct wheel_node *slab = p->spare.slab;

    if (slab != NULL) {
        p->spare.slab = NULL;
    } else {
        slab = mem_alloc_aligned(SLAB_BYTES, sizeof(struct wheel_node));
        if (slab != NULL) {
            count_bytes(p, SLAB_BYTES);
        }
    }
    return (struct wheel_slab *)(void *)slab;
}

void wheel_pool_init(struct wheel_pool *p, uint32_t buckets, struct budget *budget)
{
    memset(p, 0, sizeof(*p));
    p->buckets = buckets;
    p->budget = budget;
    p->partial = NO_SLAB;
    p->victim = NO_SLAB;
    update_room(p);
}

void wheel_pool_fini(struct wheel_pool *p)
{
    for (uint32_t i = 0; i < p->capacity; i++) {
        mem_free(p->slabs[i]);
    }
    count_bytes(p, -(int64_t)wheel_pool_bytes(p));
    mem_free(p->spare.slab);
    mem_free(p->slabs);
    memset(p, 0, sizeof(*p));
}

uint64_t wheel_pool_bytes(const struct wheel_pool *p)
{
    return (p->slab_count + (p->spare.slab != NULL)) * SLAB_BYTES +
           p->capacity * sizeof(*p->slabs);
}

/* The victim is needed after all: stop emptying it. */
static void spare_victim(struct wheel_pool *p)
{
    uint32_t slab = p->victim;

    p->victim = NO_SLAB;
    if (wheel_slab_at(p, slab)->used < SLAB_USABLE) {
        partial_insert(p, slab);
    }
    update_room(p);
}

bool wheel_pool_grow(struct wheel_pool *p)
{
    if (p->victim != NO_SLAB) {
        spare_victim(p);
        return true;
    }
    while (p->free_hint < p->capacity && p->slabs[p->free_hint]) {
        p->free_hint++;
    }
    if (p->free_hint == p->capacity && !grow_directory(p)) {
        return false;
    }
    struct wheel_slab *s = take_slab(p);
    if (!s) {
        return false;
    }
    *s = (struct wheel_slab){.fresh = 1};
    p->slabs[p->free_hint] = (struct wheel_node *)(void *)s;
    partial_insert(p, p->free_hint++);
    p->slab_count++;
    update_room(p);
    return true;
}

bool wheel_spare_make(struct wheel_spare *spare, uint32_t capacity)
{
    *spare = (struct wheel_spare){.capacity = capacity};
    spare->slab = mem_alloc_aligned(SLAB_BYTES, sizeof(struct wheel_node));
    if (spare->slab != NULL) {
        memset(spare->slab, 0, SLAB_BYTES); /* its pages are there when it is used */
    }
    if (capacity != 0) {
        spare->slabs = mem_alloc(capacity * sizeof(struct wheel_node *));
    }
    return spare->slab != NULL && (capacity == 0 || spare->slabs != NULL);
}

void wheel_spare_release(struct wheel_spare *spare)
{
    mem_free(spare->slab);
    mem_free(spare->slabs);
    *spare = (struct wheel_spare){.slab = NULL};
}

uint32_t wheel_pool_spare_capacity(const struct wheel_pool *p)
{
    /* One slab more may not fit: no entry is free if the first below is not. */
    return p->slab_count == p->capacity && next_capacity(p) <= SLABS_MAX ? next_capacity(p) : 0;
}

void wheel_pool_take_spare(struct wheel_pool *p, struct wheel_spare *spare)
{
    if (p->spare.slab == NULL && spare->slab != NULL) {
        p->spare.slab = spare->slab;
        spare->slab = NULL;
        count_bytes(p, SLAB_BYTES);
    }
    if (spare->slabs != NULL && spare->capacity > p->capacity) {
        spare->slabs = exchange_directory(p, spare->slabs, spare->capacity);
        spare->capacity = 0;
    }
    update_room(p);
}

uint32_t wheel_pool_take(struct wheel_pool *p)
{
    uint32_t slab = p->partial;

    must(slab != NO_SLAB);
    struct wheel_slab *s = wheel_slab_at(p, slab);
    uint32_t node = s->free_list;
    if (node) {
        s->free_list = wheel_node_at(p, node)->next;
    } else {
        node = slab * SLAB_NODES + s->fresh++;
    }
    p->used++;
    if (++s->used == SLAB_USABLE) {
        partial_remove(p, slab);
    }
    return node;
}

void wheel_pool_give(struct wheel_pool *p, uint32_t node, uint64_t count)
{
    uint32_t slab = node / SLAB_NODES;
    struct wheel_slab *s = wheel_slab_at(p, slab);
    struct wheel_node *n = wheel_node_at(p, node);

    must(s->used > 0 && n->bucket != NODE_UNUSED);
    n->bucket = NODE_UNUSED;
    n->next = s->free_list;
    s->free_list = node;
    p->used--;
    s->used--;
    if (slab == p->victim) {
        if (s->used == 0) {
            p->victim = NO_SLAB;
            release_slab(p, slab);
        }
        return;
    }
    if (s->used == SLAB_USABLE - 1) {
        partial_insert(p, slab);
    }
    if (s->used == 0 && p->victim == NO_SLAB && (int64_t)count <= p->shrink_at) {
        partial_remove(p, slab);
        release_slab(p, slab);
    }
}

/* Choose the emptiest of the next few slabs; false when there is none to empty. */
static bool choose_victim(struct wheel_pool *p)
{
    uint32_t best = NO_SLAB;

    for (uint32_t i = 0; i < VICTIM_SLABS && i < p->capacity; i++) {
        p->hand = p->hand + 1 < p->capacity ? p->hand + 1 : 0;
        if (p->slabs[p->hand] && (best == NO_SLAB || wheel_slab_at(p, p->hand)->used <
                                                         wheel_slab_at(p, best)->used)) {
            best = p->hand;
        }
    }
    if (best == NO_SLAB) {
        return false;
    }
    if (wheel_slab_at(p, best)->used < SLAB_USABLE) {
        partial_remove(p, best);
    }
    if (wheel_slab_at(p, best)->used == 0) {
        release_slab(p, best);
        return false;
    }
    p->victim = best;
    p->victim_next = 1;
    update_room(p);
    return true;
}

uint32_t wheel_pool_victim(struct wheel_pool *p, uint64_t count)
{
    if (p->victim == NO_SLAB && ((int64_t)count > p->shrink_at || !choose_victim(p))) {
        return 0;
    }
    for (uint32_t i = 0; i < VICTIM_NODES; i++) {
        if (p->victim_next >= wheel_slab_at(p, p->victim)->fresh) {
            p->victim_next = 1;
        }
        if (p->slabs[p->victim][p->victim_next].bucket != NODE_UNUSED) {
            return p->victim * SLAB_NODES + p->victim_next++;
        }
        p->victim_next++;
    }
    return 0;
}
