/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stress client as a reader of all keys, and its work on keys without an owner.
 */
#include "tests/stress/client.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/rcu.h"
#include "lib/store/arith.h"

#define BATCH 16u

/* Records a thread appends to one shared log between two audits. */
#define SHARED_RECORDS 60

/* Keys that are never deleted, and that only eviction or a flush can remove. */
static bool must_be_there(const struct worker *w, uint32_t id)
{
    const struct scenario *sc = w->world->scenario;

    if (sc->evicts || sc->flushes) {
        return false;
    }
    return KEY_KIND(id) == KIND_STAY || KEY_KIND(id) >= KIND_SHARED_NUMBER;
}

static void check_stamped(struct worker *w, const struct name *n, const struct found *f,
                          const char *value, size_t len, msec_t now)
{
    uint32_t owner = KEY_OWNER(n->id);
    enum kind kind = KEY_KIND(n->id);
    struct stamp stamp;
    char why[128];

    if (!content_check_stamp(value, len, n->id, &stamp, why, sizeof(why))) {
        stress_fail(w->world, n->id, "thread %u read a bad value: %s", w->id, why);
    }
    if (item_flags(f->item) != content_flags(n->id, stamp.version)) {
        stress_fail(w->world, n->id, "flags %08" PRIx32 " do not belong to version %" PRIu64,
                    item_flags(f->item), stamp.version);
    }
    if (stamp.deadline <= now) {
        stress_fail(w->world, n->id,
                    "version %" PRIu64 " served at %" PRId64 ", deadline %" PRId64,
                    stamp.version, now, stamp.deadline);
    }
    if (kind != KIND_TOUCH && item_deadline(f->item) != stamp.deadline) {
        stress_fail(w->world, n->id, "the item has deadline %" PRId64 ", its value %" PRId64,
                    item_deadline(f->item), stamp.deadline);
    }
    if (owner == OWNER_ALL) {
        if (!must_be_there(w, n->id)) {
            return; /* when it vanishes, some thread starts it over with version 0 */
        }
        owner = 0;
    }
    uint64_t *seen =
        &w->seen[kind][(size_t)owner * w->world->scenario->keys[kind] + KEY_INDEX(n->id)];
    if (stamp.version < *seen) {
        stress_fail(w->world, n->id, "thread %u met version %" PRIu64 " after %" PRIu64, w->id,
                    stamp.version, *seen);
    }
    *seen = stamp.version;
}

void client_check_item(struct worker *w, const struct name *n, const struct found *f,
                       msec_t now)
{
    int32_t next[WORKERS_MAX], first = 0, last = 0;
    const struct item *it = f->item;
    char why[128] = "";
    uint64_t number;
    uint32_t lap = 0;
    size_t len;

    if (it->key_len != n->len || memcmp(item_key(it), n->text, n->len) != 0) {
        stress_fail(w->world, n->id, "found the item of another key");
    }
    /* A number that incr made has no flags. */
    if (!kind_is_stamped(KEY_KIND(n->id)) && item_flags(it) != n->id &&
        (KEY_KIND(n->id) != KIND_NUMBER || item_flags(it) != 0)) {
        stress_fail(w->world, n->id, "flags %08" PRIx32, item_flags(it));
    }
    const char *value = client_value(w, f, &len);
    switch (KEY_KIND(n->id)) {
    case KIND_NUMBER:
    case KIND_SHARED_NUMBER:
        if (!content_check_number(value, len, &number)) {
            stress_fail(w->world, n->id, "no number: %zu bytes \"%.*s\"", len,
                        (int)(len < 40 ? len : 40), value);
        }
        break;
    case KIND_LOG:
        if (!content_check_log(value, len, n->id, &lap, &first, &last, why, sizeof(why))) {
            stress_fail(w->world, n->id, "%s", why);
        }
        break;
    case KIND_SHARED_LOG:
        if (!content_check_shared_log(value, len, n->id, w->world->worker_count, next, why,
                                      sizeof(why))) {
            stress_fail(w->world, n->id, "%s", why);
        }
        break;
    default:
        check_stamped(w, n, f, value, len, now);
        break;
    }
    heat_rules_clock(w->heat.rules, (uint32_t)(now / 1000));
    item_mark_used(it, (uint32_t)(now / 1000), &w->heat);
}

/* ---- reading the keys of all ------------------------------------------------------------- */

static uint32_t pick_any(struct worker *w)
{
    const struct scenario *sc = w->world->scenario;
    enum kind kind = (enum kind)rng_below(&w->rng, KIND_COUNT);
    uint32_t owner = kind >= KIND_SHARED_NUMBER
                         ? OWNER_ALL
                         : (uint32_t)rng_below(&w->rng, w->world->worker_count);

    /* Half of the picks go to a few keys, so that some are hot. */
    uint32_t index = (uint32_t)rng_below(&w->rng, sc->keys[kind]);
    if (rng_below(&w->rng, 2) != 0) {
        index = (uint32_t)rng_below(&w->rng, sc->keys[kind] / 8 + 1);
    }
    return KEY_ID(kind, owner, index);
}

