/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk, ship: what a walk ships is what there is, each item once and whole, within the bound of
 * what a sink takes at once; resizes, flushes, replaced values and slots between two shards.
 */
#include "lib/ship/walk.h"

#include "lib/base/num.h"
#include "lib/shard/value.h"
#include "tests/lib/fixture.h"

#define KEYS 3000u

static struct fixture f;

/* What came of each key; the keys are those of fixture_key("", number). */
struct copy {
    unsigned times;
    uint64_t cas;
    msec_t deadline;
    uint32_t flags;
    uint64_t len;
    bool is_stale, is_won;
    char *value;
};

static struct sink {
    struct copy copies[KEYS];
    struct copy *open; /* the one whose value is coming */
    size_t open_len;
    size_t bytes; /* since the last rest */
    unsigned rests, cuts;
    unsigned rests_max; /* then no more is wanted */
    bool wants_no_more; /* in the middle of a value */
    void (*on_rest)(void);
    void (*on_item)(void); /* within the section */
} sink;

static void take(struct span part)
{
    memcpy(sink.open->value + sink.open_len, part.ptr, part.len);
    sink.open_len += part.len;
    ck_assert_uint_le(sink.open_len, sink.open->len);
    if (sink.open_len == sink.open->len) {
        sink.open = NULL;
    }
}

static void on_item(void *arg, const struct ship_item *it)
{
    uint64_t number;

    ck_assert_ptr_null(sink.open);
    ck_assert_ptr_eq(arg, &sink);
    ck_assert_int_eq(num_u64(it->key, &number), MF_OK);
    ck_assert_uint_lt(number, KEYS);
    struct copy *c = &sink.copies[number];
    mem_free(c->value);
    *c = (struct copy){.times = c->times + 1,
                       .cas = it->cas,
                       .deadline = it->deadline,
                       .flags = it->flags,
                       .len = it->value_len,
                       .is_stale = it->is_stale,
                       .is_won = it->is_won,
                       .value = mem_alloc((size_t)it->value_len + 1)};
    sink.open = c;
    sink.open_len = 0;
    /* What does not fit at all begins with all of the room. */
    ck_assert(sink.bytes == 0 || SHIP_ITEM_BYTES + it->key.len + it->value_len <= SHIP_BYTES);
    sink.bytes += SHIP_ITEM_BYTES + it->key.len + it->value.len;
    ck_assert_uint_le(sink.bytes, SHIP_BYTES);
    take(it->value);
    if (sink.on_item != NULL) {
        sink.on_item();
    }
}

static void on_part(void *arg, struct span part)
{
    ck_assert_ptr_nonnull(sink.open);
    sink.bytes += part.len;
    ck_assert_uint_le(sink.bytes, SHIP_BYTES);
    take(part);
}

static void on_cut(void *arg)
{
    ck_assert_ptr_nonnull(sink.open);
    sink.open->times = 0;
    sink.open = NULL;
    sink.cuts++;
}

static bool on_rest(void *arg)
{
    ck_assert(!rcu_is_reading());
    sink.bytes = 0;
    sink.rests++;
    if (sink.on_rest != NULL) {
        sink.on_rest();
    }
    return sink.rests != sink.rests_max && !(sink.wants_no_more && sink.open != NULL);
}

static const struct ship_ops ops = {
    .item = on_item, .part = on_part, .cut = on_cut, .rest = on_rest};

static void forget(void)
{
    for (unsigned i = 0; i < KEYS; i++) {
        mem_free(sink.copies[i].value);
    }
    memset(&sink, 0, sizeof(sink));
}

TEST_FIXTURE(NULL, forget)

static void start(uint32_t shards, uint64_t limit)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = shards;
    cfg.limit_bytes = limit;
    cfg.item_size_max = 8 * MIB;
    fixture_start_threaded(&f, &cfg);
}

static const char *key(unsigned i)
{
    return fixture_key("", i);
}

/* What was shipped of a key is what is there. */
static void check_copy(unsigned i)
{
    const struct copy *c = &sink.copies[i];
    struct got got = fixture_get(&f, key(i));

    ck_assert_msg(got.is_hit == (c->times != 0), "key %u: shipped %u times", i, c->times);
    if (!got.is_hit) {
        return;
    }
    ck_assert_uint_eq(c->cas, got.cas);
    ck_assert_uint_eq(c->flags, got.flags);
    ck_assert_int_eq(c->deadline, got.deadline);
    ck_assert_int_eq(c->is_stale, got.is_stale);
    ck_assert_int_eq(c->is_won, got.is_won);
    ck_assert_uint_eq(c->len, got.len);
    ck_assert_mem_eq(c->value, got.value, got.len);
}

