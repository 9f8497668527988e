/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mirror of an engine: see mirror.h. The map has a copy of everything but the values, of
 * which it has the length and a hash.
 */
#include "tests/stress/mirror.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/hash.h"
#include "lib/base/rcu.h"
#include "lib/shard/flush.h"
#include "lib/shard/position.h"
#include "lib/shard/shard.h"
#include "lib/shard/value.h"
#include "lib/ship/feed.h"
#include "tests/stress/world.h"

#define CHAINS_LOG2 14u
#define SEED        7

struct copy {
    struct copy *next;
    uint64_t cas, value_hash, value_len;
    msec_t deadline;
    uint32_t flags;
    bool is_stale, is_won;
    bool is_met; /* by the walk that compares */
    uint8_t key_len;
    char key[ITEM_KEY_MAX];
};

struct mirror {
    struct world *world;
    struct feed *feed;
    struct copy *chains[1u << CHAINS_LOG2];
    uint64_t count;
    char *value; /* the one that is coming */
    size_t value_done;
    struct copy *open;
    uint64_t flushes, prefixes, cuts;
};

static struct copy **place_of(struct mirror *m, struct span key)
{
    struct copy **at = &m->chains[hash_key(SEED, key.ptr, key.len) >> (64 - CHAINS_LOG2)];

