/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The storage engine as a whole: clock, budget, reclaimer, shards, router, and the operations
 * that commands call. daemon/ and the tests create one; nothing in it is process-wide.
 *
 * Reads run under a read-side section and take no lock. Writes run in place under the
 * shard's lock; the functions here enter and leave it.
 */
#ifndef MAYFLY_LIB_ENGINE_ENGINE_H
#define MAYFLY_LIB_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "lib/base/clock.h"
#include "lib/base/counters.h"
#include "lib/base/engine_options.h"
#include "lib/base/err.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "lib/base/reclaim.h"
#include "lib/base/span.h"
#include "lib/engine/router.h"
#include "lib/expiry/cycle.h"
#include "lib/memory/item.h"

/* What happens to items without a command that asks for it. */
enum engine_event_kind {
    ENGINE_EVICTED,
    ENGINE_EXPIRED_LAZY,    /* found by a command */
    ENGINE_EXPIRED_ACTIVE,  /* found by the sampler */
    ENGINE_EXPIRED_RECLAIM, /* found while room was made */
};

/* The bits of engine_observe() that stand for expiry. */
#define ENGINE_EXPIRED_KINDS                                                                   \
    (1u << ENGINE_EXPIRED_LAZY | 1u << ENGINE_EXPIRED_ACTIVE | 1u << ENGINE_EXPIRED_RECLAIM)

struct engine_event {
    enum engine_event_kind kind;
    const struct item *item; /* [borrowed] for the call; about to be unlinked */
    msec_t now;
};

/*
 * Called for each event that engine_observe() asked for, before the item is unlinked. Must not
 * wait, and not call the engine. Context: in shard, on any thread.
 */
typedef void (*engine_observer_fn)(void *arg, const struct engine_event *ev);

/* What an engine is started with. */
struct engine_config {
    uint32_t shards;
    uint64_t limit_bytes;                 /* -m; see engine_set_limit() */
    uint64_t item_size_max;               /* -I */
    uint64_t items_hint;                  /* size the index for this many items; 0: small */
    bool evictions;                       /* false: -M */
    uint64_t seed;                        /* of the key hash */
    engine_observer_fn observer;          /* NULL: nobody */
    void *observer_arg;                   /* [borrowed] */
    const struct engine_options *options; /* [borrowed] read while the engine runs */
};

/* Fill in the defaults. Context: before start. */
void engine_config_init(struct engine_config *cfg);

struct shard;

struct engine {
    /* [const] */
    struct engine_config config;
    struct shard **shards;
    uint32_t shard_count;
    struct reclaimer *reclaimer;
    uint64_t item_bytes_max;  /* longest key + value that a store takes */
    uint64_t plain_bytes_max; /* the part of that which always fits one block */
    /* [atomic] kinds of events the observer is told of, as bits; seldom written */
    _Atomic uint32_t observed;
    /* [atomic] */
    struct clock clock;
    struct budget budget;
    _Atomic uint64_t cas_next; /* blocks of 65536 are drawn from here */
    /* under flush_lock */
    pthread_mutex_t flush_lock; /* one flush command at a time; a leaf but for shards */
    uint64_t flush_id;          /* flush commands so far */
    /* [rcu] */
    struct router router;
};

/*
 * Build everything; the reclaimer's thread runs when this returns. Context: main, before start.
 */
enum mf_err engine_start(struct engine *e, const struct engine_config *cfg);

/* Release everything; no worker is inside. Context: main. */
void engine_stop(struct engine *e);

/* ---- reads: inside a read-side section --------------------------------------------------- */

enum miss { MISS_ABSENT, MISS_EXPIRED, MISS_FLUSHED };

struct found {
    const struct item *item; /* borrowed until the section ends; NULL: a miss */
    struct shard *shard;     /* where it was found, or would be */
    enum miss miss;
};

/* Hash of a key. Context: any thread. */
static inline uint64_t engine_hash(const struct engine *e, const void *key, size_t len)
{
    return hash_key(e->config.seed, key, len);
}

/*
 * Hints for a batch, in this order with other work between: each bucket, then the items of n
 * hashes that stand `stride` bytes apart. Context: read side.
 */
void engine_prefetch_bucket(const struct route *rt, uint64_t hash);
void engine_prefetch_items(const struct route *rt, const uint64_t *hash, size_t stride,
                           unsigned n);

/*
 * Look a key up. An item past its deadline is not found, and is unlinked if its shard is not
 * busy. Does not mark it as used: item_mark_used() does.
 * Context: read side.
 */
struct found engine_find(struct engine *e, const struct route *rt, uint64_t hash,
                         const char *key, size_t key_len, msec_t now);

/* ---- values ------------------------------------------------------------------------------ */

