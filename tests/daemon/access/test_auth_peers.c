/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auth_peers: when a warning is due, that a peer's count outlives its connections, and that the
 * table keeps the peers with most failures.
 */
#include <sys/socket.h>

#include "daemon/access/access.h"
#include "tests/common/unit.h"

static struct auth_peers peers;

static void setup(void)
{
    ck_assert(auth_peers_init(&peers));
}

static void teardown(void)
{
    auth_peers_fini(&peers);
}

TEST_FIXTURE(setup, teardown)

static uint64_t id_of(uint32_t number)
{
    uint8_t address[16] = {0};

    memcpy(address, &number, sizeof(number));
    return auth_peers_id(AF_INET, address);
}

static uint64_t note(uint64_t id, msec_t now)
{
    return auth_peers_note(&peers, id, now).warn;
}

TEST(warnings_get_rarer)
{
    unsigned warnings = 0;

    for (uint64_t i = 1; i <= 1000; i++) {
        uint64_t shown = note(id_of(1), (msec_t)i);

        ck_assert(shown == 0 || shown == i);
        warnings += shown > 0;
    }
    ck_assert_uint_eq(warnings, 8); /* 5 10 20 40 80 160 320 640 */
}

TEST(a_count_is_forgotten_in_time)
{
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(note(id_of(1), 1000), 0);
    }
    ck_assert_uint_eq(note(id_of(1), 1000 + AUTH_PEERS_FORGET_MS), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(note(id_of(1), 1001 + AUTH_PEERS_FORGET_MS), 0);
    }
    ck_assert_uint_eq(note(id_of(1), 1002 + AUTH_PEERS_FORGET_MS), 5);
}

static bool is_quick(uint64_t id, msec_t now)
{
    return auth_peers_note(&peers, id, now).is_quick;
}

TEST(the_eleventh_failure_within_a_minute_is_quick)
{
    /* Times whose low 32 bits begin again amid the minute. */
    const msec_t begin = ((msec_t)7 << 32) - 30000;

    for (unsigned i = 0; i < AUTH_PEERS_QUICK; i++) {
        ck_assert(!is_quick(id_of(1), begin + i * 5900));
    }
    ck_assert(!is_quick(id_of(2), begin + 59999));
    struct auth_failure f = auth_peers_note(&peers, id_of(1), begin + 59999);
    ck_assert(f.is_quick && f.is_quick_first);
    /* The first of those ten was the last that counts no more. */
    ck_assert(!is_quick(id_of(1), begin + 5900 + AUTH_PEERS_QUICK_MS));
    f = auth_peers_note(&peers, id_of(1), begin + 5900 + AUTH_PEERS_QUICK_MS);
    ck_assert(f.is_quick && f.is_quick_first);
    f = auth_peers_note(&peers, id_of(1), begin + 5900 + AUTH_PEERS_QUICK_MS);
    ck_assert(f.is_quick && !f.is_quick_first);
}

TEST(slow_failures_are_never_quick)
{
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert(!is_quick(id_of(1), (msec_t)i * AUTH_PEERS_QUICK_MS / AUTH_PEERS_QUICK));
    }
}

/* Peers that fail once each do not push out one that goes on. */
TEST(who_goes_on_stays)
{
    uint64_t shown = 0;

    for (uint32_t i = 1; i <= 1000; i++) {
        shown = note(id_of(7), i * 10);
        (void)note(id_of(100000 + i), i * 10 + 1);
        if (i == 5) {
            ck_assert_uint_eq(shown, 5);
        }
        if (i == 640) {
            ck_assert_uint_eq(shown, 640);
        }
    }
}

/* A refused peer is not admitted because of logins from other addresses. */
TEST(many_failures_are_not_pushed_out_by_few)
{
    for (unsigned i = 0; i < 10; i++) {
        (void)note(id_of(7), 1000);
    }
    for (uint32_t i = 0; i < 100000; i++) {
        (void)note(id_of(100000 + i), 2000);
    }
    ck_assert_uint_eq(auth_peers_count(&peers, id_of(7), 3000), 10);
}

TEST(thousands_of_addresses_are_known_at_a_time)
{
    unsigned known = 0;

    for (uint32_t i = 0; i < 4000; i++) {
        for (unsigned k = 0; k < 3; k++) {
            (void)note(id_of(i), 1000);
        }
    }
    for (uint32_t i = 0; i < 4000; i++) {
        known += auth_peers_count(&peers, id_of(i), 1000) == 3;
    }
    ck_assert_uint_gt(known, 3900); /* a row may have more than its places */
}

TEST(it_tells_when_one_is_forgotten_early)
{
    const uint32_t all = AUTH_PEERS_ROWS * AUTH_PEERS_WAYS;
    bool is_crowded;
    unsigned crowded = 0;

    is_crowded = auth_peers_note(&peers, id_of(0), 1000).is_crowded;
    ck_assert(!is_crowded);
    for (uint32_t i = 0; i <= all; i++) {
        is_crowded = auth_peers_note(&peers, id_of(i), 1000).is_crowded;
        crowded += is_crowded;
    }
    ck_assert_uint_gt(crowded, 0);
    /* Those that are forgotten make room. */
    is_crowded =
        auth_peers_note(&peers, id_of(all + 1), 1000 + AUTH_PEERS_FORGET_MS).is_crowded;
    ck_assert(!is_crowded);
}

TEST(machines_of_ipv6_are_told_apart_by_network)
{
    uint8_t a[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 1};
    uint8_t b[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 2};
    uint8_t c[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 2, 1};

    ck_assert_uint_eq(auth_peers_id(AF_INET6, a), auth_peers_id(AF_INET6, b));
    ck_assert_uint_ne(auth_peers_id(AF_INET6, a), auth_peers_id(AF_INET6, c));
    ck_assert_uint_ne(auth_peers_id(AF_INET, a), auth_peers_id(AF_UNIX, a));
}

TEST(no_network_of_ipv6_stands_for_an_address_of_ipv4)
{
    uint8_t address[16] = {0x20, 1, 0xd, 0xb8};

    for (unsigned byte = 0; byte < 256; byte++) {
        address[6] = (uint8_t)byte;
        ck_assert_uint_ne(auth_peers_id(AF_INET6, address), auth_peers_id(AF_INET, address));
    }
}

TEST(counts_are_seen_until_they_are_forgotten)
{
    ck_assert_uint_eq(auth_peers_count(&peers, id_of(1), 1000), 0);
    for (int i = 0; i < 3; i++) {
        (void)note(id_of(1), 1000);
    }
    ck_assert_uint_eq(auth_peers_count(&peers, id_of(1), 1000), 3);
    ck_assert_uint_eq(auth_peers_count(&peers, id_of(2), 1000), 0);
    ck_assert_uint_eq(auth_peers_count(&peers, id_of(1), 999 + AUTH_PEERS_FORGET_MS), 3);
    ck_assert_uint_eq(auth_peers_count(&peers, id_of(1), 1000 + AUTH_PEERS_FORGET_MS), 0);
}