    while (*at != NULL &&
           ((*at)->key_len != key.len || memcmp((*at)->key, key.ptr, key.len) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

static void remove_copy(struct mirror *m, struct span key)
{
    struct copy **at = place_of(m, key);
    struct copy *c = *at;

    if (c != NULL) {
        *at = c->next;
        m->count--;
        mem_free(c);
    }
}

static void remove_all(struct mirror *m)
{
    for (size_t i = 0; i < 1u << CHAINS_LOG2; i++) {
        while (m->chains[i] != NULL) {
            remove_copy(m, span_of(m->chains[i]->key, m->chains[i]->key_len));
        }
    }
    must(m->count == 0);
}

/* ---- what comes -------------------------------------------------------------------------- */

static void take_part(struct mirror *m, struct span part)
{
    struct copy *c = m->open;

    must(m->value_done + part.len <= c->value_len);
    memcpy(m->value + m->value_done, part.ptr, part.len);
    m->value_done += part.len;
    if (m->value_done == c->value_len) {
        c->value_hash = hash_key(SEED, m->value, m->value_done);
        m->open = NULL;
    }
}

static void take_rest(struct copy *c, const struct ship_item *it)
{
    c->cas = it->cas;
    c->deadline = it->deadline;
    c->is_stale = it->is_stale;
    c->is_won = it->is_won;
}

static void on_item(void *arg, const struct ship_item *it)
{
    struct mirror *m = arg;
    struct copy **at = place_of(m, it->key);
    struct copy *c = *at;

    must(m->open == NULL && it->value_len <= m->world->scenario->item_size_max);
    if (c == NULL) {
        c = *at = mem_zalloc(sizeof(*c));
        memcpy(c->key, it->key.ptr, it->key.len);
        c->key_len = (uint8_t)it->key.len;
        m->count++;
    }
    take_rest(c, it);
    c->flags = it->flags;
    c->value_len = it->value_len;
    m->open = c;
    m->value_done = 0;
    take_part(m, it->value);
}

static void on_part(void *arg, struct span part)
{
    take_part(arg, part);
}

static void on_cut(void *arg)
{
    struct mirror *m = arg;
    struct copy *c = m->open;

    must(c != NULL);
    m->open = NULL;
    m->cuts++;
    remove_copy(m, span_of(c->key, c->key_len));
}

static void on_drop(void *arg, struct span key)
{
    remove_copy(arg, key);
}

static void on_flush(void *arg)
{
    struct mirror *m = arg;

    m->flushes++;
    remove_all(m);
}

static void on_flush_later(void *arg, msec_t at)
{
    (void)arg;
    must(at > 0);
}

static void on_flush_prefix(void *arg, struct span prefix)
{
    struct mirror *m = arg;

    must(m->open == NULL);
    m->prefixes++;
    for (size_t i = 0; i < 1u << CHAINS_LOG2; i++) {
        struct copy **at = &m->chains[i];

        while (*at != NULL) {
            struct copy *c = *at;

            if (c->key_len >= prefix.len && memcmp(c->key, prefix.ptr, prefix.len) == 0) {
                *at = c->next;
                m->count--;
                mem_free(c);
            } else {
                at = &c->next;
            }
        }
    }
}

static bool on_begin(void *arg)
{
    remove_all(arg);
    return true;
}

static bool on_rest(void *arg)
{
    (void)arg;
    must(!rcu_is_reading());
    return true;
}

static const struct ship_ops ops = {.item = on_item,
                                    .part = on_part,
                                    .cut = on_cut,
                                    .rest = on_rest,
                                    .begin = on_begin,
                                    .complete = on_rest,
                                    .drop = on_drop,
                                    .flush = on_flush,
                                    .flush_later = on_flush_later,
                                    .flush_prefix = on_flush_prefix,
                                    .takes_due = true};

struct mirror *mirror_start(struct world *world)
{
    struct mirror *m = mem_zalloc(sizeof(*m));
    struct feed_config cfg = {.ops = &ops, .arg = m};

    m->world = world;
    m->value = mem_alloc(world->scenario->item_size_max);
    must(feed_start(&m->feed, &world->engine, &cfg) == MF_OK);
    return m;
}

void mirror_stop(struct mirror **mp)
{
    struct mirror *m = *mp;
    struct feed_info info;

    if (m == NULL) {
        return;
    }
    feed_info(m->feed, &info);
    feed_stop(&m->feed);
    printf("# fed: %" PRIu64 " records, %" PRIu64 " shipped, %" PRIu64 " flushes, %" PRIu64
           " of prefixes, %" PRIu64 " walks, %" PRIu64 " cut\n",
           info.records, info.records_shipped, m->flushes, m->prefixes, info.begun, m->cuts);
    remove_all(m);
    mem_free(m->value);
    mem_free(m);
    *mp = NULL;
}

/* ---- the comparison ---------------------------------------------------------------------- */

static void compare(void *arg, const struct shard *s, const struct item *it)
{
    struct mirror *m = arg;
    struct world *world = m->world;
    struct copy *c = *place_of(m, span_of(item_key(it), it->key_len));

    if (c == NULL) {
        struct feed_info info;

        feed_info(m->feed, &info);
        stress_fail(world, 0,
                    "%.*s of %u bytes, cas %" PRIu64 ", deadline %" PRId64
                    " is not in the mirror (%" PRIu64 " left out)",
                    it->key_len, item_key(it), item_len(it), item_cas(it), item_deadline(it),
                    info.left_out);
    }
    value_copy(s, it, m->value);
    if (c->cas != item_cas(it) || c->flags != item_flags(it) ||
        c->deadline != item_deadline(it) || c->value_len != item_len(it) ||
        c->value_hash != hash_key(SEED, m->value, item_len(it)) ||
        c->is_stale != item_is_stale(it) || c->is_won != item_is_won(it)) {
        stress_fail(world, 0,
                    "%.*s is another in the mirror: cas %" PRIu64 " %" PRIu64
                    ", deadline %" PRId64 " %" PRId64 ", bytes %" PRIu64 " %u, marks %d%d %d%d",
                    it->key_len, item_key(it), c->cas, item_cas(it), c->deadline,
                    item_deadline(it), c->value_len, item_len(it), c->is_stale, c->is_won,
                    item_is_stale(it), item_is_won(it));
    }
    c->is_met = true;
}

void mirror_wait(struct mirror *m)
{
    const struct timespec pause = {0, 500000};
    struct feed_info info;

    for (feed_info(m->feed, &info); !info.is_complete || info.lag_bytes != 0;
         feed_info(m->feed, &info)) {
        must(!info.is_over);
        (void)nanosleep(&pause, NULL);
    }
}

void mirror_audit(struct mirror *m, msec_t now)
{
    struct engine *e = &m->world->engine;
    struct position p = {0};

    while (p.shard < e->shard_count) {
        rcu_begin();
        position_step(&p, e->shards[p.shard], now, compare, m);
        rcu_end();
    }
    for (size_t i = 0; i < 1u << CHAINS_LOG2; i++) {
        for (struct copy *c = m->chains[i]; c != NULL; c = c->next) {
            if (!c->is_met && c->deadline > now) {
                stress_fail(m->world, 0, "%.*s is in the mirror alone", c->key_len, c->key);
            }
            c->is_met = false;
        }
    }
}