static size_t len_of(unsigned i)
{
    return i % 100 == 7 ? 15000 + i * 30 : i % 9 == 0 ? 3000 + i : i % 250;
}

static enum walk_state walk_all(struct walk *w)
{
    ck_assert(walk_begin(w, &f.engine, &ops, &sink, NULL));
    while (walk_slice(w)) {
    }
    walk_end(w);
    return w->state;
}

TEST(each_item_is_shipped_once_and_whole)
{
    struct walk w;
    uint64_t due = 0;

    start(3, 64 * MIB);
    for (unsigned i = 0; i < KEYS; i++) {
        struct erase stale = {.marks_stale = true};

        fixture_set_until(&f, key(i), len_of(i),
                          i % 5 == 0 ? fixture_now(&f) + 100 + i % 7 * 100 : MSEC_NEVER);
        if (i % 50 == 1) {
            ck_assert_int_eq(fixture_erase(&f, key(i), &stale), OUT_DELETED);
        }
        due += i % 35 == 0;
    }
    engine_hold_sampler(&f.engine, true);
    clock_advance(&f.engine.clock, 150);
    ck_assert_int_eq(walk_all(&w), WALK_DONE);
    ck_assert(!walk_was_flushed(&w));
    for (unsigned i = 0; i < KEYS; i++) {
        check_copy(i);
        ck_assert_uint_le(sink.copies[i].times, 1);
    }
    ck_assert_uint_eq(w.total, KEYS);
    ck_assert_uint_eq(w.expired, due);
    ck_assert_uint_eq(w.shipped, KEYS - due);
    ck_assert_uint_eq(w.ship.left_out, 0);
}

#define MARKED 60u

/* Each gets a new block, in which it is stale as before. Context: read side. */
static void mark_all(void)
{
    for (unsigned i = 0; i < MARKED; i++) {
        const char *k = key(i);
        struct erase stale = {.hash = engine_hash(&f.engine, k, strlen(k)),
                              .key = span_str(k),
                              .marks_stale = true};

        ck_assert_int_eq(engine_erase(&f.engine, &stale, fixture_now(&f)), OUT_DELETED);
    }
}

/* A block that is unlinked has no marks any more: what took its place is shipped. */
TEST(what_gets_another_block_meanwhile_keeps_its_marks)
{
    struct walk w;

    start(1, 64 * MIB);
    for (unsigned i = 0; i < MARKED; i++) {
        fixture_set(&f, key(i), 10);
    }
    rcu_begin();
    mark_all();
    rcu_end();
    sink.on_item = mark_all;
    ck_assert_int_eq(walk_all(&w), WALK_DONE);
    for (unsigned i = 0; i < MARKED; i++) {
        ck_assert_uint_eq(sink.copies[i].times, 1);
        ck_assert_msg(sink.copies[i].is_stale, "key %u was shipped as fresh", i);
    }
}

TEST(a_value_larger_than_the_bound_comes_in_parts)
{
    struct walk w;

    start(1, 64 * MIB);
    for (unsigned i = 0; i < 12; i++) {
        fixture_set(&f, key(i), SHIP_BYTES - 300 + i * i * 9000);
    }
    ck_assert_int_eq(walk_all(&w), WALK_DONE);
    for (unsigned i = 0; i < 12; i++) {
        check_copy(i);
        ck_assert_uint_eq(sink.copies[i].times, 1);
    }
    ck_assert_uint_gt(sink.rests, 12);
}

/* Replaces the value that is being shipped, and has its memory asked for. */
static void replace_all(void)
{
    static unsigned turn;

    if (turn++ % 2 == 0) {
        for (unsigned i = 0; i < 4; i++) {
            fixture_set(&f, key(i), 900000 + i);
            fixture_set(&f, key(100 + i), 500000 + turn % 16);
            fixture_grace(&f);
        }
    }
}

/* Among small ones: what was put before is handed over first. */
TEST(a_large_value_begins_with_all_of_the_room)
{
    struct walk w;

    start(1, 64 * MIB);
    for (unsigned i = 0; i < 400; i++) {
        fixture_set(&f, key(i), i % 40 == 20 ? SHIP_BYTES + i : 1000);
    }
    ck_assert_int_eq(walk_all(&w), WALK_DONE);
    for (unsigned i = 0; i < 400; i++) {
        check_copy(i);
    }
}

