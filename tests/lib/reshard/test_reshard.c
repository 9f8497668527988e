/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reshard: the wanted number of shards has all items in the end, whatever it was changed to on
 * the way; what is cancelled, what waits for room or for a walk, what is refused. Shards that
 * are not wanted any more keep no memory.
 */
#include "lib/reshard/reshard.h"

#include "lib/base/cond.h"
#include "lib/engine/flush.h"
#include "lib/shard/info.h"
#include "lib/ship/walk.h"
#include "tests/lib/fixture.h"

#define KEYS 2000

static struct fixture f;

/* ---- memory that is refused -------------------------------------------------------------- */

static int refuse_after = -1; /* shards granted before one is refused; -1: none is */

/* NOLINTBEGIN(bugprone-reserved-identifier) */
void *__real_mem_alloc_pages(size_t n);
void *__wrap_mem_alloc_pages(size_t n);

void *__wrap_mem_alloc_pages(size_t n)
{
    if (n == sizeof(struct shard) && refuse_after >= 0 && refuse_after-- == 0) {
        return NULL;
    }
    return __real_mem_alloc_pages(n);
}

/* ---- time -------------------------------------------------------------------------------- */

static _Atomic bool is_hasty; /* waits end at once */

int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                  const struct timespec *at);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                  const struct timespec *at);

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                  const struct timespec *at)
{
    const struct timespec soon = cond_after(1);

    return __real_pthread_cond_timedwait(c, m, atomic_load(&is_hasty) ? &soon : at);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- the engine -------------------------------------------------------------------------- */

static size_t len_of(unsigned i)
{
    return i % 100 == 0 ? 20000 + i * 20 : i % 7 == 0 ? 2000 + i % 50 : i % 300;
}

static void set_all(void)
{
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, fixture_key("key-", i), len_of(i));
    }
}

static void check_all(void)
{
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_check(&f, fixture_key("key-", i), len_of(i));
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), KEYS);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    fixture_verify(&f);
}

static void start(uint32_t shards, uint64_t limit)
{
    fixture_start_sized_threaded(&f, shards, limit);
}

static void start_full(void)
{
    start(1, 64 * MIB);
    set_all();
}

static struct reshard_info info(void)
{
    struct reshard_info i;

    engine_reshard_info(&f.engine, &i);
    return i;
}

static void wait_until(enum reshard_state state)
{
    WAIT_UNTIL(info().state == state);
}

static void set_shards(uint32_t shards)
{
    ck_assert_int_eq(engine_set_shards(&f.engine, shards, 0), MF_OK);
}

/* The first `shards` shards have all slots in equal parts, and the others have none. */
static void check_shards(uint32_t shards)
{
    uint32_t has[ROUTE_SLOTS] = {0};

    ck_assert_uint_eq(info().wanted, shards);
    ck_assert_uint_eq(memory_sharers(&f.engine.shards[0]->memory), shards);
    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        const struct route_slot *rs = &router_read(&f.engine.router)->slot[i];

        ck_assert(!route_is_moving(rs));
        has[rs->from]++;
    }
    rcu_end();
    for (uint32_t i = 0; i < f.engine.shard_count; i++) {
        if (i < shards) {
            ck_assert_uint_ge(has[i], ROUTE_SLOTS / shards);
            ck_assert_uint_le(has[i], ROUTE_SLOTS / shards + 1);
        } else {
            struct shard *s = f.engine.shards[i];

            ck_assert_uint_eq(has[i], 0);
            shard_enter(s);
            ck_assert_uint_eq(s->memory.arena.held, 0);
            ck_assert_uint_eq(s->memory.arena.fresh, 1); /* it rests: shard.h */
            ck_assert_ptr_null(s->spare);
            shard_leave(s);
        }
    }
}

static void become(uint32_t shards)
{
    set_shards(shards);
    wait_until(RESHARD_IDLE);
    check_shards(shards);
}

/* Of a walk that is there to be waited for. */
static void on_item(void *arg, const struct ship_item *it)
{
}

static bool on_rest(void *arg)
{
    return true;
}

static const struct ship_ops walk_ops = {.item = on_item, .rest = on_rest};

