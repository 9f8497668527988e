/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a log of keys tells, for tests to which it is all the same.
 */
#ifndef MAYFLY_TESTS_LIB_LOG_UNHEARD_H
#define MAYFLY_TESTS_LIB_LOG_UNHEARD_H

#include <stdbool.h>
#include <stdint.h>

/* on_slow, on_behind and on_done of struct keylog_config. */
static inline void unheard_slow(void *arg, uint64_t ms)
{
    (void)arg;
    (void)ms;
}

static inline void unheard_behind(void *arg, bool is_behind)
{
    (void)arg;
    (void)is_behind;
}

static inline void unheard_done(void *arg)
{
    (void)arg;
}

#endif
