/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving slots of the routing table: through the published states of lib/engine/router.h with a
 * grace period after each, all slots that leave one shard together. While they move, carry.c
 * takes the items over.
 */
#include "lib/reshard/migrate.h"

#include <string.h>
#include <time.h>

#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/memory/evict.h"
#include "lib/memory/stock.h"
#include "lib/reshard/carry.h"
#include "lib/reshard/carry_room.h"
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"

/*
 * An index that is resized: old buckets moved with its shard entered; how often it is waited
 * for, and then for the release of the old one.
 */
#define RESIZE_TRIES  1000
#define RELEASE_TRIES 100
#define REST_NS       1000000L

struct move {
    struct engine *engine; /* [borrowed] */
    struct move_plan plan;
    bool finishes; /* the plan is what is on its way */
    void (*on_begin)(void *arg);
    void *arg; /* [borrowed] */
    struct route_slot slots[ROUTE_SLOTS];
    uint64_t coming[ROUTE_SLOTS];     /* by shard: items, about */
    bool is_prepared[ROUTE_SLOTS];    /* by shard: its index suits what comes */
    int64_t index_bytes[ROUTE_SLOTS]; /* by shard, when it began */
    int64_t indexes;                  /* all of them */
    int64_t uncounted, twice;         /* of the budget: see leave_uncounted() */
    bool has_waiting;                 /* slots in which a large value has found no room */
    struct carry carry;
    struct carry_count count;
    /* [atomic] */
    _Atomic uint32_t cpu_pct;
    _Atomic bool is_cancelled;
    _Atomic int state; /* enum move_state */
    _Atomic uint32_t slots_all, slots_done;
    _Atomic uint64_t items_all, bytes_all;
};

void move_plan_init(struct move_plan *plan)
{
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        plan->to[i] = MOVE_STAYS;
    }
}

static uint32_t quota(uint32_t shard, uint32_t shards)
{
    return ROUTE_SLOTS / shards + (shard < ROUTE_SLOTS % shards);
}

void move_plan_even(struct move_plan *plan, struct engine *e, uint32_t shards)
{
    uint32_t has[ROUTE_SLOTS] = {0};
    uint32_t next = 0;

    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        uint16_t to = router_read(&e->router)->slot[i].to;

        plan->to[i] = MOVE_STAYS;
        if (to < shards && has[to] < quota(to, shards)) {
            plan->to[i] = to;
            has[to]++;
        }
    }
    rcu_end();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        if (plan->to[i] == MOVE_STAYS) {
            while (has[next] == quota(next, shards)) {
                next++;
            }
            plan->to[i] = (uint16_t)next;
            has[next]++;
        }
    }
}

static void set_state(struct move *m, enum move_state state)
{
    atomic_store_explicit(&m->state, (int)state, memory_order_release);
}

static bool is_cancelled(const struct move *m)
{
    return atomic_load_explicit(&m->is_cancelled, memory_order_relaxed);
}

/* Does the plan have this slot go, or go on? */
static bool is_to_go(const struct move *m, uint32_t slot)
{
    return m->plan.to[slot] != MOVE_STAYS && m->slots[slot].from != m->plan.to[slot];
}

/* ---- indexes ----------------------------------------------------------------------------- */

/*
 * What comes to a shard needs a larger index there before the one that it leaves gets smaller,
 * and each exists twice for a moment. That is not what a cache should be emptied for. So until
 * the end of the move it is not counted in the budget, up to this part of the limit.
 */
#define UNCOUNTED_SHARE 18

/* The index of a shard that loses at least such a part is made anew. */
#define FITTING_SHARE 4

static int64_t indexes(const struct move *m)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < m->engine->shard_count; i++) {
        struct shard *s = m->engine->shards[i];

        shard_enter(s);
        bytes += table_bytes(&s->table);
        shard_leave(s);
    }
    return (int64_t)bytes;
}

