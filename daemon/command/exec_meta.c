/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meta commands that read: mg, me, and mn. Those that write are in the files of the classic
 * commands. Runs on the worker of the client, inside the read-side section of the turn.
 *
 * An mg without N, R and T only reads and is executed like a get: no lock, no reference count,
 * the value copied or sent without a copy. If it finds a stale item that no client was asked to
 * renew yet, exactly one client must be asked: that is done by engine_fetch() under the shard's
 * lock, as are N, R and T.
 */
#include "daemon/command/exec.h"

#include <string.h>

#include "daemon/access/gate.h"
#include "daemon/command/observe.h"
#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
#include "lib/base/check.h"
#include "lib/base/counters.h"
#include "lib/store/fetch.h"
#include "lib/store/find_inline.h"
#include "proto/meta_compose.h"
#include "proto/meta_parse.h"

/* The flags by which mg can change an item. */
#define ACTING (META_LETTER('N') | META_LETTER('R') | META_LETTER('T'))

/* Bytes after a value. */
#define LINE_END_LEN 2u

static uint32_t idle_of(const struct turn *t, const struct item *it)
{
    return item_idle_s(it, t->now_s);
}

msec_t exec_meta_deadline(const struct turn *t, const struct meta_flags *flags)
{
    must_be_in_turn(t);
    return flags->is_ms ? turn_deadline_ms(t, flags->exptime)
                        : turn_deadline(t, flags->exptime);
}

/* ---- mg ---------------------------------------------------------------------------------- */

/* Facts for the reply to a hit about the item, which has these marks. */
static inline void fill_facts(const struct turn *t, const struct request *r,
                              const struct item *it, uint16_t marks, struct meta_facts *facts)
{
    facts->shows = META_SHOWS_ITEM;
    facts->cas = 0;
    facts->client = 0;
    if (MF_UNLIKELY((r->letters & (META_LETTER('c') | META_LETTER('f'))) != 0)) {
        facts->cas = turn_cas_shown(t, item_cas(it));
        facts->client = item_flags(it);
    }
    facts->size = item_len(it);
    if ((r->letters & (META_LETTER('t') | META_LETTER('p'))) != 0) {
        facts->left_ms = turn_ms_left(t, item_deadline(it));
        facts->left_before_ms = facts->left_ms;
    }
    if (meta_has(r->letters, 'l')) {
        facts->idle_s = idle_of(t, it);
    }
    if (meta_has(r->letters, 'h')) {
        facts->was_fetched = item_was_fetched(it);
    }
    facts->is_made = false;
    facts->was_won = (marks & SHAPE_WON) != 0;
    facts->is_stale = (marks & SHAPE_STALE) != 0;
    facts->is_won = false;
}

/* A value that is stored in one block: all of its reply goes to the output. */
static inline void put_small(struct turn *t, const struct request *r, const struct item *it,
                             const struct meta_facts *facts)
{
    size_t value_len = facts->size;
    char *p = turn_room(t, META_LINE_MAX + value_len + LINE_END_LEN);

    p += meta_compose(p, META_VA, r, facts);
    memcpy(p, item_value(it), value_len);
    p += value_len;
    memcpy(p, "\r\n", LINE_END_LEN);
    t->out.len = (size_t)(p + LINE_END_LEN - t->out.base);
}

/* Does the client have this value already? Its cas came with C. */
static bool has_same_cas(const struct turn *t, const struct request *r, const struct item *it)
{
    struct meta_flags flags;

    if (!meta_has(r->letters, 'C')) {
        return false;
    }
    (void)meta_read_flags(r->args, true, &flags);
    return flags.cas == turn_cas_shown(t, item_cas(it));
}

/*
 * A hit without its value, with one that the client may have, or with a large one, which the
 * output may not be able to take.
 */
static MF_NOINLINE enum turn_stop put_other(struct turn *t, const struct request *r,
                                            const struct found *f,
                                            const struct meta_facts *facts)
{
    if (!meta_has(r->letters, 'v') || has_same_cas(t, r, f->item)) {
        t->out.len += meta_compose(turn_room(t, META_LINE_MAX), META_HD, r, facts);
        return TURN_GOES_ON;
    }
    if (!item_is_large(f->item)) {
        put_small(t, r, f->item, facts);
        return TURN_GOES_ON;
    }
    if (!turn_has_room_for_value(t, META_LINE_MAX + LINE_END_LEN)) {
        return TURN_BLOCKED;
    }
    t->out.len += meta_compose(t->out.base + t->out.len, META_VA, r, facts);
    out_value(&t->out, f->shard, f->item);
    memcpy(t->out.base + t->out.len, "\r\n", LINE_END_LEN);
    t->out.len += LINE_END_LEN;
    return TURN_GOES_ON;
}

