/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving slots of the routing table: through the published states of router.h with a grace
 * period after each. While a slot moves the mover takes the items over one by one, with both
 * shards entered for the link only: copies are made outside.
 */
#include "lib/engine/migrate.h"

#include <string.h>

#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/engine/erase.h"
#include "lib/engine/router.h"
#include "lib/engine/store.h"
#include "lib/engine/store_common.h"
#include "lib/shard/shard.h"
#include "lib/shard/value.h"

struct mover {
    struct engine *engine;
    uint32_t first, count;
    uint16_t from, to;
};

static bool in_range(const struct mover *m, uint64_t hash)
{
    uint32_t slot = (uint32_t)(hash >> (64 - ROUTE_SLOT_BITS));

    return slot >= m->first && slot < m->first + m->count;
}

struct pick {
    struct mover *mover;
    const struct shard *shard;
    char (*keys)[ITEM_KEY_MAX];
    uint8_t *key_len;
    unsigned n, max;
    bool is_full;
};

static void pick_one(void *arg, handle_t h)
{
    struct pick *p = arg;
    const struct item *it = shard_item(p->shard, h);

    if (!in_range(p->mover, shard_hash(p->shard, it))) {
        return;
    }
    if (p->n == p->max) {
        p->is_full = true;
        return;
    }
    memcpy(p->keys[p->n], item_key(it), it->key_len);
    p->key_len[p->n++] = it->key_len;
}

/*
 * Put an exact copy of the item into the other shard, with its cas and deadline. It is made by
 * an ordinary store, which finds the old item in `from` and unlinks it after linking the new
 * one.
 */
static enum outcome move_key(struct engine *e, const struct shard *from, uint64_t hash,
                             struct span key)
{
    msec_t now = clock_now(&e->clock);
    const struct item *it =
        table_find(&from->table, from->memory.arena.base, hash, key.ptr, key.len);
    struct store st = {.mode = STORE_CAS, .hash = hash, .key = key, .may_wait = true};
    struct store_over over = {.item = it, .is_copy = true, .is_move = true};
    char *copy;
    enum outcome out;

    if (it == NULL) {
        return OUT_STORED; /* a writer took it over, or it died */
    }
    if (item_is_due(it, now)) {
        engine_delete(e, hash, key, it->cas, now); /* finding it unlinks it */
        return OUT_STORED;
    }
    copy = mem_alloc((size_t)it->value_len + 1);
    if (copy == NULL) {
        return OUT_WAIT;
    }
    value_copy(from, it, copy);
    st.flags = it->client_flags;
    st.deadline = item_deadline(it);
    over.deadline = st.deadline;
    st.value = span_of(copy, it->value_len);
    st.over = &over;
    st.cas_new = it->cas;
    out = engine_store(e, &st, now);
    mem_free(copy);
    /*
     * NOT_FOUND: a writer was faster. EXISTS: likewise, or the item was moved or touched: look
     * again.
     */
    return out == OUT_STORED || out == OUT_NOT_FOUND ? OUT_STORED : OUT_WAIT;
}

#define BATCH 64

/*
 * After so many passes over one position that moved nothing the move is given up. Each of them
 * waits for a grace period, and with that for all room that is on its way.
 */
#define FRUITLESS_MAX 200

/*
 * Move the items of one position of the source's index. Returns the next cursor. *again: the
 * position must be visited once more. *moved: how many items are not there any more.
 */
static uint64_t move_position(struct mover *m, uint64_t cursor, bool *again, unsigned *moved)
{
    struct engine *e = m->engine;
    struct shard *from = e->shards[m->from];
    char keys[BATCH][ITEM_KEY_MAX];
    uint8_t key_len[BATCH];
    struct pick p = {m, from, keys, key_len, 0, BATCH, false};
    uint64_t next;

    rcu_begin();
    shard_enter(from);
    next = table_walk(&from->table, from->memory.arena.base, cursor, pick_one, &p);
    shard_leave(from);
    *again = p.is_full;
    *moved = 0;
    for (unsigned i = 0; i < p.n; i++) {
        struct span key = span_of(keys[i], key_len[i]);

        if (move_key(e, from, engine_hash(e, key.ptr, key.len), key) == OUT_STORED) {
            ++*moved;
        } else {
            *again = true;
        }
    }
    rcu_end();
    if (*again) {
        grace_ask(reclaim_grace(e->reclaimer), GRACE_HURRY);
        rcu_wait();
    }
    return next;
}

