/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How often items are used. Readers record it in two fields of each item, without a lock: the
 * byte `heat`, and the second of the last use in `used`. They store at most that byte and that
 * word, and only when these change.
 *
 * The byte has one of two forms. Each policy can continue with either form, so a change of the
 * policy loses no counts, and needs no walk over the items.
 *
 *     turns    HEAT_COUNT: hits since the policy judged the item, up to three; HEAT_CREDIT:
 *              its credit at that time. New items have this form.
 *     counter  the logarithmic counter of Redis' lfu policies, which starts at 5: a hit raises
 *              it with a probability of 1 / ((counter - 5) * lfu_log_factor + 1), and each
 *              lfu_decay_time without a use decrements it. It has six bits, and ends at 59.
 *
 * While an lfu policy is active, a hit converts the first form to the second. The other
 * policies continue in the form that they find. A table, struct heat_rules, has the effect of a
 * hit on each value of the byte, so that a hit needs no more instructions than counting to
 * three.
 */
#ifndef MAYFLY_LIB_MEMORY_HEAT_H
#define MAYFLY_LIB_MEMORY_HEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/engine_options.h"
#include "lib/memory/item.h"

/* ---- the counter of Redis ---------------------------------------------------------------- */

#define FREQ_NEW 5u  /* of a new item */
#define FREQ_MAX 59u /* Redis: 255 */

/* The byte for a counter of 0. A lower value without HEAT_JUDGED has the form of turns. */
#define HEAT_FREQ_ZERO (HEAT_COUNT + 1u)

/* Does the byte have the form of a counter? */
static inline bool heat_is_freq(uint8_t heat)
{
    return (heat & HEAT_JUDGED) == 0 && (heat & HEAT_SIX) >= HEAT_FREQ_ZERO;
}

/*
 * The value of the byte as a counter, in either form. From the form of turns: the counter of a
 * new item, plus the hits and half of the credit.
 */
static inline unsigned heat_freq(uint8_t heat)
{
    if (heat_is_freq(heat)) {
        return (heat & HEAT_SIX) - HEAT_FREQ_ZERO;
    }
    return FREQ_NEW + (heat & HEAT_COUNT) + ((heat & HEAT_CREDIT) >> HEAT_CREDIT_SHIFT) / 2;
}

/* The byte in the form of a counter. HEAT_FETCHED is kept. */
static inline uint8_t heat_with_freq(uint8_t heat, unsigned freq)
{
    return (uint8_t)((heat & HEAT_FETCHED) | (freq + HEAT_FREQ_ZERO));
}

/*
 * The byte in the form of turns. A counter becomes: judged, with one hit, and two units of
 * credit for each step above the counter of a new item.
 */
static inline uint8_t heat_turns(uint8_t heat)
{
    unsigned freq = heat_freq(heat);
    unsigned above = freq > FREQ_NEW ? freq - FREQ_NEW : 0;
    unsigned hits = above < HEAT_MAX ? above : HEAT_MAX;
    unsigned credit = above < HEAT_CREDIT_MAX / 2 + 1 ? above * 2 : HEAT_CREDIT_MAX;

    if (!heat_is_freq(heat)) {
        return heat;
    }
    return (uint8_t)((heat & HEAT_FETCHED) | HEAT_JUDGED | credit << HEAT_CREDIT_SHIFT | hits);
}

/*
 * A counter after no use from used_s to now_s: decremented for each decay_min minutes that have
 * ended meanwhile, as in Redis. decay_min 0: no decay. Context: any thread.
 */
unsigned heat_decayed(unsigned freq, uint32_t used_s, uint32_t now_s, uint32_t decay_min);

/*
 * The heat that a new block inherits from the old block of its key, last used at used_s; the
 * counter has decayed until now_s. While an lfu policy is active, the form of turns decays
 * like the counter of the same value. Context: any thread.
 */
uint8_t heat_inherited(uint8_t heat, uint32_t used_s, uint32_t now_s,
                       const struct engine_options *options);

/* ---- readers ----------------------------------------------------------------------------- */

