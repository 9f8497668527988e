/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stress client as the owner of keys with stamped values: only it writes them, so after
 * every request it knows which keys must be present, which must not, and where both are right
 * (a deadline that has just passed, a flush in progress, an eviction).
 */
#include "tests/stress/client.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/rcu.h"
#include "lib/store/erase.h"
#include "lib/store/touch.h"

void client_remove(struct worker *w, const struct name *n, struct own *o)
{
    struct before b = own_look_before(w, n->id, o);

    rcu_begin();
    enum outcome out =
        engine_delete(&w->world->engine, n->hash, span_of(n->text, n->len), 0, b.now);
    rcu_end();
    w->tally.deletes++;
    if (out != OUT_DELETED && out != OUT_NOT_FOUND) {
        stress_fail(w->world, n->id, "delete says %s", outcome_name(out));
    }
    own_judge(w, n->id, o, &b, out == OUT_DELETED, "delete");
    o->is_present = false;
}

/* ---- stamped keys ------------------------------------------------------------------------ */

/* In calm phases there are storms of expiries: deadlines are multiples of this. */
#define STORM_MS 300000

static msec_t pick_deadline(struct worker *w, enum kind kind)
{
    msec_t now = clock_now(&w->world->engine.clock);

    if (kind == KIND_STAY) {
        return MSEC_NEVER;
    }
    if (world_spares(w->world, &w->rng)) {
        /* When the clock jumps, much is due at once while little is dead. */
        return rng_below(&w->rng, 2) != 0 ? MSEC_NEVER : (now / STORM_MS + 1) * STORM_MS;
    }
    switch (rng_below(&w->rng, 8)) {
    case 0:
    case 1:
    case 2:
        return MSEC_NEVER;
    case 3:
        return now + (msec_t)rng_below(&w->rng, 20) - 2;
    case 4:
        return now + 1000 * (msec_t)rng_below(&w->rng, 4000);
    default:
        return now + 1 + (msec_t)rng_below(&w->rng, 3000);
    }
}

/*
 * The length that a key has most of the time where segments are sifted, so that one value takes
 * the hole of another; 0: it has none.
 */
static size_t usual_len(struct worker *w, uint32_t id)
{
    const struct scenario *sc = w->world->scenario;

    if (sc->value_bytes == 0 ||
        (!world_spares(w->world, &w->rng) && rng_below(&w->rng, 4) == 0)) {
        return 0;
    }
    return KEY_KIND(id) == KIND_LARGE ? sc->large_bytes_max / (1 + KEY_INDEX(id) % 6)
                                      : sc->value_bytes;
}

static size_t pick_len(struct worker *w, uint32_t id)
{
    enum kind kind = KEY_KIND(id);
    size_t usual = usual_len(w, id);
    size_t max = kind == KIND_LARGE   ? w->world->scenario->large_bytes_max
                 : kind == KIND_CHURN ? STAMP_BYTES + 40
                                      : 1200;

    if (usual != 0) {
        return usual;
    }
    if (kind == KIND_LARGE) {
        size_t small = ENGINE_SMALL_MAX;
        return small / 2 + rng_below(&w->rng, max - small / 2);
    }
    if (kind == KIND_VALUE && rng_below(&w->rng, 16) == 0) {
        max = 6000;
    }
    return STAMP_BYTES + rng_below(&w->rng, max - STAMP_BYTES);
}

/* What a store of this mode must answer when the key is present, and when it is absent. */
static bool answer_fits(enum store_mode mode, enum outcome out, bool *is_there)
{
    switch (mode) {
    case STORE_ADD:
        *is_there = out == OUT_NOT_STORED;
        return out == OUT_STORED || out == OUT_NOT_STORED;
    case STORE_REPLACE:
        *is_there = out == OUT_STORED;
        return out == OUT_STORED || out == OUT_NOT_STORED;
    case STORE_CAS:
        *is_there = out != OUT_NOT_FOUND;
        return out == OUT_STORED || out == OUT_EXISTS || out == OUT_NOT_FOUND;
    default:
        return out == OUT_STORED;
    }
}

