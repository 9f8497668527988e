/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tidying: see tidy.h. Everything here runs in the shard.
 */
#include "lib/memory/tidy.h"

#include "lib/base/check.h"
#include "lib/memory/blocks.h"
#include "lib/memory/cursor.h"
#include "lib/memory/room.h"

/*
 * Dead bytes that puts of the next SPARE_MS milliseconds may reuse are kept, up to this
 * fraction of all filled bytes.
 */
#define SPARE_MS    10000
#define SPARE_SHARE 4

/* Deaths turned into holes in a round. */
#define RIPEN_ROUND 256

/* So many entries of the ring were used that giving its pages back is worth it. */
#define RING_TOUCHED 1024

/* Nothing was put between the last two looks. */
static bool is_quiet(const struct memory *m)
{
    return m->tidy.is_measured && m->tidy.spare_bytes == 0;
}

/* Is upkeep about to make room? Then it cleans as well. */
static bool makes_room(const struct memory *m)
{
    return room_is_short(m) && room_may_evict(m);
}

/* Dead bytes that no put is about to reuse. The ring may name some that were cleaned since. */
static uint64_t surplus(const struct memory *m)
{
    uint64_t most = chains_filled(m) / SPARE_SHARE;
    uint64_t spare = m->tidy.spare_bytes;
    uint64_t used = (spare < most ? spare : most) + m->blocks.ring_bytes;

    return m->blocks.dead_bytes > used ? m->blocks.dead_bytes - used : 0;
}

/* The segment to clean next, given `dead` surplus dead bytes; 0: none is worth it. */
static segment_t candidate(const struct memory *m, uint64_t dead)
{
    segment_t n = cursor_emptiest(m);

    if (n != 0 && m->arena.segments[n].live == 0) {
        return dead >= segment_bytes(&m->arena) ? n : 0;
    }
    return dead > chains_dead_allowance(m) ? n : 0;
}

static bool has_work(const struct memory *m)
{
    return !makes_room(m) && (candidate(m, surplus(m)) != 0 || cursor_is_cleaning(m) ||
                              (is_quiet(m) && blocks_has_ripe(m)));
}

static void measure(struct memory *m, msec_t now)
{
    struct tidy *t = &m->tidy;
    uint64_t put = m->blocks.put_bytes - t->put_bytes_seen;
    msec_t passed = now - t->looked;

    if (t->is_measured && passed >= 0 && passed < TIDY_LOOK_MS) {
        return;
    }
    t->spare_bytes = put * SPARE_MS / (uint64_t)(passed > 0 ? passed : 1);
    t->put_bytes_seen = m->blocks.put_bytes;
    t->looked = now;
}

enum tidy_next tidy_look(struct memory *m, msec_t now)
{
    struct tidy *t = &m->tidy;
    bool is_first = !t->is_measured;

    memory_must_be_entered(m);
    measure(m, now);
    t->is_measured = true;
    if (!is_first && has_work(m)) {
        return TIDY_NOW;
    }
    /* What puts may reuse, or waits for its period, may yet have to be cleaned. */
    if (is_first || blocks_has_deaths(m) || room_is_short(m) || tidy_wants_ring(m) ||
        (!is_quiet(m) && candidate(m, m->blocks.dead_bytes) != 0)) {
        return TIDY_LATER;
    }
    t->is_measured = false;
    t->is_watched = false;
    return TIDY_DONE;
}

bool tidy_slice(struct memory *m, int64_t work, msec_t now)
{
    memory_must_be_entered(m);
    if (is_quiet(m)) {
        blocks_ripen(m, RIPEN_ROUND);
    }
    while (work > 0 && !makes_room(m)) {
        segment_t n = candidate(m, surplus(m));

        if (n == 0 && !cursor_is_cleaning(m)) {
            break;
        }
        if (!cursor_clean(m, n, &work, now)) {
            return false;
        }
    }
    return has_work(m);
}

bool tidy_wants_ring(const struct memory *m)
{
    return is_quiet(m) && !blocks_has_deaths(m) && m->blocks.ring_tail >= RING_TOUCHED;
}
