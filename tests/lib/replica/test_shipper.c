/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shipper: a replica that reads the backlog has what the engine has, whatever becomes of items;
 * a slow reader is dropped, and no other; the thread sleeps when there is nothing to do;
 * links that break, gaps, marks, and replicas of replicas.
 */
#include "lib/replica/shipper.h"

#include <pthread.h>
#include <sched.h>

#include "lib/base/num.h"
#include "lib/ship/feed.h"
#include "tests/lib/fixture.h"
#include "tests/lib/replica/replica.h"

#define RING_BYTES (1 * MIB)
#define TO_UNIX    1000000

static struct fixture f;
static struct backlog *backlog;
static struct shipper *shipper;
static struct replica replica;

/* Where the shipper stops, in on_more(), until it is let go. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t told;

static void on_more(void *arg)
{
    ck_assert(arg == &f);
    atomic_fetch_add(&told, 1);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static void start(void)
{
    const struct shipper_config cfg = {
        .engine = &f.engine, .backlog = NULL, .on_more = on_more, .arg = &f};
    struct shipper_config with = cfg;
    struct engine_config engine;

    fixture_config(&engine);
    engine.shards = 2;
    engine.ring_bytes = RING_BYTES;
    engine.limit_bytes = 64 * MIB;
    engine.item_size_max = 16 * MIB;
    fixture_start_threaded(&f, &engine);
    backlog = backlog_create(&f.engine.budget);
    ck_assert(backlog_reserve(backlog, SHIPPER_BACKLOG_MIN));
    with.backlog = backlog;
    ck_assert_int_eq(shipper_start(&shipper, &with), MF_OK);
    replica_init(&replica);
}

static void stop(void)
{
    replica_fini(&replica);
    shipper_stop(&shipper);
    ck_assert_ptr_null(shipper);
    ck_assert_ptr_null(f.shard->changes);
    backlog_destroy(&backlog);
    fixture_stop(&f);
}

static void begin(bool continues)
{
    const struct shipper_role role = {.to_unix_ms = TO_UNIX, .continues = continues};

    ck_assert_int_eq(shipper_begin(shipper, &role), MF_OK);
}

/* A replica of an engine that is empty yet. */
static void attach(struct replica *r)
{
    struct backlog_name name;

    backlog_get_name(backlog, &name);
    r->id = name.id;
    r->offset = name.offset;
    ck_assert_int_eq(replica_attach(r, shipper), BACKLOG_CONTINUES);
}

static void start_replica(void)
{
    start();
    begin(true);
    attach(&replica);
}

static struct shipper_info info_now(void)
{
    struct shipper_info info;

    shipper_info(shipper, &info);
    return info;
}

/* Everything that was changed before the call has come. */
static void pull_all(struct replica *r)
{
    uint64_t ticket = shipper_ask(shipper);
    struct shipper_level level;
    uint64_t offset;

    while (!shipper_is_done(shipper, ticket, &offset)) {
        (void)sched_yield();
        ck_assert(replica_pull(r));
    }
    ck_assert(replica_pull_to(r, offset));
    ck_assert(shipper_level(shipper, &level));
    ck_assert(replica_pull_to(r, level.offset));
    replica_expire(r, &level);
}

static void check_equal(struct replica *r, uint64_t items)
{
    ck_assert_uint_eq(replica_check(r, &f.engine, TO_UNIX), items);
}

TEST_FIXTURE(start_replica, stop)

/* ---- what comes -------------------------------------------------------------------------- */

