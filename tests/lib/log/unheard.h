/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a log of keys tells, for tests to which it is all the same, how they wait for it, and
 * what removes the folder of logs with this base.
 */
#ifndef MAYFLY_TESTS_LIB_LOG_UNHEARD_H
#define MAYFLY_TESTS_LIB_LOG_UNHEARD_H

#include "lib/log/keychain.h"
#include "lib/log/keylog.h"
#include "tests/common/folder.h"
#include "tests/common/unit.h"

#define BASE  "data"
#define CHAIN 77

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

static inline struct keylog_config unheard_config(struct engine *engine,
                                                  const struct io_calls *io,
                                                  void (*on_gap)(void *arg, int error))
{
    return (struct keylog_config){.engine = engine,
                                  .io = io,
                                  .dir = folder,
                                  .base = BASE,
                                  .on_gap = on_gap,
                                  .on_slow = unheard_slow,
                                  .on_behind = unheard_behind,
                                  .on_done = unheard_done};
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

/* Nothing but logs and the snapshot may be left in it. */
static inline void remove_logs(void)
{
    ck_assert_int_eq(keychain_remove(&io_system, folder, BASE, UINT64_MAX), 0);
    folder_remove_with(BASE);
}

#endif
