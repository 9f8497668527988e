/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The line of uploads: see upload_line.h.
 */
#include "daemon/worker/upload_line.h"

#include <stddef.h>

#include "daemon/worker/worker.h"
#include "lib/base/context.h"

/* Maximum number of waiting uploads that are notified when less is held. */
#define TELL_MAX 64

static struct upload_place *place_of(const struct list_link *link)
{
    return MF_OUTER(link, struct upload_place, link);
}

static void set_waits(struct upload_line *l, struct upload_place *p, bool waits)
{
    uint32_t n = atomic_load_explicit(&l->waiting, memory_order_relaxed);

    if (waits != p->waits) {
        p->waits = waits;
        atomic_store_explicit(&l->waiting, waits ? n + 1 : n - 1, memory_order_relaxed);
    }
}

/* The slow part of upload_line_lets(): there are waiting uploads, or this one has to wait. */
static bool lets_slowly(struct upload_line *l, struct upload_place *p, struct worker *w,
                        bool is_full)
{
    lock_take(&l->lock);
    if (p->worker == NULL) {
        if (!is_full && atomic_load_explicit(&l->waiting, memory_order_relaxed) == 0) {
            lock_give(&l->lock);
            return true;
        }
        p->worker = w;
        list_append(&l->places, &p->link);
    }
    bool is_first = list_first(&l->places) == &p->link;
    bool lets = is_first || (!is_full && !place_of(p->link.prev)->waits);
    set_waits(l, p, !lets);
    if (lets) {
        atomic_fetch_add_explicit(&l->moves, 1, memory_order_relaxed);
    }
    lock_give(&l->lock);
    return lets;
}

bool upload_line_lets(struct upload_line *l, struct upload_place *p, struct worker *w,
                      bool is_full)
{
    must_be_worker(w);
    if (!is_full && atomic_load_explicit(&l->waiting, memory_order_relaxed) == 0) {
        return true;
    }
    return lets_slowly(l, p, w, is_full);
}

void upload_line_leave(struct upload_line *l, struct upload_place *p)
{
    if (p->worker == NULL && atomic_load_explicit(&l->waiting, memory_order_relaxed) == 0) {
        return;
    }
    lock_take(&l->lock);
    if (p->worker != NULL) {
        must_be_worker(p->worker);
        set_waits(l, p, false);
        list_remove(&p->link);
        p->worker = NULL;
    }
    unsigned n = 0;
    LIST_EACH (p, &l->places, struct upload_place, link) {
        if (n++ == TELL_MAX) {
            break;
        }
        if (p->waits) {
            worker_retry(p->worker);
        }
    }
    lock_give(&l->lock);
}
