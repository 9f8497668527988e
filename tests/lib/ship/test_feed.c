/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * feed, stream: which single changes a sink gets, in which order, and which it does not get
 * twice; overruns, refusals, several sinks. That a copy stays equal whatever happens at once is
 * tested by tests/stress.
 */
#include "lib/ship/feed.h"

#include <limits.h>
#include <pthread.h>

#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "lib/shard/flush.h"
#include "lib/shard/prefix.h"
#include "lib/shard/upkeep.h"
#include "lib/shard/value.h"
#include "lib/ship/stream.h"
#include "tests/lib/fixture.h"

static struct fixture f;

/* What came, as a text: an item is its key and "+", and so on. */
static struct told {
    char text[4000];
    size_t len;
    msec_t later;
    unsigned rests;
    bool wants_no_more;
    unsigned items, stale;
    void (*meanwhile)(void); /* once, when something is told */
    void (*at_rest)(void);   /* once */
} told;

static void tell(struct span key, const char *what)
{
    size_t n = strlen(what);

    ck_assert_uint_lt(told.len + key.len + n + 2, sizeof(told.text));
    memcpy(told.text + told.len, key.ptr, key.len);
    memcpy(told.text + told.len + key.len, what, n + 1);
    told.len += key.len + n;
    if (told.meanwhile != NULL) {
        void (*once)(void) = told.meanwhile;

        told.meanwhile = NULL;
        once();
    }
}

static void tell_item(const struct ship_item *it, const char *what)
{
    tell(it->key, what);
    told.items++;
    told.stale += it->is_stale;
}

static void on_item(void *arg, const struct ship_item *it)
{
    tell_item(it, "+ ");
}

static void on_part(void *arg, struct span part)
{
    ck_assert_uint_gt(part.len, 0);
}

static void on_cut(void *arg)
{
    tell(span_str(""), "cut ");
}

static bool on_rest(void *arg)
{
    void (*once)(void) = told.at_rest;

    told.rests++;
    told.at_rest = NULL;
    if (once != NULL) {
        once();
    }
    return !told.wants_no_more;
}

/* A slot that moves between the beginnings of stream and walk would be missed. */
static bool on_begin(void *arg)
{
    struct moves_info info;

    moves_info(&f.engine.moves, &info);
    ck_assert_uint_eq(info.walks, 1);
    tell(span_str(""), "begin ");
    return true;
}

static bool on_complete(void *arg)
{
    tell(span_str(""), "complete ");
    return true;
}

static void on_drop(void *arg, struct span key)
{
    tell(key, "- ");
}

static void on_flush(void *arg)
{
    tell(span_str(""), "flush ");
}

static void on_flush_later(void *arg, msec_t at)
{
    told.later = at;
    tell(span_str(""), "later ");
}

static void on_flush_prefix(void *arg, struct span prefix)
{
    tell(prefix, "* ");
}

static const struct ship_ops ops = {.item = on_item,
                                    .part = on_part,
                                    .cut = on_cut,
                                    .rest = on_rest,
                                    .begin = on_begin,
                                    .complete = on_complete,
                                    .drop = on_drop,
                                    .flush = on_flush,
                                    .flush_later = on_flush_later,
                                    .flush_prefix = on_flush_prefix,
                                    .takes_due = true};

static struct stream stream;
static struct ship ship;

static void start(void)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = 2;
    cfg.limit_bytes = 16 * MIB;
    cfg.ring_bytes = 65536;
    cfg.item_size_max = 3 * MIB + KIB;
    fixture_start_threaded(&f, &cfg);
    memset(&told, 0, sizeof(told));
    ship_init(&ship, &ops, &told);
}

static void start_stream(void)
{
    start();
    ck_assert_int_eq(stream_begin(&stream, &f.engine), MF_OK);
}

static void stop_stream(void)
{
    stream_end(&stream);
    ck_assert_ptr_null(f.shard->changes);
}

/* Read all records that are due by now. */
static void check_told(const char *text)
{
    while (stream_slice(&stream, &ship, NULL) == STREAM_GOES_ON) {
    }
    ck_assert_uint_eq(stream_lag(&stream), 0);
    ck_assert_str_eq(told.text, text);
    told.len = 0;
    told.text[0] = 0;
}

/* ---- a stream alone ---------------------------------------------------------------------- */

TEST_FIXTURE(start_stream, stop_stream)

