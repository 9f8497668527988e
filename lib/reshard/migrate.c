/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves slots of the routing table to other shards. All slots that leave one shard go together
 * through the published states of lib/engine/router.h, with a grace period after each. While
 * the slots move, carry.c moves their items.
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
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"

/*
 * While an index is resized: most waits of REST_NS for the resize, and then for the release of
 * the old index.
 */
#define RESIZE_TRIES  1000
#define RELEASE_TRIES 100
#define REST_NS       1000000L

struct move {
    struct engine *engine; /* [borrowed] */
    struct move_plan plan;
    bool finishes; /* it only completes moves that were begun, and has no plan of its own */
    void (*on_begin)(void *arg);
    void *arg; /* [borrowed] */
    struct route_slot slots[ROUTE_SLOTS];
    uint64_t coming[ROUTE_SLOTS];     /* by shard: approximate number of items that arrive */
    bool is_prepared[ROUTE_SLOTS];    /* by shard: its index has room for them */
    int64_t index_bytes[ROUTE_SLOTS]; /* by shard, at the start of the move */
    int64_t indexes;                  /* the sum of index_bytes */
    int64_t uncounted, twice;         /* bytes: see leave_uncounted() */
    bool has_waiting;                 /* in some slots a large value has found no room */
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

/* Does the plan begin or continue to move this slot? */
static bool is_to_go(const struct move *m, uint32_t slot)
{
    return m->plan.to[slot] != MOVE_STAYS && m->slots[slot].from != m->plan.to[slot];
}

/* ---- indexes ----------------------------------------------------------------------------- */

/*
 * The index of a shard that items move to grows before the index of the other shard shrinks,
 * and each resize holds two arrays for a moment. Items should not be evicted for that. So until
 * the end of the move, this extra memory does not count in the budget, up to 1/UNCOUNTED_SHARE
 * of the limit.
 */
#define UNCOUNTED_SHARE 18

/* The index of a shard shrinks if at least this part (1/n) of its slots leave. */
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

/*
 * Leave `bytes` of the indexes out of the budget, up to the limit, instead of the bytes of the
 * last call. twice: bytes that are counted in two arrays but exist once (table_overlap()).
 */
static void leave_uncounted(struct move *m, int64_t bytes, int64_t twice)
{
    struct budget *b = &m->engine->budget;
    int64_t most = budget_limit(b) / UNCOUNTED_SHARE;

    bytes = bytes < 0 ? 0 : bytes < most ? bytes : most;
    budget_add(b, m->uncounted + m->twice - bytes - twice);
    m->uncounted = bytes;
    m->twice = twice;
}

/* Do not let the index shrink below the size for this number of items, or its first size. */
static void hold_index(struct shard *s, uint64_t items)
{
    shard_enter(s);
    table_set_least(&s->table, items > s->items_at_start ? items : s->items_at_start);
    shard_leave(s);
}

/* Resize the index of a shard for this number of items, and wait for the end of the resize. */
static void fit_index(struct move *m, struct shard *s, uint64_t items, bool is_least)
{
    const struct timespec rest = {0, REST_NS};
    bool goes_on = true;

    shard_fit_index(s, items, is_least, true);
    for (unsigned i = 0; goes_on && i < RESIZE_TRIES && !is_cancelled(m);) {
        shard_roll_index(s);
        shard_enter(s);
        (void)shard_resize_step(s, COST_HOME_BUCKETS);
        bool is_moving = s->table.phase == TABLE_MOVING;
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

/* Wait for the release of replaced indexes, then update the bytes left out of the budget. */
static void count_indexes(struct move *m)
{
    const struct timespec rest = {0, REST_NS};

    for (unsigned i = 0;
         i < RELEASE_TRIES && budget_part(&m->engine->budget, BUDGET_RETIRED) > 0; i++) {
        grace_ask(reclaim_grace(m->engine->reclaimer), GRACE_HURRY);
        (void)nanosleep(&rest, NULL);
    }
    leave_uncounted(m, indexes(m) - m->indexes, 0);
}

static void replace_index(struct move *m, struct shard *s, uint64_t items, bool is_least)
{
    uint64_t bytes = table_bytes_for(items);

    shard_enter(s);
    uint64_t twice = table_overlap(&s->table, bytes);
    shard_leave(s);
    leave_uncounted(m, m->uncounted + (int64_t)(bytes - twice), (int64_t)twice);
    fit_index(m, s, items, is_least);
    count_indexes(m);
}

/* Make the index of a shard large enough for all items that the move brings to it. */
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
 * Prepare the shards that slots of `from` move to, if they are not prepared yet. This happens
 * only now, because the indexes of shards that were emptied before have shrunk by now: so only
 * a part of the indexes exists twice at a time.
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

/* Slots have left a shard: shrink its index if they were a large part of it. */
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
 * Publish the next state of all slots that leave the shard, and wait until all threads see it.
 * A slot that an earlier move left unfinished may have that state already.
 */
static enum mf_err publish(struct move *m, uint16_t from, bool is_moving)
{
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        struct route_slot *rs = &m->slots[i];

        if (rs->from == from && is_to_go(m, i) && rs->put == rs->from) {
            *rs = is_moving ? route_moving(from, m->plan.to[i])
                            : route_prepared(from, m->plan.to[i]);
        }
    }
    enum mf_err err = router_publish_all(&m->engine->router, m->slots);
    rcu_wait();
    return err;
}

/* Publish that all slots which left the shard have arrived, except those that wait for room. */
static enum mf_err settle(struct move *m, uint16_t from, uint32_t leaving)
{
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        if (m->slots[i].from == from && is_to_go(m, i) && !m->carry.waits[i]) {
            m->slots[i] = route_settled(m->plan.to[i]);
        }
    }
    enum mf_err err = router_publish_all(&m->engine->router, m->slots);
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
    rcu_begin();
    uint64_t version = router_read(&e->router)->version;
    rcu_end();
    return version;
}

/* Move the slots of the plan that leave this shard. */
static enum mf_err empty_shard(struct move *m, uint16_t from)
{
    struct engine *e = m->engine;
    uint32_t owned = 0;
    uint32_t leaving = 0;
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
         * Many of the evicted keys that the shard remembers will be stored elsewhere. Their
         * memory is free room at the start, for which no item must be evicted.
         */
        evict_forget(&e->shards[from]->memory);
    }
    prepare_shards(m, from);
    enum mf_err err =
        publish(m, from, false); /* no reader is left that would look in `from` alone */
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
    /* A resize needs memory for two arrays: do it once, at the end. */
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

/* Estimate the number of items that move to each shard, and note the sizes of the indexes. */
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

/* Approximate bytes of keys and values of this number of items of the shard. */
static uint64_t bytes_of(const struct shard *s, uint64_t items)
{
    const uint64_t bytes = ctr_get(&s->counters, CTR_item_bytes);
    const uint64_t heads = items * sizeof(struct item);

    return bytes > heads ? bytes - heads : 0;
}

/* Read the routing table, and count the slots and items to be moved. */
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

/* Move the slots of the plan, and those that an earlier move left unfinished. */
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
 * An earlier move may have left a slot halfway to a shard that is not its goal in this plan.
 * Such a slot first arrives there, because its items may be in either shard already.
 */
static enum mf_err end_detours(struct move *m)
{
    struct move_plan wanted = m->plan;
    bool has_any = false;

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
    enum mf_err err = has_any ? carry_plan(m) : MF_OK;
    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        const struct route_slot *rs = &router_read(&m->engine->router)->slot[i];

        if (has_any && route_is_moving(rs) && m->plan.to[i] != MOVE_STAYS) {
            wanted.to[i] = MOVE_STAYS; /* it waits for room, and must arrive there first */
        }
    }
    rcu_end();
    m->plan = wanted;
    return err;
}

/* Make a plan that completes unfinished moves. */
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
    enum mf_err err = end_detours(m);
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
