/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * claim: a name in a folder is for one, until that one has closed it.
 */
#include "lib/snapshot/claim.h"

#include <sys/wait.h>

#include "tests/common/folder.h"
#include "tests/common/unit.h"

static void remove_folder(void)
{
    folder_remove_with(""); /* nothing is left in it */
}

TEST_FIXTURE(folder_make, remove_folder)

TEST(a_name_is_for_one)
{
    int one = claim_take(folder, "data");
    int other = claim_take(folder, "other");

    ck_assert_int_ge(one, 0);
    ck_assert_int_ge(other, 0);
    ck_assert_int_eq(claim_take(folder, "data"), -EBUSY);
    ck_assert_int_eq(claim_take(folder, "other"), -EBUSY);
    close(one);
    one = claim_take(folder, "data");
    ck_assert_int_ge(one, 0);
    close(one);
    close(other);
}

TEST(a_child_keeps_it_and_others_do_not_get_it)
{
    int one = claim_take(folder, "data");
    int ends[2];
    int status;
    char byte;

    ck_assert_int_ge(one, 0);
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        close(ends[1]);
        if (read(ends[0], &byte, 1) != 0) {
            _exit(2);
        }
        _exit(claim_take(folder, "data") == -EBUSY ? 0 : 1);
    }
    close(ends[0]);
    close(one);
    ck_assert_int_eq(claim_take(folder, "data"), -EBUSY);
    close(ends[1]); /* it ends */
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    one = claim_take(folder, "data");
    ck_assert_int_ge(one, 0);
    close(one);
}

TEST(a_folder_that_is_not_there)
{
    ck_assert_int_eq(claim_take("/nonexistent/folder", "data"), -ENOENT);
}
