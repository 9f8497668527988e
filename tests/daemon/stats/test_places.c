/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * places: whatever is open, a new client gets a place, loopback always; connections that
 * trickle make way for others, and none stays for ever.
 */
#include "daemon/stats/metrics.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/common/unit.h"

#define SECOND INT64_C(1000000)

static struct places p;
static int peer[PLACES_MAX + 1]; /* the other ends */
static unsigned opened;

static void setup(void)
{
    memset(&p, 0, sizeof(p));
    opened = 0;
}

static void teardown(void)
{
    for (unsigned i = 0; i < PLACES_MAX; i++) {
        if (p.place[i].state != PLACE_FREE) {
            close(p.place[i].fd);
        }
    }
    while (opened > 0) {
        close(peer[--opened]);
    }
}

TEST_FIXTURE(setup, teardown)

/* An address of IPv4, or of IPv6 if it has a colon. */
static const struct sockaddr *address(const char *text)
{
    static union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } at;

    memset(&at, 0, sizeof(at));
    if (strchr(text, ':') != NULL) {
        at.in6.sin6_family = AF_INET6;
        ck_assert_int_eq(inet_pton(AF_INET6, text, &at.in6.sin6_addr), 1);
    } else {
        at.in.sin_family = AF_INET;
        ck_assert_int_eq(inet_pton(AF_INET, text, &at.in.sin_addr), 1);
    }
    return &at.sa;
}

/* One comes; NULL: it is refused. */
static struct place *come(const char *from, usec_t now)
{
    int fd[2];

    if (!places_admit(&p, address(from), now)) {
        return NULL;
    }
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    ck_assert_uint_lt(opened, sizeof(peer) / sizeof(peer[0]));
    peer[opened++] = fd[1];
    struct place *at = places_enter(&p, fd[0], address(from), now);
    ck_assert_ptr_nonnull(at);
    return at;
}

static unsigned count(enum place_state state)
{
    unsigned n = 0;

    for (unsigned i = 0; i < PLACES_MAX; i++) {
        n += p.place[i].state == state;
    }
    return n;
}

/* Did the client get the end of the stream? */
static bool is_shut_down(const struct place *at)
{
    char byte;

    return recv(at->fd, &byte, 1, MSG_DONTWAIT) == 0;
}

TEST(who_comes_last_gets_the_oldest_place)
{
    struct place *first = come("192.0.2.1", 1);

    for (unsigned i = 1; i < PLACES_ADDRESS; i++) {
        ck_assert_ptr_nonnull(come("192.0.2.1", 2));
    }
    ck_assert_uint_eq(count(PLACE_CUT), 0);
    ck_assert(!is_shut_down(first));
    ck_assert_ptr_nonnull(come("192.0.2.1", 3));
    ck_assert_int_eq(first->state, PLACE_CUT);
    ck_assert(is_shut_down(first));
    ck_assert_uint_eq(count(PLACE_CUT), 1);
}

TEST(an_address_takes_no_more_than_its_share)
{
    for (unsigned i = 0; i < 2 * PLACES_ADDRESS; i++) {
        ck_assert_ptr_nonnull(come("192.0.2.1", 1 + i));
        ck_assert_uint_le(count(PLACE_ASKS), PLACES_ADDRESS);
    }
    /* Also one that takes answers: nobody is cut for it. */
    for (unsigned i = 0; i < PLACES_MAX; i++) {
        place_takes(&p.place[i], 50);
    }
    ck_assert_ptr_null(come("192.0.2.1", 60));
    ck_assert_uint_eq(count(PLACE_CUT), PLACES_ADDRESS);
    ck_assert_ptr_nonnull(come("192.0.2.1", 50 + PLACES_PATIENCE_US)); /* how long they were */
    ck_assert_uint_eq(count(PLACE_CUT), PLACES_ADDRESS + 1);
    ck_assert_ptr_nonnull(come("192.0.2.2", 60));
}

TEST(a_network_of_ipv6_is_one_address)
{
    char text[32];

    for (unsigned i = 0; i < PLACES_ADDRESS + 3; i++) {
        snprintf(text, sizeof(text), "2001:db8::%x", i + 1);
        ck_assert_ptr_nonnull(come(text, 1 + i));
    }
    ck_assert_uint_eq(count(PLACE_ASKS), PLACES_ADDRESS);
    ck_assert_ptr_nonnull(come("2001:db8:0:1::1", 100));
    ck_assert_uint_eq(count(PLACE_ASKS), PLACES_ADDRESS + 1);
    /* Those of IPv4 in IPv6 are what they are. */
    ck_assert_ptr_nonnull(come("::ffff:192.0.2.1", 100));
    ck_assert_ptr_nonnull(come("::ffff:192.0.2.2", 100));
    ck_assert_uint_eq(count(PLACE_ASKS), PLACES_ADDRESS + 3);
}

TEST(many_addresses_leave_loopback_its_places)
{
    char text[32];

    for (unsigned i = 0; i < PLACES_REMOTE; i++) {
        snprintf(text, sizeof(text), "192.0.2.%u", i);
        place_takes(come(text, 1), 1);
    }
    ck_assert_ptr_null(come("192.0.2.100", 2)); /* none of them is in the middle of a request */
    ck_assert_ptr_nonnull(come("127.0.0.1", 2));
    ck_assert_ptr_nonnull(come("::1", 2));
    ck_assert_ptr_nonnull(come("::ffff:127.0.0.1", 2));
    ck_assert(places_admit(&p, NULL, 2));
    ck_assert_uint_eq(count(PLACE_CUT), 0);
    for (unsigned i = 0; i < PLACES_LOOPBACK; i++) {
        ck_assert_ptr_nonnull(come("127.0.0.1", 3 + i));
    }
    ck_assert_uint_gt(count(PLACE_CUT), 0);
}

TEST(requests_and_answers_have_their_time)
{
    struct place *slow = come("192.0.2.1", 0);
    struct place *reader = come("192.0.2.2", 0);
    struct place *regular = come("192.0.2.3", 0);

    place_takes(reader, SECOND);
    place_takes(regular, 4 * SECOND);
    place_asks(regular, 4 * SECOND + 1); /* the next may come */
    ck_assert_ptr_nonnull(come("192.0.2.4", PLACES_REQUEST_US - 1));
    ck_assert_uint_eq(count(PLACE_CUT), 0);
    ck_assert_ptr_nonnull(come("192.0.2.4", PLACES_REQUEST_US));
    ck_assert_int_eq(slow->state, PLACE_CUT);
    ck_assert_uint_eq(count(PLACE_CUT), 1);
    /* What was cut stays so, whatever comes of it yet. */
    place_takes(slow, 6 * SECOND);
    ck_assert_int_eq(slow->state, PLACE_CUT);
    ck_assert_int_eq(reader->state, PLACE_TAKES);
    ck_assert_ptr_nonnull(come("192.0.2.4", SECOND + PLACES_ANSWER_US));
    ck_assert_int_eq(reader->state, PLACE_CUT);
}

TEST(places_are_used_again)
{
    for (unsigned i = 0; i < 3 * PLACES_MAX; i++) {
        struct place *at = come("192.0.2.1", i);

        ck_assert_ptr_nonnull(at);
        close(at->fd);
        place_leave(at);
        close(peer[--opened]);
    }
    place_leave(NULL);
    place_takes(NULL, 0);
    place_asks(NULL, 0);
}
