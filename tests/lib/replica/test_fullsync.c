/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fullsync: a replica that reads it, and then the stream from its mark, has what the primary
 * has, whatever happens meanwhile: changes, flushes, rings that are overrun, values that are
 * larger than the backlog. It ends when it must, and releases everything.
 */
#include "lib/replica/fullsync.h"

#include <pthread.h>

#include "lib/base/load.h"
#include "lib/ship/ship.h"
#include "tests/lib/replica/pair.h"

static struct pair_side primary, replica;
static struct pair_bytes full;
static struct fullsync fs;
static struct rng rng;
static unsigned writes; /* blocks, and the header, that were written */

/* What happens at a write. False: the replica is gone. */
static bool (*at_write)(void);

/* What happens when the shipper has something new. */
static void (*_Atomic at_more)(void);

static void on_more(void *arg)
{
    void (*then)(void) = at_more;

    ck_assert(arg == &primary);
    if (then != NULL) {
        then();
    }
}

static bool on_write(void *arg, const void *bytes, size_t n)
{
    ck_assert(arg == &full);
    pair_put(&full, bytes, n);
    writes++;
    return at_write == NULL || at_write();
}

static void begin_sync(void)
{
    pair_drop_bytes(&full);
    writes = 0;
    memset(&fs, 0, sizeof(fs));
    fs.engine = &primary.f.engine;
    fs.shipper = primary.shipper;
    fs.write = on_write;
    fs.write_arg = &full;
    fs.to_unix_ms = PAIR_TO_UNIX;
}

static void start(void)
{
    rng_init(&rng, rng_seed());
    at_write = NULL;
    at_more = NULL;
    pair_start_primary(&primary, on_more);
    pair_start_replica(&replica, &primary);
    begin_sync();
}

static void stop(void)
{
    shipper_detach(&fs.reader);
    pair_drop_bytes(&full);
    pair_stop(&replica);
    pair_stop(&primary);
}

static enum applier_result read_full(struct snap_fault *fault)
{
    ck_assert_int_eq(applier_begin_full(replica.applier), APPLIER_OK);
    return applier_run_full(replica.applier, pair_read, &full, fault);
}

/* The replica reads what was written, and goes on by the stream until it has everything. */
static void follow(void)
{
    struct backlog_name name;
    struct snap_fault fault;

    full.read_at_most = 1 + rng_below(&rng, 100000);
    ck_assert_int_eq(read_full(&fault), APPLIER_OK);
    backlog_get_name(replica.backlog, &name);
    ck_assert(replid_is_none(&name.id));
    backlog_get_name(primary.backlog, &name);
    name.offset = fs.offset;
    applier_end_full(replica.applier, &name);
    ck_assert(pair_pull_to(&replica, fs.reader, fs.serve_from, &rng));
}

static void catch_up(void)
{
    uint64_t offset;

    uint64_t ticket = shipper_ask(primary.shipper);
    while (!shipper_is_done(primary.shipper, ticket, &offset)) {
        ck_assert(pair_pull_to(&replica, fs.reader, backlog_end(primary.backlog), &rng));
    }
    ck_assert(pair_pull_to(&replica, fs.reader, offset, &rng));
}

static void follow_to_end(void)
{
    follow();
    catch_up();
}

static void do_something(void)
{
    struct fixture *f = &primary.f;
    const char *key = fixture_key("key", (unsigned)rng_below(&rng, 2000));
    msec_t deadline = rng_below(&rng, 3) != 0
                          ? MSEC_NEVER
                          : fixture_now(f) + 1 + (msec_t)rng_below(&rng, 500);
    uint64_t dice = rng_below(&rng, 2000);

    if (dice < 20) {
        (void)fixture_try(f, key, rng_below(&rng, MIB), deadline);
    } else if (dice < 300) {
        (void)fixture_delete(f, key);
    } else if (dice < 500) {
        (void)fixture_touch(f, key, deadline);
    } else if (dice < 520) {
        struct erase stale = {.marks_stale = true};

        (void)fixture_erase(f, key, &stale);
    } else {
        (void)fixture_try(f, key, rng_below(&rng, 5000), deadline);
    }
}

static void fill(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        do_something();
    }
}

TEST_FIXTURE(start, stop)