TEST(changes_come_as_they_are_by_then)
{
    fixture_set(&f, "a", 10);
    fixture_set_until(&f, "b", 20, fixture_now(&f) + 5000);
    pull_all(&replica);
    check_equal(&replica, 2);
    ck_assert_int_eq(fixture_touch(&f, "a", fixture_now(&f) + 1000), OUT_TOUCHED);
    ck_assert_int_eq(fixture_delete(&f, "b"), OUT_DELETED);
    pull_all(&replica);
    check_equal(&replica, 1);
    ck_assert_uint_eq(replica.gone, 1);
    /* The wall clock moves no deadline. */
    clock_step_wall(&f.engine.clock, 3600000);
    fixture_set_until(&f, "c", 20, fixture_now(&f) + 7000);
    pull_all(&replica);
    check_equal(&replica, 2);
    clock_step_wall(&f.engine.clock, -3600000);
    fixture_set(&f, "large", 5 * MIB);
    fixture_set(&f, "empty", 0);
    pull_all(&replica);
    check_equal(&replica, 4);
    ck_assert_uint_ge(replica.parts, 20);
    ck_assert_uint_eq(info_now().left_out, 0);
}

/* Without a word about each in the stream. */
TEST(what_expires_goes)
{
    struct shipper_level level;

    for (unsigned i = 0; i < 100; i++) {
        fixture_set_until(&f, fixture_key("k", i), 100, fixture_now(&f) + 10 + i);
    }
    pull_all(&replica);
    check_equal(&replica, 100);
    uint64_t end = replica.offset;
    clock_advance(&f.engine.clock, 60);
    pull_all(&replica); /* due, and not gone yet */
    ck_assert(shipper_level(shipper, &level));
    ck_assert_int_lt(level.due_gone, fixture_now(&f) - 49 + TO_UNIX);
    check_equal(&replica, 49);
    ck_assert_uint_eq(replica.count, 100);
    fixture_expire(&f);
    pull_all(&replica);
    ck_assert(shipper_level(shipper, &level));
    ck_assert_int_eq(level.due_gone, fixture_now(&f) + TO_UNIX);
    check_equal(&replica, 49);
    ck_assert_uint_eq(replica.count, 49);
    ck_assert_uint_eq(replica.offset, end);
    ck_assert_uint_eq(replica.gone, 0);
}

TEST(a_flush_comes_once_and_in_its_place)
{
    fixture_set(&f, "a", 10);
    fixture_flush(&f, fixture_now(&f));
    fixture_set(&f, "b", 10);
    pull_all(&replica);
    check_equal(&replica, 1);
    ck_assert_uint_eq(replica.flushes, 1);
    fixture_flush(&f, fixture_now(&f) + 100);
    pull_all(&replica);
    ck_assert_uint_eq(replica.later, 1);
    ck_assert_int_eq(replica.later_at, fixture_now(&f) + 100 + TO_UNIX);
    check_equal(&replica, 1);
    clock_advance(&f.engine.clock, 100);
    fixture_set(&f, "c", 10);
    pull_all(&replica);
    check_equal(&replica, 1);
    ck_assert_uint_eq(replica.flushes, 2);
}

TEST(a_flush_of_a_prefix_comes_once_and_in_its_place)
{
    fixture_set(&f, "pa", 10);
    fixture_set(&f, "pb", 300000);
    fixture_set(&f, "qa", 10);
    fixture_flush_prefix(&f, "p");
    fixture_set(&f, "pc", 10);
    pull_all(&replica);
    check_equal(&replica, 2);
    ck_assert_uint_eq(replica.prefixes, 1);
    fixture_settle(&f);
    pull_all(&replica);
    check_equal(&replica, 2);
}

/* One random thing that a client, the clock, or the memory does. */
static void do_something(struct rng *rng)
{
    const char *key = fixture_key("key", (unsigned)rng_below(rng, 2000));
    msec_t deadline =
        rng_below(rng, 3) != 0 ? MSEC_NEVER : fixture_now(&f) + 1 + (msec_t)rng_below(rng, 500);
    uint64_t dice = rng_below(rng, 2000);

    if (dice < 1) {
        fixture_flush(&f, fixture_now(&f) + (msec_t)rng_below(rng, 2) * 50);
    } else if (dice < 4) {
        fixture_flush_prefix(&f, fixture_key("key", (unsigned)rng_below(rng, 200)));
        fixture_settle(&f);
    } else if (dice < 20) {
        (void)fixture_try(&f, key, rng_below(rng, MIB), deadline);
    } else if (dice < 40) {
        clock_advance(&f.engine.clock, 1 + (msec_t)rng_below(rng, 20));
        fixture_expire(&f);
    } else if (dice < 300) {
        (void)fixture_delete(&f, key);
    } else if (dice < 500) {
        (void)fixture_touch(&f, key, deadline);
    } else if (dice < 520) {
        struct erase stale = {.marks_stale = true};

        (void)fixture_erase(&f, key, &stale);
    } else {
        (void)fixture_try(&f, key, rng_below(rng, 20000), deadline);
    }
}