static void put(struct worker *w, const struct name *n, struct own *o, enum store_mode mode)
{
    enum kind kind = KEY_KIND(n->id);
    msec_t deadline = pick_deadline(w, kind);
    size_t len = pick_len(w, n->id);
    struct own old = *o;
    bool is_wrong_cas = rng_below(&w->rng, 4) == 0, is_there = false;
    uint64_t cas = 0;

    o->version++;
    content_stamp(w->scratch, len, n->id, o->version,
                  kind == KIND_TOUCH ? MSEC_NEVER : deadline);
    struct before b = own_look_before(w, n->id, o);
    own_store_begins(w, n->id, o);
    enum outcome out =
        client_store(w, n, mode, w->scratch, len, content_flags(n->id, o->version), deadline,
                     is_wrong_cas ? old.cas + 1 : old.cas, &cas);
    old.version = o->version;
    if (out == OUT_NO_MEMORY) {
        /* As the daemon does: the old value is not served after a failed store. */
        *o = old;
        o->is_unsure = o->is_present;
        client_remove(w, n, o);
        return;
    }
    if (!answer_fits(mode, out, &is_there)) {
        stress_fail(w->world, n->id, "store mode %d says %s", (int)mode, outcome_name(out));
    }
    if (mode != STORE_SET) {
        /* Judged by the state before this store. */
        struct own judged = old;
        own_judge(w, n->id, &judged, &b, is_there, "store");
        old = judged;
    }
    if (mode == STORE_CAS && is_there && (out == OUT_STORED) == is_wrong_cas) {
        stress_fail(w->world, n->id, "cas with %s unique says %s",
                    is_wrong_cas ? "a wrong" : "the right", outcome_name(out));
    }
    if (out != OUT_STORED) {
        *o = old;
        return;
    }
    o->held = o->version;
    o->len = (uint32_t)len;
    o->deadline = deadline;
    own_store_ended(w, n->id, o, cas, is_there && mode != STORE_ADD);
}

static void check_own(struct worker *w, const struct name *n, struct own *o,
                      const struct found *f)
{
    struct stamp stamp;
    size_t len;

    if (item_cas(f->item) != o->cas) {
        stress_fail(w->world, n->id, "cas %" PRIu64 ", stored as %" PRIu64, item_cas(f->item),
                    o->cas);
    }
    own_check_marks(w, n->id, o, f->item);
    if (!kind_is_stamped(KEY_KIND(n->id))) {
        return;
    }
    const char *value = client_value(w, f, &len);
    memcpy(&stamp, value, sizeof(stamp));
    if (stamp.version != o->held || len != o->len) {
        stress_fail(w->world, n->id,
                    "version %" PRIu64 " of %zu bytes, stored %" PRIu64 " of %" PRIu32 " bytes",
                    stamp.version, len, o->held, o->len);
    }
}

void client_look(struct worker *w, const struct name *n, struct own *o)
{
    struct engine *e = &w->world->engine;
    struct before b = own_look_before(w, n->id, o);

    rcu_begin();
    struct found f = engine_find(router_read(&e->router), n->hash, n->text, n->len, b.now);
    if (f.item != NULL) {
        client_check_item(w, n, &f, b.now);
        check_own(w, n, o, &f);
        if (KEY_KIND(n->id) == KIND_LARGE) {
            client_pin(w, &f, n->id);
        }
    }
    rcu_end();
    w->tally.gets++;
    w->tally.hits += f.item != NULL;
    w->tally.misses += f.item == NULL;
    own_judge(w, n->id, o, &b, f.item != NULL, "get");
}

/* touch, or gat at random: the answer shows the item as it was found. */
static void touch(struct worker *w, const struct name *n, struct own *o)
{
    struct engine *e = &w->world->engine;
    msec_t deadline = pick_deadline(w, KIND_TOUCH);
    struct before b;
    struct found f = {0};
    enum outcome out;
    unsigned tries = 0;
    bool may_wait = true;

    do {
        b = own_look_before(w, n->id, o);
        rcu_begin();
        out = engine_touch(e, n->hash, span_of(n->text, n->len), deadline, b.now, may_wait, &f);
        if (out == OUT_TOUCHED && f.item != NULL && deadline > b.now) {
            client_check_item(w, n, &f, b.now);
            check_own(w, n, o, &f);
        }
        rcu_end();
    } while (client_again(w, out, &may_wait, &tries));
    w->tally.touches++;
    if (client_had_no_room(w, n->id, out, OUT_TOUCHED, "touch")) {
        return;
    }
    own_judge(w, n->id, o, &b, out == OUT_TOUCHED, "touch");
    if (out == OUT_TOUCHED) {
        o->deadline = deadline;
    }
}

