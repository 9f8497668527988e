/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See crew.h.
 */
#include "daemon/worker/crew.h"

#include <inttypes.h>

#include "daemon/base/log.h"
#include "lib/base/context.h"
#include "lib/reshard/reshard.h"

/* ---- the log ----------------------------------------------------------------------------- */

/*
 * Log that there is no room, although the mover retries repeatedly. It is logged once, until
 * slots have arrived since or the target has changed.
 */
static void log_full(struct moving *m, const struct reshard_info *i)
{
    if (!m->has_told_full || m->full_slots != i->slots_done || m->full_wanted != i->wanted) {
        log_notice("moves, there is no room for items in their new shards (%u of %u slots have "
                   "moved); it is tried again when there is more",
                   (unsigned)i->slots_done, (unsigned)i->slots);
    }
    m->has_told_full = true;
    m->full_slots = i->slots_done;
    m->full_wanted = i->wanted;
}

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

static void log_end(const struct reshard_info *i)
{
    log_notice("moves, items are in %u shard%s (%s; %u slots, %" PRIu64 " items and %" PRIu64
               " bytes moved, %" PRIu64 " expired, %" PRIu64 " evicted, in %.1f s)",
               (unsigned)i->active, plural(i->active),
               i->state == RESHARD_CANCELLED ? "cancelled" : "done", (unsigned)i->slots_done,
               i->items, i->bytes, i->expired, i->evicted, (double)i->ms / 1e3);
}

/* A reshard_told_fn. */
static void on_change(void *arg, const struct reshard_info *i)
{
    struct crew *crew = arg;
    struct moving *m = &crew->moving;

    switch (i->state) {
    case RESHARD_WAITS:
        log_notice("moves, waiting for the end of a walk over all items (shards wanted: %u)",
                   (unsigned)i->wanted);
        break;
    case RESHARD_MOVES:
        if (!m->has_told_full || m->full_wanted != i->wanted) { /* else it is a retry */
            m->has_told_full = false;
            log_notice("moves, moving items to %u shard%s", (unsigned)i->wanted,
                       plural(i->wanted));
        }
        break;
    case RESHARD_NO_ROOM:
        log_full(m, i);
        break;
    case RESHARD_IDLE:
    case RESHARD_CANCELLED:
        m->has_told_full = false;
        log_end(i);
        if (i->state == RESHARD_CANCELLED && crew->cancelled.message.fn != NULL) {
            notice_post(&crew->cancelled, &crew->main_mailbox);
        }
        break;
    }
}

void moving_log(struct crew *crew)
{
    must_be_main();
    engine_tell_reshard(&crew->engine, on_change, crew);
}

void moving_log_end(struct crew *crew)
{
    must_be_main();
    engine_tell_reshard(&crew->engine, NULL, NULL);
}

/* ---- figures ----------------------------------------------------------------------------- */

static const char *state_of(const struct reshard_info *i)
{
    static const char *const names[] = {
        [RESHARD_IDLE] = "idle",           [RESHARD_WAITS] = "waiting",
        [RESHARD_MOVES] = "moving",        [RESHARD_NO_ROOM] = "waiting",
        [RESHARD_CANCELLED] = "cancelled",
    };

    return names[i->state];
}

/* Estimated by the pace until now. Items that were dropped instead of moved count as done. */
static int64_t left_ms(const struct reshard_info *i)
{
    const uint64_t done = i->items + i->expired + i->evicted;
    const double left = i->items_all > done ? (double)(i->items_all - done) : 0;

    return done != 0 ? (int64_t)((double)i->ms * left / (double)done) : -1;
}

void moving_look(struct crew *crew, struct moving_info *info)
{
    const struct roster *r = &crew->roster;
    struct reshard_info *i = &info->shards;

    must_not_be_reading();
    engine_reshard_info(&crew->engine, i);
    info->threads_created = roster_created(r);
    info->threads_active = roster_active(r);
    info->threads_wanted = setting_get(crew->settings, threads);
    info->threads_leaving = roster_leaving(r);
    info->conns_moving = roster_conns_moving(r);
    info->conns_moved = 0;
    for (uint32_t n = 0; n < info->threads_created; n++) {
        info->conns_moved += ctr_get(&crew->workers[n].counters, CTR_conns_moved);
    }
    info->state = state_of(i);
    info->waits_for = i->state == RESHARD_WAITS     ? "walk"
                      : i->state == RESHARD_NO_ROOM ? "room"
                                                    : "none";
    info->is_under_way = i->state != RESHARD_IDLE && i->state != RESHARD_CANCELLED;
    info->left_ms = info->is_under_way ? left_ms(i) : 0;
}
