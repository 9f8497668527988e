/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cpu_list: 0-3,8, and whether this process may use them.
 */
#include "daemon/options/cpu_list.h"

#include <sched.h>

#include "lib/base/context.h"
#include "tests/common/unit.h"

static struct cpu_list list;
static char why[160];

TEST(lists_are_read)
{
    static const uint16_t cpus[] = {0, 1, 2, 3, 8};

    ck_assert(cpu_list_parse("", &list, why, sizeof(why)) && list.count == 0);
    ck_assert(cpu_list_parse("0-3,8", &list, why, sizeof(why)));
    ck_assert_uint_eq(list.count, 5);
    ck_assert_mem_eq(list.cpu, cpus, sizeof(cpus));
    ck_assert(cpu_list_parse("8,0-1", &list, why, sizeof(why))); /* in this order */
    ck_assert_uint_eq(list.count, 3);
    ck_assert_uint_eq(list.cpu[0], 8);
    ck_assert_uint_eq(list.cpu[2], 1);
    ck_assert(cpu_list_parse("5-5", &list, why, sizeof(why)) && list.count == 1);
    ck_assert(cpu_list_parse("0-1023", &list, why, sizeof(why)) && list.count == 1024);
}

static const char *const bad[] = {
    ",",
    "-",
    "1-",
    "-1",
    "1,",
    ",1",
    "1,,2",
    "3-1",
    "a",
    "1a",
    "1 ,2",
    " 1",
    "0x1",
    "1-2-3",
    "1024",
    "0-1024",
    "99999999999999999999",
    "1;2",
    "+1",
    "1,1",
    "0-3,2",
    "0-1023,0",
};

TEST_LOOP(what_is_no_list_is_refused, sizeof(bad) / sizeof(bad[0]))
{
    why[0] = '\0';
    ck_assert_msg(!cpu_list_parse(bad[_i], &list, why, sizeof(why)), "%s", bad[_i]);
    ck_assert_str_ne(why, "");
}

TEST(cpus_that_may_not_be_used_are_named)
{
    cpu_set_t usable;
    char text[32];

    context_set_thread(THREAD_MAIN, NULL, NULL);
    ck_assert_int_eq(sched_getaffinity(0, sizeof(usable), &usable), 0);
    list.count = 0;
    ck_assert(cpu_list_check(&list, why, sizeof(why)));
    for (uint16_t cpu = 0; cpu < CPU_LIST_MAX; cpu++) {
        list.count = 1;
        list.cpu[0] = cpu;
        snprintf(text, sizeof(text), "CPU %u ", (unsigned)cpu);
        if (CPU_ISSET(cpu, &usable)) {
            ck_assert(cpu_list_check(&list, why, sizeof(why)));
        } else {
            ck_assert(!cpu_list_check(&list, why, sizeof(why)));
            ck_assert_ptr_eq(strstr(why, text), why);
        }
    }
}
