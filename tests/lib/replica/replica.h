/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a replica does with the stream, as a map: for tests of the primary's half. It has of
 * each key what the stream said last. One thread at a time; what is wrong ends the program.
 */
#ifndef MAYFLY_TESTS_LIB_REPLICA_REPLICA_H
#define MAYFLY_TESTS_LIB_REPLICA_REPLICA_H

#include <sched.h>

#include "lib/base/check.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/replica/shipper.h"
#include "lib/shard/position.h"
#include "lib/shard/value.h"
#include "tests/lib/fixture.h"

#define REPLICA_CHAINS 4096u
#define REPLICA_SEED   7
#define REPLICA_ROOM   (2 * (size_t)SNAP_ROOM_BYTES)

struct replica_item {
    struct replica_item *next;
    uint64_t cas, value_hash, value_len;
    int64_t deadline; /* as the stream has it */
    uint32_t flags;
    uint8_t marks, key_len;
    bool is_met;
    char key[ITEM_KEY_MAX];
};

struct replica {
    struct backlog *backlog; /* what comes is appended there as well; NULL: no */
    struct shipper_reader *reader;
    bool acks;
    struct replid id;
    uint64_t offset;     /* applied */
    char *room;          /* what came after it */
    size_t have;         /* bytes of it */
    size_t read_at_most; /* in each call; 0: as there is room */
    struct snap_reader blocks;
    struct snap_opener opener;
    struct replica_item *chains[REPLICA_CHAINS];
    uint64_t count;
    /* the value in parts that is coming */
    struct replica_item *open;
    char *value;
    size_t value_done;
    /* what came */
    uint64_t items, gone, expired, flushes, prefixes, later, parts, cuts, ids, block_count;
    int64_t later_at;
};

static inline ssize_t replica_bytes(void *arg, void *out, size_t n, uint64_t offset)
{
    struct replica *r = arg;
    uint64_t at = offset - r->offset;

    must(at <= r->have);
    n = n < r->have - at ? n : r->have - at;
    memcpy(out, r->room + at, n);
    return (ssize_t)n;
}

static inline void replica_init(struct replica *r)
{
    memset(r, 0, sizeof(*r));
    r->room = mem_alloc(REPLICA_ROOM);
    must(r->room != NULL && snap_opener_init(&r->opener));
}

