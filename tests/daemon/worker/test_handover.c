/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handover: readers see the last outcome, and a reason that is too long is truncated.
 */
#include "daemon/worker/crew.h"

#include "tests/common/unit.h"

TEST(what_was_told_last_is_seen)
{
    struct handover h;
    char why[HANDOVER_WHY_BYTES];
    char longer[2 * HANDOVER_WHY_BYTES];

    handover_init(&h, HANDOVER_DONE);
    ck_assert_int_eq(handover_look(&h, why), HANDOVER_DONE);
    ck_assert_str_eq(why, "");
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    handover_tell(&h, HANDOVER_REFUSED, longer);
    ck_assert_int_eq(handover_look(&h, why), HANDOVER_REFUSED);
    ck_assert_uint_eq(strlen(why), HANDOVER_WHY_BYTES - 1);
    handover_tell(&h, HANDOVER_ASKED, NULL);
    ck_assert_int_eq(handover_look(&h, why), HANDOVER_ASKED);
    ck_assert_str_eq(why, "");
    ck_assert_str_eq(handover_text(HANDOVER_UNDER_WAY), "under-way");
}
