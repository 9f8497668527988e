/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See balance.h.
 */
#include "daemon/worker/balance.h"

#include <stddef.h>

#include "lib/base/check.h"

/* ---- which worker ------------------------------------------------------------------------ */

void balance_init(struct balance *b)
{
    *b = (struct balance){.hot = BALANCE_NOBODY, .paused = BALANCE_NOBODY};
}

static bool is_hot(uint32_t share, uint32_t least)
{
    return share > BALANCE_HOT && share - least > BALANCE_GAP;
}

static uint32_t find_idlest(const uint32_t *share, uint32_t count)
{
    uint32_t idlest = 0;

    for (uint32_t i = 1; i < count; i++) {
        idlest = share[i] < share[idlest] ? i : idlest;
    }
    return idlest;
}

/* The busiest hot worker. A worker that was chosen before is kept while it stays hot. */
static uint32_t find_hot(const struct balance *b, const uint32_t *share, uint32_t count,
                         uint32_t least)
{
    uint32_t best = BALANCE_NOBODY;

    if (b->hot < count && b->hot != b->paused && is_hot(share[b->hot], least)) {
        return b->hot;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i != b->paused && is_hot(share[i], least) &&
            (best == BALANCE_NOBODY || share[i] > share[best])) {
            best = i;
        }
    }
    return best;
}

void balance_look(struct balance *b, const uint32_t *share, uint32_t count,
                  struct balance_order *order)
{
    const uint32_t idlest = find_idlest(share, count);

    must(count > 0);
    if (b->paused != BALANCE_NOBODY && --b->pause_s == 0) {
        b->paused = BALANCE_NOBODY;
    }
    uint32_t hot = find_hot(b, share, count, share[idlest]);
    b->seconds = hot != BALANCE_NOBODY && hot == b->hot ? b->seconds + 1 : 1;
    b->hot = hot;
    *order = (struct balance_order){.act = BALANCE_NOTHING};
    if (hot == BALANCE_NOBODY) {
        return;
    }
    if (b->seconds >= BALANCE_SECONDS) {
        *order = (struct balance_order){.act = BALANCE_GIVE,
                                        .to = idlest,
                                        .share = share[hot],
                                        .gap = share[hot] - share[idlest]};
    } else if (b->seconds + 1 == BALANCE_SECONDS) {
        order->act = BALANCE_WEIGH;
    }
}

void balance_gave_nothing(struct balance *b)
{
    b->paused = b->hot;
    b->pause_s = BALANCE_PAUSE_S;
    b->hot = BALANCE_NOBODY;
    if (b->paused == BALANCE_NOBODY) {
        b->pause_s = 0;
    }
}

/* ---- which connections ------------------------------------------------------------------- */

/* Does one connection cause the load? Then moving the others does not help. */
static bool is_one(const struct balance_weight *all, unsigned count, uint64_t total,
                   uint64_t gap)
{
    uint64_t largest = 0;

    for (unsigned i = 0; i < count; i++) {
        largest = all[i].units > largest ? all[i].units : largest;
    }
    return total < largest || (total - largest) * 8 < gap;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/*
 * The connection whose work is nearest to `wanted` units; NULL: none. A connection is too
 * large if the other worker would then lead by nearly the same difference, or by more.
 */
static struct balance_weight *find_nearest(struct balance_weight *all, unsigned count,
                                           uint64_t total, uint64_t wanted)
{
    struct balance_weight *best = NULL;

    for (unsigned i = 0; i < count; i++) {
        struct balance_weight *w = &all[i];

        if (w->stays || w->goes || w->units == 0 || w->units > total / 2 ||
            w->units * 4 > wanted * 7) {
            continue;
        }
        if (best == NULL || distance(w->units, wanted) < distance(best->units, wanted) ||
            (distance(w->units, wanted) == distance(best->units, wanted) &&
             w->units < best->units)) {
            best = w;
        }
    }
    return best;
}

unsigned balance_choose(const struct balance_order *order, uint64_t total,
                        struct balance_weight *all, unsigned count)
{
    uint64_t gap = order->share == 0 ? 0 : total * order->gap / order->share;
    uint64_t wanted = gap / 2;
    unsigned chosen = 0;

    if (is_one(all, count, total, gap)) {
        return 0;
    }
    while (wanted > 0) {
        struct balance_weight *w = find_nearest(all, count, total, wanted);

        if (w == NULL) {
            break;
        }
        w->goes = true;
        chosen++;
        wanted -= w->units < wanted ? w->units : wanted;
    }
    return chosen;
}