/* ---- equality ---------------------------------------------------------------------------- */

TEST(an_empty_one_is_a_header)
{
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    ck_assert_uint_eq(full.len, SNAP_HEADER_BYTES);
    ck_assert_uint_eq(fs.offset, backlog_end(primary.backlog));
    follow();
    ck_assert_uint_eq(pair_check(&primary, &replica), 0);
}

TEST(at_rest_all_is_there)
{
    fill(4000);
    fixture_set(&primary.f, "large", 5 * MIB);
    int64_t used = fixture_used(&primary.f);
    fixture_set(&replica.f, "older", 10);
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    ck_assert_uint_eq(fs.walks, 1);
    ck_assert_uint_gt(fs.items, 0);
    ck_assert_uint_eq(fs.bytes, full.len);
    ck_assert_int_eq(fixture_used(&primary.f), used);
    follow_to_end();
    ck_assert_uint_gt(pair_check(&primary, &replica), 500);
    ck_assert(!fixture_has(&replica.f, "older"));
    ck_assert_uint_gt(applier_cas_max(replica.applier), 0);
}

/* It is never idle: each block that is written changes as much again. */
static bool change_something(void)
{
    fill(20);
    return true;
}

TEST(what_changes_meanwhile_comes)
{
    fill(4000);
    at_write = change_something;
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    ck_assert_uint_gt(writes, 10);
    at_write = NULL;
    follow();
    ck_assert_uint_gt(pair_check(&primary, &replica), 500);
    fill(500);
    catch_up();
    ck_assert_uint_gt(pair_check(&primary, &replica), 500);
}

static void *run_sync(void *arg)
{
    enum fullsync_end *end = arg;

    rcu_register();
    *end = fullsync_run(&fs);
    rcu_unregister();
    return NULL;
}

TEST(what_others_change_meanwhile_comes)
{
    enum fullsync_end end;
    pthread_t thread;

    fill(4000);
    fs.rate_max = 20 * MIB;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_sync, &end), 0);
    for (unsigned i = 0; i < 3000; i++) {
        do_something();
        if (i % 100 == 0) {
            (void)usleep(1000);
        }
    }
    pthread_join(thread, NULL);
    ck_assert_int_eq(end, FULLSYNC_DONE);
    follow_to_end();
    ck_assert_uint_gt(pair_check(&primary, &replica), 500);
}

/*
 * While the shipper is on its way to the mark: it ships the new states before the mark, and not
 * again after it.
 */
static void change_all_once(void)
{
    at_more = NULL;
    for (unsigned i = 0; i < 2000; i++) {
        fixture_set(&primary.f, fixture_key("key", i), 500);
    }
}

TEST(what_changes_before_the_mark_is_placed_comes)
{
    for (unsigned i = 0; i < 2000; i++) {
        fixture_set(&primary.f, fixture_key("key", i), 1000);
    }
    at_more = change_all_once;
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    ck_assert(at_more == NULL);
    follow();
    ck_assert_uint_eq(pair_check(&primary, &replica), 2000);
}

/* Nobody reads what is after the mark yet, so the shipper could not go on to the second one. */
static void set_large_once(void)
{
    static unsigned times;

    if (times++ < 2) {
        fixture_set(&primary.f, "large", 5 * MIB);
    }
}

TEST(a_value_that_is_larger_than_the_backlog_does_not_hold_it_up)
{
    fill(500);
    at_more = set_large_once;
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    ck_assert_uint_eq(fs.walks, 1);
    at_more = NULL;
    follow_to_end();
    ck_assert(fixture_has(&replica.f, "large"));
    ck_assert_uint_gt(pair_check(&primary, &replica), 100);
}

/* Values about as long as what is shipped at once. */
TEST(a_value_of_about_a_block_comes)
{
    for (size_t len = SHIP_BYTES - SHIP_ITEM_BYTES - 3; len <= SHIP_BYTES; len += 31) {
        fixture_set(&primary.f, fixture_key("l", (unsigned)(len % 10)), len);
    }
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    follow_to_end();
    ck_assert_uint_eq(pair_check(&primary, &replica), 3);
}

