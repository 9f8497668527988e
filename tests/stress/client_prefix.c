/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stress client flushes prefixes, several threads at the same time: of all keys of a kind,
 * of those of one owner, of those whose numbers begin with a digit, and of single keys.
 */
#include "tests/stress/client.h"

#include "lib/engine/prefix.h"

static unsigned first_digit(uint32_t n)
{
    while (n >= 10) {
        n /= 10;
    }
    return n;
}

static unsigned owner_of(uint32_t id)
{
    return KEY_OWNER(id) == OWNER_ALL ? WORKERS_MAX : KEY_OWNER(id);
}

struct prefix_count *client_prefixes(struct world *world, uint32_t id)
{
    return &world->prefixes[KEY_KIND(id)][owner_of(id)][first_digit(KEY_INDEX(id))];
}

/* What a prefix is of. A number of -1: all. */
struct scope {
    enum kind kind;
    int owner, digit;
    bool is_key; /* not all of these keys have it */
};

enum step { BEGINS, ENDS, FAILS };

static void count(struct world *world, const struct scope *s, enum step step)
{
    for (int owner = 0; owner <= (int)WORKERS_MAX; owner++) {
        for (int digit = 0; digit < 10; digit++) {
            struct prefix_count *c = &world->prefixes[s->kind][owner][digit];

            if ((s->owner >= 0 && s->owner != owner) || (s->digit >= 0 && s->digit != digit)) {
                continue;
            }
            atomic_fetch_add(step == BEGINS ? &c->any_begun : &c->any_done, 1);
            if (!s->is_key && step != ENDS) {
                atomic_fetch_add(&c->all_begun, step == BEGINS ? 1 : (uint64_t)-1);
            } else if (!s->is_key) {
                atomic_fetch_add(&c->all_done, 1);
            }
        }
    }
}

void client_flush_prefix(struct world *world, struct rng *rng)
{
    const enum kind kind = (enum kind)rng_below(rng, KIND_COUNT);
    const bool is_shared = kind >= KIND_SHARED_NUMBER;
    const uint32_t owner =
        is_shared ? OWNER_ALL : (uint32_t)rng_below(rng, world->worker_count);
    const uint32_t index = (uint32_t)rng_below(rng, world->scenario->keys[kind] + 1);
    const uint32_t id = KEY_ID(kind, owner, index);
    struct scope s = {kind, (int)owner_of(id), (int)first_digit(index), false};
    const uint64_t level = rng_below(rng, 20);
    char key[KEY_BYTES];
    size_t len = content_key(id, key);

    if (level == 0) {
        len = 1; /* the letter of the kind */
        s.owner = s.digit = -1;
    } else if (level < 5) {
        len = 4;
        s.digit = -1;
    } else if (level < 12) {
        len = 5;
    } else {
        s.is_key = true;
    }
    count(world, &s, BEGINS);
    enum outcome out = engine_flush_prefix(&world->engine, span_of(key, len));
    count(world, &s, out == OUT_OK ? ENDS : FAILS);
    if (out == OUT_OK) {
        atomic_fetch_add(&world->prefixes_flushed, 1);
    } else if (out != OUT_WAIT && out != OUT_NO_MEMORY) {
        stress_fail(world, id, "flush_prefix says %s", outcome_name(out));
    }
}
