/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a hit does to an item: see heat.h.
 */
#include "lib/memory/heat.h"

/* Less than these two are drawn always, and never. */
#define ALWAYS UINT32_MAX
#define NEVER  0u

unsigned heat_decayed(unsigned freq, uint32_t used_s, uint32_t now_s, uint32_t decay_min)
{
    uint32_t minutes = now_s > used_s ? now_s / 60 - used_s / 60 : 0;
    uint32_t periods = decay_min != 0 ? minutes / decay_min : 0;

    return periods < freq ? freq - periods : 0;
}

static bool counts_freq(const struct engine_options *options)
{
    uint32_t choice = engine_option(options, maxmemory_policy);

    return choice == CHOICE_ALLKEYS_LFU || choice == CHOICE_VOLATILE_LFU;
}

uint8_t heat_inherited(uint8_t heat, uint32_t used_s, uint32_t now_s,
                       const struct engine_options *options)
{
    uint32_t decay_min = engine_option(options, lfu_decay_time);
    unsigned freq = heat_freq(heat);
    unsigned left = heat_decayed(freq, used_s, now_s, decay_min);

    /* Where an lfu policy is at work, turns decay as well: what is left is a counter. */
    return left < freq && (heat_is_freq(heat) || counts_freq(options))
               ? heat_with_freq(heat, left)
               : heat;
}

/* ---- rules ------------------------------------------------------------------------------- */

/* The chance that a hit raises a counter. */
static uint32_t chance_of_rise(unsigned freq, uint32_t factor)
{
    double above = freq > FREQ_NEW ? freq - FREQ_NEW : 0;

    return freq < FREQ_MAX ? (uint32_t)((double)ALWAYS / (above * factor + 1)) : NEVER;
}

/* The rule of one value that is marked as fetched. */
static void set_rule(struct heat_rules *r, uint8_t heat, bool counts, uint32_t factor)
{
    uint32_t chance = (heat & HEAT_COUNT) < HEAT_MAX ? ALWAYS : NEVER;
    uint8_t next = (uint8_t)(heat + (chance != NEVER));

    if (counts || heat_is_freq(heat)) {
        unsigned freq = heat_freq(heat);

        chance = chance_of_rise(freq, factor);
        next = heat_with_freq(heat, freq + (chance != NEVER));
    }
    atomic_store_explicit(&r->next[heat], next, memory_order_relaxed);
    atomic_store_explicit(&r->chance[heat], chance, memory_order_relaxed);
}

void heat_rules_next_minute(struct heat_rules *r, uint32_t now_s)
{
    uint32_t decay_min = engine_option(r->options, lfu_decay_time);
    uint32_t minute_s = now_s - now_s % 60;
    uint64_t back_s = decay_min > 0 ? (uint64_t)(decay_min - 1) * 60 : 0;
    bool decays = counts_freq(r->options) && decay_min > 0 && minute_s > back_s;

    atomic_store_explicit(&r->cools_s, decays ? minute_s - (uint32_t)back_s : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&r->minute_s, minute_s, memory_order_relaxed);
}

void heat_rules_fit(struct heat_rules *r)
{
    bool counts = counts_freq(r->options);
    uint32_t factor = engine_option(r->options, lfu_log_factor);

    for (unsigned heat = HEAT_FETCHED; heat < 256; heat++) {
        set_rule(r, (uint8_t)heat, counts, factor);
        /* A first hit always sets the mark. */
        atomic_store_explicit(&r->chance[heat & ~HEAT_FETCHED], ALWAYS, memory_order_relaxed);
    }
    heat_rules_next_minute(r, atomic_load_explicit(&r->minute_s, memory_order_relaxed));
}

void heat_rules_init(struct heat_rules *r, const struct engine_options *options)
{
    r->options = options;
    atomic_init(&r->minute_s, 0);
    heat_rules_fit(r);
}

/* ---- hits -------------------------------------------------------------------------------- */

void heat_mark_after_pause(struct item *it, uint32_t now_s, struct heat_user *u)
{
    uint8_t was = atomic_load_explicit(&it->heat, memory_order_relaxed);
    uint32_t used_s = item_access_s(it, now_s);
    uint8_t heat = heat_inherited(was, used_s, now_s, u->rules->options);

    must_be_reading();
    heat = heat_hit(u->rules, heat, heat_draw(u));
    item_set_access(it, now_s);
    if (heat != was) {
        atomic_store_explicit(&it->heat, heat, memory_order_relaxed);
    }
}
