/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The histograms of lag.h.
 */
#include "lib/expiry/lag.h"

#include <string.h>

/* The length of a slot. */
static const msec_t slot_ms[LAG_WINDOWS] = {6000, 60000};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void lag_add(struct lag *l, msec_t now, uint64_t ms)
{
    unsigned bin = histogram_bin(ms, LAG_BINS, LAG_STEPS_LOG2);

    for (unsigned w = 0; w < LAG_WINDOWS; w++) {
        int64_t number = now / slot_ms[w];
        struct lag_slot *slot = &l->slot[w][(uint64_t)number % LAG_SLOTS];

        if (slot->number != number) {
            memset(slot, 0, sizeof(*slot));
            slot->number = number;
        }
        slot->bin[bin]++;
        slot->max_ms = larger(slot->max_ms, ms);
    }
}

void lag_reset(struct lag *l)
{
    memset(l, 0, sizeof(*l));
}

static void absorb_slot(struct lag_slot *slot, const struct lag_slot *other)
{
    if (other->number < slot->number) {
        return; /* it is over */
    }
    if (other->number > slot->number) {
        *slot = *other;
        return;
    }
    slot->max_ms = larger(slot->max_ms, other->max_ms);
    for (unsigned bin = 0; bin < LAG_BINS; bin++) {
        slot->bin[bin] += other->bin[bin];
    }
}

void lag_absorb(struct lag *l, struct lag *other)
{
    for (unsigned w = 0; w < LAG_WINDOWS; w++) {
        for (unsigned i = 0; i < LAG_SLOTS; i++) {
            absorb_slot(&l->slot[w][i], &other->slot[w][i]);
        }
    }
    lag_reset(other);
}

void lag_collect(const struct lag *l, enum lag_window window, msec_t now, struct lag_sum *sum)
{
    int64_t first = now / slot_ms[window] - (LAG_SLOTS - 1);

    for (unsigned i = 0; i < LAG_SLOTS; i++) {
        const struct lag_slot *slot = &l->slot[window][i];

        if (slot->number < first) {
            continue;
        }
        sum->max_ms = larger(sum->max_ms, slot->max_ms);
        for (unsigned bin = 0; bin < LAG_BINS; bin++) {
            sum->count += slot->bin[bin];
            sum->bin[bin] += slot->bin[bin];
        }
    }
}

uint64_t lag_percentile(const struct lag_sum *sum, double pct)
{
    return histogram_percentile(sum->bin, LAG_BINS, LAG_STEPS_LOG2, sum->count, sum->max_ms,
                                pct);
}