/* The effect of a hit. One per engine. */
struct heat_rules {
    /* [atomic] written when options change, read with every hit */
    /* The byte rises if the random number, which is even, is less than this. */
    _Atomic uint32_t chance[256];
    _Atomic uint8_t next[256]; /* its new value; index: the byte marked as fetched */
    _Atomic uint32_t cools_s;  /* counters of items last used before this decay; 0: none */
    _Atomic uint32_t minute_s; /* the second in which the present minute began */
    const struct engine_options *options; /* [borrowed] */
};

/* The time is not known yet: heat_rules_clock(). Context: before the rules are shared. */
void heat_rules_init(struct heat_rules *r, const struct engine_options *options);

/*
 * Apply the options maxmemory_policy, lfu_log_factor and lfu_decay_time. Concurrent hits may
 * still count by the old ones. Context: any thread, but one at a time.
 */
void heat_rules_fit(struct heat_rules *r);

/* A new minute has begun. Context: any thread. */
void heat_rules_next_minute(struct heat_rules *r, uint32_t now_s);

/* Set the time, before hits at that time are recorded. Context: any thread. */
static inline void heat_rules_clock(struct heat_rules *r, uint32_t now_s)
{
    if (MF_UNLIKELY(now_s - atomic_load_explicit(&r->minute_s, memory_order_relaxed) >= 60)) {
        heat_rules_next_minute(r, now_s);
    }
}

/* A thread that records hits. Context: that thread. */
struct heat_user {
    struct heat_rules *rules; /* [borrowed] */
    uint32_t draw;            /* state of random numbers, always even */
};

static inline void heat_user_init(struct heat_user *u, struct heat_rules *rules, uint32_t seed)
{
    *u = (struct heat_user){.rules = rules, .draw = seed * 2};
}

/* The byte after a hit. */
static inline uint8_t heat_hit(const struct heat_rules *r, uint8_t heat, uint32_t draw)
{
    uint8_t hot = heat | HEAT_FETCHED;

    return draw < atomic_load_explicit(&r->chance[hot], memory_order_relaxed)
               ? atomic_load_explicit(&r->next[hot], memory_order_relaxed)
               : hot;
}

/* The next random number. */
static inline uint32_t heat_draw(struct heat_user *u)
{
    /* A linear congruential generator: the high bits decide, and they are good enough. */
    u->draw = u->draw * 1664525u + 2027808446u;
    return u->draw;
}

/*
 * A hit on an item whose byte may rise. The byte of a frequently hit item is mostly at its
 * maximum, where the chance is 0: then no number is drawn.
 */
static inline void heat_rise(struct item *it, uint8_t heat, struct heat_user *u)
{
    uint32_t draw = heat_draw(u);

    if (draw < atomic_load_explicit(&u->rules->chance[heat], memory_order_relaxed)) {
        atomic_store_explicit(&it->heat, heat_hit(u->rules, heat, draw), memory_order_relaxed);
    }
}

/* The rest of item_mark_used(), after a pause in which a counter may have decayed. */
void heat_mark_after_pause(struct item *it, uint32_t now_s, struct heat_user *u);

/*
 * Mark as used by a reader: at most one byte and one word are stored, and only when they
 * change. Context: read side.
 */
static MF_INLINE void item_mark_used(const struct item *it, uint32_t now_s, struct heat_user *u)
{
    struct item *w = (struct item *)(uintptr_t)it;
    const struct heat_rules *r = u->rules;
    uint8_t heat = atomic_load_explicit(&w->heat, memory_order_relaxed);
    uint32_t used = item_used(w);

    must_be_reading();
    if ((used ^ now_s << USED_CONST_BITS) > USED_CONST) {
        uint32_t cools_s = atomic_load_explicit(&r->cools_s, memory_order_relaxed);

        if (MF_UNLIKELY(cools_s != 0) && item_access_s(w, now_s) < cools_s) {
            heat_mark_after_pause(w, now_s, u);
            return;
        }
        item_set_access(w, now_s);
    }
    if (atomic_load_explicit(&r->chance[heat], memory_order_relaxed) != 0) {
        heat_rise(w, heat, u);
    }
}

#endif
