/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chunks: how large values are cut. Every length around every boundary is stored, read, joined,
 * touched, moved by the cursor and killed.
 */

#include "lib/memory/chunks.h"
#include "lib/memory/cursor.h"
#include "lib/store/body.h"
#include "tests/lib/fixture.h"

#define SEG (32 * KIB)

static struct fixture f;
static char *bytes; /* the bytes of all values */

#define BYTES (MIB + 64)

static void stop(void)
{
    mem_free(bytes);
}

static void start(uint64_t limit)
{
    fixture_start_sized(&f, 1, limit);
    bytes = mem_alloc(BYTES);
    ck_assert_ptr_nonnull(bytes);
    fixture_fill(bytes, BYTES, 5);
    unit_at_end(stop);
}

/* Lengths around each place where the cut changes; 0 ends the list. */
static const size_t *lengths(void)
{
    static size_t list[128];
    const struct shard *s = f.shard;
    const size_t block = ITEM_SIZE_MAX * ITEM_UNIT - sizeof(struct item);
    const size_t piece = s->memory.piece_max;
    const size_t about[] = {block - 3, block - ITEM_TTL_BYTES - 3, piece, 2 * piece,
                            PIECES_MAX * piece, SEG, SEG + piece, SEG + PIECES_MAX * piece,
                            2 * SEG,
                            /*
                             * The unused part of the last segment may be a sixteenth of the
                             * value.
                             */
                            8 * SEG - 8 * SEG / 17, 15 * SEG, 16 * SEG - SEG * 16 / 17, MIB};
    size_t n = 0;

    for (size_t i = 0; i < sizeof(about) / sizeof(about[0]); i++) {
        for (int d = -2; d <= 2; d++) {
            if (about[i] + (size_t)d + 3 <= f.engine.item_bytes_max) {
                list[n++] = about[i] + (size_t)d;
            }
        }
    }
    list[n] = 0;
    return list;
}

TEST(every_byte_has_its_place)
{
    start(8 * MIB);
    ck_assert_uint_eq(segment_bytes(&f.shard->memory.arena), SEG);
    for (size_t len = 1; len <= MIB; len += len < 3 * SEG ? 7 : 1021) {
        struct cut cut;

        chunks_cut(&f.shard->memory, len, &cut);
        size_t whole = cut.segments * SEG;
        ck_assert_uint_le(cut.pieces, PIECES_MAX);
        ck_assert_uint_le(cut.tail, (size_t)cut.pieces * f.shard->memory.piece_max);
        ck_assert_uint_ge(whole + cut.tail, len);
        if (cut.tail != 0) {
            ck_assert_uint_eq(whole + cut.tail, len);
            ck_assert_uint_gt(cut.tail, (size_t)(cut.pieces - 1) * f.shard->memory.piece_max);
        } else {
            /* The unused end: small in comparison with the value, or too large for pieces. */
            size_t waste = whole - len;

            ck_assert_uint_eq(cut.pieces, 0);
            ck_assert(waste <= len / 16 ||
                      SEG - waste > PIECES_MAX * f.shard->memory.piece_max);
        }
    }
}

TEST(cuts_at_the_boundaries)
{
    struct cut c;

    start(8 * MIB);
    const uint32_t piece = f.shard->memory.piece_max;

    chunks_cut(&f.shard->memory, piece, &c);
    ck_assert(c.segments == 0 && c.pieces == 1 && c.tail == piece);
    chunks_cut(&f.shard->memory, piece + 1, &c);
    ck_assert(c.segments == 0 && c.pieces == 2 && c.tail == piece + 1);
    chunks_cut(&f.shard->memory, 7 * piece, &c);
    ck_assert(c.segments == 0 && c.pieces == 7);
    chunks_cut(&f.shard->memory, 8 * piece, &c);
    ck_assert(c.segments == 1 && c.pieces == 0); /* it fills the segment well enough */
    chunks_cut(&f.shard->memory, SEG, &c);
    ck_assert(c.segments == 1 && c.pieces == 0);
    chunks_cut(&f.shard->memory, SEG + 1, &c);
    ck_assert(c.segments == 1 && c.pieces == 1 && c.tail == 1);
    chunks_cut(&f.shard->memory, 32 * SEG - 1000, &c);
    ck_assert(c.segments == 32 && c.pieces == 0);
}

