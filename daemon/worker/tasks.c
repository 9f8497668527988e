/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See worker.h. On the worker.
 */
#include "daemon/worker/worker.h"

#include "lib/base/budgets.h"

void task_add(struct worker *w, struct task *task)
{
    must_be_worker(w);
    debug_must(task->run != NULL);
    if (!task_is_waiting(task)) {
        list_append(&w->tasks.waiting, &task->link);
    }
}

void task_remove(const struct worker *w, struct task *task)
{
    must_be_worker(w);
    list_remove(&task->link);
}

static void set_slice(struct tasks *q, usec_t now, usec_t left)
{
    q->slice_begin = now;
    q->slice_end = now + (left < BUDGET_slice_us ? left : BUDGET_slice_us);
}

/* May it begin at once, or continue in the present slice? */
static bool may_begin(struct worker *w)
{
    struct tasks *q = &w->tasks;

    if (q->is_running) {
        /* A task makes progress in each slice, even if this thread was delayed. */
        bool may = q->is_fresh || !tasks_slice_is_over(w);

        q->is_fresh = false;
        return may;
    }
    if (!list_is_empty(&q->waiting) || q->spent_us >= BUDGET_task_us) {
        return false;
    }
    set_slice(q, clock_mono_us(), BUDGET_task_us - q->spent_us);
    return true;
}

bool tasks_begin_slice(struct worker *w)
{
    must_be_worker(w);
    bool may = may_begin(w);
    ctr_add(&w->counters, CTR_task_waits, !may);
    return may;
}

void tasks_end_slice(struct worker *w)
{
    struct tasks *q = &w->tasks;

    must_be_worker(w);
    if (!q->is_running) {
        q->spent_us += clock_mono_us() - q->slice_begin;
    }
}

bool tasks_slice_is_over(const struct worker *w)
{
    must_be_worker(w);
    return clock_mono_us() >= w->tasks.slice_end;
}

void tasks_run(struct worker *w)
{
    struct tasks *q = &w->tasks;
    usec_t now = clock_mono_us();
    usec_t end =
        now + BUDGET_task_us - (q->spent_us < BUDGET_task_us ? q->spent_us : BUDGET_task_us);
    struct task *task;

    must_be_worker(w);
    must_not_be_reading();
    q->is_running = true;
    while ((task = LIST_FIRST(&q->waiting, struct task, link)) != NULL) {
        task_remove(w, task);
        set_slice(q, now, BUDGET_slice_us);
        q->is_fresh = true;
        task->run(task, w);
        now = clock_mono_us();
        if (now >= end) {
            break;
        }
    }
    q->is_running = false;
}
