/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auth_peers: when a warning is due, that a peer's count outlives its connections, and that the
 * table keeps those who fail most lately.
 */
#include <string.h>
#include <sys/socket.h>

#include "daemon/access/auth_peers.h"
#include "tests/common/unit.h"

static struct auth_peers peers;

static void setup(void)
{
    auth_peers_init(&peers);
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

TEST(warnings_get_rarer)
{
    unsigned warnings = 0;

    for (uint64_t i = 1; i <= 1000; i++) {
        uint64_t shown = auth_peers_note(&peers, id_of(1), (msec_t)i);

        ck_assert(shown == 0 || shown == i);
        warnings += shown > 0;
    }
    ck_assert_uint_eq(warnings, 8); /* 5 10 20 40 80 160 320 640 */
}

TEST(a_count_is_forgotten_in_time)
{
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(auth_peers_note(&peers, id_of(1), 1000), 0);
    }
    ck_assert_uint_eq(auth_peers_note(&peers, id_of(1), 1000 + AUTH_PEERS_FORGET_MS), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(auth_peers_note(&peers, id_of(1), 1001 + AUTH_PEERS_FORGET_MS), 0);
    }
    ck_assert_uint_eq(auth_peers_note(&peers, id_of(1), 1002 + AUTH_PEERS_FORGET_MS), 5);
}

/* Peers that fail once each do not push out one that goes on. */
TEST(who_goes_on_stays)
{
    uint64_t shown = 0;

    for (uint32_t i = 1; i <= 1000; i++) {
        shown = auth_peers_note(&peers, id_of(7), i * 10);
        (void)auth_peers_note(&peers, id_of(100000 + i), i * 10 + 1);
        if (i == 5) {
            ck_assert_uint_eq(shown, 5);
        }
        if (i == 640) {
            ck_assert_uint_eq(shown, 640);
        }
    }
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

TEST(counts_are_seen_until_they_are_forgotten)
{
    ck_assert_uint_eq(auth_peers_count(&peers, id_of(1), 1000), 0);
    for (int i = 0; i < 3; i++) {
        (void)auth_peers_note(&peers, id_of(1), 1000);
    }
    ck_assert_uint_eq(auth_peers_count(&peers, id_of(1), 1000), 3);
    ck_assert_uint_eq(auth_peers_count(&peers, id_of(2), 1000), 0);
    ck_assert_uint_eq(auth_peers_count(&peers, id_of(1), 999 + AUTH_PEERS_FORGET_MS), 3);
    ck_assert_uint_eq(auth_peers_count(&peers, id_of(1), 1000 + AUTH_PEERS_FORGET_MS), 0);
}