TEST(a_value_that_is_replaced_meanwhile_comes_as_it_was)
{
    struct walk w;

    start(1, 64 * MIB);
    for (unsigned i = 0; i < 4; i++) {
        fixture_set(&f, key(i), 900000 + i);
    }
    sink.on_rest = replace_all;
    ck_assert_int_eq(walk_all(&w), WALK_DONE);
    for (unsigned i = 0; i < 4; i++) {
        struct got got = fixture_get(&f, key(i));

        ck_assert_uint_ge(sink.copies[i].times, 1);
        ck_assert_uint_eq(sink.copies[i].len, got.len);
        ck_assert_mem_eq(sink.copies[i].value, got.value, got.len);
    }
    uint64_t pinned = (uint64_t)atomic_load(&f.engine.budget.part_bytes[BUDGET_PINNED]);
    ck_assert_uint_eq(pinned, 0);
}

/* A value that dies while pinned dead memory is large enough to be needed for live items. */
static void kill_it(void)
{
    if (sink.open != NULL) {
        (void)fixture_delete(&f, key(0));
        fixture_grace(&f);
    }
}

TEST(a_dead_value_that_keeps_too_much_is_cut)
{
    struct engine_config cfg;
    struct walk w;

    fixture_config(&cfg);
    cfg.item_size_max = 3 * MIB;
    fixture_start(&f, &cfg);
    fixture_set(&f, key(0), 2 * MIB);
    sink.on_rest = kill_it;
    ck_assert_int_eq(walk_all(&w), WALK_DONE);
    ck_assert_uint_eq(sink.cuts, 1);
    ck_assert_uint_eq(w.ship.left_out, 1);
    ck_assert_uint_eq(sink.copies[0].times, 0);
}

TEST(what_cannot_be_pinned_is_left_out)
{
    struct value_walk v;
    struct walk w;

    start(1, 8 * MIB);
    fixture_set(&f, key(0), 2 * MIB);
    fixture_set(&f, key(1), 2 * MIB);
    const struct item *first = fixture_get(&f, key(0)).item;
    rcu_begin();
    value_walk_begin(&v, f.shard, first);
    struct value_pin pin = value_pin(&v);
    rcu_end();
    ck_assert_int_eq(walk_all(&w), WALK_DONE);
    value_unpin(&pin);
    ck_assert_uint_eq(w.ship.left_out, 1);
    ck_assert_uint_eq(sink.copies[0].times, 1); /* it is pinned already */
    ck_assert_uint_eq(sink.copies[1].times, 0);
}

static unsigned turns;
static uint64_t mask_max;

/* Makes the index grow, and shrink again. */
static void resize(void)
{
    unsigned n = turns++ % 40;

    for (unsigned i = 0; i < 1500; i++) {
        const char *k = fixture_key("9999999999999999999", n * 2000 + i);

        if (n < 20) {
            fixture_set(&f, k, 0);
        } else {
            (void)fixture_delete(&f, fixture_key("9999999999999999999", (n - 20) * 2000 + i));
        }
    }
    fixture_settle(&f);
    mask_max = mask_max > atomic_load(&f.shard->table.view)->mask
                   ? mask_max
                   : atomic_load(&f.shard->table.view)->mask;
}

/* Keys that come and go beside those that count are numbers that no key has. */
static void on_item_or_other(void *arg, const struct ship_item *it)
{
    if (it->key.len < 19) {
        on_item(arg, it);
    }
}

TEST(a_walk_misses_nothing_during_resizes)
{
    struct ship_ops some = ops;
    struct walk w;

    some.item = on_item_or_other;
    start(2, 64 * MIB);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, key(i), i % 100);
    }
    sink.on_rest = resize;
    ck_assert(walk_begin(&w, &f.engine, &some, &sink, NULL));
    while (walk_slice(&w)) {
    }
    ck_assert(!walk_was_flushed(&w));
    walk_end(&w);
    for (unsigned i = 0; i < KEYS; i++) {
        check_copy(i);
    }
    ck_assert_uint_gt(turns, 30);
    ck_assert_uint_gt(mask_max, 511);
}

#define OTHERS 20000u

static const char *other(unsigned i)
{
    return fixture_key("9999999999999999999", i);
}

static uint64_t index_mask(void)
{
    return atomic_load(&f.shard->table.view)->mask;
}

