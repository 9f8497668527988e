/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tasks take turns, and what finds the budget spent becomes one. No worker runs: the test turns
 * the loop by hand. Nothing depends on how quick the machine is; a slice may be over at any
 * time.
 */
#include "daemon/worker/worker.h"

#include "tests/common/unit.h"

#define SPENT_US 1000000 /* more than any budget */

static struct worker *w;

/* What ran, in order. */
static char ran[64];
static unsigned ran_count;

struct job {
    struct task task; /* must be the first member */
    char name;
    unsigned left; /* slices until it is done */
};

static void run_job(struct task *task, struct worker *on)
{
    struct job *job = (struct job *)(void *)task;

    ck_assert_ptr_eq(on, w);
    ck_assert(!task_is_waiting(task));
    ck_assert_uint_lt(ran_count, sizeof(ran) - 1);
    ran[ran_count++] = job->name;
    if (--job->left > 0) {
        task_add(w, task);
    }
}

static struct job job_of(char name, unsigned slices)
{
    return (struct job){.task = {.run = run_job}, .name = name, .left = slices};
}

static void setup(void)
{
    w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);
    ck_assert_ptr_nonnull(w);
    memset(w, 0, sizeof(*w));
    list_init(&w->tasks.waiting);
    memset(ran, 0, sizeof(ran));
    ran_count = 0;
}

static void teardown(void)
{
    free(w);
}

TEST_FIXTURE(setup, teardown)

TEST(tasks_take_turns_until_they_are_done)
{
    struct job a = job_of('a', 3);
    struct job b = job_of('b', 1);
    struct job c = job_of('c', 2);

    task_add(w, &a.task);
    task_add(w, &b.task);
    task_add(w, &c.task);
    task_add(w, &a.task); /* it waits already */
    while (!list_is_empty(&w->tasks.waiting)) {
        tasks_run(w);
    }
    ck_assert_str_eq(ran, "abcaca");
}

TEST(one_is_served_even_if_the_budget_is_spent)
{
    struct job a = job_of('a', 2);
    struct job b = job_of('b', 1);

    task_add(w, &a.task);
    task_add(w, &b.task);
    w->tasks.spent_us = SPENT_US;
    tasks_run(w);
    ck_assert_str_eq(ran, "a");
    tasks_run(w);
    ck_assert_str_eq(ran, "ab");
    tasks_run(w);
    ck_assert_str_eq(ran, "aba");
    ck_assert(list_is_empty(&w->tasks.waiting));
}

TEST(a_task_that_is_removed_does_not_run)
{
    struct job job[3] = {job_of('a', 1), job_of('b', 1), job_of('c', 1)};

    for (unsigned gone = 0; gone < 3; gone++) {
        for (unsigned i = 0; i < 3; i++) {
            job[i].left = 1;
            task_add(w, &job[i].task);
        }
        task_remove(w, &job[gone].task);
        task_remove(w, &job[gone].task);
        ck_assert(!task_is_waiting(&job[gone].task));
        while (!list_is_empty(&w->tasks.waiting)) {
            tasks_run(w);
        }
    }
    ck_assert_str_eq(ran, "bcacab");
}

TEST(on_the_spot_only_while_no_task_waits_and_budget_is_left)
{
    struct job a = job_of('a', 1);

    ck_assert(tasks_begin_slice(w));
    tasks_end_slice(w);
    task_add(w, &a.task);
    ck_assert(!tasks_begin_slice(w));
    task_remove(w, &a.task);
    w->tasks.spent_us = SPENT_US;
    ck_assert(!tasks_begin_slice(w));
    ck_assert_uint_eq(ctr_get(&w->counters, CTR_task_waits), 2);
    w->tasks.spent_us = 0; /* the next turn of the loop */
    ck_assert(tasks_begin_slice(w));
    tasks_end_slice(w);
}

static void run_late(struct task *task, struct worker *on)
{
    on->tasks.slice_end = on->tasks.slice_begin; /* the thread lost the CPU meanwhile */
    ck_assert_msg(tasks_begin_slice(on), "a slice that was given can be used once");
    ck_assert_msg(!tasks_begin_slice(on), "but not twice when it is over");
    ran[ran_count++] = 'l';
}

TEST(a_slice_is_good_for_one_step_however_late_it_is)
{
    struct task late = {.run = run_late};

    task_add(w, &late);
    tasks_run(w);
    ck_assert_str_eq(ran, "l");
}