TEST(changes_come_as_they_are_by_then)
{
    fixture_set(&f, "a", 10);
    check_told("a+ ");
    ck_assert_int_eq(fixture_touch(&f, "a", fixture_now(&f) + 1000), OUT_TOUCHED);
    check_told("a+ ");
    fixture_set(&f, "a", 20);
    ck_assert_int_eq(fixture_delete(&f, "a"), OUT_DELETED);
    check_told("a- ");
    for (unsigned i = 0; i < 300; i++) {
        fixture_set(&f, "b", i);
    }
    check_told("b+ ");
    fixture_set(&f, "b", 1);
    check_told("b+ ");
    fixture_set(&f, "large", 600000);
    check_told("large+ ");
}

/* Its slot goes to the other shard, and the copy that is left keeps too much memory. */
static void move_large(void)
{
    const struct shard *from = fixture_get(&f, "large").shard;

    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, 1 - from->id), MF_OK);
    WAIT_UNTIL(value_pinned_excess(from) > 0);
}

/* There is no other record of a value that was cut because it moved. */
TEST(a_large_value_that_moves_meanwhile_is_told_again)
{
    fixture_set(&f, "large", 3 * MIB);
    told.at_rest = move_large;
    check_told("large+ cut large+ ");
    ck_assert_uint_eq(ship.left_out, 0);
}

static uint64_t fullness_at_rest;

static void note_fullness(void)
{
    fullness_at_rest = stream_fullness(&stream);
}

/* The stream reads records in place, so the shard must not overwrite them before that. */
TEST(records_count_as_unread_until_they_are_shipped)
{
    fixture_set(&f, "large", 600000);
    told.at_rest = note_fullness;
    check_told("large+ ");
    ck_assert_uint_gt(fullness_at_rest, 0);
    ck_assert_uint_eq(stream_fullness(&stream), 0);
}

/* Each gets a new block, in which it is stale as before. Context: read side. */
static void mark_both(void)
{
    for (const char *k = "a"; k != NULL; k = *k == 'a' ? "b" : NULL) {
        struct erase stale = {
            .hash = engine_hash(&f.engine, k, 1), .key = span_str(k), .marks_stale = true};

        ck_assert_int_eq(engine_erase(&f.engine, &stale, fixture_now(&f)), OUT_DELETED);
    }
}

/* A block that is unlinked after it was found has no marks any more. */
TEST(what_gets_another_block_meanwhile_keeps_its_marks)
{
    fixture_set(&f, "a", 10);
    fixture_set(&f, "b", 10);
    rcu_begin();
    mark_both();
    rcu_end();
    for (unsigned i = 0; i < 20; i++) {
        told.meanwhile = mark_both;
        ck_assert_int_eq(stream_slice(&stream, &ship, NULL), STREAM_GOES_ON);
    }
    ck_assert_uint_ge(told.items, 20);
    ck_assert_uint_eq(told.stale, told.items);
}

/* A touch whose item was overwritten since has to bring the value. */
TEST(a_touch_of_what_is_another_item_by_now_comes_with_it)
{
    fixture_set(&f, "a", 10);
    check_told("a+ ");
    ck_assert_int_eq(fixture_touch(&f, "a", fixture_now(&f) + 1000), OUT_TOUCHED);
    fixture_set(&f, "a", 30);
    check_told("a+ ");
}

TEST(a_flush_comes_once_and_in_its_place)
{
    fixture_set(&f, "a", 10);
    fixture_flush(&f, fixture_now(&f));
    fixture_set(&f, "a", 10); /* and is not covered by what was shipped before the flush */
    check_told("a+ flush a+ ");
    fixture_flush(&f, fixture_now(&f) + 100);
    check_told("later ");
    ck_assert_int_eq(told.later, fixture_now(&f) + 100);
    clock_advance(&f.engine.clock, 100);
    fixture_set(&f, "b", 10); /* carries it out in one shard, the stream in the other */
    check_told("flush b+ ");
}