/* ---- numbers that are refused ------------------------------------------------------------ */

TEST(a_number_that_the_limit_does_not_bear_is_refused)
{
    start(2, 4 * MIB);
    ck_assert_int_eq(engine_set_shards(&f.engine, 5, 0), MF_EINVAL);
    ck_assert_int_eq(engine_set_shards(&f.engine, 0, 0), MF_EINVAL);
    ck_assert_int_eq(engine_set_shards(&f.engine, ENGINE_SHARDS_MAX + 1, 0), MF_EINVAL);
    ck_assert_uint_eq(f.engine.shard_count, 2);
    ck_assert_uint_eq(info().wanted, 2);
    ck_assert_int_eq(info().state, RESHARD_IDLE);
    become(4);
}

/* Nor may it become one that they do not bear, before they are there. */
TEST(the_limit_suits_those_that_are_wanted)
{
    start_full();
    uint64_t each = engine_range(&f.engine);
    become(4);
    ck_assert_uint_eq(engine_range(&f.engine), 4 * each);
    ck_assert_int_eq(engine_set_shards(&f.engine, 1, 1), MF_OK);
    ck_assert(!engine_set_limit(&f.engine, each + MIB));
    engine_set_move_cpu_pct(&f.engine, 100);
    wait_until(RESHARD_IDLE);
    ck_assert(!engine_set_limit(&f.engine, each + MIB));
    become(2);
    ck_assert(engine_set_limit(&f.engine, each + MIB));
    ck_assert_int_eq(engine_set_shards(&f.engine, 1, 0), MF_EINVAL);
    ck_assert(engine_set_limit(&f.engine, 64 * MIB));
    check_all();
}

TEST(without_memory_the_number_stays)
{
    start_full();
    become(2);
    refuse_after = 2;
    ck_assert_int_eq(engine_set_shards(&f.engine, 8, 0), MF_ENOMEM);
    refuse_after = -1;
    ck_assert_uint_eq(f.engine.shard_count, 4); /* those that were made stay */
    ck_assert_int_eq(info().state, RESHARD_IDLE);
    check_shards(2);
    check_all();
    become(8);
    check_all();
}

TEST(a_plan_of_somebody_else_comes_first)
{
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan};
    struct move *m;
    struct walk w;

    start(2, 64 * MIB);
    set_all();
    move_plan_even(&plan, &f.engine, 1);
    ck_assert(walk_begin(&w, &f.engine, &walk_ops, NULL, NULL));
    ck_assert_int_eq(move_start(&m, &f.engine, &cfg), MF_OK); /* waits for the walk */
    ck_assert_int_eq(engine_set_shards(&f.engine, 4, 0), MF_EBUSY);
    ck_assert_uint_eq(info().wanted, 2);
    ck_assert_uint_eq(memory_sharers(&f.engine.shards[0]->memory), 2);
    move_cancel(m);
    ck_assert_int_eq(move_end(&m), MF_OK);
    walk_end(&w);
    become(4);
    check_all();
}

/* ---- no room ----------------------------------------------------------------------------- */

#define LARGE (10 * MIB)

/* A key that goes to the second of two shards. */
static const char *moving_key(void)
{
    unsigned i = 0;

    while (fixture_hash(&f, fixture_key("large-", i)) >> 63 == 0) {
        i++;
    }
    return fixture_key("large-", i);
}

/* Without evictions: a value that is there twice while it moves needs more than there is. */
static void start_without_room(char *key, size_t size)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.limit_bytes = 16 * MIB;
    cfg.item_size_max = 12 * MIB;
    fixture_start_threaded(&f, &cfg);
    fixture_policy(CHOICE_NOEVICTION);
    (void)snprintf(key, size, "%s", moving_key());
    fixture_set(&f, key, LARGE);
    set_shards(2);
    wait_until(RESHARD_NO_ROOM);
    ck_assert_uint_eq(info().waits, 1);
    ck_assert_uint_eq(info().slots_done, ROUTE_SLOTS / 2 - 1); /* only its slot waits */
    fixture_check(&f, key, LARGE);
}

