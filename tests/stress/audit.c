/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What exists from the start, and what is compared while no other thread works: shared keys
 * with the sums of what every thread did to them, owned keys with what their owners know, and a
 * walk over all items with both.
 */
#include "tests/stress/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/rcu.h"
#include "lib/shard/position.h"

static bool is_exact(const struct world *world)
{
    return !world->scenario->evicts && !world->scenario->flushes;
}

/* Store one shared key as it is at the start of a round. */
static void begin_shared(struct worker *w, uint32_t id)
{
    uint64_t cas;
    struct name n;
    enum outcome out;

    name_of(w, id, &n);
    switch (KEY_KIND(id)) {
    case KIND_SHARED_NUMBER:
        out = client_store(w, &n, STORE_SET, "0", 1, id, MSEC_NEVER, 0, &cas);
        break;
    case KIND_SHARED_LOG:
        out = client_store(w, &n, STORE_SET, "", 0, id, MSEC_NEVER, 0, &cas);
        break;
    default:
        content_stamp(w->scratch, STAMP_BYTES, id, 0, MSEC_NEVER);
        out = client_store(w, &n, STORE_ADD, w->scratch, STAMP_BYTES, content_flags(id, 0),
                           MSEC_NEVER, 0, &cas);
        break;
    }
    if (out != OUT_STORED && is_exact(w->world)) {
        stress_fail(w->world, id, "cannot begin a shared key: %s", outcome_name(out));
    }
}

void client_setup(struct worker *w)
{
    struct world *world = w->world;

    for (int kind = KIND_SHARED_NUMBER; kind < KIND_COUNT; kind++) {
        for (uint32_t i = 0; i < world->scenario->keys[kind]; i++) {
            begin_shared(w, KEY_ID(kind, OWNER_ALL, i));
        }
    }
    for (uint32_t owner = 0; owner < world->worker_count; owner++) {
        for (uint32_t i = 0; i < world->scenario->keys[KIND_STAY]; i++) {
            struct own *o = &world->workers[owner].own[KIND_STAY][i];
            uint32_t id = KEY_ID(KIND_STAY, owner, i);
            struct name n;

            name_of(w, id, &n);
            o->version = o->held = 1;
            o->len = STAMP_BYTES;
            o->deadline = MSEC_NEVER;
            content_stamp(w->scratch, STAMP_BYTES, id, 1, MSEC_NEVER);
            o->is_present =
                client_store(w, &n, STORE_SET, w->scratch, STAMP_BYTES, content_flags(id, 1),
                             MSEC_NEVER, 0, &o->cas) == OUT_STORED;
            o->ended = clock_now(&world->engine.clock);
        }
    }
}

static struct found find(struct world *world, const struct name *n)
{
    struct engine *e = &world->engine;

    return engine_find(router_read(&e->router), n->hash, n->text, n->len, clock_now(&e->clock));
}

static void audit_number(struct world *world, struct worker *w, uint32_t index)
{
    uint64_t sum = 0, number = 0;
    struct name n;
    size_t len;

    name_of(w, KEY_ID(KIND_SHARED_NUMBER, OWNER_ALL, index), &n);
    for (uint32_t i = 0; i < world->worker_count; i++) {
        sum += world->workers[i].shared_sum[index];
    }
    rcu_begin();
    struct found f = find(world, &n);
    if (f.item == NULL) {
        stress_fail(world, n.id, "a shared number is gone");
    }
    const char *value = client_value(w, &f, &len);
    if (!content_check_number(value, len, &number) || number != sum) {
        stress_fail(world, n.id, "is %" PRIu64 ", but %" PRIu64 " were added", number, sum);
    }
    rcu_end();
}

static void audit_log(struct world *world, struct worker *w, uint32_t index)
{
    int32_t next[WORKERS_MAX];
    char why[128];
    struct name n;
    size_t len;

    name_of(w, KEY_ID(KIND_SHARED_LOG, OWNER_ALL, index), &n);
    rcu_begin();
    struct found f = find(world, &n);
    if (f.item == NULL) {
        stress_fail(world, n.id, "a shared log is gone");
    }
    const char *value = client_value(w, &f, &len);
    if (!content_check_shared_log(value, len, n.id, world->worker_count, next, why,
                                  sizeof(why))) {
        stress_fail(world, n.id, "%s", why);
    }
    rcu_end();
    for (uint32_t i = 0; i < world->worker_count; i++) {
        if (next[i] != world->workers[i].shared_next[index]) {
            stress_fail(world, n.id, "%d records of writer %u, which appended %d", next[i], i,
                        world->workers[i].shared_next[index]);
        }
        world->workers[i].shared_next[index] = 0;
    }
    begin_shared(w, n.id);
}