/* A walk over the bytes of a value, part by part. */
struct value_walk {
    const struct shard *shard;
    const struct item *item; /* [borrowed] until the section ends */
    size_t left;             /* bytes not yet given out */
    uint32_t segment;        /* next whole segment */
    uint32_t segments_left;  /* whole segments not yet given out */
    uint32_t first_segment;  /* names the value's segments for pins */
    uint32_t piece;          /* next piece */
};

/* Begin a walk. Context: read side. */
void value_walk_begin(struct value_walk *w, const struct shard *shard, const struct item *item);

/*
 * The next part; false at the end. Context: read side, or pinned while parts are whole
 * segments.
 */
bool value_walk_next(struct value_walk *w, struct span *part);

/*
 * Are the bytes still to come, but for the last pieces, whole segments? Then a pin keeps those
 * for after the section; what follows them (value_walk_tail() bytes) must be copied within it.
 * Context: read side.
 */
bool value_walk_has_segments(const struct value_walk *w);
size_t value_walk_tail(const struct value_walk *w);

/* Copy the last bytes of the value (those in pieces) to out. Context: read side. */
void value_walk_copy_tail(const struct value_walk *w, char *out);

/*
 * Keep the whole segments of this value after the section; each pin is undone once. Context:
 * read side / worker.
 */
struct value_pin {
    struct shard *shard;
    uint32_t first_segment;
};
struct value_pin value_pin(const struct value_walk *w);
void value_unpin(struct value_pin *pin);
/* Was the pinned value unlinked, and does all such memory exceed its cap? Context: worker. */
bool value_pin_is_overdue(const struct value_pin *pin);

/* Copy a whole value. Context: read side. */
void value_copy(const struct shard *shard, const struct item *item, char *out);

/* ---- bodies: large values on their way in ------------------------------------------------ */

/* Values up to this many bytes are stored from one span; larger ones may come as a body. */
size_t engine_small_max(const struct engine *e);

struct body;
struct store;

/*
 * Begin to receive a value of len bytes, more than engine_small_max(). Takes no room yet.
 * NULL when there is no memory. Context: worker, read side.
 */
struct body *body_begin(struct engine *e, uint64_t hash, size_t len);

/*
 * Where the next bytes go: fills ptr and n (at least 1 while the body is not full). OUT_OK, or
 * OUT_WAIT (ask again in 1 ms), or OUT_NO_MEMORY. Context: worker, outside a shard.
 */
enum outcome body_room(struct body *b, bool may_wait, char **ptr, size_t *n);

/*
 * Have the bytes of a body that goes into pieces alone, and has none yet, written to the very
 * blocks of the item that this store makes: then they are not copied again. The blocks are the
 * caller's until its read-side section ends, or until body_unplace(): by then the body must
 * have been stored, unplaced or aborted. False: not now, go on without. Context: worker, read
 * side, outside a shard.
 */
bool body_place(struct body *b, const struct store *st, msec_t now);

/* May a value of so many bytes be placed at all? Context: any thread. */
bool engine_may_place(const struct engine *e, size_t len);

/* All places of the bytes still missing, when it is placed; how many there are. */
#define BODY_PLACES_MAX 15u
unsigned body_places(const struct body *b, struct iovec places[BODY_PLACES_MAX]);

/*
 * Give the blocks back and keep the bytes that came elsewhere, so that the section may end.
 * Nothing when it is not placed. False: no memory, the body can only be aborted. Context:
 * worker, the section of body_place().
 */
bool body_unplace(struct body *b);

/* n bytes were written there. Context: worker. */
void body_filled(struct body *b, size_t n);

/* Bytes still missing. */
size_t body_missing(const struct body *b);

/* Give everything back; takes the address and nulls it; accepts NULL. Context: worker. */
void body_abort(struct body **b);

/* ---- writes: inside a read-side section, no shard held ----------------------------------- */

enum store_mode { STORE_SET, STORE_ADD, STORE_REPLACE, STORE_CAS, STORE_APPEND, STORE_PREPEND };

struct store {
    enum store_mode mode;
    uint64_t hash;
    struct span key;
    uint32_t flags;
    msec_t deadline;       /* MSEC_NEVER: none; at or before now: stored as expired at once */
    uint64_t cas_expected; /* STORE_CAS, or with compares_cas */
    struct span value;     /* the bytes, of any length, when body is NULL */
    /* a full body: taken (and nulled) when stored or refused, kept on OUT_WAIT */
    struct body **body;
    const struct store_over *over; /* the engine's own; NULL (store.h) */
    uint64_t cas_new;              /* cas of the new item; 0: drawn */
    bool may_wait;                 /* false: OUT_NO_MEMORY instead of OUT_WAIT */
    /*
     * append, prepend: an item that is there must have cas_expected, else EXISTS. Of the other
     * modes a set or replace that compares is STORE_CAS, and an add never does.
     */
    bool compares_cas;
    /*
     * STORE_CAS: a cas_expected that is not 0 and below the item's stores all the same. The new
     * item is stale, keeps the deadline, and is won if the old one was.
     */
    bool takes_older;
    bool vivifies; /* append, prepend of an absent key: stored as by an add */
    /* out, with STORED */
    uint64_t cas;
    uint32_t value_len; /* of the whole, of append and prepend too */
};