/* twice: bytes that the accounts have in two arrays and memory in one (table_overlap()). */
static void leave_uncounted(struct move *m, int64_t bytes, int64_t twice)
{
    struct budget *b = &m->engine->budget;
    int64_t most = budget_limit(b) / UNCOUNTED_SHARE;

    bytes = bytes < 0 ? 0 : bytes < most ? bytes : most;
    budget_add(b, m->uncounted + m->twice - bytes - twice);
    m->uncounted = bytes;
    m->twice = twice;
}

/* It does not shrink below what suits so many items, or 0: below what it was made with. */
static void hold_index(struct shard *s, uint64_t items)
{
    shard_enter(s);
    table_set_least(&s->table, items > s->items_at_start ? items : s->items_at_start);
    shard_leave(s);
}

/* Have the index of a shard suit so many items, and wait for that. */
static void fit_index(struct move *m, struct shard *s, uint64_t items, bool is_least)
{
    const struct timespec rest = {0, REST_NS};
    bool goes_on = true;

    shard_fit_index(s, items, is_least, true);
    for (unsigned i = 0; goes_on && i < RESIZE_TRIES && !is_cancelled(m);) {
        bool is_moving;

        shard_roll_index(s);
        shard_enter(s);
        (void)shard_resize_step(s, COST_HOME_BUCKETS);
        is_moving = s->table.phase == TABLE_MOVING;
        goes_on = shard_resize_goes_on(s);
        shard_leave(s);
        carry_pace(&m->carry);
        if (goes_on && !is_moving) {
            shard_make_wanted(s); /* another thread may have allocated one of another size */
            grace_ask(reclaim_grace(m->engine->reclaimer), GRACE_HURRY);
            (void)nanosleep(&rest, NULL);
            i++;
        }
    }
    shard_unroll_index(s);
}

/* Count what indexes take now, once those that were replaced are released. */
static void count_indexes(struct move *m)
{
    const struct timespec rest = {0, REST_NS};

    for (unsigned i = 0; i < RELEASE_TRIES && budget_retired(&m->engine->budget) > 0; i++) {
        grace_ask(reclaim_grace(m->engine->reclaimer), GRACE_HURRY);
        (void)nanosleep(&rest, NULL);
    }
    leave_uncounted(m, indexes(m) - m->indexes, 0);
}

static void replace_index(struct move *m, struct shard *s, uint64_t items, bool is_least)
{
    uint64_t bytes = table_bytes_for(items);
    uint64_t twice;

    shard_enter(s);
    twice = table_overlap(&s->table, bytes);
    shard_leave(s);
    leave_uncounted(m, m->uncounted + (int64_t)(bytes - twice), (int64_t)twice);
    fit_index(m, s, items, is_least);
    count_indexes(m);
}

/* Make a shard fit for what comes to it in the whole move. */
static void prepare_shard(struct move *m, uint16_t to)
{
    struct shard *s = m->engine->shards[to];
    uint64_t items = ctr_get(&s->counters, CTR_curr_items) + m->coming[to];
    int64_t bytes = (int64_t)table_bytes_for(items);

    if (bytes > m->index_bytes[to]) {
        replace_index(m, s, items, true);
    }
    stock_fill(&s->memory);
}

/*
 * Prepare the shards that slots of `from` go to, unless that was done for one before. It is
 * done this late because the indexes of those that were left before have become smaller by
 * then: so only a part of all indexes exists twice at a time.
 */
static void prepare_shards(struct move *m, uint16_t from)
{
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        uint16_t to = m->plan.to[i];

        if (m->slots[i].from == from && is_to_go(m, i) && !m->is_prepared[to]) {
            m->is_prepared[to] = true;
            prepare_shard(m, to);
        }
    }
}

