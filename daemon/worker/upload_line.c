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

static void append(struct upload_line *l, struct upload_place *p, struct worker *w)
{
    p->worker = w;
    p->next = NULL;
    p->prev = l->last;
    if (l->last != NULL) {
        l->last->next = p;
    } else {
        l->first = p;
    }
    l->last = p;
}

static void take_out(struct upload_line *l, struct upload_place *p)
{
    if (p->prev != NULL) {
        p->prev->next = p->next;
    } else {
        l->first = p->next;
    }
    if (p->next != NULL) {
        p->next->prev = p->prev;
    } else {
        l->last = p->prev;
    }
    p->worker = NULL;
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
        append(l, p, w);
    }
    bool lets = p == l->first || (!is_full && (p->prev == NULL || !p->prev->waits));
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
        take_out(l, p);
    }
    p = l->first;
    for (unsigned n = 0; p != NULL && n < TELL_MAX; n++) {
        if (p->waits) {
            worker_retry(p->worker);
        }
        p = p->next;
    }
    lock_give(&l->lock);
}
