/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host: what the server needs beside its limit.
 */
#include "daemon/service/server.h"

#include "tests/common/unit.h"

TEST(need_grows_with_what_may_be_kept)
{
    static struct settings s;

    settings_init(&s);
    uint64_t before = host_memory_need(&s);
    ck_assert_uint_gt(before, setting_get(&s, memory_limit_bytes));
    setting_set(&s, memory_limit_bytes, setting_get(&s, memory_limit_bytes) + 100);
    ck_assert_uint_eq(host_memory_need(&s), before + 100);
    s.read_buf_mem_limit_bytes = (uint64_t)1 << 30;
    ck_assert_uint_gt(host_memory_need(&s), before + ((uint64_t)1 << 29));
    host_log(&s);
    settings_fini(&s);
}
