/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is too slow: members of a list in the order in which they last proved to make progress.
 * Each remembers when that was and how far it was then. So the slowest are at the front, and
 * finding them takes no look at the others. One thread at a time.
 */
#ifndef MAYFLY_DAEMON_BASE_PACE_H
#define MAYFLY_DAEMON_BASE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"

/* A member; all zero: in no list. */
struct pace {
    struct pace *next;
    struct pace *prev;
    msec_t since;  /* when it last proved to make progress */
    int64_t bytes; /* how far it was then */
};

/* A ring of members with a sentinel. */
struct pace_list {
    struct pace ends;
};

/* Make an empty list. Context: any thread. */
static inline void pace_list_init(struct pace_list *l)
{
    l->ends.next = &l->ends;
    l->ends.prev = &l->ends;
}

static inline bool pace_is_listed(const struct pace *p)
{
    return p->next != NULL;
}

/* The member without progress for longest; NULL: none. Context: the list's thread. */
static inline struct pace *pace_slowest(const struct pace_list *l)
{
    return l->ends.next != &l->ends ? l->ends.next : NULL;
}

/* The one after p in that order; NULL: none. Context: the list's thread. */
static inline struct pace *pace_next(const struct pace_list *l, const struct pace *p)
{
    return p->next != &l->ends ? p->next : NULL;
}

/* Leave the list; nothing happens if it is in none. Context: the list's thread. */
static inline void pace_end(struct pace *p)
{
    if (pace_is_listed(p)) {
        p->prev->next = p->next;
        p->next->prev = p->prev;
        p->next = NULL;
        p->prev = NULL;
    }
}

/*
 * It is at `bytes` now, which is progress: join the list at its end, or move there. Context:
 * the list's thread.
 */
static inline void pace_note(struct pace_list *l, struct pace *p, msec_t now, int64_t bytes)
{
    pace_end(p);
    p->since = now;
    p->bytes = bytes;
    p->next = &l->ends;
    p->prev = l->ends.prev;
    p->prev->next = p;
    l->ends.prev = p;
}

#endif