static inline struct replica_item **replica_place(struct replica *r, const char *key,
                                                  size_t key_len)
{
    struct replica_item **at =
        &r->chains[hash_key(REPLICA_SEED, key, key_len) % REPLICA_CHAINS];

    while (*at != NULL &&
           ((*at)->key_len != key_len || memcmp((*at)->key, key, key_len) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

static inline void replica_remove(struct replica *r, const char *key, size_t key_len)
{
    struct replica_item **at = replica_place(r, key, key_len);
    struct replica_item *it = *at;

    if (it != NULL) {
        *at = it->next;
        r->count--;
        mem_free(it);
    }
}

static inline void replica_clear(struct replica *r)
{
    for (unsigned i = 0; i < REPLICA_CHAINS; i++) {
        while (r->chains[i] != NULL) {
            replica_remove(r, r->chains[i]->key, r->chains[i]->key_len);
        }
    }
    must(r->count == 0);
}

static inline void replica_flush_prefix(struct replica *r, struct span prefix)
{
    for (unsigned i = 0; i < REPLICA_CHAINS; i++) {
        struct replica_item **at = &r->chains[i];

        while (*at != NULL) {
            struct replica_item *it = *at;

            if (it->key_len >= prefix.len && memcmp(it->key, prefix.ptr, prefix.len) == 0) {
                *at = it->next;
                r->count--;
                mem_free(it);
            } else {
                at = &it->next;
            }
        }
    }
}

static inline void replica_fini(struct replica *r)
{
    shipper_detach(&r->reader);
    replica_clear(r);
    snap_opener_fini(&r->opener);
    mem_free(r->room);
    mem_free(r->value);
}

/* ---- what comes -------------------------------------------------------------------------- */

static inline void replica_take_part(struct replica *r, struct span part)
{
    struct replica_item *it = r->open;

    must(it != NULL && r->value_done + part.len <= it->value_len);
    memcpy(r->value + r->value_done, part.ptr, part.len);
    r->value_done += part.len;
    if (r->value_done == it->value_len) {
        it->value_hash = hash_key(REPLICA_SEED, r->value, r->value_done);
        r->open = NULL;
    }
}

static inline void replica_take(struct replica *r, const struct snap_item *from)
{
    struct replica_item **at = replica_place(r, from->key.ptr, from->key.len);
    struct replica_item *it = *at;

    must(r->open == NULL);
    if ((from->marks & SNAP_GONE) != 0) {
        r->gone++;
        replica_remove(r, from->key.ptr, from->key.len);
        return;
    }
    if (it == NULL) {
        it = *at = mem_zalloc(sizeof(*it));
        memcpy(it->key, from->key.ptr, from->key.len);
        it->key_len = (uint8_t)from->key.len;
        r->count++;
    }
    r->items++;
    it->cas = from->cas;
    it->deadline = from->deadline;
    it->flags = from->client_flags;
    it->marks = from->marks;
    it->value_len = from->value_len;
    r->open = it;
    r->value_done = 0;
    mem_free(r->value);
    r->value = mem_alloc(from->value_len + 1);
    replica_take_part(r, from->value);
}

/* The value in parts does not come: the key is to be forgotten. */
static inline void replica_cut(struct replica *r)
{
    if (r->open != NULL) {
        r->cuts++;
        replica_remove(r, r->open->key, r->open->key_len);
        r->open = NULL;
    }
}

static inline void replica_apply(struct replica *r, const struct snap_block *b,
                                 struct span content)
{
    struct snap_cursor c = snap_cursor_of(b, content);
    struct snap_item it;
    struct span prefix;
    struct span bytes;
    uint64_t epoch;
    int64_t instant;
    uint32_t at;

    switch (b->kind) {
    case SNAP_ITEMS:
        while (snap_cursor_next(&c, &it)) {
            replica_take(r, &it);
        }
        must(snap_cursor_is_good(&c) && r->open == NULL);
        break;
    case SNAP_VALUE:
        must(snap_part_of(b, content, &at, &it, &bytes));
        r->parts++;
        if (at == SNAP_PART_CUT) {
            replica_cut(r);
        } else if (at == 0) {
            replica_take(r, &it);
        } else {
            must(at == r->value_done);
            replica_take_part(r, bytes);
        }
        break;
    case SNAP_FLUSH:
        must(snap_instant_of(content, &instant) && r->open == NULL);
        if (instant != 0) {
            r->later++;
            r->later_at = instant;
        } else {
            r->flushes++;
            replica_clear(r);
        }
        break;
    case SNAP_PREFIX:
        must(snap_prefix_of(content, &prefix) && r->open == NULL);
        r->prefixes++;
        replica_flush_prefix(r, prefix);
        break;
    case FRAME_ID:
        must(frame_id_of(content, &r->id, &epoch));
        r->ids++;
        replica_cut(r);
        break;
    default:
        must(!"a block of another kind");
    }
}

/* Apply the next block if it has come. */
static inline bool replica_step(struct replica *r)
{
    struct snap_fault fault;
    struct snap_block b;
    struct span content;
    size_t n = r->have >= SNAP_BLOCK_BYTES ? frame_length(r->room, r->offset) : 0;

    must(r->have < SNAP_BLOCK_BYTES || n != 0);
    if (n == 0 || n > r->have) {
        return false;
    }
    frame_reader_begin(&r->blocks, replica_bytes, r, r->offset);
    r->blocks.is_in_value = r->open != NULL;
    must(frame_reader_next(&r->blocks, &r->id, &b, &fault) == SNAP_NEXT_BLOCK);
    must(snap_block_open(&r->blocks, &b, &r->opener, &content, &fault));
    must(r->backlog == NULL || backlog_append_copy(r->backlog, r->room, n));
    replica_apply(r, &b, content);
    r->block_count++;
    r->offset += n;
    r->have -= n;
    memmove(r->room, r->room + n, r->have);
    return true;
}

/* Take what there is by now. False: dropped. */
static inline bool replica_pull(struct replica *r)
{
    ptrdiff_t n;

    do {
        size_t most = REPLICA_ROOM - r->have;

        most = r->read_at_most != 0 && r->read_at_most < most ? r->read_at_most : most;
        n = shipper_read(r->reader, r->room + r->have, most);
        if (n < 0) {
            return false;
        }
        r->have += (size_t)n;
        while (replica_step(r)) {
        }
        if (r->acks) {
            shipper_ack(r->reader, r->offset);
        }
    } while (n != 0);
    return true;
}

/* Take all up to an offset. False: dropped. */
static inline bool replica_pull_to(struct replica *r, uint64_t offset)
{
    bool is_there = true;

    while (is_there && r->offset < offset) {
        (void)sched_yield();
        is_there = replica_pull(r);
    }
    return is_there;
}

/* What has a deadline up to this time is gone at the primary. */
static inline void replica_expire(struct replica *r, const struct shipper_level *level)
{
    must(r->offset >= level->offset);
    for (unsigned i = 0; i < REPLICA_CHAINS; i++) {
        struct replica_item *next;

        for (struct replica_item *it = r->chains[i]; it != NULL; it = next) {
            next = it->next;
            if (it->deadline <= level->due_gone && it != r->open) {
                r->expired++;
                replica_remove(r, it->key, it->key_len);
            }
        }
    }
}

/* Continue from what was applied. */
static inline enum backlog_answer replica_attach(struct replica *r, struct shipper *s)
{
    enum backlog_answer answer = shipper_attach(s, &r->id, r->offset, &r->reader);

    r->have = 0;
    if (answer == BACKLOG_CONTINUES && r->acks) {
        shipper_ack(r->reader, r->offset);
    }
    return answer;
}

/* ---- the comparison ---------------------------------------------------------------------- */

struct replica_audit {
    struct replica *replica;
    int64_t to_unix_ms;
    char *value;
};

static inline void replica_compare(void *arg, const struct shard *s, const struct item *it)
{
    struct replica_audit *a = arg;
    struct replica_item *copy = *replica_place(a->replica, item_key(it), it->key_len);
    msec_t deadline = item_deadline(it);

    if (copy == NULL) {
        printf("# %.*s is not at the replica\n", it->key_len, item_key(it));
    }
    must(copy != NULL);
    a->value = mem_realloc(a->value, item_len(it) + 1);
    value_copy(s, it, a->value);
    must(copy->cas == item_cas(it) && copy->flags == item_flags(it) &&
         copy->value_len == item_len(it));
    must(copy->value_hash == hash_key(REPLICA_SEED, a->value, item_len(it)));
    must(copy->deadline == (deadline == MSEC_NEVER ? SNAP_DEADLINE_NEVER
                                                   : clock_add_ms(deadline, a->to_unix_ms)));
    must(copy->marks ==
         ((item_is_stale(it) ? SNAP_STALE : 0) | (item_is_won(it) ? SNAP_WON : 0)));
    copy->is_met = true;
}

/* It has what the engine has, and nothing else that is not due. Returns the number of items. */
static inline uint64_t replica_check(struct replica *r, struct engine *e, int64_t to_unix_ms)
{
    struct replica_audit a = {.replica = r, .to_unix_ms = to_unix_ms};
    msec_t now = clock_now(&e->clock);
    struct position p = {0};
    uint64_t met = 0;

    must(r->open == NULL && r->have == 0);
    while (p.shard < e->shard_count) {
        rcu_begin();
        position_step(&p, e->shards[p.shard], now, replica_compare, &a);
        rcu_end();
    }
    for (unsigned i = 0; i < REPLICA_CHAINS; i++) {
        for (struct replica_item *it = r->chains[i]; it != NULL; it = it->next) {
            must(it->is_met || it->deadline <= clock_add_ms(now, to_unix_ms));
            met += it->is_met;
            it->is_met = false;
        }
    }
    mem_free(a.value);
    return met;
}

#endif