/* Slots have left it: if that was a good part of it, it needs less. */
static void fit_left_index(struct move *m, uint16_t from, uint32_t leaving, uint32_t owned)
{
    struct shard *s = m->engine->shards[from];
    uint64_t items = ctr_get(&s->counters, CTR_curr_items);
    int64_t bytes = (int64_t)table_bytes_for(items);

    if (leaving >= owned / FITTING_SHARE && m->coming[from] == 0 &&
        bytes < m->index_bytes[from]) {
        replace_index(m, s, items, false);
    }
}

static void forget_indexes(struct move *m)
{
    for (uint32_t i = 0; i < m->engine->shard_count; i++) {
        hold_index(m->engine->shards[i], 0);
    }
    leave_uncounted(m, 0, 0);
}

/* ---- one shard --------------------------------------------------------------------------- */

/*
 * Publish what all slots that leave the shard are now, and wait until everybody knows. A slot
 * that a move before left on its way is further already.
 */
static enum mf_err publish(struct move *m, uint16_t from, bool is_moving)
{
    enum mf_err err;

    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        struct route_slot *rs = &m->slots[i];

        if (rs->from == from && is_to_go(m, i) && rs->put == rs->from) {
            *rs = is_moving ? route_moving(from, m->plan.to[i])
                            : route_prepared(from, m->plan.to[i]);
        }
    }
    err = router_publish_all(&m->engine->router, m->slots);
    rcu_wait();
    return err;
}

/* All that left the shard has arrived, unless its slot waits for room. */
static enum mf_err settle(struct move *m, uint16_t from, uint32_t leaving)
{
    enum mf_err err;

    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        if (m->slots[i].from == from && is_to_go(m, i) && !m->carry.waits[i]) {
            m->slots[i] = route_settled(m->plan.to[i]);
        }
    }
    err = router_publish_all(&m->engine->router, m->slots);
    rcu_wait();
    if (err == MF_OK) {
        atomic_store_explicit(&m->slots_done,
                              atomic_load_explicit(&m->slots_done, memory_order_relaxed) +
                                  leaving,
                              memory_order_relaxed);
    }
    return err;
}

static uint64_t version_of(const struct engine *e)
{
    uint64_t version;

    rcu_begin();
    version = router_read(&e->router)->version;
    rcu_end();
    return version;
}

/* Have the slots leave that shall. */
static enum mf_err empty_shard(struct move *m, uint16_t from)
{
    struct engine *e = m->engine;
    uint32_t owned = 0;
    uint32_t leaving = 0;
    enum mf_err err;
    enum carry_state end;

    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        if (m->slots[i].from == from) {
            owned++;
            leaving += is_to_go(m, i);
        }
    }
    if (leaving == 0 || is_cancelled(m)) {
        return MF_OK;
    }
    if (leaving >= owned / FITTING_SHARE) {
        /*
         * Many of the keys that it remembers will be stored elsewhere. What they take is room
         * to begin with, for which no item has to be evicted.
         */
        evict_forget(&e->shards[from]->memory);
    }
    prepare_shards(m, from);
    err = publish(m, from, false); /* no reader is left that would look in `from` alone */
    if (err == MF_OK) {
        err = publish(m, from, true);
    }
    if (err != MF_OK) {
        return err;
    }
    m->carry = (struct carry){.engine = e,
                              .from = e->shards[from],
                              .slots = m->slots,
                              .version = version_of(e),
                              .stop = &m->is_cancelled,
                              .count = &m->count,
                              .cpu_pct = &m->cpu_pct,
                              .used = m->carry.used,
                              .turns = m->carry.turns,
                              .leaving = leaving,
                              .owned = owned};
    /* The next index, and this one, exist at the same time: once is enough, at the end. */
    hold_index(e->shards[from], ctr_get(&e->shards[from]->counters, CTR_curr_items));
    end = carry_shard(&m->carry);
    if (end == CARRY_NO_ROOM) {
        return MF_ENOMEM;
    }
    if (end != CARRY_DONE) {
        return MF_OK;
    }
    m->has_waiting |= m->carry.waiting != 0;
    err = settle(m, from, leaving - m->carry.waiting);
    fit_left_index(m, from, leaving, owned);
    return err;
}