static void audit_swaps(struct world *world, struct worker *w, uint32_t index)
{
    uint64_t sum = 0;
    struct stamp stamp;
    struct name n;
    size_t len;

    name_of(w, KEY_ID(KIND_SHARED_VALUE, OWNER_ALL, index), &n);
    for (uint32_t i = 0; i < world->worker_count; i++) {
        sum += world->workers[i].shared_swaps[index];
    }
    rcu_begin();
    struct found f = find(world, &n);
    if (f.item == NULL) {
        stress_fail(world, n.id, "a shared value is gone");
    }
    memcpy(&stamp, client_value(w, &f, &len), sizeof(stamp));
    if (stamp.version != sum) {
        stress_fail(world, n.id, "version %" PRIu64 " after %" PRIu64 " swaps", stamp.version,
                    sum);
    }
    rcu_end();
}

/* ---- the walk ---------------------------------------------------------------------------- */

struct walk {
    struct world *world;
    uint64_t met[KIND_COUNT]; /* walks may meet an item twice while an index is resized */
    uint64_t *marks;          /* one bit a KIND_STAY key */
};

static void walk_item(void *arg, const struct shard *s, const struct item *it)
{
    struct walk *walk = arg;
    struct world *world = walk->world;
    const struct scenario *sc = world->scenario;
    char key[KEY_BYTES] = "";
    unsigned owner = 0, index = 0;

    (void)s;
    memcpy(key, item_key(it), it->key_len);
    if (key[0] == 's' && sscanf(key + 1, "%2x-%u", &owner, &index) == 2 &&
        owner < world->worker_count && index < sc->keys[KIND_STAY]) {
        size_t bit = (size_t)owner * sc->keys[KIND_STAY] + index;
        walk->marks[bit / 64] |= 1ULL << bit % 64;
    }
}

static void audit_walk(struct world *world)
{
    const struct scenario *sc = world->scenario;
    size_t bits = (size_t)world->worker_count * sc->keys[KIND_STAY];
    struct position p = {0};
    struct walk walk = {.world = world,
                        .marks = mem_zalloc((bits / 64 + 1) * sizeof(uint64_t))};

    while (p.shard < world->engine.shard_count) {
        rcu_begin();
        position_step(&p, world->engine.shards[p.shard], clock_now(&world->engine.clock),
                      walk_item, &walk);
        rcu_end();
    }
    for (size_t bit = 0; bit < bits && is_exact(world); bit++) {
        if ((walk.marks[bit / 64] >> bit % 64 & 1) == 0) {
            stress_fail(world,
                        KEY_ID(KIND_STAY, bit / sc->keys[KIND_STAY], bit % sc->keys[KIND_STAY]),
                        "no walk meets it");
        }
    }
    mem_free(walk.marks);
}

/* Compare every key with what its owner knows. */
static void audit_owned(struct world *world, struct worker *w, enum kind kind)
{
    msec_t now = clock_now(&world->engine.clock);

    for (uint32_t i = 0; i < world->scenario->keys[kind]; i++) {
        const struct own *o = &w->own[kind][i];
        struct name n;

        name_of(w, KEY_ID(kind, w->id, i), &n);
        rcu_begin();
        struct found f = find(world, &n);
        if (f.item != NULL) {
            client_check_item(w, &n, &f, now);
            if (!o->is_unsure && item_cas(f.item) != o->cas) {
                stress_fail(world, n.id, "another cas at rest than its owner stored");
            }
        }
        own_judge_at_rest(w, n.id, o, f.item != NULL);
        rcu_end();
    }
}

void client_audit(struct world *world)
{
    struct worker *w = &world->workers[0];

    for (uint32_t owner = 0; owner < world->worker_count; owner++) {
        for (int kind = 0; kind < KIND_SHARED_NUMBER; kind++) {
            audit_owned(world, &world->workers[owner], (enum kind)kind);
        }
    }
    audit_walk(world);
    if (!is_exact(world)) {
        return;
    }
    for (uint32_t i = 0; i < world->scenario->keys[KIND_SHARED_NUMBER]; i++) {
        audit_number(world, w, i);
    }
    for (uint32_t i = 0; i < world->scenario->keys[KIND_SHARED_LOG]; i++) {
        audit_log(world, w, i);
    }
    for (uint32_t i = 0; i < world->scenario->keys[KIND_SHARED_VALUE]; i++) {
        audit_swaps(world, w, i);
    }
}
