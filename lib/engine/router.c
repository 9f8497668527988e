/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The routing table's writer: copy, change the copy, publish it, retire the old one. Readers
 * are inline in the header.
 */
#include "lib/engine/router.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/*
 * A move publishes some hundred of them. They are pages of their own, as what the allocator
 * keeps for a thread that rests after the move is not given back.
 */
static struct route *route_make(void)
{
    return mem_alloc_pages(sizeof(struct route));
}

static void route_unmake(struct route *t)
{
    mem_free_pages(t, sizeof(*t));
}

static void route_release(struct retired *r)
{
    route_unmake(MF_OUTER(r, struct route, retired));
}

enum mf_err router_init(struct router *r, struct shard **shards, uint32_t count,
                        struct reclaimer *reclaimer)
{
    if (count == 0 || count > ROUTE_SLOTS) {
        return MF_EINVAL;
    }
    struct route *t = route_make();
    if (t == NULL) {
        return MF_ENOMEM;
    }
    t->retired.fn = route_release;
    t->shards = shards;
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        uint16_t owner = (uint16_t)(i * count / ROUTE_SLOTS);

        t->slot[i] = route_settled(owner);
    }
    r->reclaimer = reclaimer;
    atomic_init(&r->shard_count, count);
    atomic_init(&r->route, t);
    return MF_OK;
}

void router_grow(struct router *r, uint32_t count)
{
    must(count >= atomic_load_explicit(&r->shard_count, memory_order_relaxed));
    atomic_store_explicit(&r->shard_count, count, memory_order_release);
}

void router_fini(struct router *r)
{
    must_be_main();
    route_unmake(atomic_exchange_explicit(&r->route, NULL, memory_order_relaxed));
}

enum mf_err router_publish_all(struct router *r, const struct route_slot slots[ROUTE_SLOTS])
{
    const uint32_t count = atomic_load_explicit(&r->shard_count, memory_order_acquire);
    struct route *now = atomic_load_explicit(&r->route, memory_order_relaxed);

    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        if (slots[i].from >= count || slots[i].to >= count) {
            return MF_EINVAL;
        }
    }
    struct route *next = route_make();
    if (next == NULL) {
        return MF_ENOMEM;
    }
    memcpy(next, now, sizeof(*next));
    next->version++;
    memcpy(next->slot, slots, sizeof(next->slot));
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        if (memcmp(&now->slot[i], &slots[i], sizeof(slots[i])) != 0) {
            next->changed[i] = next->version;
        }
    }
    atomic_store_explicit(&r->route, next, memory_order_release);
    reclaim_push(r->reclaimer, &now->retired);
    return MF_OK;
}
