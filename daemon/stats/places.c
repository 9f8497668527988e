/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See metrics.h.
 */
#include "daemon/stats/metrics.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

/* Whose connection it is. */
static void note_address(struct place *at, const struct sockaddr *from)
{
    struct in6_addr addr = {0};

    if (from != NULL && from->sa_family == AF_INET) {
        addr.s6_addr[10] = 0xff;
        addr.s6_addr[11] = 0xff;
        memcpy(&addr.s6_addr[12], &((const struct sockaddr_in *)(const void *)from)->sin_addr,
               4);
    } else if (from != NULL && from->sa_family == AF_INET6) {
        addr = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
    }
    at->is_loopback = from == NULL || from->sa_family == AF_UNIX ||
                      IN6_IS_ADDR_LOOPBACK(&addr) ||
                      (IN6_IS_ADDR_V4MAPPED(&addr) && addr.s6_addr[12] == IN_LOOPBACKNET);
    memcpy(at->whose, &addr, sizeof(at->whose));
    if (!IN6_IS_ADDR_V4MAPPED(&addr)) {
        memset(at->whose + 8, 0, 8);
    }
}

static void cut(struct place *at)
{
    (void)shutdown(at->fd, SHUT_RDWR); /* it may already be disconnected */
    at->state = PLACE_CUT;
}

static bool is_overdue(const struct place *at, usec_t now)
{
    return (at->state == PLACE_ASKS && now - at->since >= PLACES_REQUEST_US) ||
           (at->state == PLACE_TAKES && now - at->since >= PLACES_ANSWER_US);
}

static bool is_open(const struct place *at)
{
    return at->state == PLACE_ASKS || at->state == PLACE_TAKES;
}

/* Are their places of the same kind? is_one: and of the same address? */
static bool share(const struct place *a, const struct place *b, bool is_one)
{
    return a->is_loopback == b->is_loopback &&
           (!is_one || memcmp(a->whose, b->whose, sizeof(a->whose)) == 0);
}

/* Must a be cut before b? b may be NULL. */
static bool goes_before(const struct place *a, const struct place *b)
{
    return b == NULL || (a->state == b->state ? a->since < b->since : a->state == PLACE_ASKS);
}

/* Are there fewer than `most` that share with it? One is cut if that is necessary. */
static bool make_room(struct places *p, const struct place *with, bool is_one, unsigned most,
                      usec_t now)
{
    struct place *first = NULL;
    unsigned count = 0;

    for (unsigned i = 0; i < PLACES_MAX; i++) {
        struct place *at = &p->place[i];

        if (!is_open(at) || !share(at, with, is_one)) {
            continue;
        }
        count++;
        if ((at->state == PLACE_ASKS || now - at->since >= PLACES_PATIENCE_US) &&
            goes_before(at, first)) {
            first = at;
        }
    }
    if (count >= most && first != NULL) {
        cut(first);
        count--;
    }
    return count < most;
}

bool places_admit(struct places *p, const struct sockaddr *from, usec_t now)
{
    struct place with;

    note_address(&with, from);
    for (unsigned i = 0; i < PLACES_MAX; i++) {
        if (is_overdue(&p->place[i], now)) {
            cut(&p->place[i]);
        }
    }
    if (with.is_loopback) {
        return make_room(p, &with, false, PLACES_LOOPBACK, now);
    }
    return make_room(p, &with, true, PLACES_ADDRESS, now) &&
           make_room(p, &with, false, PLACES_REMOTE, now);
}

struct place *places_enter(struct places *p, int fd, const struct sockaddr *from, usec_t now)
{
    for (unsigned i = 0; i < PLACES_MAX; i++) {
        struct place *at = &p->place[i];

        if (at->state == PLACE_FREE) {
            *at = (struct place){.state = PLACE_ASKS, .fd = fd, .since = now};
            note_address(at, from);
            return at;
        }
    }
    return NULL;
}

static void enter_state(struct place *at, enum place_state state, usec_t now)
{
    if (at != NULL && is_open(at)) {
        at->state = state;
        at->since = now;
    }
}

void place_takes(struct place *at, usec_t now)
{
    enter_state(at, PLACE_TAKES, now);
}

void place_asks(struct place *at, usec_t now)
{
    enter_state(at, PLACE_ASKS, now);
}

void place_leave(struct place *at)
{
    if (at != NULL) {
        at->state = PLACE_FREE;
    }
}
