/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observation of commands; see observe.h. Runs in the turn of the command.
 */
#include "daemon/command/observe.h"

#include "daemon/base/slab_class.h"
#include "daemon/command/turn.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"

uint32_t observe_flags(const struct worker *w)
{
    uint32_t streams = atomic_load_explicit(&w->crew->watch.streams, memory_order_acquire);

    must_be_worker(w);
    return streams | (stats_detail_is_on(w) ? OBSERVE_DETAIL : 0);
}

static void count_by_prefix(struct turn *t, enum stats_detail_op op, struct span key)
{
    if ((t->observed & OBSERVE_DETAIL) != 0) {
        stats_detail_count(t->w, op, key.ptr, key.len);
    }
}

static void log_fetch(struct turn *t, struct span key, const struct before *b)
{
    static const char *const status_of[] = {
        [MISS_ABSENT] = "not_found",
        [MISS_EXPIRED] = "expired",
        [MISS_FLUSHED] = "flushed",
    };
    struct watch_event e = {
        .kind = WATCH_ITEM_GET,
        .status = b->is_found ? "found" : status_of[b->miss],
        .class_id = b->is_found ? SLAB_CLASS_OURS : 0,
        .fd = turn_fd(t),
        .size = b->size,
    };

    if ((t->observed & WATCH_FETCHERS) != 0) {
        watch_log(t->w, &e, key);
    }
}

void observe_before(struct turn *t, uint64_t hash, struct span key, struct before *b)
{
    must_be_in_turn(t);
    *b = (struct before){.miss = MISS_ABSENT, .deadline = MSEC_NEVER};
    if ((t->observed & (WATCH_FETCHERS | WATCH_MUTATIONS | WATCH_DELETIONS)) != 0) {
        struct found f = engine_find(t->route, hash, key.ptr, key.len, t->now);

        b->is_found = f.item != NULL;
        b->miss = (uint8_t)f.miss;
        if (f.item != NULL) {
            b->size = item_len(f.item);
            b->deadline = item_deadline(f.item);
        }
    }
}

void observe_get(struct turn *t, struct span key, const struct item *it, enum miss miss)
{
    struct before b = {
        .is_found = it != NULL,
        .miss = (uint8_t)miss,
        .size = it != NULL ? item_len(it) : 0,
    };

    must_be_in_turn(t);
    count_by_prefix(t, it != NULL ? STATS_DETAIL_GET_HIT : STATS_DETAIL_GET_MISS, key);
    log_fetch(t, key, &b);
}

void observe_fetch(struct turn *t, struct span key, const struct before *b)
{
    must_be_in_turn(t);
    log_fetch(t, key, b);
}

static const char *store_status(enum outcome outcome)
{
    static const char *const texts[OUT_COUNT] = {
        [OUT_STORED] = "stored",       [OUT_EXISTS] = "exists",
        [OUT_NOT_FOUND] = "not_found", [OUT_TOO_LARGE] = "too_large",
        [OUT_NO_MEMORY] = "no_memory",
    };

    return texts[outcome] != NULL ? texts[outcome] : "not_stored";
}

/* ttl_ms of lines of stores. */
static int64_t ttl_ms(const struct turn *t, msec_t deadline)
{
    if (deadline == MSEC_NEVER) {
        return 0;
    }
    return deadline > t->now ? turn_ms_left(t, deadline) : -1;
}

static void log_store(struct turn *t, const struct observed_store *s, bool has_failed)
{
    static const char *const names[] = {
        [STORE_SET] = "set",       [STORE_ADD] = "add",         [STORE_REPLACE] = "replace",
        [STORE_APPEND] = "append", [STORE_PREPEND] = "prepend", [STORE_CAS] = "cas",
    };
    struct watch_event e = {
        .kind = WATCH_ITEM_STORE,
        .status = store_status(s->outcome),
        .command = names[s->mode],
        .class_id = has_failed ? 0 : SLAB_CLASS_OURS,
        .fd = turn_fd(t),
        .size = (uint32_t)s->size,
    };

    if ((t->observed & WATCH_MUTATIONS) == 0) {
        return;
    }
    e.ttl_ms = ttl_ms(t, s->deadline);
    watch_log(t->w, &e, s->key);
}

void observe_store(struct turn *t, const struct before *b, const struct observed_store *s)
{
    bool has_failed = s->outcome == OUT_TOO_LARGE || s->outcome == OUT_NO_MEMORY;

    must_be_in_turn(t);
    if (b != NULL) {
        log_fetch(t, s->key, b);
    }
    log_store(t, s, has_failed);
    count_by_prefix(t, STATS_DETAIL_SET, s->key);
}

void observe_made(struct turn *t, struct span key, msec_t deadline, size_t size)
{
    struct observed_store made = {
        .key = key,
        .mode = STORE_ADD,
        .outcome = OUT_STORED,
        .deadline = deadline,
        .size = size,
    };

    must_be_in_turn(t);
    log_store(t, &made, false);
}

static void log_deleted(struct turn *t, const struct before *b, struct span key,
                        const char *command)
{
    struct watch_event e = {
        .kind = WATCH_DELETED,
        .command = command,
        .class_id = SLAB_CLASS_OURS,
        .fd = -1,
        .size = b->size,
    };

    if ((t->observed & WATCH_DELETIONS) != 0) {
        watch_log(t->w, &e, key);
    }
}

void observe_deadline(struct turn *t, const struct before *b, struct span key,
                      const char *command, msec_t deadline)
{
    struct watch_event e = {
        .kind = deadline == MSEC_NEVER ? WATCH_PERSIST : WATCH_EXPIRE,
        .command = command,
        .class_id = SLAB_CLASS_OURS,
        .fd = turn_fd(t),
        .size = b->size,
        .ttl_ms = ttl_ms(t, deadline),
    };
    bool is_same = deadline == MSEC_NEVER && b->deadline == MSEC_NEVER;

    must_be_in_turn(t);
    if (deadline <= t->now) {
        log_deleted(t, b, key, command);
    } else if (!is_same && (t->observed & WATCH_MUTATIONS) != 0) {
        watch_log(t->w, &e, key);
    }
}

void observe_delete(struct turn *t, const struct before *b, struct span key,
                    const char *command, bool is_deleted)
{
    must_be_in_turn(t);
    log_fetch(t, key, b);
    if (is_deleted) {
        log_deleted(t, b, key, command);
    }
    count_by_prefix(t, STATS_DETAIL_DELETE, key);
}
