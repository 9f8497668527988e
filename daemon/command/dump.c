/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of dumps. Runs in turns of the requesting connection, on its worker, in the read-side
 * section of the turn: items are borrowed without a lock, and writers do not wait.
 *
 * A key in metadump is URI-encoded. In mgdump each line is a command that finds the item: a key
 * that cannot be part of a line is encoded in base64, with the flag b. cachedump shows keys
 * unchanged, as memcached does, except those that would break its lines: these are URI-encoded;
 * memcached omits them.
 */
#include "daemon/command/exec.h"

#include <string.h>

#include "daemon/access/gate.h"
#include "daemon/base/slab_class.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/worker.h"
#include "lib/base/budgets.h"
#include "lib/base/num.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/position.h"
#include "proto/encode.h"

/* Most bytes of a dump that wait for a client that does not read. */
#define SLICE_BYTES (16u * 1024)

/* Longest line: seven numbers and the words between them, about 60 bytes. */
#define LINE_MAX_BYTES (ENCODE_URI_BYTES(ITEM_KEY_MAX) + 7 * NUM_DIGITS_MAX + 96)

/* ---- passes ------------------------------------------------------------------------------ */

/*
 * Slots do not wait for a dump, because its client may be slow. So an item may move from a
 * shard that the dump has not reached to one that it has passed. Each further pass covers the
 * slots whose state changed since the previous pass began; when there are none, the dump is
 * complete. Such a pass visits the shards that slots leave before those they move to, as items
 * move that way. The second pass also covers slots that were moving before the dump began: the
 * first one may have visited their shards in the other order.
 */
enum pass {
    PASS_NONE, /* the dump has not started */
    PASS_ALL,
    PASS_FROM,
    PASS_TO,
    PASS_FROM_AGAIN,
    PASS_TO_AGAIN,
};

static bool is_of_pass(const struct dump *d, const struct route *rt, uint32_t slot,
                       uint32_t shard)
{
    const struct route_slot *rs = &rt->slot[slot];

    if (d->pass == PASS_ALL) {
        return true;
    }
    if (rt->changed[slot] <= d->since && !(d->pass <= PASS_TO && route_is_moving(rs))) {
        return false;
    }
    return d->pass == PASS_FROM || d->pass == PASS_FROM_AGAIN
               ? rs->from == shard
               : route_is_moving(rs) && rs->to == shard;
}

/* Has this pass anything to do in the shard? */
static bool has_any(const struct dump *d, const struct route *rt, uint32_t shard)
{
    uint32_t slot = 0;

    while (slot < ROUTE_SLOTS && !is_of_pass(d, rt, slot, shard)) {
        slot++;
    }
    return slot < ROUTE_SLOTS;
}

/* All shards are done in this pass. False: there is no other pass to make. */
static bool next_pass(struct dump *d, const struct route *rt)
{
    uint32_t slot = 0;

    d->at = (struct position){0};
    if (d->pass == PASS_FROM || d->pass == PASS_FROM_AGAIN) {
        d->pass++;
        return true;
    }
    d->pass = d->pass == PASS_NONE  ? PASS_ALL
              : d->pass == PASS_ALL ? PASS_FROM
                                    : PASS_FROM_AGAIN;
    d->since = d->begun;
    d->begun = rt->version;
    while (slot < ROUTE_SLOTS && !is_of_pass(d, rt, slot, rt->slot[slot].from)) {
        slot++;
    }
    return slot < ROUTE_SLOTS;
}

/* ---- lines ------------------------------------------------------------------------------- */

struct slice {
    struct turn *turn;
    struct dump *dump;
    const struct route *route;
    int64_t unix_offset_ms; /* added to a time of the engine it makes unix milliseconds */
};

static char *put_text(char *p, const char *text)
{
    size_t n = strlen(text);

    memcpy(p, text, n);
    return p + n;
}

static int64_t unix_s(const struct slice *k, msec_t t)
{
    return clock_add_ms(t, k->unix_offset_ms) / 1000;
}

static char *put_meta(const struct slice *k, const struct item *it, char *p)
{
    msec_t deadline = item_deadline(it);
    msec_t accessed = (msec_t)item_access_s(it, k->turn->now_s) * 1000;

    p = put_text(p, "key=");
    p += encode_uri(p, span_of(item_key(it), it->key_len));
    p = put_text(p, " exp=");
    p += num_put_i64(p, deadline == MSEC_NEVER ? -1 : unix_s(k, deadline));
    p = put_text(p, " la=");
    p += num_put_i64(p, unix_s(k, accessed));
    p = put_text(p, " cas=");
    p += num_put_u64(p, turn_cas_shown(k->turn, item_cas(it)));
    p = put_text(p, item_was_fetched(it) ? " fetch=yes" : " fetch=no");
    p = put_text(p, " cls=" SLAB_CLASS_OURS_TEXT " size=");
    p += num_put_u64(p, item_size(it));
    p = put_text(p, " flags=");
    p += num_put_u64(p, item_flags(it));
    return put_text(p, " \n"); /* 1.6.45 has a space after each word */
}