TEST(what_is_due_comes_too)
{
    fixture_set_until(&primary.f, "due", 10, fixture_now(&primary.f) + 10);
    fixture_set_until(&primary.f, "due large", MIB, fixture_now(&primary.f) + 10);
    clock_advance(&primary.f.engine.clock, 20);
    clock_advance(&replica.f.engine.clock, 20);
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    ck_assert_uint_gt(full.len, MIB);
    follow();
    ck_assert_uint_eq(pair_check(&primary, &replica), 0);
    ck_assert_uint_eq(fixture_counter(&replica.f, CTR_curr_items), 2);
}

/* They have the deadline, and a level tells when they are gone. */
static bool expire(void)
{
    clock_advance(&primary.f.engine.clock, 1);
    fixture_expire(&primary.f);
    return true;
}

TEST(what_expires_meanwhile_has_no_record)
{
    struct apply_counts counts;

    for (unsigned i = 0; i < 5000; i++) {
        fixture_set_until(&primary.f, fixture_key("key", i), 200, fixture_now(&primary.f) + 1);
    }
    uint64_t end = pair_mark(&primary);
    at_write = expire;
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    ck_assert_uint_eq(fixture_counter(&primary.f, CTR_curr_items), 0);
    ck_assert_uint_lt(full.len, 5000 * 300);
    ck_assert_uint_eq(backlog_end(primary.backlog), end);
    follow();
    applier_counts(replica.applier, &counts);
    /* All that was there is stored once, and not taken away again. */
    ck_assert_uint_eq(counts.states, fixture_counter(&replica.f, CTR_curr_items));
}

/* ---- flushes ----------------------------------------------------------------------------- */

static unsigned flush_at_write;

static bool flush_once(void)
{
    if (writes == flush_at_write) {
        fixture_flush(&primary.f, fixture_now(&primary.f));
        fixture_set(&primary.f, "after", 10);
    }
    return true;
}

TEST_LOOP(a_flush_meanwhile_is_one, 6)
{
    fill(3000);
    flush_at_write = 1 + 3 * (unsigned)_i;
    at_write = flush_once;
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    ck_assert_uint_ge(writes, flush_at_write);
    follow_to_end();
    ck_assert_uint_eq(pair_check(&primary, &replica), 1);
}

TEST(a_flush_to_come_comes_to_the_replica)
{
    fill(100);
    fixture_flush(&primary.f, fixture_now(&primary.f) + 1000);
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    follow();
    ck_assert_uint_gt(pair_check(&primary, &replica), 0);
    ck_assert_int_eq(engine_flush_to_come(&replica.f.engine),
                     engine_flush_to_come(&primary.f.engine) + PAIR_AHEAD);
    clock_advance(&replica.f.engine.clock, 1000); /* the primary may be gone by then */
    ck_assert_uint_eq(pair_compare_all(&replica, 0, &primary, 0), 0);
}

/* ---- how it ends ------------------------------------------------------------------------- */

static unsigned overruns_left;

/* Once in each walk, after it has begun. */
static bool overrun_rings(void)
{
    static uint64_t walk;
    static unsigned n;

    n = fs.walks == walk ? n + 1 : 0;
    walk = fs.walks;
    if (overruns_left > 0 && n == 2) {
        overruns_left--;
        for (unsigned i = 0; i < 500; i++) {
            (void)fixture_delete(&primary.f, fixture_key("key", i + 500 * overruns_left));
        }
        for (unsigned i = 0; i < 3 * PAIR_RING_BYTES / 16; i++) {
            fixture_set(&primary.f, "hot", i % 8);
        }
    }
    return true;
}

TEST(rings_that_are_overrun_begin_it_anew)
{
    fill(2000);
    overruns_left = FULLSYNC_OVERRUNS_MAX - 1;
    at_write = overrun_rings;
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    ck_assert_uint_eq(fs.walks, FULLSYNC_OVERRUNS_MAX);
    follow_to_end();
    ck_assert_uint_gt(pair_check(&primary, &replica), 200);
}

static void check_nothing_is_left(void)
{
    struct shipper_info info;

    shipper_info(primary.shipper, &info);
    ck_assert_uint_eq(info.readers, 0);
    ck_assert_ptr_null(fs.reader);
}