/* Are no items of the range left? Some may be if the index was resized during the walk. */
static bool is_clean(struct mover *m)
{
    struct shard *from = m->engine->shards[m->from];
    char keys[1][ITEM_KEY_MAX];
    uint8_t key_len[1];
    struct pick p = {m, from, keys, key_len, 0, 1, false};
    uint64_t cursor = 0;

    do {
        rcu_begin();
        shard_enter(from);
        cursor = table_walk(&from->table, from->memory.arena.base, cursor, pick_one, &p);
        shard_leave(from);
        rcu_end();
    } while (cursor != 0 && p.n == 0);
    return p.n == 0;
}

/* One walk over the source. False when something in it cannot be stored in the target. */
static bool move_once(struct mover *m)
{
    uint64_t cursor = 0;
    unsigned fruitless = 0;
    bool again;

    do {
        unsigned moved;
        uint64_t next = move_position(m, cursor, &again, &moved);

        fruitless = again && moved == 0 ? fruitless + 1 : 0;
        cursor = again ? cursor : next;
    } while ((again || cursor != 0) && fruitless < FRUITLESS_MAX);
    return fruitless < FRUITLESS_MAX;
}

static enum mf_err move_all(struct mover *m)
{
    do {
        if (!move_once(m)) {
            return MF_ENOMEM;
        }
    } while (!is_clean(m));
    return MF_OK;
}

/*
 * Move a range of slots that are all in the same state. If there is no memory for a table or an
 * item, they stay in the state that they have by then.
 */
static enum mf_err move_run(struct engine *e, uint32_t first, uint32_t count,
                            struct route_slot now, uint16_t to)
{
    struct mover m = {.engine = e, .first = first, .count = count, .from = now.from, .to = to};
    enum mf_err err = MF_OK;

    if (!route_is_moving(&now)) {
        err = router_publish(&e->router, first, count, route_prepared(now.from, to));
        rcu_wait(); /* no reader is left that would look in `from` alone */
    }
    if (err == MF_OK && now.put != to) {
        err = router_publish(&e->router, first, count, route_moving(now.from, to));
        rcu_wait();
    }
    if (err == MF_OK) {
        err = move_all(&m);
    }
    if (err == MF_OK) {
        err = router_publish(&e->router, first, count, route_settled(to));
    }
    rcu_wait();
    return err;
}

static bool is_same_state(const struct route_slot *a, const struct route_slot *b)
{
    return a->from == b->from && a->to == b->to && a->put == b->put;
}

static enum mf_err move_slots(struct engine *e, uint32_t first, uint32_t count, uint16_t to)
{
    if (first > ROUTE_SLOTS || count > ROUTE_SLOTS - first || to >= e->shard_count) {
        return MF_EINVAL;
    }
    for (uint32_t at = first; at < first + count;) {
        struct route_slot now;
        uint32_t n = 1;
        enum mf_err err = MF_OK;

        rcu_begin();
        now = router_read(&e->router)->slot[at];
        while (at + n < first + count &&
               is_same_state(&router_read(&e->router)->slot[at + n], &now)) {
            n++;
        }
        rcu_end();
        if (route_is_moving(&now) && now.to != to) {
            err = MF_EINVAL;
        } else if (now.from != to) {
            err = move_run(e, at, n, now, to);
        }
        if (err != MF_OK) {
            return err;
        }
        at += n;
    }
    return MF_OK;
}

enum mf_err engine_move_slots(struct engine *e, uint32_t first, uint32_t count, uint16_t to)
{
    enum mf_err err;

    must_not_be_reading();
    must(pthread_rwlock_wrlock(&e->moves) == 0);
    err = move_slots(e, first, count, to);
    must(pthread_rwlock_unlock(&e->moves) == 0);
    return err;
}