/* Each ring has a record of it; all before it is gone. */
TEST(a_flush_of_a_prefix_comes_once)
{
    char longest[ITEM_KEY_MAX + 1];

    memset(longest, 'x', ITEM_KEY_MAX);
    longest[ITEM_KEY_MAX] = 0;
    fixture_set(&f, "pa", 10);
    check_told("pa+ ");
    fixture_flush_prefix(&f, "p");
    check_told("p* ");
    fixture_set(&f, "pa", 10);
    check_told("pa+ ");
    fixture_flush_prefix(&f, "p");
    fixture_flush_prefix(&f, longest);
    while (stream_slice(&stream, &ship, NULL) == STREAM_GOES_ON) {
    }
    ck_assert_uint_eq(told.len, strlen("p* ") + ITEM_KEY_MAX + strlen("* "));
    ck_assert_int_eq(memcmp(told.text, "p* ", 3), 0);
    ck_assert_int_eq(memcmp(told.text + 3, longest, ITEM_KEY_MAX), 0);
    told.len = 0;
    told.text[0] = 0;
    fixture_settle(&f);
    check_told(""); /* what the walk unlinks has no record of its own */
}

/*
 * A record of before the command brought what was stored after it, and would cover the record
 * of that; but the sink drops it with the command.
 */
TEST(what_was_told_early_is_told_again_after_a_flush_of_its_prefix)
{
    fixture_set(&f, "pa", 10);
    for (unsigned i = 0; i < 6 * STREAM_BATCH; i++) {
        fixture_set(&f, fixture_key("", i % 10), 10);
    }
    fixture_flush_prefix(&f, "p");
    fixture_set(&f, "pa", 10);
    while (stream_slice(&stream, &ship, NULL) == STREAM_GOES_ON) {
    }
    ck_assert_ptr_nonnull(strstr(told.text, "p* "));
    ck_assert_ptr_null(strstr(strstr(told.text, "p* ") + 3, "p* "));
    ck_assert_ptr_nonnull(strstr(strstr(told.text, "p* "), "pa+ "));
    ck_assert_ptr_null(strstr(told.text, "pa- "));
}

/* Begin the first command in this shard, as engine_flush_prefix() does. */
static void begin_prefix_in(struct shard *s)
{
    rcu_begin();
    shard_enter(s);
    shard_prefix_begin(s, 1);
    shard_leave(s);
    rcu_end();
}

static _Atomic bool has_sliced;

static void *slice_once(void *arg)
{
    rcu_register();
    ck_assert_int_eq(stream_slice(&stream, &ship, NULL), STREAM_GOES_ON);
    atomic_store(&has_sliced, true);
    rcu_unregister();
    return arg;
}

/* What is looked up in the other shard before the command has come there is of before it. */
TEST(a_flush_of_a_prefix_is_told_when_all_shards_know_it)
{
    struct prefixes *set = mem_zalloc(sizeof(*set) + sizeof(set->at[0]));
    pthread_t thread;

    for (unsigned i = 0; i < 20; i++) {
        fixture_set(&f, fixture_key("p", i), 10);
    }
    set->count = 1;
    set->at[0] = (struct prefix){.id = 1, .len = 1, .text = "p"};
    ck_assert(shard_prefix_prepare(f.engine.shards[0]));
    ck_assert(shard_prefix_prepare(f.engine.shards[1]));
    pthread_mutex_lock(&f.engine.flush_lock);
    f.engine.group.prefixes = set;
    f.engine.prefix_id = 1;
    begin_prefix_in(f.engine.shards[0]);
    has_sliced = false;
    ck_assert_int_eq(pthread_create(&thread, NULL, slice_once, NULL), 0);
    for (unsigned i = 0; i < 50 && !atomic_load(&has_sliced); i++) {
        (void)usleep(1000); /* if it does not wait, it comes first */
    }
    begin_prefix_in(f.engine.shards[1]);
    pthread_mutex_unlock(&f.engine.flush_lock);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    while (stream_slice(&stream, &ship, NULL) == STREAM_GOES_ON) {
    }
    ck_assert_int_eq(memcmp(told.text, "p* ", 3), 0);
    ck_assert_ptr_null(strchr(told.text, '+'));
    f.engine.group.prefixes = NULL;
    for (uint32_t i = 0; i < 2; i++) {
        while (shard_maintain(f.engine.shards[i], fixture_now(&f), 0)) {
        }
        shard_prefix_end(f.engine.shards[i]);
    }
    mem_free(set);
}

