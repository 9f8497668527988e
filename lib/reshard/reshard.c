/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changing the number of shards: see reshard.h. The mover runs one job. It makes a plan for
 * the wanted number, carries it out, and checks again, until nothing is left to do.
 */
#include "lib/reshard/reshard.h"

#include "lib/base/cond.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/engine/grow.h"
#include "lib/reshard/migrate.h"
#include "lib/shard/flush.h"
#include "lib/shard/shard.h"

/* After a move found no room: interval of checks of the budget, and time to the next try. */
#define ROOM_LOOK_MS  100
#define ROOM_RETRY_MS 10000

/* Segments that must have been released before the mover tries again. */
#define ROOM_SEGMENTS 4

static uint32_t sharers(const struct engine *e)
{
    return atomic_load_explicit(&e->group.sharers, memory_order_relaxed);
}

static uint32_t wanted(const struct engine *e)
{
    return atomic_load_explicit(&e->reshard.wanted, memory_order_relaxed);
}

/* ---- what others see --------------------------------------------------------------------- */

static void add_figures(struct reshard_info *sum, const struct move_info *one)
{
    sum->slots_done += one->slots_done;
    sum->items += one->items;
    sum->bytes += one->bytes;
    sum->expired += one->expired;
    sum->evicted += one->evicted;
}

static bool is_over(enum reshard_state state)
{
    return state == RESHARD_IDLE || state == RESHARD_CANCELLED;
}

/* Milliseconds since the moves began. Under the mutex. */
static uint64_t elapsed_ms(const struct reshard *r)
{
    const usec_t now = clock_mono_us();

    return r->began != 0 && now > r->began ? (uint64_t)(now - r->began) / 1000 : 0;
}

/* Under the mutex. */
static void look(struct engine *e, struct reshard_info *info)
{
    struct reshard *r = &e->reshard;
    struct move_info now = {0};
    struct moves_info turns;

    *info = r->past;
    info->state = r->state;
    info->wanted = reshard_to_be(r, sharers(e));
    info->shards = e->shard_count;
    info->active = sharers(e);
    if (r->move != NULL) {
        move_info(r->move, &now);
    }
    if (r->move == NULL || r->finishes) {
        now.slots = r->left.slots;
        now.items_all = r->left.items;
        now.bytes_all = r->left.bytes;
    }
    info->slots = info->slots_done + now.slots;
    info->items_all = info->items + now.items_all;
    info->bytes_all = info->bytes + now.bytes_all;
    add_figures(info, &now);
    if (!is_over(r->state)) {
        info->ms = elapsed_ms(r);
    }
    moves_info(&e->moves, &turns);
    if (r->state == RESHARD_MOVES && turns.moves_waiting != 0) {
        info->state = RESHARD_WAITS;
    }
}

/* Call on_change if the state or the wanted number has changed. Under the mutex. */
static void reshard_tell(struct engine *e)
{
    struct reshard *r = &e->reshard;
    struct reshard_info info;

    if (r->on_change == NULL || (r->state == r->told && r->serial == r->told_serial) ||
        (is_over(r->state) && is_over(r->told))) {
        return;
    }
    r->told = r->state;
    r->told_serial = r->serial;
    look(e, &info);
    info.state = r->state; /* not RESHARD_WAITS: a walk that holds up the move ends soon */
    r->on_change(r->on_change_arg, &info);
}

/* ---- the mover's job --------------------------------------------------------------------- */

/* Note the slots, items and bytes that are left after a move. Under the mutex. */
static void note_left(struct reshard *r, const struct move_info *one)
{
    const uint64_t items = one->items + one->expired + one->evicted;
    struct reshard_left all = {one->slots, one->items_all, one->bytes_all};

    if (r->finishes) {
        all = r->left;
    } else if (one->state == MOVE_DONE) {
        all = (struct reshard_left){0};
    }
    r->left = (struct reshard_left){
        .slots = all.slots > one->slots_done ? all.slots - one->slots_done : 0,
        .items = all.items > items ? all.items - items : 0,
        .bytes = all.bytes > one->bytes ? all.bytes - one->bytes : 0,
    };
}

/* Does a plan move anything? */
static bool has_work(const struct engine *e, const struct move_plan *plan)
{
    bool has_any = false;

    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        has_any |= router_read(&e->router)->slot[i].from != plan->to[i];
    }
    rcu_end();
    return has_any;
}

/* struct move_config: no walk is under way any more. */
static void on_begin(void *arg)
{
    struct engine *e = arg;
    struct reshard *r = &e->reshard;

    pthread_mutex_lock(&r->mutex);
    r->state = RESHARD_MOVES;
    if (!r->is_cancelled) {
        reshard_tell(e);
    }
    pthread_mutex_unlock(&r->mutex);
}

/* Carry out a plan for the wanted number, or complete unfinished moves. Under the mutex. */
static enum mf_err move_once(struct engine *e, bool finishes)
{
    struct reshard *r = &e->reshard;
    struct move_plan plan;
    struct move_config cfg = {.plan = &plan, .cpu_pct = r->cpu_pct, .finishes = finishes};
    struct move_info info;
    struct moves_info turns;
    struct move *m;