void client_read_turn(struct worker *w)
{
    struct engine *e = &w->world->engine;
    struct name names[BATCH];
    unsigned count = 1 + (unsigned)rng_below(&w->rng, BATCH);
    msec_t now = clock_now(&e->clock);

    for (unsigned i = 0; i < count; i++) {
        name_of(w, pick_any(w), &names[i]);
    }
    rcu_begin();
    const struct route *rt = router_read(&e->router);
    if (rng_below(&w->rng, 32) == 0) {
        (void)
            /* A reader may be preempted with a table that is replaced meanwhile. */
            sched_yield();
    }
    for (unsigned i = 0; i < count; i++) {
        engine_prefetch_bucket(rt, names[i].hash);
    }
    engine_prefetch_items(rt, &names[0].hash, sizeof(names[0]), count);
    for (unsigned i = 0; i < count; i++) {
        struct name *n = &names[i];
        struct found f = engine_find(rt, n->hash, n->text, n->len, now);

        w->tally.gets++;
        if (f.item == NULL) {
            w->tally.misses++;
            if (must_be_there(w, n->id)) {
                stress_fail(w->world, n->id, "thread %u missed a key that never goes", w->id);
            }
            continue;
        }
        w->tally.hits++;
        client_check_item(w, n, &f, now);
        if (KEY_KIND(n->id) == KIND_LARGE) {
            client_pin(w, &f, n->id);
        }
    }
    rcu_end();
    if (rng_below(&w->rng, 8) == 0) {
        client_unpin(w, &w->pins[rng_below(&w->rng, PINS_HELD)]);
    }
}

/* ---- keys without an owner --------------------------------------------------------------- */

static void put_shared(struct worker *w, const struct name *n)
{
    uint64_t cas = 0;

    switch (KEY_KIND(n->id)) {
    case KIND_SHARED_NUMBER:
        (void)client_store(w, n, STORE_ADD, "0", 1, n->id, MSEC_NEVER, 0, &cas);
        break;
    case KIND_SHARED_LOG:
        (void)client_store(w, n, STORE_ADD, "", 0, n->id, MSEC_NEVER, 0, &cas);
        break;
    default:
        content_stamp(w->scratch, STAMP_BYTES, n->id, 0, MSEC_NEVER);
        (void)client_store(w, n, STORE_ADD, w->scratch, STAMP_BYTES, content_flags(n->id, 0),
                           MSEC_NEVER, 0, &cas);
        break;
    }
}

static void add_to_number(struct worker *w, const struct name *n)
{
    struct engine *e = &w->world->engine;
    struct arith a = {.hash = n->hash,
                      .key = span_of(n->text, n->len),
                      .delta = rng_below(&w->rng, 1000),
                      .may_wait = true};
    enum outcome out;
    unsigned tries = 0;

    do {
        msec_t now = clock_now(&e->clock);

        rcu_begin();
        out = engine_arith(e, &a, now);
        rcu_end();
    } while (client_again(w, out, &a.may_wait, &tries));
    w->tally.ariths++;
    if (out == OUT_NUMBER) {
        w->shared_sum[KEY_INDEX(n->id)] += a.delta;
    } else if (out == OUT_NOT_FOUND && !must_be_there(w, n->id)) {
        put_shared(w, n);
    } else if (out != OUT_NO_MEMORY) {
        stress_fail(w->world, n->id, "incr says %s", outcome_name(out));
    }
}

static void append_record(struct worker *w, const struct name *n)
{
    int32_t *next = &w->shared_next[KEY_INDEX(n->id)];
    bool is_exact = must_be_there(w, n->id);
    struct record r;
    uint64_t cas;

    /*
     * Where a log may vanish and start over, writers cannot know its last record, so it is only
     * read.
     */
    if (!is_exact || *next >= SHARED_RECORDS) {
        return;
    }
    content_record(&r, n->id, w->id, *next);
    enum outcome out =
        client_store(w, n, STORE_APPEND, (const char *)&r, sizeof(r), 0, MSEC_NEVER, 0, &cas);
    if (out == OUT_STORED) {
        (*next)++;
    } else if (out != OUT_NO_MEMORY) {
        stress_fail(w->world, n->id, "append says %s", outcome_name(out));
    }
}

static void swap_value(struct worker *w, const struct name *n)
{
    struct engine *e = &w->world->engine;
    msec_t now = clock_now(&e->clock);
    uint64_t cas = 0, version = 0, won = 0;
    struct stamp stamp;
    size_t len;

    rcu_begin();
    struct found f = engine_find(router_read(&e->router), n->hash, n->text, n->len, now);
    if (f.item != NULL) {
        client_check_item(w, n, &f, now);
        memcpy(&stamp, client_value(w, &f, &len), sizeof(stamp));
        version = stamp.version + 1;
        cas = item_cas(f.item);
    }
    rcu_end();
    if (version == 0) {
        put_shared(w, n);
        return;
    }
    len = STAMP_BYTES + rng_below(&w->rng, rng_below(&w->rng, 16) == 0 ? 8000 : 300);
    content_stamp(w->scratch, len, n->id, version, MSEC_NEVER);
    enum outcome out = client_store(w, n, STORE_CAS, w->scratch, len,
                                    content_flags(n->id, version), MSEC_NEVER, cas, &won);
    if (out == OUT_STORED) {
        w->shared_swaps[KEY_INDEX(n->id)]++;
        if (won <= cas) {
            stress_fail(w->world, n->id, "cas %" PRIu64 " after %" PRIu64, won, cas);
        }
    } else if (out == OUT_NOT_FOUND ? must_be_there(w, n->id)
                                    : out != OUT_EXISTS && out != OUT_NO_MEMORY) {
        stress_fail(w->world, n->id, "cas says %s", outcome_name(out));
    }
}

void client_shared_turn(struct worker *w)
{
    enum kind kind = (enum kind)(KIND_SHARED_NUMBER + rng_below(&w->rng, 3));
    struct name n;

    name_of(w, KEY_ID(kind, OWNER_ALL, rng_below(&w->rng, w->world->scenario->keys[kind])), &n);
    if (kind == KIND_SHARED_NUMBER) {
        add_to_number(w, &n);
    } else if (kind == KIND_SHARED_LOG) {
        append_record(w, &n);
    } else {
        swap_value(w, &n);
    }
}