static char *put_mg(const struct item *it, char *p)
{
    struct span key = span_of(item_key(it), it->key_len);

    p = put_text(p, "mg ");
    if (encode_is_plain(key)) {
        memcpy(p, key.ptr, key.len);
        return put_text(p + key.len, "\r\n");
    }
    p += encode_base64(p, key);
    return put_text(p, " b\r\n");
}

static char *put_cache(const struct slice *k, const struct item *it, char *p)
{
    msec_t deadline = item_deadline(it);

    p = put_text(p, "ITEM ");
    p += encode_line_key(p, span_of(item_key(it), it->key_len));
    p = put_text(p, " [");
    p += num_put_u64(p, item_len(it));
    p = put_text(p, " b; ");
    p += num_put_i64(p, deadline == MSEC_NEVER ? 0 : unix_s(k, deadline));
    return put_text(p, " s]\r\n");
}

static char *put_line(const struct slice *k, const struct item *it, char *p)
{
    switch ((enum dump_format)k->dump->format) {
    case DUMP_META:
        return put_meta(k, it, p);
    case DUMP_MG:
        return put_mg(it, p);
    case DUMP_CACHE:
        return put_cache(k, it, p);
    }
    unreachable();
}

/* A line of n bytes is composed: is it one too many? Does anything follow it? */
static bool exceeds(struct dump *d, size_t n)
{
    if (d->format != DUMP_CACHE) {
        return false;
    }
    if (n + REPLY_LEN(END) > d->bytes_left) {
        d->is_over = true;
        return true;
    }
    d->bytes_left -= (uint32_t)n;
    d->items_left--;
    d->is_over = d->items_left == 0;
    return false;
}

static bool is_wanted(const struct slice *k, const struct shard *s, const struct item *it)
{
    const struct dump *d = k->dump;

    return !d->is_over &&
           (d->pass == PASS_ALL ||
            is_of_pass(d, k->route, route_slot_number(shard_hash(s, it)), s->id));
}

static void on_item(void *arg, const struct shard *s, const struct item *it)
{
    const struct slice *k = arg;
    struct turn *t = k->turn;

    if (!is_wanted(k, s, it)) {
        return;
    }
    char *begin = turn_room(t, LINE_MAX_BYTES);
    size_t n = (size_t)(put_line(k, it, begin) - begin);
    if (!exceeds(k->dump, n)) {
        t->out.len += n;
    }
}

/* ---- slices ------------------------------------------------------------------------------ */

/* Is this slice over? */
static bool is_over(const struct turn *t)
{
    return t->is_halted || t->out.len >= SLICE_BYTES;
}

/* Go one position further, or over one shard. False: that was all. */
static bool step(struct dump *d, struct slice *k)
{
    const struct engine *e = k->turn->e;
    const uint32_t shard = d->at.shard;

    if (d->pass == PASS_NONE || shard == e->shard_count) {
        return next_pass(d, k->route);
    }
    if (d->at.cursor == 0 && !has_any(d, k->route, shard)) {
        position_go(&d->at, 0);
    } else {
        position_step(&d->at, e->shards[shard], k->turn->now, on_item, k);
    }
    return true;
}

/* Walk until the slice ends; true: all passes are done, or no further items are wanted. */
static bool walk(struct turn *t, struct dump *d)
{
    const struct engine *e = t->e;
    struct slice k = {
        .turn = t,
        .dump = d,
        .route = router_read(&e->router),
        .unix_offset_ms = clock_unix_offset_ms(&e->clock),
    };

    do {
        for (unsigned n = 0; n < STEPS_A_LOOK && !is_over(t); n++) {
            if (d->is_over || !step(d, &k)) {
                return true;
            }
        }
    } while (!is_over(t) && !tasks_slice_is_over(t->w));
    return false;
}

enum turn_stop dump_begin(struct turn *t, const struct request *r, const struct dump *d)
{
    must_be_outside_section(t);
    if ((t->w->gate & GATE_MISSES) != 0) {
        return turn_answer(t, r, REPLY_NOT_IN_STEP);
    }
    struct kept *k = client_keep(t->client);
    if (k == NULL) {
        return turn_answer(t, r, REPLY_NO_MEMORY);
    }
    if (d->format != DUMP_CACHE) {
        turn_reply(t, REPLY_OK);
    }
    k->dump = *d;
    k->dump.full_syncs = atomic_load(&t->w->crew->full_syncs);
    k->dump.is_active = true;
    return TURN_LASTS;
}

enum turn_stop dump_go_on(struct turn *t, struct dump *d)
{
    must_be_in_turn(t);
    if (!tasks_begin_slice(t->w)) {
        return TURN_QUEUES;
    }
    bool is_done = walk(t, d);
    tasks_end_slice(t->w);
    /* Checked after the walk: the items that it had still to visit were dropped meanwhile. */
    const bool is_void = d->full_syncs != atomic_load(&t->w->crew->full_syncs);
    if (!is_done && !is_void) {
        return TURN_QUEUES;
    }
    turn_reply(t, is_void                ? REPLY_NOT_IN_STEP
                  : d->format == DUMP_MG ? REPLY_META_MISS
                                         : REPLY_END);
    d->is_active = false;
    return TURN_GOES_ON;
}
