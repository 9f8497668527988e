/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists through their members: order and membership.
 */
#include "daemon/base/list.h"

#include "tests/common/unit.h"

#define MEMBERS 5

struct member {
    int number;
    struct list_link link;
};

static struct list l;
static struct member m[MEMBERS];

static void setup(void)
{
    memset(m, 0, sizeof(m));
    list_init(&l);
    for (int i = 0; i < MEMBERS; i++) {
        m[i].number = i;
        list_append(&l, &m[i].link);
    }
}

TEST_FIXTURE(setup, NULL)

/* The numbers of the members, as the digits of a decimal number. */
static int numbers(void)
{
    int all = 0;

    for (struct list_link *x = list_first(&l); x != NULL; x = list_next(&l, x)) {
        all = all * 10 + MF_OUTER(x, struct member, link)->number;
    }
    return all;
}

TEST(members_are_in_the_order_in_which_they_came)
{
    ck_assert_int_eq(numbers(), 1234);
    list_append(&l, &m[2].link); /* it comes again */
    ck_assert_int_eq(numbers(), 1342);
}

TEST(members_leave_from_anywhere_and_once)
{
    list_remove(&m[0].link);
    list_remove(&m[3].link);
    list_remove(&m[3].link);
    ck_assert_int_eq(numbers(), 124);
    list_remove(&m[4].link);
    ck_assert_int_eq(numbers(), 12);
    ck_assert(!list_has_link(&m[4].link));
    ck_assert(list_has_link(&m[1].link));
}

TEST(an_empty_list_has_no_first)
{
    for (int i = 0; i < MEMBERS; i++) {
        ck_assert(!list_is_empty(&l));
        list_remove(&m[i].link);
    }
    ck_assert(list_is_empty(&l));
    ck_assert_ptr_null(list_first(&l));
    list_append(&l, &m[1].link);
    ck_assert_ptr_null(list_next(&l, list_first(&l)));
}

TEST(a_member_moves_to_another_list)
{
    struct list other;

    list_init(&other);
    list_append(&other, &m[1].link);
    ck_assert_int_eq(numbers(), 234);
    ck_assert_ptr_eq(list_first(&other), &m[1].link);
}

TEST(the_first_is_taken_until_there_is_none)
{
    for (int i = 1; i < MEMBERS; i++) {
        struct list_link *x = list_take_first(&l);

        ck_assert_int_eq(MF_OUTER(x, struct member, link)->number, i - 1);
        ck_assert(!list_has_link(x));
    }
    ck_assert_int_eq(numbers(), 4);
    list_take_first(&l);
    ck_assert_ptr_null(list_take_first(&l));
}

TEST(all_members_move_behind_those_of_another_list)
{
    struct list other;

    list_init(&other);
    list_append(&other, &m[3].link);
    list_take_all(&l, &other);
    ck_assert_int_eq(numbers(), 1243);
    ck_assert(list_is_empty(&other));
    list_take_all(&other, &l);
    ck_assert(list_is_empty(&l));
    list_take_all(&l, &other);
    ck_assert_int_eq(numbers(), 1243);
}