TEST(at_rest_the_replica_has_what_the_engine_has)
{
    struct rng rng;
    uint64_t items = 0;

    rng_init(&rng, rng_seed());
    ck_assert(engine_set_limit(&f.engine, 16 * MIB));
    for (unsigned i = 0; i < 12000; i++) {
        do_something(&rng);
        if (i % 16 == 0) {
            ck_assert(replica_pull(&replica));
        }
        if (i % 100 == 99) {
            pull_all(&replica); /* or too many values are replaced before they are shipped */
        }
        if (i % 3000 == 2999) {
            items += replica_check(&replica, &f.engine, TO_UNIX);
        }
    }
    ck_assert_uint_gt(items, 1000);
    ck_assert_uint_gt(fixture_counter(&f, CTR_evictions), 0);
    ck_assert_uint_gt(replica.flushes, 0);
    ck_assert_uint_gt(replica.prefixes, 0);
    ck_assert_uint_gt(replica.parts, 100);
    ck_assert_uint_eq(info_now().gaps, 0);
    ck_assert_uint_eq(info_now().bytes, backlog_end(backlog));
    ck_assert_uint_eq(info_now().blocks, replica.block_count);
}

/* As links break, at any byte: it goes on after the last block that it has applied. */
TEST(a_link_that_breaks_goes_on)
{
    struct rng rng;
    unsigned within = 0;

    rng_init(&rng, rng_seed());
    replica.acks = true;
    shipper_ack(replica.reader, replica.offset);
    for (unsigned i = 0; i < 300; i++) {
        fixture_set(&f, fixture_key("key", i % 40), 1 + rng_below(&rng, 300));
        if (i % 10 == 0) {
            fixture_set(&f, fixture_key("large", i % 7), MIB + rng_below(&rng, MIB));
        }
        for (uint64_t left = rng_below(&rng, 2 * MIB); left != 0;) {
            char *to = replica.room + replica.have;
            size_t n = left < REPLICA_ROOM - replica.have ? left : REPLICA_ROOM - replica.have;
            ptrdiff_t got = shipper_read(replica.reader, to, n);

            ck_assert_int_ge(got, 0);
            replica.have += (size_t)got;
            left = got == 0 ? 0 : left - (uint64_t)got;
            while (replica_step(&replica)) {
            }
            shipper_ack(replica.reader, replica.offset);
        }
        within += replica.open != NULL;
        shipper_detach(&replica.reader);
        ck_assert_ptr_null(replica.reader);
        ck_assert_int_eq(replica_attach(&replica, shipper), BACKLOG_CONTINUES);
    }
    ck_assert_uint_gt(within, 0);
    pull_all(&replica);
    check_equal(&replica, 47);
    ck_assert_uint_eq(replica.cuts, 0);
}

TEST(a_value_may_be_larger_than_the_backlog)
{
    pull_all(&replica);
    uint64_t before = atomic_load(&told);
    fixture_set(&f, "large", 3 * SHIPPER_BACKLOG_MIN);
    WAIT_UNTIL(info_now().waits != 0);
    ck_assert_uint_gt(atomic_load(&told), before + 1); /* of what has come, before it waits */
    replica.read_at_most = 10000;
    pull_all(&replica);
    check_equal(&replica, 1);
    ck_assert_uint_eq(info_now().dropped, 0);
}

/* ---- sleep ------------------------------------------------------------------------------- */