TEST(it_goes_on_when_the_limit_is_raised)
{
    char key[32];

    start_without_room(key, sizeof(key));
    ck_assert(engine_set_limit(&f.engine, 32 * MIB));
    wait_until(RESHARD_IDLE);
    check_shards(2);
    ck_assert_uint_eq(info().items, 1);
    ck_assert_uint_eq(info().slots_done, ROUTE_SLOTS / 2);
    fixture_check(&f, key, LARGE);
}

TEST(it_goes_on_when_there_is_less)
{
    char key[32];

    start_without_room(key, sizeof(key));
    ck_assert_int_eq(fixture_delete(&f, key), OUT_DELETED);
    atomic_store(&is_hasty, true);
    wait_until(RESHARD_IDLE);
    atomic_store(&is_hasty, false);
    check_shards(2);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
}

/* Slots that are on their way, and the shard in which this one is. */
static unsigned moving_slots(unsigned slot, uint16_t *from)
{
    unsigned n = 0;

    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        n += route_is_moving(&router_read(&f.engine.router)->slot[i]);
    }
    *from = router_read(&f.engine.router)->slot[slot].from;
    rcu_end();
    return n;
}

/* Items of other slots arrive, also where they shall be by another number. */
TEST(others_do_not_wait_for_a_large_value)
{
    char key[32];
    uint16_t from;

    start_without_room(key, sizeof(key));
    unsigned slot = route_slot_number(fixture_hash(&f, key));
    ck_assert_uint_eq(moving_slots(slot, &from), 1);
    ck_assert_uint_eq(from, 0);
    for (unsigned i = 0; i < 200; i++) {
        fixture_set(&f, fixture_key("key-", i), len_of(i) % 3000);
    }
    for (uint32_t shards = 3; shards > 0; shards--) {
        uint64_t waits = info().waits;

        set_shards(shards);
        WAIT_UNTIL(info().state == RESHARD_NO_ROOM && info().waits != waits);
        ck_assert_uint_eq(moving_slots(slot, &from), 1);
        ck_assert_uint_eq(from, 0);
        fixture_check(&f, key, LARGE);
    }
    ck_assert_int_eq(fixture_delete(&f, key), OUT_DELETED);
    ck_assert(engine_set_limit(&f.engine, 17 * MIB)); /* so that it tries at once */
    wait_until(RESHARD_IDLE);
    check_shards(1);
    for (unsigned i = 0; i < 200; i++) {
        fixture_check(&f, fixture_key("key-", i), len_of(i) % 3000);
    }
}

/* Another number has it go on, and a stop end. */
TEST_LOOP(it_waits_no_longer_than_it_is_wanted, 2)
{
    char key[32];

    start_without_room(key, sizeof(key));
    if (_i == 0) {
        set_shards(1);
        wait_until(RESHARD_NO_ROOM);
        engine_cancel_shards(&f.engine);
        WAIT_UNTIL(info().waits >= 2);
    }
    fixture_check(&f, key, LARGE);
    reshard_stop(&f.engine);
    fixture_check(&f, key, LARGE);
}

/* ---- while it runs ----------------------------------------------------------------------- */

TEST_FIXTURE(start_full, NULL)

TEST(items_follow_the_number_of_shards)
{
    static const uint32_t wanted[] = {4, 2, 7, 1, 3, 3, 8};
    const uint64_t total = fixture_counter(&f, CTR_total_items);
    uint32_t most = 1;

    for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        become(wanted[i]);
        most = wanted[i] > most ? wanted[i] : most;
        ck_assert_uint_eq(f.engine.shard_count, most);
        check_all();
        ck_assert_uint_eq(fixture_counter(&f, CTR_total_items), total);
    }
}

TEST(figures_tell_what_was_moved)
{
    become(2);
    struct reshard_info i = info();
    ck_assert_uint_eq(i.shards, 2);
    ck_assert_uint_eq(i.slots, ROUTE_SLOTS / 2);
    ck_assert_uint_eq(i.slots_done, ROUTE_SLOTS / 2);
    ck_assert_uint_gt(i.items, KEYS / 3);
    ck_assert_uint_lt(i.items, KEYS * 2 / 3);
    ck_assert_uint_gt(i.bytes, i.items * 8);
    ck_assert_uint_eq(i.evicted, 0);
    ck_assert_uint_eq(i.waits, 0);
    become(2);
    ck_assert_uint_eq(info().slots, 0);
}

