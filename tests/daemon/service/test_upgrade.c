/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * upgrade: what a program that is asked finds in its environment, and why an upgrade has
 * failed. That a program takes over is shown by tests/it/it_upgrade.py.
 */
#include "daemon/service/server.h"

#include "tests/common/unit.h"

TEST(who_is_not_asked_may_have_any_file_and_blocks)
{
    ck_assert(!upgrade_is_asked());
    ck_assert(upgrade_knows_blocks());
    ck_assert(upgrade_has_items("/dev/shm/items"));
}

/* Another file, or other blocks, and the items would be lost. */
TEST(who_is_asked_needs_the_same_file_and_blocks)
{
    char abi[24];

    setenv("MAYFLY_UPGRADE_MEMORY", "/dev/shm/items", 1);
    ck_assert(upgrade_has_items("/dev/shm/items"));
    ck_assert(!upgrade_has_items("/dev/shm/item"));
    ck_assert(!upgrade_has_items("/dev/shm/items2"));
    unsetenv("MAYFLY_UPGRADE_MEMORY");
    snprintf(abi, sizeof(abi), "%" PRIu64, attach_abi());
    setenv("MAYFLY_UPGRADE_ABI", abi, 1);
    ck_assert(upgrade_is_asked() && upgrade_knows_blocks());
    snprintf(abi, sizeof(abi), "%" PRIu64, attach_abi() ^ 1);
    setenv("MAYFLY_UPGRADE_ABI", abi, 1);
    ck_assert(upgrade_is_asked() && !upgrade_knows_blocks());
    setenv("MAYFLY_UPGRADE_ABI", "nonsense", 1);
    ck_assert(!upgrade_knows_blocks());
    unsetenv("MAYFLY_UPGRADE_ABI");
}

/* Nor may its limit be one with which the items are not taken over. */
TEST(who_is_asked_needs_a_limit_that_suits_the_items)
{
    const uint64_t mib = UINT64_C(1) << 20;

    ck_assert(upgrade_has_room(4096 * mib, 2));
    setenv("MAYFLY_UPGRADE_SIZE", "2:18:268435456", 1);
    ck_assert(upgrade_has_room(64 * mib, 2));
    ck_assert(upgrade_has_room(512 * mib, 2));
    ck_assert(!upgrade_has_room(1024 * mib, 2));
    setenv("MAYFLY_UPGRADE_SIZE", "0:18:268435456", 1);
    ck_assert(!upgrade_has_room(64 * mib, 2));
    setenv("MAYFLY_UPGRADE_SIZE", "nonsense", 1);
    ck_assert(!upgrade_has_room(64 * mib, 2));
    unsetenv("MAYFLY_UPGRADE_SIZE");
}

/* The next program, which may be another upgrade, has not failed. */
TEST(a_failure_is_told_once)
{
    static struct settings settings;
    static struct server s = {.crew.settings = &settings};
    char why[HANDOVER_WHY_BYTES];

    setenv("MAYFLY_UPGRADE_FAILED", "cannot run it", 1);
    upgrade_init(&s);
    ck_assert_int_eq(handover_look(&s.crew.handover, why), HANDOVER_REFUSED);
    ck_assert_str_eq(why, "cannot run it");
    ck_assert_ptr_null(getenv("MAYFLY_UPGRADE_FAILED"));
    upgrade_init(&s);
    ck_assert_int_eq(handover_look(&s.crew.handover, why), HANDOVER_NONE);
}
