/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pulse: a worker whose loop turns answers, one that is held up does not.
 */
#include "daemon/worker/worker.h"

#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

TEST_FIXTURE(solo_setup, solo_teardown)

static void wait_for_answers(void)
{
    WAIT_UNTIL(pulse_delay_us(&solo.crew) == 0);
}

TEST(a_worker_that_turns_answers)
{
    ck_assert_int_eq(pulse_delay_us(&solo.crew), 0); /* nobody has asked */
    for (unsigned i = 0; i < 100; i++) {
        pulse_ask(&solo.crew);
        pulse_ask(&solo.crew); /* it owes an answer at most once */
        wait_for_answers();
    }
}

TEST(one_that_is_held_up_does_not)
{
    struct solo_errand held;

    solo_pause(&held);
    pulse_ask(&solo.crew);
    usec_t first = pulse_delay_us(&solo.crew);
    ck_assert_int_gt(first, 0);
    while (pulse_delay_us(&solo.crew) < first + 2000) {
        pulse_ask(&solo.crew); /* another question does not make it younger */
    }
    solo_resume(&held);
    wait_for_answers();
}
