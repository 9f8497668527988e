/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times sent by the primary: see follower_parts.h.
 */
#include "daemon/replica/follower_parts.h"

#include <inttypes.h>

#include "daemon/base/log.h"
#include "lib/engine/engine.h"

/* The shortest transit in a window of this length gives the offset between the clocks. */
#define SCALE_WINDOW_MS 30000

/* A skew above the first is logged as a warning; its end is logged below the second. */
#define SKEW_MS      1000
#define SKEW_OVER_MS 500

void follower_note_heard(struct follower *f)
{
    struct backlog_name name;

    f->heard_ms = clock_mono_ms();
    f->is_forced = false; /* if it starts again without the items, it is not followed */
    backlog_get_name(f->r->backlog, &name);
    follower_note_history(f, &name.id, name.epoch);
}

/* The primary's clock showed now_ms when it sent the message that has just arrived. */
void follower_note_time(struct follower *f, int64_t now_ms)
{
    struct scale *s = &f->scale;
    const msec_t here = clock_now(&follower_engine(f)->clock);
    int64_t offset;

    f->heard_ms = clock_mono_ms();
    if (__builtin_sub_overflow(now_ms, here, &offset)) {
        return; /* no time */
    }
    if (!s->is_set) {
        *s = (struct scale){.is_set = true, .now = offset, .before = offset, .began = here};
    } else if (here - s->began >= SCALE_WINDOW_MS) {
        s->before = s->now;
        s->now = offset;
        s->began = here;
    }
    s->late = -offset;
    s->now = offset > s->now ? offset : s->now;
    offset = s->now > s->before ? s->now : s->before;
    s->late += offset;
    atomic_store_explicit(&f->r->to_unix_ms, offset, memory_order_relaxed);
    applier_set_scale(f->applier, offset);
}

void follower_note_wall(struct follower *f, int64_t unix_ms)
{
    const int64_t skew_ms = unix_ms - clock_unix_ms(&follower_engine(f)->clock) + f->scale.late;
    const int64_t size = llabs(skew_ms);

    pthread_mutex_lock(&f->mutex);
    f->skew_ms = skew_ms;
    pthread_mutex_unlock(&f->mutex);
    if (!f->is_skewed && size > SKEW_MS) {
        f->is_skewed = true;
        log_warn("replication, the wall clock of the primary is %" PRId64
                 " ms %s this one: deadlines are correct, but after a promotion unix times of "
                 "clients would be converted by another clock",
                 size, skew_ms > 0 ? "ahead of" : "behind");
    } else if (f->is_skewed && size < SKEW_OVER_MS) {
        f->is_skewed = false;
        log_notice("replication, the wall clock of the primary agrees with this one again");
    }
}

/* At this offset of the stream, items due at due_ms or earlier were gone at the primary. */
void follower_note_level(struct follower *f, uint64_t offset, int64_t due_ms)
{
    struct replication *r = f->r;
    int64_t due;

    pthread_mutex_lock(&r->mutex);
    r->level = (struct shipper_level){offset, due_ms};
    pthread_mutex_unlock(&r->mutex);
    if (applier_offset(f->applier) >= offset &&
        !__builtin_sub_overflow(due_ms, atomic_load(&r->to_unix_ms), &due)) {
        const msec_t now = clock_now(&follower_engine(f)->clock);

        engine_follow_due(follower_engine(f), due < now ? due : now);
    }
}

/* Is everything applied that the primary has announced? */
void follower_note_told(struct follower *f)
{
    const uint64_t offset = applier_offset(f->applier);

    if (offset >= f->end && offset >= f->serve_from) {
        pthread_mutex_lock(&f->mutex);
        f->level_ms = f->heard_ms;
        pthread_mutex_unlock(&f->mutex);
    }
}