TEST(it_is_lost_if_that_goes_on)
{
    fixture_set(&primary.f, "hot", 7);
    fill(2000);
    overruns_left = UINT32_MAX;
    at_write = overrun_rings;
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_LOST);
    ck_assert_uint_eq(fs.walks, FULLSYNC_OVERRUNS_MAX);
    check_nothing_is_left();
}

static unsigned last_write;

static bool go_away(void)
{
    return writes < last_write;
}

static bool ask_to_stop(void)
{
    atomic_store(&fs.is_to_stop, writes >= last_write);
    return true;
}

TEST(it_ends_at_any_write)
{
    fill(1000);
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    unsigned all = writes;
    ck_assert_uint_gt(all, 5);
    shipper_detach(&fs.reader);
    for (last_write = 1; last_write <= all; last_write++) {
        begin_sync();
        at_write = go_away;
        ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_CLIENT_GONE);
        ck_assert_uint_eq(writes, last_write);
        check_nothing_is_left();
        begin_sync();
        at_write = ask_to_stop;
        ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_STOPPED);
        check_nothing_is_left();
    }
}

static bool run_another(void)
{
    struct fullsync other = {
        .engine = fs.engine, .shipper = fs.shipper, .write = on_write, .write_arg = &full};

    ck_assert(fullsync_run(&other) == FULLSYNC_BUSY);
    return true;
}

TEST(one_at_a_time)
{
    fill(1000);
    at_write = run_another;
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
}

TEST(without_a_stream_there_is_none)
{
    shipper_end(primary.shipper);
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_LOST);
}

/* A replica that reads nothing is waited for, but not as long as it likes. */
TEST(another_one_that_is_stalled_does_not_hold_it_up)
{
    struct shipper_reader *stalled;
    struct backlog_name name;

    backlog_get_name(primary.backlog, &name);
    ck_assert_int_eq(shipper_attach(primary.shipper, &name.id, name.offset, &stalled),
                     BACKLOG_CONTINUES);
    fixture_set(&primary.f, "large", 5 * MIB);
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    ck_assert(shipper_is_dropped(stalled, NULL));
    shipper_detach(&stalled);
    follow_to_end();
    ck_assert_uint_eq(pair_check(&primary, &replica), 1);
}

/* ---- what is not whole ------------------------------------------------------------------- */

TEST(one_that_is_cut_is_none)
{
    struct snap_fault fault;
    size_t at = SNAP_HEADER_BYTES;
    unsigned boundaries = 0;

    fill(300);
    fixture_set(&primary.f, "large", 700000);
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    size_t all = full.len;
    for (size_t n = 0; n < all; n += 1 + rng_below(&rng, 20000)) {
        full.len = n;
        full.read = 0;
        full.is_ended = false;
        ck_assert_int_eq(read_full(&fault), n == SNAP_HEADER_BYTES ? APPLIER_OK : APPLIER_CUT);
        full.len = all;
    }
    /* Where a block ends: only if it is not amid a value. */
    while (at < all) {
        bool is_amid;

        at += SNAP_BLOCK_BYTES + load_le32(full.at + at + 12);
        is_amid =
            at < all && full.at[at + 4] == SNAP_VALUE && load_le32(full.at + at + 16) == 0;
        full.len = at;
        full.read = 0;
        full.is_ended = false;
        ck_assert_int_eq(read_full(&fault), is_amid ? APPLIER_CUT : APPLIER_OK);
        full.len = all;
        boundaries += is_amid;
    }
    ck_assert_uint_gt(boundaries, 0);
}

TEST(one_that_is_damaged_is_none)
{
    struct snap_fault fault;

    fill(100);
    ck_assert_int_eq(fullsync_run(&fs), FULLSYNC_DONE);
    for (unsigned i = 0; i < 300; i++) {
        size_t at = i < SNAP_HEADER_BYTES + SNAP_BLOCK_BYTES ? i : rng_below(&rng, full.len);
        char had = full.at[at];

        full.read = 0;
        full.is_ended = false;
        full.at[at] = (char)(had ^ 1 << rng_below(&rng, 8));
        enum applier_result result = read_full(&fault);
        /* A block that is longer than it was ends too early. */
        ck_assert(result == APPLIER_BAD || result == APPLIER_CUT);
        full.at[at] = had;
    }
}