/* What made the index large goes. */
static void shrink(void)
{
    const uint64_t mask = index_mask();

    for (unsigned i = 0; i < OTHERS; i++) {
        (void)fixture_delete(&f, other(i));
    }
    fixture_settle(&f);
    ck_assert_uint_lt(index_mask(), mask);
}

/* A position that was left in the middle has become a part of a larger one. */
TEST_LOOP(a_walk_misses_nothing_when_its_position_grows, 8)
{
    struct ship_ops some = ops;
    int middles = 0;
    struct walk w;

    some.item = on_item_or_other;
    start(1, 64 * MIB);
    for (unsigned i = 0; i < OTHERS; i++) {
        fixture_set(&f, other(i), 0);
    }
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, key(i), 9000);
    }
    fixture_settle(&f);
    ck_assert(walk_begin(&w, &f.engine, &some, &sink, NULL));
    while (walk_slice(&w)) {
        middles += w.resume != 0;
        if (middles == _i + 1 && w.resume != 0) {
            shrink();
        }
    }
    walk_end(&w);
    ck_assert_int_gt(middles, _i);
    for (unsigned i = 0; i < KEYS; i++) {
        check_copy(i);
    }
}

TEST(a_sink_may_refuse)
{
    struct walk w;

    start(2, 64 * MIB);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, key(i), 1000);
    }
    sink.rests_max = 3;
    ck_assert_int_eq(walk_all(&w), WALK_REFUSED);
    ck_assert_uint_eq(sink.rests, 3);
    forget();
    fixture_set(&f, key(0), 3 * MIB);
    for (unsigned i = 1; i < KEYS; i++) {
        (void)fixture_delete(&f, key(i));
    }
    sink.wants_no_more = true;
    ck_assert_int_eq(walk_all(&w), WALK_REFUSED);
    ck_assert_uint_eq(sink.cuts, 1);
}

TEST(who_waits_for_a_move_can_be_stopped)
{
    _Atomic bool is_stopped;
    struct walk w;

    start(2, 64 * MIB);
    atomic_init(&is_stopped, true);
    ck_assert(moves_begin_move(&f.engine.moves, NULL));
    ck_assert(!walk_begin(&w, &f.engine, &ops, &sink, &is_stopped));
    moves_end_move(&f.engine.moves);
    /* It begins if nothing moves; a caller that must stop has to check that itself. */
    ck_assert(walk_begin(&w, &f.engine, &ops, &sink, &is_stopped));
    walk_end(&w);
}

TEST(a_flush_is_noticed)
{
    struct walk w;

    start(2, 64 * MIB);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, key(i), 100);
    }
    ck_assert(walk_begin(&w, &f.engine, &ops, &sink, NULL));
    ck_assert(walk_slice(&w));
    ck_assert(!walk_was_flushed(&w));
    fixture_flush(&f, fixture_now(&f));
    ck_assert(walk_was_flushed(&w));
    while (walk_slice(&w)) {
    }
    walk_end(&w);
    /* One that waits for its instant, which comes: nobody has carried it out. */
    forget();
    fixture_set(&f, key(0), 100);
    fixture_flush(&f, fixture_now(&f) + 10);
    ck_assert_int_eq(walk_all(&w), WALK_DONE);
    ck_assert(!walk_was_flushed(&w));
    ck_assert_uint_eq(sink.copies[0].times, 1);
    clock_advance(&f.engine.clock, 10);
    ck_assert(walk_was_flushed(&w));
    forget();
    ck_assert_int_eq(walk_all(&w), WALK_DONE);
    ck_assert_uint_eq(sink.copies[0].times, 0);
    ck_assert(!walk_was_flushed(&w));
}

/* Takes items to the other shard, as every writer does while their slot moves. */
static void take_over(void)
{
    static unsigned next;

    for (unsigned n = 0; n < 100; n++) {
        unsigned i = next++ % KEYS;

        if (fixture_has(&f, key(i))) {
            (void)fixture_try(&f, key(i), 200, MSEC_NEVER);
        }
    }
}