/* Without readers the thread does not even notice changes; a key is looked up once for all. */
TEST(while_nobody_is_online_the_thread_sleeps)
{
    struct shipper_info before;

    pull_all(&replica);
    shipper_detach(&replica.reader);
    for (unsigned i = 0; i < 1000; i++) { /* until it sleeps */
        before = info_now();
        (void)usleep(3000);
        if (info_now().wakeups == before.wakeups) {
            break;
        }
    }
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, "hot", i % 100);
    }
    (void)usleep(20000);
    ck_assert_uint_eq(info_now().wakeups, before.wakeups);
    ck_assert_uint_eq(info_now().read, before.read);
    ck_assert_uint_gt(info_now().lag_bytes, 3000 * 16);
    ck_assert_int_eq(replica_attach(&replica, shipper), BACKLOG_CONTINUES);
    pull_all(&replica);
    check_equal(&replica, 1);
    ck_assert_uint_eq(info_now().read - before.read, 3000);
    ck_assert_uint_eq(info_now().shipped - before.shipped, 1);
    ck_assert_uint_eq(info_now().lag_bytes, 0);
}

TEST(while_nothing_changes_the_thread_sleeps)
{
    bool is_asleep = false;
    struct shipper_info before;

    fixture_set(&f, "a", 10);
    for (unsigned i = 0; i < 1000 && !is_asleep; i++) {
        before = info_now();
        (void)usleep(30000);
        is_asleep = info_now().wakeups == before.wakeups;
    }
    ck_assert(is_asleep);
    /* A change wakes it in any case. */
    fixture_set(&f, "b", 10);
    while (replica.count < 2) {
        (void)sched_yield();
        ck_assert(replica_pull(&replica));
    }
    ck_assert_uint_gt(atomic_load(&told), 0);
}

/* ---- readers ----------------------------------------------------------------------------- */

static void check_dropped(struct replica *r, enum shipper_drop_reason reason)
{
    struct shipper_drop why;
    char byte;

    ck_assert_int_eq(shipper_read(r->reader, &byte, 1), -1);
    ck_assert(shipper_is_dropped(r->reader, &why));
    ck_assert_int_eq(why.reason, reason);
    ck_assert_uint_le(why.offset, why.end);
}

/* One of two reads nothing: the other gets all, once the rings have no room for more. */
TEST(who_is_too_slow_is_dropped)
{
    struct replica slow;
    struct shipper_drop why;
    unsigned i = 0;

    replica_init(&slow);
    attach(&slow);
    ck_assert_uint_eq(info_now().readers, 2);
    while (!shipper_is_dropped(slow.reader, NULL)) {
        fixture_set(&f, fixture_key("key", i++ % 30000), 100);
        if (i % 64 == 0) {
            ck_assert(replica_pull(&replica));
            /* If its thread gets no CPU the rings would overflow, and both would be dropped. */
            WAIT_UNTIL(info_now().lag_bytes < RING_BYTES / 8 * 7 ||
                       shipper_is_dropped(slow.reader, NULL));
        }
        ck_assert_uint_lt(i, 1000000);
    }
    ck_assert_uint_gt(i, SHIPPER_BACKLOG_MIN / 200);
    pull_all(&replica);
    check_equal(&replica, i < 30000 ? i : 30000);
    check_dropped(&slow, SHIPPER_TOO_SLOW);
    ck_assert(shipper_is_dropped(slow.reader, &why));
    ck_assert_uint_eq(why.reader_rate, 0);
    ck_assert_uint_gt(why.change_rate, 0);
    ck_assert_uint_le(why.end - why.offset, SHIPPER_BACKLOG_MIN);
    ck_assert_uint_eq(info_now().dropped, 1);
    ck_assert_uint_eq(info_now().readers, 1);
    ck_assert_uint_eq(info_now().slowest, replica.offset);
    ck_assert_uint_gt(info_now().waits, 0);
    ck_assert_uint_eq(info_now().gaps, 0);
    replica_fini(&slow);
}