static void stamped_turn(struct worker *w, const struct name *n, struct own *o)
{
    enum kind kind = KEY_KIND(n->id);
    uint64_t dice = rng_below(&w->rng, 100);

    if (dice < 34) {
        client_look(w, n, o);
    } else if (dice < 40) {
        client_mark_turn(w, n, o);
    } else if (kind == KIND_TOUCH && dice < 70) {
        touch(w, n, o);
    } else if (dice < 72) {
        put(w, n, o, STORE_SET);
    } else if (dice < 78) {
        put(w, n, o, STORE_ADD);
    } else if (dice < 84) {
        put(w, n, o, STORE_REPLACE);
    } else if (dice < 92) {
        put(w, n, o, STORE_CAS);
    } else if (kind != KIND_STAY && !world_spares(w->world, &w->rng)) {
        client_remove(w, n, o);
    }
}

/* ---- turns ------------------------------------------------------------------------------- */

static void owned_turn(struct worker *w, enum kind kind, uint32_t index)
{
    struct own *o = &w->own[kind][index];
    struct name n;

    name_of(w, KEY_ID(kind, w->id, index), &n);
    if (kind == KIND_NUMBER) {
        client_number_turn(w, &n, o);
    } else if (kind == KIND_LOG) {
        client_log_turn(w, &n, o);
    } else {
        stamped_turn(w, &n, o);
    }
}

/* Fill all of the churn keys, then empty them: the index grows, then shrinks. */
static void churn_turn(struct worker *w)
{
    uint32_t count = w->world->scenario->keys[KIND_CHURN];

    for (int i = 0; i < 32; i++) {
        struct name n;

        name_of(w, KEY_ID(KIND_CHURN, w->id, w->churn_at), &n);
        struct own *o = &w->own[KIND_CHURN][w->churn_at];
        if (w->is_growing) {
            put(w, &n, o, STORE_SET);
        } else {
            client_remove(w, &n, o);
        }
        w->churn_at++;
        if (w->churn_at == count) {
            w->churn_at = 0;
            w->is_growing = !w->is_growing || world_spares(w->world, &w->rng);
        }
    }
}

static void too_large_turn(struct worker *w)
{
    size_t len = (size_t)w->world->engine.item_bytes_max + 1;
    uint64_t cas = 0;
    struct name n;

    name_of(w, KEY_ID(KIND_LARGE, w->id, w->world->scenario->keys[KIND_LARGE]), &n);
    struct store s = {.mode = STORE_SET,
                      .hash = n.hash,
                      .key = span_of(n.text, n.len),
                      .deadline = MSEC_NEVER,
                      .value = span_of(w->scratch, len),
                      .cas = cas};
    rcu_begin();
    enum outcome out = engine_store(&w->world->engine, &s, clock_now(&w->world->engine.clock));
    rcu_end();
    if (out != OUT_TOO_LARGE) {
        stress_fail(w->world, n.id, "a store of %zu bytes says %s", len, outcome_name(out));
    }
}

void client_turn(struct worker *w)
{
    uint64_t dice = rng_below(&w->rng, 1000);
    uint64_t large = w->world->scenario->value_bytes != 0 ? 60 : 20;
    enum kind kind = dice < 400           ? KIND_VALUE
                     : dice < 500         ? KIND_STAY
                     : dice < 600         ? KIND_TOUCH
                     : dice < 600 + large ? KIND_LARGE
                     : dice < 700         ? KIND_NUMBER
                     : dice < 780         ? KIND_LOG
                                          : KIND_COUNT;

    if (kind != KIND_COUNT) {
        owned_turn(w, kind, (uint32_t)rng_below(&w->rng, w->world->scenario->keys[kind]));
    } else if (dice < 850) {
        client_shared_turn(w);
    } else if (dice < 950) {
        client_read_turn(w);
    } else if (dice < 999) {
        churn_turn(w);
    } else {
        too_large_turn(w);
    }
    if (w->world->scenario->flushes && rng_below(&w->rng, 150) == 0 &&
        !world_spares(w->world, &w->rng)) {
        client_flush_prefix(w->world, &w->rng);
    }
    if (rng_below(&w->rng, 16) == 0) {
        client_unpin(w, &w->pins[rng_below(&w->rng, PINS_HELD)]);
    }
}