/* A stream that begins after a command knows nothing of it, and those of after it. */
TEST(a_stream_begins_between_flushes_of_prefixes)
{
    struct stream late;

    fixture_set(&f, "pa", 10);
    fixture_flush_prefix(&f, "p");
    ck_assert_int_eq(stream_begin(&late, &f.engine), MF_OK);
    ck_assert_int_eq(stream_slice(&late, &ship, NULL), STREAM_IDLE);
    check_told("p* pa- ");
    fixture_flush_prefix(&f, "p");
    ck_assert_int_eq(stream_slice(&late, &ship, NULL), STREAM_GOES_ON);
    check_told("p* p* ");
    stream_end(&late);
}

static void on_key(void *arg, const char *key, size_t key_len)
{
    tell(span_of(key, key_len), "! ");
}

/* Half of it was carried out when the stream began: so is the other half, then. */
TEST(a_flush_that_is_half_done_is_done_when_a_stream_begins)
{
    struct stream late;

    fixture_flush(&f, fixture_now(&f) + 100);
    check_told("later ");
    clock_advance(&f.engine.clock, 100);
    shard_flush(f.engine.shards[0], fixture_now(&f));
    ck_assert_uint_ne(f.engine.shards[0]->flush_done, f.engine.shards[1]->flush_done);
    ck_assert_int_eq(stream_begin(&late, &f.engine), MF_OK);
    ck_assert_uint_eq(f.engine.shards[0]->flush_done, f.engine.shards[1]->flush_done);
    ck_assert_int_eq(stream_slice(&late, &ship, NULL), STREAM_IDLE);
    check_told("flush "); /* of the other one */
    fixture_set(&f, "a", 10);
    ck_assert_int_eq(stream_slice(&late, &ship, NULL), STREAM_GOES_ON);
    check_told("a+ a+ ");
    stream_end(&late);
}

/* If it comes to a shard only after that, what was stored in others since would go with it. */
TEST_LOOP(a_flush_while_a_stream_begins_is_no_overrun, 2)
{
    stream.flushed_before = 1; /* as one that was over in another shard */
    fixture_flush(&f, fixture_now(&f));
    ck_assert_int_eq(_i == 0 ? stream_slice(&stream, &ship, NULL) : stream_pass(&stream, &ship),
                     STREAM_FLUSHED);
    stream_skip(&stream);
    fixture_set(&f, "a", 10);
    check_told("a+ ");
}

/* Keys alone, while a flush is read in some rings, and then states again. */
TEST(keys_go_on_where_a_flush_is_held)
{
    fixture_set(&f, "a", 10);
    fixture_flush(&f, fixture_now(&f));
    ck_assert_int_eq(stream_pass(&stream, &ship), STREAM_GOES_ON);
    ck_assert(stream_is_held(&stream));
    ck_assert_int_eq(stream_keys(&stream, UINT_MAX, on_key, &told), STREAM_IDLE);
    ck_assert(!stream_is_held(&stream));
    fixture_set(&f, "b", 10);
    fixture_set(&f, "c", 10);
    while (stream_pass(&stream, &ship) == STREAM_GOES_ON) {
    }
    check_told("a- b+ c+ ");
}

TEST(a_ring_that_comes_around_is_told)
{
    for (unsigned i = 0; i < 8000; i++) {
        fixture_set(&f, fixture_key("k", i), 10);
    }
    ck_assert_int_eq(stream_slice(&stream, &ship, NULL), STREAM_OVERRUN);
    stream_skip(&stream);
    check_told("");
    fixture_set(&f, "a", 10);
    check_told("a+ ");
}

/* Context: read side. */
static void overwrite_first_ring(void)
{
    struct shard *s = f.engine.shards[0];

    shard_enter(s);
    for (unsigned n = 0; n < 4000; n++) {
        changes_put(s->changes, CHANGE_DROP, n, "x", 1);
    }
    shard_leave(s);
}

/* The keys of the batch are in the ring until they are shipped. */
TEST(a_ring_that_comes_around_within_a_batch_is_told)
{
    for (unsigned i = 0; i < 100; i++) {
        fixture_set(&f, fixture_key("k", i), 10);
    }
    told.meanwhile = overwrite_first_ring;
    ck_assert_int_eq(stream_slice(&stream, &ship, NULL), STREAM_OVERRUN);
    ck_assert_ptr_null(strstr(told.text, "- "));
}

/* Context: in shard. */
static void put_long_drop(struct changes *c, size_t len)
{
    char key[ITEM_KEY_MAX];

    memset(key, CHANGE_DROP, sizeof(key)); /* each word looks like the header of a record */
    changes_put(c, CHANGE_DROP, 0, key, len);
}

