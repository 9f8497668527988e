/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds slow clients: members of a list in the order in which they last proved progress. Each
 * remembers the time and the position of that. So the slowest are at the front, and finding
 * them does not touch the others. One thread at a time.
 */
#ifndef MAYFLY_DAEMON_BASE_PACE_H
#define MAYFLY_DAEMON_BASE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "lib/base/clock.h"

/* A member; all zero: in no list. */
struct pace {
    struct list_link link;
    msec_t since;  /* time of its last proven progress */
    int64_t bytes; /* its position at that time */
};

static inline bool pace_is_listed(const struct pace *p)
{
    return list_has_link(&p->link);
}

/* The member without progress for longest; NULL: none. Context: the list's thread. */
static inline struct pace *pace_slowest(const struct list *l)
{
    return LIST_FIRST(l, struct pace, link);
}

/* The member after p in the same order; NULL: none. Context: the list's thread. */
static inline struct pace *pace_next(const struct list *l, const struct pace *p)
{
    struct list_link *link = list_next(l, &p->link);

    return link != NULL ? MF_OUTER(link, struct pace, link) : NULL;
}

/* Leave the list; nothing happens if it is in none. Context: the list's thread. */
static inline void pace_end(struct pace *p)
{
    list_remove(&p->link);
}

/*
 * The member has progressed to `bytes`: add it to the end of the list, or move it there.
 * Context: the list's thread.
 */
static inline void pace_note(struct list *l, struct pace *p, msec_t now, int64_t bytes)
{
    p->since = now;
    p->bytes = bytes;
    list_append(l, &p->link);
}

#endif