/* ---- all of it --------------------------------------------------------------------------- */

/* How many items go to each shard, about, and what its index takes. */
static void look_at_shards(struct move *m, const uint32_t *owned)
{
    memset(m->coming, 0, sizeof(m->coming));
    memset(m->is_prepared, 0, sizeof(m->is_prepared));
    m->indexes = 0;
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        if (is_to_go(m, i)) {
            const struct shard *s = m->engine->shards[m->slots[i].from];

            m->coming[m->plan.to[i]] +=
                ctr_get(&s->counters, CTR_curr_items) / owned[m->slots[i].from];
        }
    }
    for (uint32_t i = 0; i < m->engine->shard_count; i++) {
        struct shard *s = m->engine->shards[i];

        shard_enter(s);
        m->index_bytes[i] = (int64_t)table_bytes(&s->table);
        shard_leave(s);
        m->indexes += m->index_bytes[i];
    }
}

static bool is_plan_possible(const struct engine *e, const struct move_plan *plan)
{
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        if (plan->to[i] != MOVE_STAYS && plan->to[i] >= e->shard_count) {
            return false;
        }
    }
    return true;
}

/* Bytes of the keys and values of a shard with this number of items, about. */
static uint64_t bytes_of(const struct shard *s, uint64_t items)
{
    const uint64_t bytes = ctr_get(&s->counters, CTR_item_bytes);
    const uint64_t heads = items * sizeof(struct item);

    return bytes > heads ? bytes - heads : 0;
}

/* Read the table, and count what is to be done. */
static void look(struct move *m)
{
    const struct engine *e = m->engine;
    uint32_t owned[ROUTE_SLOTS] = {0};
    uint32_t leaving[ROUTE_SLOTS] = {0};
    uint32_t slots = 0;
    uint64_t items = 0;
    uint64_t bytes = 0;

    rcu_begin();
    memcpy(m->slots, router_read(&e->router)->slot, sizeof(m->slots));
    rcu_end();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        const struct route_slot *rs = &m->slots[i];

        owned[rs->from]++;
        leaving[rs->from] += is_to_go(m, i);
    }
    for (uint32_t i = 0; i < e->shard_count; i++) {
        if (leaving[i] != 0) {
            const uint64_t all = ctr_get(&e->shards[i]->counters, CTR_curr_items);

            slots += leaving[i];
            items += all * leaving[i] / owned[i];
            bytes += bytes_of(e->shards[i], all) * leaving[i] / owned[i];
        }
    }
    look_at_shards(m, owned);
    atomic_fetch_add_explicit(&m->slots_all, slots, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->items_all, items, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->bytes_all, bytes, memory_order_relaxed);
}

/* What the plan has go, and what is on its way by an earlier one. */
static enum mf_err carry_plan(struct move *m)
{
    enum mf_err err = MF_OK;

    look(m);
    for (uint32_t i = 0; err == MF_OK && i < m->engine->shard_count; i++) {
        err = empty_shard(m, (uint16_t)i);
        if (!moves_give_way(&m->engine->moves, &m->is_cancelled)) {
            break;
        }
    }
    forget_indexes(m);
    return err;
}

/*
 * Slots that a move before has left on their way to a shard where they shall not stay arrive
 * there first: what is in either shard already has been seen there.
 */
static enum mf_err end_detours(struct move *m)
{
    struct move_plan wanted = m->plan;
    bool has_any = false;
    enum mf_err err;

    move_plan_init(&m->plan);
    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        const struct route_slot *rs = &router_read(&m->engine->router)->slot[i];