/* The shipper never overwrites what somebody has yet to read, or to acknowledge. */
TEST_LOOP(who_reads_slowly_is_waited_for, 2)
{
    char byte[64];
    uint64_t offset = shipper_offset(replica.reader);
    uint64_t begin = offset;
    bool acks = _i == 1;

    if (acks) {
        shipper_ack(replica.reader, begin);
    }
    for (unsigned i = 0; i < 16000; i++) {
        fixture_set(&f, fixture_key("key", i), 200);
    }
    WAIT_UNTIL(info_now().waits != 0);
    for (unsigned i = 0; i < 500; i++) {
        ptrdiff_t n = shipper_read(replica.reader, byte, sizeof(byte));

        ck_assert_int_ge(n, 0);
        offset += (uint64_t)n;
        ck_assert_uint_eq(shipper_offset(replica.reader), offset);
        ck_assert_uint_le(backlog_end(backlog) - (acks ? begin : offset), SHIPPER_BACKLOG_MIN);
    }
    ck_assert_uint_eq(info_now().slowest, acks ? begin : offset);
    if (!acks) {
        return;
    }
    shipper_detach(&replica.reader);
    ck_assert_int_eq(replica_attach(&replica, shipper), BACKLOG_CONTINUES);
    pull_all(&replica);
    check_equal(&replica, 16000);
}

TEST(only_so_many_may_read)
{
    struct shipper_reader *readers[SHIPPER_READERS_MAX];
    struct shipper_reader *more;
    struct replid other = replid_draw();

    for (unsigned i = 1; i < SHIPPER_READERS_MAX; i++) {
        ck_assert_int_eq(shipper_attach(shipper, &replica.id, replica.offset, &readers[i]),
                         BACKLOG_CONTINUES);
    }
    ck_assert_int_eq(shipper_attach(shipper, &replica.id, replica.offset, &more), BACKLOG_BUSY);
    ck_assert_ptr_null(more);
    shipper_detach(&readers[1]);
    ck_assert_int_eq(shipper_attach(shipper, &other, replica.offset, &more), BACKLOG_OTHER_ID);
    ck_assert_int_eq(shipper_attach(shipper, &replica.id, replica.offset + 1, &more),
                     BACKLOG_TOO_NEW);
    ck_assert_int_eq(shipper_attach(shipper, &replica.id, replica.offset, &readers[1]),
                     BACKLOG_CONTINUES);
    shipper_drop_all(shipper);
    ck_assert_uint_eq(info_now().readers, 0);
    check_dropped(&replica, SHIPPER_TOLD);
    for (unsigned i = 1; i < SHIPPER_READERS_MAX; i++) {
        ck_assert(shipper_is_dropped(readers[i], NULL));
        shipper_detach(&readers[i]);
    }
    shipper_detach(&readers[1]); /* of NULL */
}

/* ---- gaps -------------------------------------------------------------------------------- */

static void overrun_rings(void)
{
    for (unsigned i = 0; i < 3 * RING_BYTES / 16; i++) {
        fixture_set(&f, "hot", i % 8);
    }
}

TEST(changes_that_were_lost_meanwhile_are_no_partial_sync)
{
    pull_all(&replica);
    shipper_detach(&replica.reader);
    overrun_rings();
    ck_assert_int_eq(replica_attach(&replica, shipper), BACKLOG_TOO_OLD);
    ck_assert_uint_eq(info_now().gaps, 1);
    /* Nor after more of them. */
    fixture_set(&f, "a", 10);
    ck_assert_int_eq(replica_attach(&replica, shipper), BACKLOG_TOO_OLD);
    ck_assert_uint_eq(info_now().gaps, 1);
    replica.offset = backlog_end(backlog);
    ck_assert_int_eq(replica_attach(&replica, shipper), BACKLOG_CONTINUES);
    pull_all(&replica);
    ck_assert_uint_eq(replica.count, 1);
}

TEST(changes_that_were_lost_drop_who_is_online)
{
    fixture_set(&f, "a", 10);
    pull_all(&replica);
    uint64_t before = atomic_load(&told);
    pthread_mutex_lock(&gate);
    fixture_set(&f, "a", 11);
    WAIT_UNTIL(atomic_load(&told) != before);
    overrun_rings();
    pthread_mutex_unlock(&gate);
    WAIT_UNTIL(shipper_is_dropped(replica.reader, NULL));
    check_dropped(&replica, SHIPPER_GAP);
    ck_assert_uint_eq(info_now().gaps, 1);
    ck_assert_uint_eq(info_now().dropped, 0);
}