static void put(const char *key, enum store_mode mode, size_t from, size_t len, msec_t deadline,
                size_t portion)
{
    struct put p = {.mode = mode,
                    .key = key,
                    .ptr = bytes + from,
                    .len = len,
                    .flags = 7,
                    .deadline = deadline,
                    .portion = len > ENGINE_SMALL_MAX ? portion : 0};

    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
}

/* The key has bytes [0, len). */
static struct got check(const char *key, size_t len)
{
    struct got got = fixture_get(&f, key);

    ck_assert(got.is_hit);
    ck_assert_uint_eq(got.len, len);
    ck_assert_uint_eq(got.flags, 7);
    ck_assert(memcmp(got.value, bytes, len) == 0);
    return got;
}

TEST(values_of_boundary_lengths_by_span_and_by_body)
{
    static const size_t portions[] = {0, 1, 4093, MIB};

    start(16 * MIB - 1);
    for (const size_t *len = lengths(); *len != 0; len++) {
        for (size_t i = 0; i < 4; i++) {
            /* Single bytes for the shorter ones only. */
            if (portions[i] == 1 && *len > 70000) {
                continue;
            }
            put("key", STORE_SET, 0, *len, i % 2 == 0 ? 0 : fixture_now(&f) + 1000,
                portions[i]);
            check("key", *len);
            fixture_grace(&f);
        }
        fixture_verify(&f);
    }
    ck_assert_int_eq(fixture_delete(&f, "key"), OUT_DELETED);
    fixture_settle(&f);
    ck_assert_uint_eq(f.shard->memory.arena.whole, 0);
}

/*
 * Joined from two parts, so that each length is reached from below the boundary and from beyond
 * it.
 */
TEST(values_joined_across_the_boundaries)
{
    static const size_t cuts[] = {1, 100, 3000, 40000};

    start(16 * MIB - 1);
    for (const size_t *len = lengths(); *len != 0; len++) {
        for (size_t i = 0; i < 4 && cuts[i] < *len; i++) {
            const size_t cut = cuts[i];

            put("a", STORE_SET, 0, *len - cut, 0, 0);
            put("a", STORE_APPEND, *len - cut, cut, 0, 0);
            check("a", *len);
            put("p", STORE_SET, cut, *len - cut, fixture_now(&f) + 5000, 0);
            put("p", STORE_PREPEND, 0, cut, 0, 0);
            ck_assert_int_eq(check("p", *len).deadline, fixture_now(&f) + 5000);
            /* A small value, and a large one added to it as a body. */
            put("b", STORE_SET, 0, cut, 0, 0);
            put("b", STORE_APPEND, cut, *len - cut, 0, 997);
            check("b", *len);
            put("c", STORE_SET, *len - cut, cut, 0, 0);
            put("c", STORE_PREPEND, 0, *len - cut, 0, 30011);
            check("c", *len);
            fixture_grace(&f);
        }
        fixture_verify(&f);
    }
}

TEST(joined_beyond_the_item_size_is_refused)
{
    struct put p = {.mode = STORE_APPEND, .key = "k", .len = 2000};

    start(16 * MIB - 1);
    const size_t max = f.engine.item_bytes_max - 1; /* next to the key */

    p.ptr = bytes;
    put("k", STORE_SET, 0, max - 1999, 0, 0);
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_TOO_LARGE);
    p.mode = STORE_PREPEND;
    p.len = 5000;
    p.portion = 100;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_TOO_LARGE);
    struct got got = check("k", max - 1999);
    p.len = 1999;
    p.portion = 0;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    ck_assert_uint_eq(fixture_get(&f, "k").len, max);
    ck_assert_uint_gt(fixture_get(&f, "k").cas, got.cas);
}

/*
 * A deadline that is given later makes a new block: with pieces, with segments, and for a full
 * block.
 */