        if (route_is_moving(rs) && wanted.to[i] != MOVE_STAYS && wanted.to[i] != rs->to) {
            m->plan.to[i] = rs->to;
            has_any = true;
        }
    }
    rcu_end();
    err = has_any ? carry_plan(m) : MF_OK;
    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        const struct route_slot *rs = &router_read(&m->engine->router)->slot[i];

        if (has_any && route_is_moving(rs) && m->plan.to[i] != MOVE_STAYS) {
            wanted.to[i] = MOVE_STAYS; /* it waits for room, and cannot go elsewhere before */
        }
    }
    rcu_end();
    m->plan = wanted;
    return err;
}

/* Have those arrive that are on their way. */
static void plan_the_rest(struct move *m)
{
    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        const struct route_slot *rs = &router_read(&m->engine->router)->slot[i];

        m->plan.to[i] = route_is_moving(rs) ? rs->to : MOVE_STAYS;
    }
    rcu_end();
}

enum mf_err move_run(struct move *m)
{
    enum mf_err err;

    must_not_be_reading();
    if (is_cancelled(m) || !moves_begin_move(&m->engine->moves, &m->is_cancelled)) {
        set_state(m, MOVE_CANCELLED);
        return MF_OK;
    }
    set_state(m, MOVE_RUNS);
    m->carry = (struct carry){
        .stop = &m->is_cancelled, .cpu_pct = &m->cpu_pct, .used = clock_thread_us()};
    atomic_store_explicit(&m->engine->group.has_move, true, memory_order_relaxed);
    if (m->on_begin != NULL) {
        m->on_begin(m->arg);
    }
    if (m->finishes) {
        plan_the_rest(m);
    }
    err = end_detours(m);
    if (err == MF_OK && !is_cancelled(m)) {
        err = carry_plan(m);
    }
    if (err == MF_OK && m->has_waiting && !is_cancelled(m)) {
        err = MF_ENOMEM;
    }
    atomic_store_explicit(&m->engine->group.has_move, false, memory_order_relaxed);
    moves_end_move(&m->engine->moves);
    set_state(m, err == MF_ENOMEM  ? MOVE_NO_ROOM
                 : is_cancelled(m) ? MOVE_CANCELLED
                                   : MOVE_DONE);
    return err;
}

void move_set_cpu_pct(struct move *m, uint32_t cpu_pct)
{
    atomic_store_explicit(&m->cpu_pct, cpu_pct == 0 || cpu_pct > 100 ? 100 : cpu_pct,
                          memory_order_relaxed);
}

enum mf_err move_make(struct move **out, struct engine *e, const struct move_config *cfg)
{
    struct move *m;

    *out = NULL;
    if (!is_plan_possible(e, cfg->plan)) {
        return MF_EINVAL;
    }
    m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return MF_ENOMEM;
    }
    m->engine = e;
    m->plan = *cfg->plan;
    m->finishes = cfg->finishes;
    m->on_begin = cfg->on_begin;
    m->arg = cfg->arg;
    move_set_cpu_pct(m, cfg->cpu_pct);
    *out = m;
    return MF_OK;
}

void move_info(const struct move *m, struct move_info *info)
{
    const struct carry_count *c = &m->count;

    info->state = (enum move_state)atomic_load_explicit(&m->state, memory_order_acquire);
    info->slots = atomic_load_explicit(&m->slots_all, memory_order_relaxed);
    info->slots_done = atomic_load_explicit(&m->slots_done, memory_order_relaxed);
    info->items_all = atomic_load_explicit(&m->items_all, memory_order_relaxed);
    info->items = atomic_load_explicit(&c->items, memory_order_relaxed);
    info->bytes_all = atomic_load_explicit(&m->bytes_all, memory_order_relaxed);
    info->bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);
    info->expired = atomic_load_explicit(&c->expired, memory_order_relaxed);
    info->evicted = atomic_load_explicit(&c->evicted, memory_order_relaxed);
}

void move_cancel(struct move *m)
{
    atomic_store_explicit(&m->is_cancelled, true, memory_order_relaxed);
}

void move_free(struct move **mp)
{
    mem_free(*mp);
    *mp = NULL;
}
