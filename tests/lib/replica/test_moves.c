/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots that move to other shards at either side of replication, while a replica is sent
 * everything, while it follows, and while it applies: it has what the primary has.
 */
#include "lib/reshard/migrate.h"

#include <pthread.h>

#include "lib/engine/router.h"
#include "tests/lib/replica/pair.h"

#define KEYS 1500

static struct pair_side primary, replica;
static struct pair_bytes full;
static struct fullsync fs;
static struct rng rng;

/* A thread that moves slots back and forth. */
struct mover {
    struct pair_side *side;
    pthread_t thread;
    struct rng rng;
    _Atomic bool is_over;
    _Atomic unsigned moves;
};

static struct mover movers[2];

static void *run_mover(void *arg)
{
    struct mover *m = arg;
    struct engine *e = &m->side->f.engine;

    rcu_register();
    while (!atomic_load(&m->is_over)) {
        uint32_t first = (uint32_t)rng_below(&m->rng, ROUTE_SLOTS);
        uint32_t count = 1 + (uint32_t)rng_below(&m->rng, ROUTE_SLOTS - first);

        must(engine_move_slots(e, first, count, (uint16_t)rng_below(&m->rng, 2)) == MF_OK);
        atomic_fetch_add(&m->moves, 1);
    }
    rcu_unregister();
    return NULL;
}

static void begin_moves(struct mover *m, struct pair_side *side)
{
    m->side = side;
    rng_init(&m->rng, rng_seed());
    atomic_store(&m->is_over, false);
    atomic_store(&m->moves, 0);
    ck_assert_int_eq(pthread_create(&m->thread, NULL, run_mover, m), 0);
}

/* Once it has moved some. */
static void end_moves(struct mover *m)
{
    WAIT_UNTIL(atomic_load(&m->moves) >= 4);
    atomic_store(&m->is_over, true);
    pthread_join(m->thread, NULL);
}

static bool on_write(void *arg, const void *bytes, size_t n)
{
    ck_assert(arg == &full);
    pair_put(&full, bytes, n);
    return true;
}

static void start(void)
{
    rng_init(&rng, rng_seed());
    pair_start_primary(&primary, NULL);
    pair_start_replica(&replica, &primary);
    fs = (struct fullsync){.engine = &primary.f.engine,
                           .shipper = primary.shipper,
                           .write = on_write,
                           .write_arg = &full,
                           .to_unix_ms = PAIR_TO_UNIX};
}

static void stop(void)
{
    shipper_detach(&fs.reader);
    pair_drop_bytes(&full);
    pair_stop(&replica);
    pair_stop(&primary);
}

static void change(unsigned n)
{
    struct fixture *f = &primary.f;

    for (unsigned i = 0; i < n; i++) {
        const char *key = fixture_key("key", (unsigned)rng_below(&rng, KEYS));
        msec_t deadline = rng_below(&rng, 3) != 0
                              ? MSEC_NEVER
                              : fixture_now(f) + 100000 + (msec_t)rng_below(&rng, 500);
        uint64_t dice = rng_below(&rng, 100);

        if (dice < 15) {
            (void)fixture_delete(f, key);
        } else if (dice < 25) {
            (void)fixture_touch(f, key, deadline);
        } else {
            (void)fixture_try(f, key, rng_below(&rng, dice == 99 ? 300000 : 3000), deadline);
        }
    }
}

static void *run_sync(void *arg)
{
    enum fullsync_end *end = arg;

    rcu_register();
    *end = fullsync_run(&fs);
    rcu_unregister();
    return NULL;
}

/* Slots move at the primary while everything is sent and things are changed. */
static void sync_among_moves(void)
{
    enum fullsync_end end;
    pthread_t thread;

    change(2 * KEYS);
    fs.rate_max = 20 * MIB;
    begin_moves(&movers[0], &primary);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_sync, &end), 0);
    for (unsigned i = 0; i < 40; i++) {
        change(50);
        (void)usleep(1000);
    }
    pthread_join(thread, NULL);
    ck_assert_int_eq(end, FULLSYNC_DONE);
}

static void apply_full(void)
{
    struct backlog_name name;
    struct snap_fault fault;

    ck_assert_int_eq(applier_begin_full(replica.applier), APPLIER_OK);
    ck_assert_int_eq(applier_run_full(replica.applier, pair_read, &full, &fault), APPLIER_OK);
    backlog_get_name(primary.backlog, &name);
    name.offset = fs.offset;
    applier_end_full(replica.applier, &name);
}

static void catch_up(void)
{
    uint64_t ticket = shipper_ask(primary.shipper);
    uint64_t offset;

    while (!shipper_is_done(primary.shipper, ticket, &offset)) {
        ck_assert(pair_pull_to(&replica, fs.reader, backlog_end(primary.backlog), &rng));
    }
    ck_assert(pair_pull_to(&replica, fs.reader, offset, &rng));
}

TEST_FIXTURE(start, stop)

TEST(while_a_replica_is_sent_everything)
{
    sync_among_moves();
    end_moves(&movers[0]);
    apply_full();
    catch_up();
    ck_assert_uint_gt(pair_check(&primary, &replica), KEYS / 2);
}

TEST(while_it_follows)
{
    sync_among_moves();
    apply_full();
    for (unsigned i = 0; i < 40; i++) {
        change(50);
        catch_up();
    }
    end_moves(&movers[0]);
    catch_up();
    ck_assert_uint_gt(pair_check(&primary, &replica), KEYS / 2);
}

TEST(while_it_applies)
{
    sync_among_moves();
    begin_moves(&movers[1], &replica);
    apply_full();
    for (unsigned i = 0; i < 40; i++) {
        change(50);
        catch_up();
    }
    end_moves(&movers[0]);
    end_moves(&movers[1]);
    catch_up();
    ck_assert_uint_gt(pair_check(&primary, &replica), KEYS / 2);
}