    move_plan_even(&plan, e, wanted(e));
    if (!finishes && has_work(e, &plan)) {
        cfg.on_begin = on_begin;
        cfg.arg = e;
    }
    enum mf_err err = move_make(&m, e, &cfg);
    if (err != MF_OK) {
        return err;
    }
    r->move = m;
    r->finishes = finishes;
    moves_info(&e->moves, &turns);
    if (cfg.on_begin != NULL && turns.walks != 0) {
        r->state = RESHARD_WAITS;
        reshard_tell(e);
    } else {
        r->state = RESHARD_MOVES;
    }
    pthread_mutex_unlock(&r->mutex);
    err = move_run(m);
    pthread_mutex_lock(&r->mutex);
    move_info(m, &info);
    add_figures(&r->past, &info);
    note_left(r, &info);
    r->move = NULL;
    move_free(&m);
    return err;
}

/* What a try may depend on. */
struct room {
    uint64_t serial, limit;
    int64_t left;
    bool is_cancelled;
};

/* Under the mutex. */
static struct room look_at_room(const struct engine *e)
{
    return (struct room){.serial = e->reshard.serial,
                         .limit = (uint64_t)budget_limit(&e->budget),
                         .left = budget_left(&e->budget),
                         .is_cancelled = e->reshard.is_cancelled};
}

/* Under the mutex. */
static bool may_try_again(const struct engine *e, const struct room *was)
{
    const struct room is = look_at_room(e);

    return e->reshard.is_stopping || is.is_cancelled != was->is_cancelled ||
           is.serial != was->serial || is.limit != was->limit ||
           is.left >= was->left + ((int64_t)ROOM_SEGMENTS << e->group.shape.shift);
}

/* There was no room: wait until there may be, or for some seconds. Under the mutex. */
static void wait_for_room(struct engine *e)
{
    struct reshard *r = &e->reshard;
    const struct room was = look_at_room(e);

    r->state = RESHARD_NO_ROOM;
    r->past.waits++;
    reshard_tell(e);
    for (unsigned i = 0; i < ROOM_RETRY_MS / ROOM_LOOK_MS && !may_try_again(e, &was); i++) {
        const struct timespec until = cond_after(ROOM_LOOK_MS);

        (void)pthread_cond_timedwait(&r->changed, &r->mutex, &until);
    }
}

/* Number of shards, counted from the first, that together have all slots. */
static uint32_t shards_with_slots(const struct engine *e)
{
    uint32_t shards = 0;

    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        const struct route_slot *rs = &router_read(&e->router)->slot[i];
        const uint32_t last = rs->from > rs->to ? rs->from : rs->to;

        shards = last >= shards ? last + 1 : shards;
    }
    rcu_end();
    return shards;
}

/* Has anything changed since the mover read these? Under the mutex. */
static bool is_other(const struct reshard *r, uint64_t serial, bool finishes)
{
    return r->serial != serial || r->is_cancelled != finishes || r->is_stopping;
}

/*
 * Take shards without slots out of the sharing of the limit, and release their memory. Under
 * the mutex, which is released while a shard waits for grace periods, so that callers with
 * another number or a query do not wait. Only this thread moves slots, so none of these shards
 * gets a slot meanwhile.
 */
static void leave_idle(struct engine *e)
{
    struct reshard *r = &e->reshard;
    const uint64_t serial = r->serial;
    const bool finishes = r->is_cancelled;
    const uint32_t shards = shards_with_slots(e);

    if (shards != sharers(e)) {
        engine_share_among(e, shards);
    }
    for (uint32_t i = shards; i < e->shard_count && !is_other(r, serial, finishes); i++) {
        pthread_mutex_unlock(&r->mutex);
        shard_give_all_back(e->shards[i]);
        pthread_mutex_lock(&e->flush_lock);
        shard_flush_forget(e->shards[i]);
        pthread_mutex_unlock(&e->flush_lock);
        pthread_mutex_lock(&r->mutex);
    }
}

static void run_reshard(void *arg)
{
    struct engine *e = arg;
    struct reshard *r = &e->reshard;

    pthread_mutex_lock(&r->mutex);
    while (r->is_running && !r->is_stopping) {
        const uint64_t serial = r->serial;
        const bool finishes = r->is_cancelled;
        enum mf_err err = move_once(e, finishes);

        if (is_other(r, serial, finishes)) {
            continue;
        }
        if (err != MF_OK) {
            wait_for_room(e);
            continue;
        }
        leave_idle(e);
        if (is_other(r, serial, finishes)) {
            continue;
        }
        if (finishes) {
            atomic_store_explicit(&r->wanted, sharers(e), memory_order_relaxed);
        }
        r->state = finishes ? RESHARD_CANCELLED : RESHARD_IDLE;
        r->past.ms = elapsed_ms(r);
        r->is_running = false;
        reshard_tell(e);
    }
    r->is_running = false;
    pthread_mutex_unlock(&r->mutex);
}

/* ---- called by other threads ------------------------------------------------------------- */