TEST(the_newest_number_counts)
{
    static const uint32_t wanted[] = {6, 2, 5, 1, 8, 3};

    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 6; i++) {
            set_shards(wanted[i]);
        }
        wait_until(RESHARD_IDLE);
        check_shards(3);
        become(1 + round % 4);
    }
    check_all();
}

static void wait_for_items(uint64_t items)
{
    WAIT_UNTIL(info().items >= items || info().state == RESHARD_IDLE);
}

TEST(what_is_cancelled_is_in_one_shard)
{
    struct reshard_info i;

    become(4);
    ck_assert_int_eq(engine_set_shards(&f.engine, 1, 1), MF_OK);
    wait_for_items(50);
    engine_set_move_cpu_pct(&f.engine, 100);
    engine_cancel_shards(&f.engine);
    do {
        i = info();
    } while (i.state != RESHARD_CANCELLED && i.state != RESHARD_IDLE);
    rcu_begin();
    for (uint32_t k = 0; k < ROUTE_SLOTS; k++) {
        ck_assert(!route_is_moving(&router_read(&f.engine.router)->slot[k]));
    }
    rcu_end();
    ck_assert_uint_gt(i.items, 0);
    ck_assert_uint_eq(i.wanted, memory_sharers(&f.engine.shards[0]->memory));
    check_all();
    ck_assert(engine_cancel_shards(&f.engine)); /* of nothing */
    become(2);
    check_all();
}

/* The limit is judged by the shards that there are as soon as a move is cancelled. */
TEST(a_move_that_the_limit_needs_is_not_cancelled)
{
    const uint64_t limit = (uint64_t)budget_limit(&f.engine.budget);
    uint32_t least;
    uint32_t most;

    engine_shard_bounds(&f.engine, limit / 2, &least, &most);
    become(most + 1);
    ck_assert_int_eq(engine_set_shards(&f.engine, 1, 1), MF_OK);
    wait_for_items(10);
    ck_assert(engine_set_limit(&f.engine, limit / 2));
    ck_assert(!engine_cancel_shards(&f.engine));
    ck_assert_uint_eq(info().wanted, 1);
    ck_assert(engine_set_limit(&f.engine, limit));
    ck_assert(engine_cancel_shards(&f.engine));
    ck_assert_uint_eq(info().wanted, most + 1);
    ck_assert(!engine_set_limit(&f.engine, limit / 2));
    engine_set_move_cpu_pct(&f.engine, 100);
    wait_until(RESHARD_CANCELLED);
    check_all();
}

TEST(it_waits_for_a_walk)
{
    struct walk w;

    ck_assert(walk_begin(&w, &f.engine, &walk_ops, NULL, NULL));
    set_shards(3);
    wait_until(RESHARD_WAITS);
    ck_assert_uint_eq(info().items, 0);
    set_shards(2);
    walk_end(&w);
    wait_until(RESHARD_IDLE);
    check_shards(2);
    check_all();
}

TEST(flushes_reach_shards_that_are_not_wanted)
{
    become(4);
    become(2);
    fixture_flush(&f, fixture_now(&f));
    check_shards(2); /* which have prepared nothing for the next one */
    set_all();
    fixture_flush(&f, fixture_now(&f) + 100);
    become(4);
    check_all();
    clock_advance(&f.engine.clock, 100);
    for (unsigned i = 0; i < KEYS; i++) {
        ck_assert(!fixture_has(&f, fixture_key("key-", i)));
    }
    set_all();
    become(1);
    check_all();
}

/* The mover ends where it is, and slots between two shards stay served. */
TEST(a_stop_does_not_wait_for_its_end)
{
    become(4);
    ck_assert_int_eq(engine_set_shards(&f.engine, 1, 1), MF_OK);
    wait_for_items(10);
    reshard_stop(&f.engine);
    check_all();
}