static uint64_t read_next; /* position */

static void overwrite_next(void)
{
    struct shard *s = f.engine.shards[0];
    struct changes *c = s->changes;

    shard_enter(s);
    while (changes_published(c) - read_next <= c->bytes + ITEM_KEY_MAX) {
        put_long_drop(c, 200);
    }
    shard_leave(s);
}

/* What then comes for a header leads into the middle of records that are still there. */
TEST_LOOP(a_ring_that_comes_around_while_a_batch_is_read_is_told, 2)
{
    struct shard *s = f.engine.shards[0];

    fixture_flush_prefix(&f, "p");
    shard_enter(s);
    read_next = changes_published(s->changes);
    for (unsigned i = 0; i < 20; i++) {
        put_long_drop(s->changes, 160 + 8 * (unsigned)_i);
    }
    shard_leave(s);
    told.meanwhile = overwrite_next;
    ck_assert_int_eq(stream_slice(&stream, &ship, NULL), STREAM_OVERRUN);
    ck_assert_str_eq(told.text, "p* ");
}

/* Whichever stream is the first. */
TEST(rings_are_as_large_as_the_engine_says)
{
    static const struct {
        uint64_t wanted, limit, each;
    } sizes[] = {{8192, 64 * MIB, 4096},
                 {0, 16 * MIB, MIB},
                 {0, 256 * MIB, 4 * MIB},
                 {0, 1024 * MIB, 8 * MIB}};

    stream_end(&stream);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        f.engine.config.ring_bytes = sizes[i].wanted;
        budget_set_limit(&f.engine.budget, (int64_t)sizes[i].limit);
        ck_assert_int_eq(stream_begin(&stream, &f.engine), MF_OK);
        ck_assert_uint_eq(f.engine.shards[0]->changes->bytes, sizes[i].each);
        ck_assert_uint_eq(f.engine.shards[1]->changes->bytes, sizes[i].each);
        stream_end(&stream);
    }
    budget_set_limit(&f.engine.budget, 16 * MIB);
    ck_assert_int_eq(stream_begin(&stream, &f.engine), MF_OK);
}

TEST(two_streams_share_the_rings)
{
    struct stream other;

    fixture_set(&f, "a", 10);
    ck_assert_int_eq(stream_begin(&other, &f.engine), MF_OK);
    check_told("a+ ");
    fixture_set(&f, "b", 10);
    check_told("b+ ");
    ck_assert_uint_gt(stream_lag(&other), 0);
    ck_assert_int_eq(stream_slice(&other, &ship, NULL), STREAM_GOES_ON);
    ck_assert_uint_eq(stream_lag(&other), 0);
    stream_end(&other);
    ck_assert_str_eq(told.text, "b+ ");
    told.len = 0;
    fixture_set(&f, "c", 10);
    check_told("c+ ");
}

TEST(a_sink_may_want_no_more)
{
    told.wants_no_more = true;
    fixture_set(&f, "a", 10);
    ck_assert_int_eq(stream_slice(&stream, &ship, NULL), STREAM_REFUSED);
}

/* ---- a walk and a stream ----------------------------------------------------------------- */

TEST(what_a_walk_will_meet_is_not_told_twice)
{
    struct walk w;

    for (unsigned i = 0; i < 10; i++) {
        fixture_set(&f, fixture_key("", i), 10);
    }
    ck_assert(walk_begin(&w, &f.engine, &ops, &told, NULL));
    ck_assert_int_eq(stream_slice(&stream, &ship, &w), STREAM_GOES_ON);
    ck_assert_uint_eq(stream_lag(&stream), 0);
    ck_assert_str_eq(told.text, "");
    while (walk_slice(&w)) {
    }
    ck_assert_uint_eq(told.len, 10 * strlen("0+ "));
    told.len = 0;
    fixture_set(&f, "0", 10);
    ck_assert_int_eq(stream_slice(&stream, &ship, &w), STREAM_GOES_ON);
    ck_assert_str_eq(told.text, "0+ ");
    walk_end(&w);
}

/* Last position of a text; -1: never. */
static long told_at(const char *key, char what)
{
    char text[40];
    long at = -1;

    snprintf(text, sizeof(text), " %s%c ", key, what);
    for (const char *p = strstr(told.text, text); p != NULL; p = strstr(p + 1, text)) {
        at = p - told.text;
    }
    return at;
}