/* Add the missing shards; they share the limit. Under the mutex. */
static enum mf_err add_missing(struct engine *e, uint32_t shards)
{
    const enum mf_err err = engine_add_shards(e, shards);

    if (err == MF_OK && shards > sharers(e)) {
        engine_share_among(e, shards);
    }
    return err;
}

/* Note what is wanted, if the limit bears it. */
static bool want(struct engine *e, uint32_t shards)
{
    pthread_mutex_lock(&e->flush_lock); /* the limit stays as it is */
    bool is_borne = engine_bears(e, shards, (uint64_t)budget_limit(&e->budget));
    if (is_borne) {
        atomic_store_explicit(&e->reshard.wanted, shards, memory_order_relaxed);
    }
    pthread_mutex_unlock(&e->flush_lock);
    return is_borne;
}

/* Make the mover work for the wanted number; before: the previous one. Under the mutex. */
static enum mf_err start_or_replace(struct engine *e, uint32_t before)
{
    struct reshard *r = &e->reshard;

    if (r->is_running && !r->is_cancelled && wanted(e) == before) {
        return MF_OK; /* the mover already works for this number */
    }
    r->serial++;
    r->is_cancelled = false;
    if (r->is_running) {
        if (r->move != NULL) {
            move_cancel(r->move);
        }
        pthread_cond_broadcast(&r->changed);
        return MF_OK;
    }
    if (r->ticket != 0) {
        standby_wait(&e->mover, r->ticket); /* its last job no longer takes the mutex */
    }
    r->is_running = true;
    r->past = (struct reshard_info){0};
    r->left = (struct reshard_left){0};
    r->began = clock_mono_us();
    r->state = RESHARD_MOVES;
    r->ticket = standby_run(&e->mover, run_reshard, e);
    if (r->ticket == 0) {
        r->is_running = false;
        r->state = RESHARD_IDLE;
        return MF_EBUSY;
    }
    return MF_OK;
}

/* Take another number as wanted and start towards it. Under the mutex. */
static enum mf_err set_shards(struct engine *e, uint32_t shards, uint32_t cpu_pct)
{
    const uint32_t before = wanted(e);
    const uint32_t shared = sharers(e);

    if (!want(e, shards)) {
        return MF_EINVAL;
    }
    e->reshard.cpu_pct = cpu_pct;
    enum mf_err err = add_missing(e, shards);
    if (err == MF_OK) {
        err = start_or_replace(e, before);
    }
    if (err == MF_OK) {
        return MF_OK;
    }
    atomic_store_explicit(&e->reshard.wanted, before, memory_order_relaxed);
    if (sharers(e) != shared) {
        engine_share_among(e, shared); /* added shards stay, for a later call */
    }
    return err;
}

enum mf_err engine_set_shards(struct engine *e, uint32_t shards, uint32_t cpu_pct)
{
    struct reshard *r = &e->reshard;

    must_not_be_reading();
    if (shards == 0 || shards > e->shard_capacity) {
        return MF_EINVAL;
    }
    pthread_mutex_lock(&r->mutex);
    enum mf_err err = set_shards(e, shards, cpu_pct);
    pthread_mutex_unlock(&r->mutex);
    return err;
}

void engine_set_move_cpu_pct(struct engine *e, uint32_t cpu_pct)
{
    struct reshard *r = &e->reshard;

    pthread_mutex_lock(&r->mutex);
    r->cpu_pct = cpu_pct;
    if (r->move != NULL) {
        move_set_cpu_pct(r->move, cpu_pct);
    }
    pthread_mutex_unlock(&r->mutex);
}

bool engine_cancel_shards(struct engine *e)
{
    struct reshard *r = &e->reshard;
    bool may = true;

    pthread_mutex_lock(&r->mutex);
    if (r->is_running && !r->is_cancelled) {
        /* From now on the limit is judged by the shards that stay. */
        may = want(e, sharers(e));
        r->is_cancelled = may;
        if (may && r->move != NULL) {
            move_cancel(r->move);
        }
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->mutex);
    return may;
}

void reshard_stop(struct engine *e)
{
    struct reshard *r = &e->reshard;

    must_not_be_reading();
    pthread_mutex_lock(&r->mutex);
    r->is_stopping = true;
    if (r->move != NULL) {
        move_cancel(r->move);
    }
    pthread_cond_broadcast(&r->changed);
    uint64_t ticket = r->ticket;
    pthread_mutex_unlock(&r->mutex);
    if (ticket != 0) {
        standby_wait(&e->mover, ticket);
    }
}

void engine_reshard_info(struct engine *e, struct reshard_info *info)
{
    pthread_mutex_lock(&e->reshard.mutex);
    look(e, info);
    pthread_mutex_unlock(&e->reshard.mutex);
}

void engine_tell_reshard(struct engine *e, reshard_told_fn fn, void *arg)
{
    struct reshard *r = &e->reshard;

    pthread_mutex_lock(&r->mutex);
    r->on_change = fn;
    r->on_change_arg = arg;
    pthread_mutex_unlock(&r->mutex);
}
