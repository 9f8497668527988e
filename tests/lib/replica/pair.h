/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A primary and a replica in one process, for tests of the two halves together: what goes from
 * one to the other goes through the test's hands. The replica's clock shows another time than
 * the primary's, and its index is kept up by a thread, as the workers do.
 */
#ifndef MAYFLY_TESTS_LIB_REPLICA_PAIR_H
#define MAYFLY_TESTS_LIB_REPLICA_PAIR_H

#include <sched.h>

#include "lib/base/mem.h"
#include "lib/base/thread.h"
#include "lib/engine/flush.h"
#include "lib/replica/applier.h"
#include "lib/replica/fullsync.h"
#include "lib/shard/position.h"
#include "lib/shard/upkeep.h"
#include "lib/shard/value.h"
#include "lib/store/find.h"
#include "tests/lib/fixture.h"

#define PAIR_TO_UNIX    1000000
#define PAIR_AHEAD      12345 /* the replica's clock is ahead by this */
#define PAIR_RING_BYTES (1 * MIB)

/* One side. */
struct pair_side {
    struct fixture f;
    struct backlog *backlog;
    struct shipper *shipper;
    struct applier *applier; /* of a replica */
    struct thread home;
    _Atomic bool is_over;
    _Atomic bool is_stopped; /* what is asked of the applier */
    struct backlog_name renamed;
};

/* Bytes on their way. */
struct pair_bytes {
    char *at;
    size_t len, room;
    size_t read; /* of them; for pair_read() */
    size_t read_at_most;
    bool is_ended; /* the reader knows it */
};

static inline void pair_run_home(void *arg)
{
    struct pair_side *side = arg;
    struct engine *e = &side->f.engine;

    while (!atomic_load(&side->is_over)) {
        for (uint32_t i = 0; i < e->shard_count; i++) {
            if (shard_wants_work(e->shards[i])) {
                shard_maintain(e->shards[i], clock_now(&e->clock), 1000);
            }
        }
        (void)usleep(200);
    }
}

static inline bool pair_is_stopped(void *arg)
{
    struct pair_side *side = arg;

    return atomic_load(&side->is_stopped);
}

static inline void pair_renamed(void *arg, const struct backlog_name *name)
{
    struct pair_side *side = arg;

    side->renamed = *name;
}

static inline void pair_start(struct pair_side *side, void (*on_more)(void *arg))
{
    static const struct thread_kind kind = {
        .name = "home", .run = pair_run_home, .reads = true};
    struct shipper_config cfg = {.engine = &side->f.engine, .on_more = on_more, .arg = side};
    struct engine_config engine;

    memset(side, 0, sizeof(*side));
    fixture_config(&engine);
    engine.shards = 2;
    engine.ring_bytes = PAIR_RING_BYTES;
    engine.limit_bytes = 64 * MIB;
    engine.item_size_max = 16 * MIB;
    fixture_start_threaded(&side->f, &engine);
    side->backlog = backlog_create(&side->f.engine.budget);
    ck_assert(backlog_reserve(side->backlog, SHIPPER_BACKLOG_MIN));
    cfg.backlog = side->backlog;
    ck_assert_int_eq(shipper_start(&side->shipper, &cfg), MF_OK);
    ck_assert_int_eq(thread_start(&side->home, &kind, side), 0);
}

static inline void pair_start_primary(struct pair_side *side, void (*on_more)(void *arg))
{
    const struct shipper_role role = {.to_unix_ms = PAIR_TO_UNIX, .continues = true};

    pair_start(side, on_more);
    ck_assert_int_eq(shipper_begin(side->shipper, &role), MF_OK);
}

static inline void pair_start_replica(struct pair_side *side, const struct pair_side *primary)
{
    struct applier_config cfg = {.engine = &side->f.engine,
                                 .is_stopped = pair_is_stopped,
                                 .renamed = pair_renamed,
                                 .arg = side};

    pair_start(side, NULL);
    clock_advance(&side->f.engine.clock,
                  fixture_now(&primary->f) + PAIR_AHEAD - fixture_now(&side->f));
    cfg.backlog = side->backlog;
    side->applier = applier_create(&cfg);
    ck_assert_ptr_nonnull(side->applier);
    applier_set_scale(side->applier, PAIR_TO_UNIX - PAIR_AHEAD);
}

static inline void pair_stop(struct pair_side *side)
{
    applier_destroy(&side->applier);
    shipper_stop(&side->shipper);
    backlog_destroy(&side->backlog);
    atomic_store(&side->is_over, true);
    thread_join(&side->home);
    fixture_stop(&side->f);
}

/* ---- bytes ------------------------------------------------------------------------------- */

static inline void pair_put(struct pair_bytes *b, const void *bytes, size_t n)
{
    if (b->len + n > b->room) {
        b->room = 2 * (b->len + n);
        b->at = mem_realloc(b->at, b->room);
        must(b->at != NULL);
    }
    memcpy(b->at + b->len, bytes, n);
    b->len += n;
}

static inline void pair_drop_bytes(struct pair_bytes *b)
{
    mem_free(b->at);
    memset(b, 0, sizeof(*b));
}

