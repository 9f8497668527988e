/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread: what a thread has of its kind, joined and left alone.
 */
#include "lib/base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/common/unit.h"

/* What a thread saw of itself. */
struct seen {
    char name[THREAD_NAME_BYTES];
    int nice;
    int error; /* of the nice value */
    bool is_pool;
    bool is_main;
    bool takes_term, takes_bus;
    struct thread *thread;
    _Atomic bool is_done;
};

static void look(void *arg)
{
    struct seen *seen = arg;
    sigset_t blocked;

    pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    seen->nice = getpriority(PRIO_PROCESS, 0);
    seen->error = seen->thread->nice_error;
    seen->is_pool = context_is_thread(THREAD_POOL);
    seen->is_main = context_is_thread(THREAD_MAIN);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    seen->takes_term = !sigismember(&blocked, SIGTERM);
    seen->takes_bus = !sigismember(&blocked, SIGBUS);
    rcu_begin();
    rcu_end();
    atomic_store(&seen->is_done, true);
}

static const struct thread_kind plain_kind = {.name = "plain", .run = look, .reads = true};
static const struct thread_kind nicer_kind = {
    .name = "nicer",
    .run = look,
    .role = THREAD_POOL,
    .nicer = 3,
    .stack_bytes = (size_t)256 << 10,
    .reads = true,
};

TEST(a_thread_has_name_and_role_of_its_kind)
{
    struct thread t = {0};
    struct seen seen = {.thread = &t};
    int nice = getpriority(PRIO_PROCESS, 0);

    ck_assert_int_eq(thread_start(&t, &nicer_kind, &seen), 0);
    ck_assert(t.is_running);
    thread_join(&t);
    ck_assert(!t.is_running);
    ck_assert_str_eq(seen.name, "nicer");
    ck_assert(seen.is_pool && !seen.is_main);
    ck_assert_int_eq(seen.error, 0);
    ck_assert_int_eq(seen.nice, nice + 3 > 19 ? 19 : nice + 3);
    /* It can be made again. */
    seen.name[0] = '\0';
    ck_assert_int_eq(thread_start_named(&t, &plain_kind, "one of several", &seen), 0);
    thread_join(&t);
    ck_assert_str_eq(seen.name, "one of several");
    ck_assert(seen.is_pool && seen.is_main); /* of unknown role: passes for all */
    ck_assert_int_eq(seen.nice, nice);
}

TEST(a_thread_takes_only_signals_that_it_raises)
{
    struct thread t = {0};
    struct seen seen = {.thread = &t};
    sigset_t blocked;

    ck_assert_int_eq(thread_start(&t, &plain_kind, &seen), 0);
    thread_join(&t);
    ck_assert(!seen.takes_term && seen.takes_bus);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    ck_assert(!sigismember(&blocked, SIGTERM)); /* the maker's mask is as before */
}

TEST(joining_what_does_not_run_does_nothing)
{
    struct thread t = {0};

    thread_join(&t);
    ck_assert(!t.is_running);
}

TEST(a_thread_that_was_left_ends_by_itself)
{
    struct thread t = {0};
    struct seen seen = {.thread = &t};

    ck_assert_int_eq(thread_start(&t, &plain_kind, &seen), 0);
    thread_leave(&t);
    ck_assert(!t.is_running);
    while (!atomic_load(&seen.is_done)) {
        sched_yield();
    }
    thread_join(&t);
}

TEST(a_thread_that_the_system_refuses_does_not_run)
{
    struct thread t = {0};
    const struct thread_kind huge = {
        .name = "huge", .run = look, .stack_bytes = (size_t)1 << 62};

    ck_assert_int_ne(thread_start(&t, &huge, NULL), 0);
    ck_assert(!t.is_running);
    thread_join(&t);
}

#define DEEP ((size_t)256 << 10)

/* Use a part of the stack. */
static MF_NOINLINE int go_deep(void)
{
    volatile char room[DEEP];

    for (size_t i = 0; i < DEEP; i++) {
        room[i] = (char)i;
    }
    return room[DEEP / 2];
}

static size_t resident_below(const void *p, size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t end = (uintptr_t)p & ~(page - 1);
    unsigned char vec[DEEP / 4096];
    size_t count = 0;

    ck_assert_int_eq(mincore((void *)(end - n), n, vec), 0);
    for (size_t i = 0; i < n / page; i++) {
        count += vec[i] & 1;
    }
    return count * page;
}

static void rest(void *arg)
{
    struct seen *seen = arg;
    volatile char mark = 'm';
    const void *here = __builtin_frame_address(0);

    seen->nice = go_deep();
    seen->is_pool = resident_below(here, DEEP) > DEEP / 2;
    thread_discard_stack(seen->thread);
    seen->is_main = resident_below(here, DEEP) < DEEP / 8 && mark == 'm';
}

TEST(a_thread_gives_back_what_it_used_of_its_stack)
{
    const struct thread_kind kind = {.name = "deep", .run = rest};
    struct thread t = {0};
    struct seen seen = {.thread = &t};

    ck_assert_int_eq(thread_start(&t, &kind, &seen), 0);
    thread_join(&t);
    ck_assert_uint_gt(t.stack_bytes, DEEP);
    ck_assert(seen.is_pool);
    ck_assert(seen.is_main);
}