/* Compose the reply to a hit. If the output has no room for it, nothing is composed. */
static inline enum turn_stop put_hit(struct turn *t, const struct request *r,
                                     const struct found *f, const struct meta_facts *facts)
{
    uint64_t asked = r->letters & (META_LETTER('v') | META_LETTER('C'));

    if (MF_UNLIKELY(asked != META_LETTER('v') || item_is_large(f->item))) {
        return put_other(t, r, f, facts);
    }
    put_small(t, r, f->item, facts);
    return TURN_GOES_ON;
}

static inline void mark_used(const struct turn *t, const struct request *r,
                             const struct item *it)
{
    if (!meta_has(r->letters, 'u')) {
        item_mark_used(it, t->now_s, &t->w->heat);
    }
}

/* Observe a fetch; it: NULL when the key was not there. */
static inline void observe_mg(struct turn *t, const struct request *r, const struct item *it,
                              enum miss why)
{
    if (MF_UNLIKELY(t->observed != 0)) {
        observe_get(t, r->key, it, why);
    }
}

static MF_NOINLINE enum turn_stop answer_miss(struct turn *t, const struct request *r,
                                              enum miss why)
{
    struct meta_facts facts = {.shows = META_SHOWS_KEY};

    if (!meta_has(r->letters, 'q')) {
        t->out.len += meta_compose(turn_room(t, META_LINE_MAX), META_EN, r, &facts);
    }
    turn_tally_miss(t, why);
    MF_PROBE3(get_miss, r->key.ptr, r->key.len, why);
    t->tally.gets++;
    observe_mg(t, r, NULL, why);
    return TURN_GOES_ON;
}

/*
 * The earliest deadline at which not less than this number of seconds is left, counted as flag
 * t shows them.
 */
static msec_t recache_before(const struct turn *t, int64_t seconds)
{
    msec_t deadline = turn_deadline(t, seconds);

    return deadline - t->now > 1000 ? deadline - 999 : t->now;
}

/* Convert the flags to a fetch. With N, *made is the deadline of the item that it creates. */
static void prepare_fetch(const struct turn *t, const struct request *r, struct fetch *f,
                          msec_t *made)
{
    struct meta_flags flags;

    (void)meta_read_flags(r->args, true, &flags);
    memset(f, 0, sizeof(*f));
    f->hash = r->hash;
    f->key = r->key;
    f->may_wait = t->may_wait;
    f->yields = (t->w->gate & GATE_PAUSED) != 0; /* or the history would not end at its mark */
    f->cas_new = flags.cas_new;
    f->touches = meta_has(flags.letters, 'T');
    if (f->touches) {
        f->touch_deadline = exec_meta_deadline(t, &flags);
        f->touches_first = flags.touches_first;
    }
    f->vivifies = meta_has(flags.letters, 'N');
    if (f->vivifies) {
        *made = turn_deadline(t, flags.vivify);
        f->vivify_deadline = flags.makes_by_touch ? f->touch_deadline : *made;
    }
    f->recaches = meta_has(flags.letters, 'R') && flags.recache > 0;
    if (f->recaches) {
        f->recache_before = recache_before(t, flags.recache);
    }
}