/* With a position half shipped, changes that the walk has yet to meet are shipped as well. */
TEST(what_is_gone_before_the_walk_meets_it_is_told)
{
    unsigned early = 0;
    struct walk w;

    for (unsigned i = 0; i < 24; i++) {
        fixture_set(&f, fixture_key("", i), SHIP_BYTES / 2);
    }
    ck_assert(walk_begin(&w, &f.engine, &ops, &told, NULL));
    stream_skip(&stream);
    do {
        ck_assert(walk_slice(&w));
    } while (w.resume == 0);
    for (unsigned i = 0; i < 40; i++) {
        fixture_set(&f, fixture_key("k", i), 10);
    }
    ck_assert_int_eq(stream_slice(&stream, &ship, &w), STREAM_GOES_ON);
    do {
        ck_assert(walk_slice(&w));
    } while (w.resume != 0);
    for (unsigned i = 0; i < 40; i++) {
        const char *key = fixture_key("k", i);

        rcu_begin();
        early += told_at(key, '+') >= 0 &&
                 !walk_passed(&w, w.at.shard, engine_hash(&f.engine, key, strlen(key)));
        rcu_end();
        ck_assert_int_eq(fixture_delete(&f, key), OUT_DELETED);
    }
    ck_assert_uint_gt(early, 0);
    ck_assert_int_eq(stream_slice(&stream, &ship, &w), STREAM_GOES_ON);
    while (walk_slice(&w)) {
    }
    walk_end(&w);
    for (unsigned i = 0; i < 40; i++) {
        ck_assert_int_ge(told_at(fixture_key("k", i), '-'), told_at(fixture_key("k", i), '+'));
    }
}

/* ---- the thread -------------------------------------------------------------------------- */

static struct feed *feed;

/* Until everything has come; what follows is ordered after it. */
static void wait_for_all(void)
{
    struct feed_info info;

    do {
        (void)usleep(200);
        feed_info(feed, &info);
        ck_assert(!info.is_over);
    } while (!info.is_complete || info.lag_bytes != 0);
}

TEST_FIXTURE(start, NULL)

TEST(a_feed_begins_with_all_and_goes_on_with_changes)
{
    struct feed_config cfg = {.ops = &ops, .arg = &told};
    struct feed_info info;

    fixture_set(&f, "a", 10);
    ck_assert_int_eq(feed_start(&feed, &f.engine, &cfg), MF_OK);
    wait_for_all();
    ck_assert_str_eq(told.text, "begin a+ complete ");
    fixture_set(&f, "b", 10);
    wait_for_all();
    (void)usleep(40000); /* whether it sleeps by then or not, it notices */
    ck_assert_int_eq(fixture_delete(&f, "a"), OUT_DELETED);
    wait_for_all();
    ck_assert_str_eq(told.text, "begin a+ complete b+ a- ");
    feed_info(feed, &info);
    ck_assert_uint_eq(info.keys_all, 1);
    ck_assert_uint_eq(info.keys_shipped, 1);
    ck_assert_uint_eq(info.records, 2);
    ck_assert_uint_eq(info.begun, 1);
    feed_stop(&feed);
    ck_assert_ptr_null(feed);
    ck_assert_ptr_null(f.shard->changes);
}

TEST(one_feed_runs_at_a_time)
{
    struct feed_config cfg = {.ops = &ops, .arg = &told};
    struct feed *second;

    ck_assert_int_eq(feed_start(&feed, &f.engine, &cfg), MF_OK);
    ck_assert_int_eq(feed_start(&second, &f.engine, &cfg), MF_EBUSY);
    ck_assert_ptr_null(second);
    wait_for_all();
    feed_stop(&feed);
    ck_assert_ptr_null(f.shard->changes);
    ck_assert_int_eq(feed_start(&second, &f.engine, &cfg), MF_OK);
    feed_stop(&second);
}

TEST(a_feed_ends_when_the_sink_wants_no_more)
{
    struct feed_config cfg = {.ops = &ops, .arg = &told};
    struct feed_info info;

    told.wants_no_more = true;
    ck_assert_int_eq(feed_start(&feed, &f.engine, &cfg), MF_OK);
    do {
        (void)usleep(200);
        feed_info(feed, &info);
    } while (!info.is_over);
    ck_assert(!info.is_complete);
    feed_stop(&feed);
}
