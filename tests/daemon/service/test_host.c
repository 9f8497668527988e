/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host: what the server needs beside its limit.
 */
#include "daemon/service/server.h"

#include "daemon/options/options.h"
#include "tests/common/unit.h"

TEST(need_grows_with_what_may_be_kept)
{
    static struct settings s;

    settings_init(&s);
    uint64_t before = options_beside_bytes(&s);
    ck_assert_uint_gt(before, 0);
    s.read_buf_mem_limit_bytes = (uint64_t)1 << 30;
    ck_assert_uint_gt(options_beside_bytes(&s), before + ((uint64_t)1 << 29));
    host_log(&s);
    settings_fini(&s);
}