struct store_over;

/* STORED NOT_STORED EXISTS NOT_FOUND TOO_LARGE NO_MEMORY WAIT. Context: worker, read side. */
enum outcome engine_store(struct engine *e, struct store *s, msec_t now);

/*
 * DELETED NOT_FOUND; cas_expected 0: any, else EXISTS when it differs. Context: worker, read
 * side.
 */
enum outcome engine_delete(struct engine *e, uint64_t hash, struct span key,
                           uint64_t cas_expected, msec_t now);

/* What may be done to an item instead of dropping it. */
struct erase {
    uint64_t hash;
    struct span key;
    bool compares_cas; /* EXISTS when the item's cas is not cas_expected */
    bool marks_stale;  /* the item stays, marked stale and not won, with a new cas */
    /*
     * A new item with an empty value takes its place; it has these flags, no deadline unless
     * `touches`, and the cas of the old one unless marks_stale or cas_new.
     */
    bool drops_value;
    bool touches; /* with marks_stale or drops_value: the deadline; passed: deleted */
    bool may_wait;
    uint32_t flags; /* with drops_value */
    uint64_t cas_expected;
    uint64_t cas_new; /* of the item that stays; 0: drawn, or kept as told above */
    msec_t deadline;
};

/* DELETED NOT_FOUND EXISTS NO_MEMORY WAIT. Context: worker, read side. */
enum outcome engine_erase(struct engine *e, const struct erase *d, msec_t now);

struct arith {
    uint64_t hash;
    struct span key;
    uint64_t delta;
    bool is_decr;
    bool compares_cas; /* EXISTS when the item's cas is not cas_expected */
    bool vivifies;     /* an absent key becomes an item of value `initial`: is_created */
    bool touches;      /* an item that was there gets this deadline; passed: it is gone */
    bool may_wait;
    uint64_t cas_expected;
    uint64_t initial;
    uint64_t cas_new; /* 0: drawn */
    msec_t vivify_deadline;
    msec_t deadline; /* with touches */
    /* out, with NUMBER */
    bool is_created;
    uint8_t digit_count;
    char digits[NUM_DIGITS_MAX]; /* number in decimal, for the reply */
    uint64_t number;
    uint64_t cas;
    msec_t deadline_now;    /* of the item */
    msec_t deadline_before; /* with touches, of an item that was there */
};

/* NUMBER NOT_FOUND NON_NUMERIC EXISTS NO_MEMORY WAIT. Context: worker, read side. */
enum outcome engine_arith(struct engine *e, struct arith *a, msec_t now);

/*
 * A lookup that may change the item: make an absent one, win the right to make it anew, give it
 * a deadline. A plain engine_find() will do when none of this is asked for and the item found
 * is not item_is_winnable().
 */
struct fetch {
    uint64_t hash;
    struct span key;
    bool vivifies;      /* absent: made with an empty value, and won by the caller */
    bool recaches;      /* has a deadline before recache_before, and nobody won: won */
    bool touches;       /* an item that was there gets touch_deadline */
    bool touches_first; /* before its deadline is compared for recaches */
    bool may_wait;
    msec_t vivify_deadline;
    msec_t recache_before;
    msec_t touch_deadline;
    uint64_t cas_new; /* of what is made; 0: drawn */
    /* out, with HIT */
    bool is_created;
    bool is_stale;
    bool is_won;            /* by this call: a stale item that nobody won is, too */
    bool was_won;           /* by somebody before */
    msec_t deadline_before; /* the deadline it came with */
    /* Borrowed until the section ends; not yet marked as used: the caller does that. */
    struct found found;
};

/*
 * HIT; MISS (found.miss tells why); NO_MEMORY, WAIT. With a touch_deadline or a vivify_deadline
 * at or before now the item is found this last time. Context: worker, read side.
 */
enum outcome engine_fetch(struct engine *e, struct fetch *f, msec_t now);

/*
 * Give an item a new deadline (MSEC_NEVER: none; at or before now: it is gone at once).
 * TOUCHED, and found is filled in as engine_find() does; or NOT_FOUND, NO_MEMORY, WAIT.
 * Context: worker, read side.
 */