/* snap_read_fn. The reader asks for consecutive offsets, and not again after the end. */
static inline ssize_t pair_read(void *arg, void *out, size_t n, uint64_t offset)
{
    struct pair_bytes *b = arg;

    must(offset == b->read && b->read <= b->len);
    n = n < b->len - b->read ? n : b->len - b->read;
    n = b->read_at_most != 0 && n > b->read_at_most ? b->read_at_most : n;
    if (n == 0) {
        must(!b->is_ended);
        b->is_ended = true;
        return 0;
    }
    memcpy(out, b->at + b->read, n);
    b->read += n;
    return (ssize_t)n;
}

/* The replica has everything that the backlog's history had at its end: an empty engine. */
static inline void pair_follow_from_end(struct pair_side *replica, struct backlog *backlog)
{
    struct backlog_name name;

    backlog_get_name(backlog, &name);
    ck_assert_int_eq(applier_begin_full(replica->applier), APPLIER_OK);
    applier_end_full(replica->applier, &name);
}

/* What the backlog has from an offset on; nothing may be lost. */
static inline void pair_copy_stream(struct pair_bytes *b, struct backlog *from, uint64_t offset)
{
    size_t n = backlog_end(from) - offset;
    char *bytes = mem_alloc(n + 1);

    b->len = 0;
    must((size_t)backlog_copy(from, offset, bytes, n) == n);
    pair_put(b, bytes, n);
    mem_free(bytes);
}

/* Have the replica take what comes until an offset, in pieces of any size. False: dropped. */
static inline bool pair_pull_to(struct pair_side *replica, struct shipper_reader *r,
                                uint64_t offset, struct rng *rng)
{
    static char bytes[100000];

    while (applier_offset(replica->applier) < offset) {
        ptrdiff_t n = shipper_read(r, bytes, 1 + rng_below(rng, sizeof(bytes)));

        if (n < 0) {
            return false;
        }
        if (n == 0) {
            (void)sched_yield();
        } else {
            ck_assert_int_eq(applier_take(replica->applier, bytes, (size_t)n), APPLIER_OK);
        }
    }
    return true;
}

static inline uint64_t pair_mark(struct pair_side *primary)
{
    uint64_t offset = 0;

    ck_assert(shipper_mark(primary->shipper, &offset));
    return offset;
}

/* ---- the comparison ---------------------------------------------------------------------- */

struct pair_audit {
    struct engine *other;
    int64_t scale, other_scale;
    char *mine, *theirs;
    uint64_t items;
};

static inline void pair_compare(void *arg, const struct shard *s, const struct item *it)
{
    struct pair_audit *a = arg;
    uint64_t hash = engine_hash(a->other, item_key(it), it->key_len);
    struct found got =
        engine_find(router_read(&a->other->router), hash, item_key(it), it->key_len, 0);
    msec_t deadline = item_deadline(it);

    if (got.item == NULL) {
        printf("# %.*s is missing\n", it->key_len, item_key(it));
    }
    must(got.item != NULL);
    must(item_cas(got.item) == item_cas(it) && item_flags(got.item) == item_flags(it) &&
         item_len(got.item) == item_len(it));
    must(item_is_stale(got.item) == item_is_stale(it) &&
         item_is_won(got.item) == item_is_won(it));
    if (deadline == MSEC_NEVER) {
        must(item_deadline(got.item) == MSEC_NEVER);
    } else {
        must(item_deadline(got.item) + a->other_scale == deadline + a->scale);
    }
    a->mine = mem_realloc(a->mine, item_len(it) + 1);
    a->theirs = mem_realloc(a->theirs, item_len(it) + 1);
    value_copy(s, it, a->mine);
    value_copy(got.shard, got.item, a->theirs);
    must(memcmp(a->mine, a->theirs, item_len(it)) == 0);
    a->items++;
}

/* All that is live at one side is at the other. Returns how many. */
static inline uint64_t pair_compare_all(struct pair_side *from, int64_t scale,
                                        struct pair_side *to, int64_t to_scale)
{
    struct pair_audit a = {.other = &to->f.engine, .scale = scale, .other_scale = to_scale};
    struct engine *e = &from->f.engine;
    msec_t now = clock_now(&e->clock);
    struct position p = {0};

    while (p.shard < e->shard_count) {
        rcu_begin();
        position_step(&p, e->shards[p.shard], now, pair_compare, &a);
        rcu_end();
    }
    mem_free(a.mine);
    mem_free(a.theirs);
    return a.items;
}

/* No index is being resized: a walk would meet items twice. */
static inline void pair_settle(struct pair_side *side)
{
    for (uint32_t i = 0; i < side->f.engine.shard_count; i++) {
        WAIT_UNTIL(!shard_wants_work(side->f.engine.shards[i]));
    }
}

/* They have the same; returns how many items. */
static inline uint64_t pair_check(struct pair_side *primary, struct pair_side *replica)
{
    pair_settle(primary);
    pair_settle(replica);
    uint64_t items =
        pair_compare_all(primary, PAIR_TO_UNIX, replica, PAIR_TO_UNIX - PAIR_AHEAD);

    ck_assert_uint_eq(
        pair_compare_all(replica, PAIR_TO_UNIX - PAIR_AHEAD, primary, PAIR_TO_UNIX), items);
    return items;
}

#endif