TEST(what_goes_from_shard_to_shard_is_met)
{
    struct engine_config cfg;
    struct walk w;

    fixture_config(&cfg);
    cfg.shards = 2;
    fixture_policy(CHOICE_NOEVICTION);
    fixture_start_threaded(&f, &cfg);
    unsigned n = fixture_fill_up(&f, "", 3000);
    ck_assert_uint_le(n, KEYS);
    budget_add(&f.engine.budget, LIMIT_TAKEN); /* what leaves a shard makes no room */
    /* Both ways, so that no order of the shards would do. */
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS / 2, 1), MF_ENOMEM);
    budget_add(&f.engine.budget, -LIMIT_TAKEN);
    for (unsigned i = 0; i < n; i += 2) {
        (void)fixture_delete(&f, key(i));
    }
    sink.on_rest = take_over;
    ck_assert_int_eq(walk_all(&w), WALK_DONE);
    for (unsigned i = 0; i < n; i++) {
        ck_assert_int_eq(sink.copies[i].times != 0, fixture_has(&f, key(i)));
    }
    ck_assert_uint_gt(w.shipped, n / 2); /* some in both shards */
}

static uint32_t slots_done(const struct move *m)
{
    struct move_info info;

    move_info(m, &info);
    return info.slots_done;
}

/* Carry out a plan at the next pause of a walk. False: it is at its end. */
static bool move_at_pause(struct walk *w, const struct move_plan *plan)
{
    const struct move_config cfg = {.plan = plan};
    struct moves_info waits;
    struct move *m;
    bool goes_on = true;

    while (w->state == WALK_PAUSED) {
        goes_on = walk_slice(w);
    }
    ck_assert_int_eq(move_start(&m, &f.engine, &cfg), MF_OK);
    do {
        moves_info(&f.engine.moves, &waits);
    } while (waits.moves_waiting == 0);
    while (goes_on && w->state != WALK_PAUSED) {
        goes_on = walk_slice(w);
    }
    ck_assert_int_eq(w->state, WALK_PAUSED);
    ck_assert_int_eq(move_end(&m), MF_OK);
    return goes_on;
}

/* To a shard that is done, and back once their own is done as well. */
TEST(a_walk_meets_slots_that_come_back)
{
    struct move_plan back;
    struct move_plan away;
    struct walk w;

    fixture_start_sized_threaded(&f, 2, FIXTURE_LIMIT);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, key(i), 100);
    }
    move_plan_even(&back, &f.engine, 2);
    move_plan_even(&away, &f.engine, 1);
    ck_assert(walk_begin(&w, &f.engine, &ops, &sink, NULL));
    ck_assert(move_at_pause(&w, &away));
    ck_assert(move_at_pause(&w, &back));
    while (walk_slice(&w)) {
    }
    ck_assert_int_eq(w.state, WALK_DONE);
    walk_end(&w);
    for (unsigned i = 0; i < KEYS; i++) {
        ck_assert_uint_ge(sink.copies[i].times, 1);
    }
}

/* A change in a shard still to come, of a slot that was and will be in one that is done. */
TEST(a_walk_that_has_paused_leaves_no_record_to_itself)
{
    struct move_plan plan;
    struct walk w;

    fixture_start_sized_threaded(&f, 2, FIXTURE_LIMIT);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, key(i), 100);
    }
    move_plan_even(&plan, &f.engine, 2);
    ck_assert(walk_begin(&w, &f.engine, &ops, &sink, NULL));
    rcu_begin();
    ck_assert(!walk_passed(&w, 1, fixture_hash(&f, key(1))));
    rcu_end();
    ck_assert(move_at_pause(&w, &plan));
    rcu_begin();
    ck_assert(walk_passed(&w, 1, fixture_hash(&f, key(1))));
    rcu_end();
    while (walk_slice(&w)) {
    }
    walk_end(&w);
}

/* All slots go to the shard that the walk has done, between its first two shards. */
TEST(a_walk_lets_a_move_run_between_two_shards_and_meets_all_items)
{
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan};
    struct moves_info waits;
    struct move *m;
    struct walk w;
    uint32_t done = 0;

    fixture_start_sized_threaded(&f, 4, FIXTURE_LIMIT);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, key(i), 100);
    }
    ck_assert(walk_begin(&w, &f.engine, &ops, &sink, NULL));
    move_plan_even(&plan, &f.engine, 1);
    ck_assert_int_eq(move_start(&m, &f.engine, &cfg), MF_OK);
    do {
        moves_info(&f.engine.moves, &waits);
    } while (waits.moves_waiting == 0);
    while (walk_slice(&w)) {
        done = slots_done(m);
    }
    ck_assert_int_eq(w.state, WALK_DONE);
    walk_end(&w);
    ck_assert_int_eq(move_end(&m), MF_OK);
    ck_assert_uint_gt(done, 0);
    for (unsigned i = 0; i < KEYS; i++) {
        ck_assert_uint_ge(sink.copies[i].times, 1);
    }
}