/* ---- roles ------------------------------------------------------------------------------- */

TEST_FIXTURE(start, stop)

TEST(nothing_is_recorded_before_it_begins_and_after_it_ends)
{
    const struct shipper_role role = {0};
    int64_t used = fixture_used(&f);
    uint64_t offset;

    ck_assert_ptr_null(f.shard->changes);
    ck_assert(!shipper_mark(shipper, &offset));
    ck_assert(!info_now().records);
    attach(&replica);
    begin(false);
    check_dropped(&replica, SHIPPER_GAP);
    ck_assert(info_now().records);
    ck_assert_ptr_nonnull(f.shard->changes);
    ck_assert_int_ge(fixture_used(&f) - used, (int64_t)(RING_BYTES + SNAP_ROOM_BYTES));
    shipper_detach(&replica.reader);
    ck_assert_int_eq(replica_attach(&replica, shipper), BACKLOG_TOO_OLD);
    attach(&replica);
    fixture_set(&f, "a", 10);
    ck_assert(shipper_mark(shipper, &offset));
    ck_assert(replica_pull_to(&replica, offset));
    check_equal(&replica, 1);
    shipper_end(shipper);
    ck_assert(!info_now().records);
    ck_assert_ptr_null(f.shard->changes);
    ck_assert(!shipper_mark(shipper, &offset));
    ck_assert_uint_eq(offset, backlog_end(backlog));
    ck_assert(replica_pull(&replica)); /* it stays */
    begin(true);
    fixture_set(&f, "b", 10);
    pull_all(&replica);
    check_equal(&replica, 2);
    shipper_end(shipper);
    shipper_detach(&replica.reader);
    ck_assert(backlog_reserve(backlog, SHIPPER_BACKLOG_MIN - 4096));
    ck_assert_int_eq(shipper_begin(shipper, &role), MF_EINVAL);
}

/* A primary, a replica, and a replica of that one; then the first replica is promoted. */
TEST(a_chain_has_the_same_stream)
{
    const struct replid next = replid_draw();
    const struct shipper_config cfg = {.engine = &f.engine};
    struct shipper_config with = cfg;
    struct backlog *middle = backlog_create(&f.engine.budget);
    struct shipper *second;
    struct backlog_name name;
    struct replica last;

    ck_assert(backlog_reserve(middle, SHIPPER_BACKLOG_MIN));
    with.backlog = middle;
    ck_assert_int_eq(shipper_start(&second, &with), MF_OK);
    begin(true);
    attach(&replica);
    backlog_get_name(backlog, &name);
    backlog_take_over(middle, &name);
    replica.backlog = middle;
    replica_init(&last);
    last.id = name.id;
    last.offset = name.offset;
    ck_assert_int_eq(replica_attach(&last, second), BACKLOG_CONTINUES);
    for (unsigned i = 0; i < 5000; i++) {
        fixture_set(&f, fixture_key("key", i % 100), i % 1000);
        if (i % 100 == 0) {
            ck_assert(replica_pull(&replica));
            ck_assert(replica_pull(&last));
        }
    }
    pull_all(&replica);
    ck_assert(replica_pull(&last));
    check_equal(&replica, 100);
    check_equal(&last, 100);
    ck_assert_uint_eq(last.offset, replica.offset);
    /* What was changed last does not reach the one that is promoted. */
    shipper_end(shipper);
    backlog_promote(middle, &next, 1);
    ck_assert(replica_pull(&last));
    ck_assert_uint_eq(last.ids, 1);
    ck_assert(replid_equal(&last.id, &next));
    /* A sibling continues there under the id that it knows. */
    shipper_detach(&replica.reader);
    replica.backlog = NULL;
    ck_assert_int_eq(replica_attach(&replica, second), BACKLOG_CONTINUES);
    ck_assert(replica_pull(&replica));
    ck_assert(replid_equal(&replica.id, &next));
    check_equal(&replica, 100);
    /* A reader that is too slow is not waited for. */
    replica.offset = shipper_offset(replica.reader);
    for (unsigned i = 0; i < 30; i++) {
        const struct snap_block head = {
            .kind = SNAP_VALUE, .raw = 100000, .stored = 100000, .items = 1};

        backlog_append(middle, &head, last.room);
    }
    check_dropped(&replica, SHIPPER_OVERRUN);
    shipper_detach(&replica.reader);
    replica_fini(&last);
    shipper_stop(&second);
    backlog_destroy(&middle);
}

