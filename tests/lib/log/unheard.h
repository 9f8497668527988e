/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a log of keys tells, for tests to which it is all the same, and how they wait for it.
 */
#ifndef MAYFLY_TESTS_LIB_LOG_UNHEARD_H
#define MAYFLY_TESTS_LIB_LOG_UNHEARD_H

#include "lib/log/keylog.h"
#include "tests/common/unit.h"

/* on_slow, on_behind and on_done of struct keylog_config. */
static inline void unheard_slow(void *arg, uint64_t ms)
{
}

static inline void unheard_behind(void *arg, bool is_behind)
{
}

static inline void unheard_done(void *arg)
{
}

static inline struct keylog_info keylog_now(struct keylog *l)
{
    struct keylog_info info;

    keylog_look(l, &info);
    return info;
}

/* Until the files have everything. */
static inline void keylog_settle(struct keylog *l)
{
    WAIT_UNTIL(keylog_now(l).waiting_bytes == 0);
}

#endif
