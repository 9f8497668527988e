/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * save_rules: SECONDS:CHANGES,...
 */
#include "daemon/options/save_rules.h"

#include "tests/common/unit.h"

TEST(rules_are_read)
{
    struct save_rules r;

    ck_assert(save_rules_parse(NULL, &r) && r.count == 0);
    ck_assert(save_rules_parse("", &r) && r.count == 0);
    ck_assert(save_rules_parse("900:1,300:10,60:10000", &r));
    ck_assert_uint_eq(r.count, 3);
    ck_assert_uint_eq(r.rule[2].seconds, 60);
    ck_assert_uint_eq(r.rule[2].changes, 10000);
    ck_assert(save_rules_parse("1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1", &r));
}

static const char *const bad[] = {
    "900",         ":",
    "900:",        ":1",
    "900:1,",      ",900:1",
    "900:1,,60:2", "0:1",
    "1:0",         "a:1",
    "1:a",         "-1:1",
    "1 :1",        "4294967296:1",
    "1:1,60",      "1;1",
    "1:1:1",       "1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1",
};

TEST_LOOP(what_is_no_rule_is_refused, sizeof(bad) / sizeof(bad[0]))
{
    struct save_rules r;

    ck_assert_msg(!save_rules_parse(bad[_i], &r), "%s", bad[_i]);
}

TEST(one_rule_is_enough)
{
    struct save_rules r;

    ck_assert(save_rules_parse("900:1,60:100", &r));
    ck_assert(!save_rules_met(&r, 59, 1000));
    ck_assert(save_rules_met(&r, 60, 100));
    ck_assert(!save_rules_met(&r, 899, 99));
    ck_assert(save_rules_met(&r, 900, 1));
    ck_assert(!save_rules_met(&r, 100000, 0));
}
