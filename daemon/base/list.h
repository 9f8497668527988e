/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intrusive lists: joining and leaving take no memory and no search. A member that is all zero
 * is in no list. One thread at a time.
 */
#ifndef MAYFLY_DAEMON_BASE_LIST_H
#define MAYFLY_DAEMON_BASE_LIST_H

#include <stdbool.h>

#include "lib/base/check.h"

/* Part of a member. */
struct list_link {
    struct list_link *next; /* NULL: it is in no list */
    struct list_link *prev;
};

/* A ring through `ends`: its next is the first member, its prev the last. */
struct list {
    struct list_link ends;
};

/*
 * For each member x of a list, whose link is the field `field` of its type. The body may not
 * remove x.
 */
#define LIST_EACH(x, list, type, field)                                                        \
    for (struct list_link *at_ = list_first(list);                                             \
         at_ != NULL && ((x) = MF_OUTER(at_, type, field)) != NULL;                            \
         at_ = list_next(list, at_))

/* Make an empty list. Context: the list's thread, as of all functions here. */
static inline void list_init(struct list *l)
{
    l->ends.next = &l->ends;
    l->ends.prev = &l->ends;
}

static inline bool list_is_empty(const struct list *l)
{
    return l->ends.next == &l->ends;
}

/* Is it in a list? */
static inline bool list_has_link(const struct list_link *link)
{
    return link->next != NULL;
}

/* The first member's link; NULL: there is none. */
static inline struct list_link *list_first(const struct list *l)
{
    return list_is_empty(l) ? NULL : l->ends.next;
}

/* The first member, of this type; NULL: there is none. */
#define LIST_FIRST(list, type, field)                                                          \
    (list_is_empty(list) ? NULL : MF_OUTER(list_first(list), type, field))

/* The one after it; NULL: it is the last. */
static inline struct list_link *list_next(const struct list *l, const struct list_link *link)
{
    return link->next != &l->ends ? link->next : NULL;
}

/* Leave the list; nothing happens if it is in none. */
static inline void list_remove(struct list_link *link)
{
    if (link->next != NULL) {
        link->prev->next = link->next;
        link->next->prev = link->prev;
        link->next = NULL;
        link->prev = NULL;
    }
}

/* Append to l, after removing it from its present list, if any. */
static inline void list_append(struct list *l, struct list_link *link)
{
    list_remove(link);
    link->next = &l->ends;
    link->prev = l->ends.prev;
    link->prev->next = link;
    l->ends.prev = link;
}

/* Take the first member's link out; NULL: there is none. */
static inline struct list_link *list_take_first(struct list *l)
{
    struct list_link *link = list_first(l);

    if (link != NULL) {
        list_remove(link);
    }
    return link;
}

/* Append all members of `from` to l, in order. */
static inline void list_take_all(struct list *l, struct list *from)
{
    struct list_link *link;

    while ((link = list_first(from)) != NULL) {
        list_append(l, link);
    }
}

#endif