/* An mg that may change the item, or is the one that learns that it is stale. */
static MF_NOINLINE enum turn_stop fetch_and_answer(struct turn *t, const struct request *r)
{
    struct counters *c = &t->w->counters;
    struct meta_facts facts;
    struct fetch f;
    msec_t made = MSEC_NEVER;

    /* The item changes only once, so first make sure that the output can take its value. */
    if (meta_has(r->letters, 'v') &&
        !turn_has_room_for_value(t, META_LINE_MAX + LINE_END_LEN)) {
        return TURN_BLOCKED;
    }
    prepare_fetch(t, r, &f, &made);
    enum outcome outcome = engine_fetch(t->e, &f, t->now);
    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    if (outcome == OUT_NO_MEMORY) {
        ctr_add(c, CTR_store_no_memory, 1);
        turn_reply(t, REPLY_NO_MEMORY);
        return TURN_GOES_ON;
    }
    if (outcome != OUT_HIT) {
        return answer_miss(t, r, f.found.miss);
    }
    fill_facts(t, r, f.found.item, 0, &facts);
    if (f.touches) {
        facts.left_ms = turn_ms_left(t, f.touch_deadline);
        facts.left_before_ms = turn_ms_left(t, f.deadline_before);
    }
    if (f.is_created) {
        facts.is_made = true;
        facts.left_before_ms = -1;
        facts.left_made_ms = turn_ms_left(t, made);
    }
    facts.was_won = f.was_won;
    facts.is_stale = f.is_stale;
    facts.is_won = f.is_won;
    if (put_hit(t, r, &f.found, &facts) != TURN_GOES_ON) {
        return TURN_BLOCKED;
    }
    MF_PROBE3(get_hit, r->key.ptr, r->key.len, facts.size);
    mark_used(t, r, f.found.item);
    if (f.touches) {
        ctr_add(c, CTR_cmd_touch, 1);
        ctr_add(c, CTR_touch_hits, 1);
    } else {
        t->tally.gets++;
        t->tally.hits++;
    }
    observe_mg(t, r, f.is_created ? NULL : f.found.item, MISS_ABSENT);
    if (MF_UNLIKELY(t->observed != 0) && f.touches && !f.is_created) {
        const struct before before = {.size = item_len(f.found.item),
                                      .deadline = f.deadline_before};

        observe_deadline(t, &before, r->key, "mg", f.touch_deadline);
    }
    return TURN_GOES_ON;
}

enum turn_stop exec_mg(struct turn *t, const struct request *r)
{
    struct meta_facts facts;

    if (MF_UNLIKELY((r->letters & ACTING) != 0)) {
        return fetch_and_answer(t, r);
    }
    struct found f = engine_find_inline(t->route, r->hash, r->key.ptr, r->key.len, t->now);
    if (f.item == NULL) {
        return answer_miss(t, r, f.miss);
    }
    /* The marks of an item that was moved or unlinked since it was found are not valid. */
    uint16_t shape = item_shape(f.item);
    if (MF_UNLIKELY(!shape_is_live(shape) || shape_is_winnable(shape))) {
        return fetch_and_answer(t, r);
    }
    fill_facts(t, r, f.item, shape_marks(shape), &facts);
    if (put_hit(t, r, &f, &facts) != TURN_GOES_ON) {
        return TURN_BLOCKED;
    }
    MF_PROBE3(get_hit, r->key.ptr, r->key.len, facts.size);
    mark_used(t, r, f.item);
    t->tally.gets++;
    t->tally.hits++;
    observe_mg(t, r, f.item, f.miss);
    return TURN_GOES_ON;
}

/* ---- me ---------------------------------------------------------------------------------- */

/* The present counter of the lfu policies. */
static uint32_t freq_of(const struct turn *t, const struct item *it)
{
    const uint8_t heat = atomic_load_explicit(&it->heat, memory_order_relaxed);

    return heat_decayed(heat_freq(heat), item_access_s(it, t->now_s), t->now_s,
                        setting_get(t->w->settings, engine.lfu_decay_time));
}

enum turn_stop exec_me(struct turn *t, const struct request *r)
{
    struct found f = engine_find(t->route, r->hash, r->key.ptr, r->key.len, t->now);
    struct meta_debug d;

    ctr_add(&t->w->counters, CTR_cmd_meta, 1);
    if (f.item == NULL) {
        turn_reply(t, REPLY_META_MISS);
        return TURN_GOES_ON;
    }
    d.exp = turn_seconds_left(t, item_deadline(f.item));
    d.idle_s = idle_of(t, f.item);
    d.cas = turn_cas_shown(t, item_cas(f.item));
    d.size = item_size(f.item);
    d.was_fetched = item_was_fetched(f.item);
    d.shows_freq = turn_has_extensions(t);
    d.freq = freq_of(t, f.item);
    t->out.len += meta_compose_debug(turn_room(t, META_DEBUG_MAX), r, &d);
    return TURN_GOES_ON;
}

/* ---- mn, and noop of the binary protocol ------------------------------------------------- */

enum turn_stop exec_noop(struct turn *t, const struct request *r)
{
    if (request_is_binary(r)) {
        turn_bin_reply(t, r, BIN_REPLY_OK, 0);
    } else {
        turn_reply(t, REPLY_META_NOOP);
    }
    /* After an mn too dumps and watching may begin, which have to be first as in memcached. */
    t->first_unit = t->units + 1;
    return TURN_GOES_ON;
}