TEST(a_touch_keeps_value_and_cas_at_all_lengths)
{
    start(16 * MIB - 1);
    for (const size_t *len = lengths(); *len != 0; len++) {
        const msec_t until = fixture_now(&f) + 1000;

        put("key", STORE_SET, 0, *len, 0, 0);
        struct got before = check("key", *len);
        ck_assert_int_eq(fixture_touch(&f, "key", until), OUT_TOUCHED);
        struct got after = check("key", *len);
        ck_assert_int_eq(after.deadline, until);
        ck_assert_uint_eq(after.cas, before.cas);
        fixture_verify(&f);
        ck_assert_int_eq(fixture_touch(&f, "key", MSEC_NEVER), OUT_TOUCHED);
        ck_assert_int_eq(check("key", *len).deadline, MSEC_NEVER);
        ck_assert_int_eq(fixture_touch(&f, "key", until + 5), OUT_TOUCHED);
        clock_advance(&f.engine.clock, 1004);
        check("key", *len);
        clock_advance(&f.engine.clock, 1);
        ck_assert(!fixture_has(&f, "key"));
        fixture_grace(&f);
        fixture_verify(&f);
    }
}

/*
 * Heads and pieces are in segments that are cleaned and evicted: references in both directions
 * are kept.
 */
TEST(the_cursor_moves_heads_and_pieces)
{
    char key[16];

    start(8 * MIB);
    for (unsigned round = 0; round < 6; round++) {
        for (unsigned i = 0; i < 60; i++) {
            (void)snprintf(key, sizeof(key), "large-%u", i);
            fixture_set(&f, key, 30000 + i * 700);
            (void)snprintf(key, sizeof(key), "small-%u-%u", round, i);
            for (unsigned k = 0; k < 20; k++) {
                fixture_set(&f, key, 1500 + k);
            }
        }
        for (unsigned i = 0; i < 60; i++) {
            (void)snprintf(key, sizeof(key), "small-%u-%u", round, i);
            (void)fixture_delete(&f, key);
            (void)snprintf(key, sizeof(key), "large-%u", i);
            if (fixture_has(&f, key)) {
                fixture_check(&f, key, 30000 + i * 700);
            }
        }
        fixture_grace(&f);
        shard_enter(f.shard);
        for (int i = 0; i < 20; i++) {
            (void)cursor_slice(&f.shard->memory, 200, fixture_now(&f));
        }
        shard_leave(f.shard);
        fixture_verify(&f);
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_cursor_moved_bytes), 0);
    for (unsigned i = 0; i < 60; i++) {
        (void)snprintf(key, sizeof(key), "large-%u", i);
        if (fixture_has(&f, key)) {
            fixture_check(&f, key, 30000 + i * 700);
        }
    }
}

/* A body that is aborted before its first byte, in its segments, in its tail, when full. */
TEST(an_aborted_body_gives_everything_back)
{
    static const size_t stops[] = {0, 1, SEG, SEG + 5, 3 * SEG, 3 * SEG + 9, 3 * SEG + 3000};

    start(8 * MIB);
    fixture_set(&f, "warm", 200000); /* segments that are held in any case */
    (void)fixture_delete(&f, "warm");
    fixture_settle(&f);
    int64_t used = fixture_used(&f);
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        size_t done = 0;

        rcu_begin();
        struct body *b = body_begin(&f.engine, engine_hash(&f.engine, "k", 1), 3 * SEG + 3000);
        rcu_end();
        ck_assert_ptr_nonnull(b);
        while (done < stops[i]) {
            char *to;
            size_t n;

            ck_assert_int_eq(body_room(b, true, &to, &n), OUT_OK);
            n = n < stops[i] - done ? n : stops[i] - done;
            memset(to, 1, n);
            body_filled(b, n);
            done += n;
        }
        ck_assert_uint_eq(body_missing(b), 3 * SEG + 3000 - done);
        fixture_verify(&f);
        body_abort(&b);
        ck_assert_ptr_null(b);
        body_abort(&b);
        ck_assert_uint_eq(f.shard->memory.arena.whole, 0);
        ck_assert_int_eq(fixture_used(&f), used);
    }
}