/* ---- a full sync before it --------------------------------------------------------------- */

static void fed_item(void *arg, const struct ship_item *it)
{
    const struct snap_item item = {
        .marks = (uint8_t)((it->is_stale ? SNAP_STALE : 0) | (it->is_won ? SNAP_WON : 0)),
        .client_flags = it->flags,
        .cas = it->cas,
        .deadline = it->deadline == MSEC_NEVER ? SNAP_DEADLINE_NEVER : it->deadline + TO_UNIX,
        .key = it->key,
        .value = it->value,
        .value_len = (uint32_t)it->value_len,
    };

    replica_take(arg, &item);
}

static void fed_part(void *arg, struct span part)
{
    replica_take_part(arg, part);
}

static void fed_cut(void *arg)
{
    replica_cut(arg);
}

static bool fed_rest(void *arg)
{
    return true;
}

static bool fed_begin(void *arg)
{
    replica_clear(arg);
    return true;
}

static void fed_drop(void *arg, struct span key)
{
    replica_remove(arg, key.ptr, key.len);
}

static void fed_flush(void *arg)
{
    replica_clear(arg);
}

static void fed_later(void *arg, msec_t at)
{
}

static void fed_prefix(void *arg, struct span prefix)
{
    replica_flush_prefix(arg, prefix);
}

static const struct ship_ops fed = {.item = fed_item,
                                    .part = fed_part,
                                    .cut = fed_cut,
                                    .rest = fed_rest,
                                    .begin = fed_begin,
                                    .complete = fed_rest,
                                    .drop = fed_drop,
                                    .flush = fed_flush,
                                    .flush_later = fed_later,
                                    .flush_prefix = fed_prefix,
                                    .takes_due = true};

static void wait_for_feed(struct feed *feed)
{
    struct feed_info info;

    do {
        (void)usleep(200);
        feed_info(feed, &info);
        ck_assert(!info.is_over);
    } while (!info.is_complete || info.lag_bytes != 0);
}

TEST(a_full_sync_goes_on_from_a_mark)
{
    const struct feed_config cfg = {.ops = &fed, .arg = &replica};
    struct backlog_name name;
    struct feed *feed;
    uint64_t mark;
    uint64_t level;
    struct rng rng;

    rng_init(&rng, rng_seed());
    for (unsigned i = 0; i < 5000; i++) {
        do_something(&rng);
    }
    begin(false);
    ck_assert_int_eq(feed_start(&feed, &f.engine, &cfg), MF_OK);
    for (unsigned i = 0; i < 3000; i++) {
        do_something(&rng);
    }
    ck_assert(shipper_mark(shipper, &mark));
    for (unsigned i = 0; i < 1000; i++) {
        do_something(&rng);
    }
    wait_for_feed(feed);
    feed_stop(&feed);
    backlog_get_name(backlog, &name);
    replica.id = name.id;
    replica.offset = mark;
    ck_assert_int_eq(replica_attach(&replica, shipper), BACKLOG_CONTINUES);
    for (unsigned i = 0; i < 1000; i++) {
        do_something(&rng);
        ck_assert(i % 16 != 0 || replica_pull(&replica));
    }
    pull_all(&replica);
    ck_assert(shipper_mark(shipper, &level));
    ck_assert_uint_eq(level, replica.offset);
    ck_assert_uint_gt(replica_check(&replica, &f.engine, TO_UNIX), 0);
}