enum outcome engine_touch(struct engine *e, uint64_t hash, struct span key, msec_t deadline,
                          msec_t now, bool may_wait, struct found *found);

/*
 * Flush: everything stored before `at` is gone at `at` (now or earlier: at once). Constant time
 * but for the number of shards; memory is given back in the background. OUT_OK; or nothing was
 * done: OUT_NO_MEMORY, the system has none for new indexes; OUT_WAIT (only if it may), flushes
 * come faster than their memory is given back: ask again in 1 ms. Context: worker, outside a
 * shard.
 */
enum outcome engine_flush(struct engine *e, msec_t at, msec_t now, bool may_wait);

/*
 * If anything waits for a grace period, end one here if that takes no waiting. False when that
 * did not succeed. Context: worker, outside a section and a shard.
 */
bool engine_try_grace(struct engine *e);

enum steal {
    STEAL_NOTHING, /* nobody has clearly more */
    STEAL_LATER,   /* what another could give waits for a grace period: ask again in 1 ms */
    STEAL_DONE,    /* the budget has room again */
};

/*
 * A shard needs room that it does not have itself: take some from the fullest other one.
 * Context: worker, outside a shard.
 */
enum steal engine_steal(struct engine *e, struct shard *needy);

/* Change -m. False when it cannot be reached. Context: worker, main. */
bool engine_set_limit(struct engine *e, uint64_t limit_bytes);

/* ---- background work: the home worker of a shard ----------------------------------------- */

/*
 * Is there work that wants shard_maintain() soon? One relaxed load. Context: any thread.
 */
bool shard_wants_work(const struct shard *s);

/*
 * Resize steps, cursor slices while room is short, delayed flush, about max_us long. Returns
 * true when there is more to do at once. Context: home worker, outside a section.
 */
bool shard_maintain(struct shard *s, msec_t now, usec_t max_us);

/*
 * One slice of active expiry and its counters; true while the cycle wants another. Context:
 * home worker.
 */
bool shard_expire_slice(struct shard *s, enum cycle_kind kind, const struct cycle_config *cfg);

/*
 * May a fast cycle begin (there is debt, gap and cap allow it)? Two loads when not. Context:
 * home worker.
 */
bool shard_wants_fast(struct shard *s, const struct cycle_config *cfg, msec_t now);

/*
 * When the next background work falls due (deadline, refinement, delayed flush); MSEC_NEVER:
 * none. Context: home worker.
 */
msec_t shard_next_due(struct shard *s);

/* Hold the sampler (tests, forensics): nothing is expired actively. Context: any thread. */
void engine_hold_sampler(struct engine *e, bool held);

/* ---- observation ------------------------------------------------------------------------- */

struct shard_info {
    uint64_t items, item_bytes;
    uint64_t hash_buckets, hash_bytes;
    bool is_resizing;
    uint64_t segment_bytes, segments_used, segments_free, segments_quarantined;
    uint64_t dead_bytes, hole_bytes;
    uint64_t resident_bytes; /* all of it that is counted against the limit */
    uint64_t small_segments, main_segments, large_segments;
    uint32_t oldest_access_s; /* of the oldest sealed segment's first live item; 0: none */
    uint64_t volatile_keys, debt_keys, debt_bytes;
    msec_t debt_oldest_ms;
    uint64_t forecast_keys[4], forecast_bytes[4];
    double stale_pct, avg_ttl_ms;
    uint64_t lag_p50_ms, lag_p99_ms, lag_max_ms; /* of active expiry */
};

/* Context: any thread, outside a shard. */
void shard_info(struct shard *s, msec_t now, struct shard_info *info);
const struct counters *shard_counters(const struct shard *s);

/*
 * Walk over live items for dumps and sizes: calls fn for the items of one position and returns
 * the next cursor, 0 at the end. Context: worker, inside a read-side section of its own.
 */
typedef void (*shard_walk_fn)(void *arg, const struct shard *s, const struct item *it);
uint64_t shard_walk(const struct shard *s, uint64_t cursor, msec_t now, shard_walk_fn fn,
                    void *arg);

/*
 * From now on the observer is told of these kinds of events (1 << enum engine_event_kind).
 * Context: any thread.
 */
void engine_observe(struct engine *e, uint32_t kinds);

/*
 * The full walk: recounts dead, holes, live and tails of every segment, and compares with
 * index, wheel and counters. Returns false and writes what differs to why. For tests and
 * debugging: holds the lock throughout. Context: any thread, outside a shard.
 */
bool shard_verify(struct shard *s, char *why, size_t why_size);

/*
 * Move a range of slots from one shard to another while requests run, in slices. Context: a
 * registered thread that is no worker (waits for grace periods).
 */
enum mf_err engine_move_slots(struct engine *e, uint32_t first, uint32_t count, uint16_t to);

#endif
