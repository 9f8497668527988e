/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reclaim and grace: stamps, order of release, no release while a reader is inside that began
 * before, the turns of the hook, stop, and that an idle reclaimer sleeps without a timeout.
 *
 * A test that waits for another thread polls for it, with a generous limit that only a hang
 * reaches; no verdict depends on how long something took.
 */
#include "lib/base/reclaim.h"

#include <dirent.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"
#include "tests/common/unit.h"

#define LIMIT_US 60000000 /* a minute: after that it is a hang */

/*
 * Wait until a condition holds, in short sleeps. Fails with must(), because threads other than
 * the main one use it too, and only the main thread may use libcheck's assertions.
 */
#define AWAIT(cond)                                                                            \
    do {                                                                                       \
        usec_t until_ = clock_mono_us() + LIMIT_US;                                            \
        while (!(cond)) {                                                                      \
            must(clock_mono_us() < until_ && "never came: " #cond);                            \
            nap();                                                                             \
        }                                                                                      \
    } while (0)

static void nap(void)
{
    struct timespec ts = {.tv_nsec = 100000};

    nanosleep(&ts, NULL);
}

/* ---- without a thread -------------------------------------------------------------------- */

struct thing {
    struct retired retired;
    unsigned id;
    struct journal *journal;
};

struct journal {
    unsigned ids[16];
    unsigned n;
    unsigned hook_calls;
    struct reclaimer *r;
    struct thing *next; /* retired by the release of the previous one */
};

static void note_release(struct retired *r)
{
    struct thing *t = (struct thing *)(void *)r;
    struct journal *j = t->journal;

    j->ids[j->n++] = t->id;
    if (j->next != NULL) {
        struct thing *next = j->next;

        j->next = NULL;
        reclaim_push(j->r, &next->retired);
    }
}

static uint64_t count_call(void *arg)
{
    struct journal *j = arg;

    j->hook_calls++;
    return RECLAIM_IDLE;
}

static void thing_init(struct thing *t, unsigned id, struct journal *j)
{
    *t = (struct thing){.retired.fn = note_release, .id = id, .journal = j};
}

TEST(stamp_is_over_only_after_the_next_period)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct grace *g = reclaim_grace(r);

    uint32_t first = grace_stamp(g);
    ck_assert(!grace_is_over(g, first));
    reclaim_run_once(r);
    ck_assert(grace_is_over(g, first));

    uint32_t second = grace_stamp(g);
    ck_assert(!grace_is_over(g, second));
    ck_assert(grace_is_over(g, first));
    reclaim_run_once(r);
    ck_assert(grace_is_over(g, second));
    ck_assert_uint_eq(ctr_get(reclaim_counters(r), CTR_lazyfree_grace_periods), 2);
    reclaim_destroy(&r);
    ck_assert_ptr_null(r);
    reclaim_destroy(&r);
}

TEST(stamp_taken_within_a_period_is_not_ended_by_it)
{
    struct grace g;

    grace_init(&g);
    atomic_store(&g.begun, 1); /* period 1 runs */
    uint32_t stamp = grace_stamp(&g);
    atomic_store(&g.completed, 1);
    ck_assert(!grace_is_over(&g, stamp));
    atomic_store(&g.begun, 2);
    atomic_store(&g.completed, 2);
    ck_assert(grace_is_over(&g, stamp));
}

TEST(grace_numbers_may_wrap)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct grace *g = reclaim_grace(r);

    atomic_store(&g->begun, UINT32_MAX - 1);
    atomic_store(&g->completed, UINT32_MAX - 1);
    for (unsigned i = 0; i < 5; i++) {
        uint32_t stamp = grace_stamp(g);

        ck_assert(!grace_is_over(g, stamp));
        reclaim_run_once(r);
        ck_assert(grace_is_over(g, stamp));
    }
    reclaim_destroy(&r);
}

TEST(need_only_rises_until_a_period_clears_it)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct grace *g = reclaim_grace(r);

    grace_ask(g, GRACE_HURRY);
    ck_assert_uint_eq(atomic_load(&g->need), GRACE_HURRY);
    grace_ask(g, GRACE_SOON);
    ck_assert_uint_eq(atomic_load(&g->need), GRACE_HURRY);
    reclaim_run_once(r);
    ck_assert_uint_eq(atomic_load(&g->need), GRACE_IDLE);
    grace_ask(g, GRACE_SOON);
    ck_assert_uint_eq(atomic_load(&g->need), GRACE_SOON);
    reclaim_destroy(&r);
}

TEST(sleep_ends_when_its_need_is_raised)
{
    struct grace g;

    grace_init(&g);
    grace_wake(&g, GRACE_SOON);
    grace_sleep(&g, GRACE_SOON, -1); /* hangs if the need is not checked */
    grace_sleep(&g, GRACE_HURRY, 1000);
    grace_wake(&g, GRACE_HURRY);
    grace_sleep(&g, GRACE_HURRY, -1);
    ck_assert_uint_eq(atomic_load(&g.wakes_at), GRACE_IDLE);
}

TEST(retired_objects_are_released_in_order_after_a_period)
{
    struct journal j = {0};
    struct thing t[4];
    struct reclaimer *r = reclaim_create(count_call, &j);

    for (unsigned i = 0; i < 3; i++) {
        thing_init(&t[i], i, &j);
        reclaim_push(r, &t[i].retired);
    }
    ck_assert_uint_eq(atomic_load(&reclaim_grace(r)->need), GRACE_SOON);
    ck_assert_uint_eq(j.n, 0);
    reclaim_run_once(r);
    ck_assert_uint_eq(j.n, 3);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(j.ids[i], i);
    }
    ck_assert_uint_eq(j.hook_calls, 1);

    reclaim_run_once(r);
    ck_assert_uint_eq(j.n, 3);
    ck_assert_uint_eq(j.hook_calls, 2);
    reclaim_destroy(&r);
}

TEST(what_a_release_retires_waits_for_a_period_of_its_own)
{
    struct journal j = {0};
    struct thing t[2];
    struct reclaimer *r = reclaim_create(NULL, NULL);

    thing_init(&t[0], 0, &j);
    thing_init(&t[1], 1, &j);
    j.r = r;
    j.next = &t[1];
    reclaim_push(r, &t[0].retired);
    reclaim_run_once(r);
    ck_assert_uint_eq(j.n, 1);
    reclaim_stop(r); /* drains here, because there is no thread */
    ck_assert_uint_eq(j.n, 2);
    reclaim_destroy(&r);
}

/* ---- with its thread --------------------------------------------------------------------- */

struct guarded {
    struct retired retired;
    _Atomic bool is_read; /* a reader that began before the unlink is inside */
    _Atomic bool is_released;
    _Atomic bool was_early;
    _Atomic bool may_leave;
};

static void release_guarded(struct retired *r)
{
    struct guarded *g = (struct guarded *)(void *)r;

    atomic_store(&g->was_early, atomic_load(&g->is_read));
    atomic_store(&g->is_released, true);
}

static void *read_guarded(void *arg)
{
    struct guarded *g = arg;

    rcu_register();
    rcu_begin();
    atomic_store(&g->is_read, true);
    AWAIT(atomic_load(&g->may_leave));
    atomic_store(&g->is_read, false);
    rcu_end();
    rcu_unregister();
    return NULL;
}

TEST(nothing_is_released_while_an_earlier_reader_is_inside)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct grace *g = reclaim_grace(r);

    ck_assert_int_eq(reclaim_start(r), MF_OK);
    for (unsigned round = 0; round < 20; round++) {
        struct guarded obj = {.retired.fn = release_guarded};
        pthread_t reader;

        ck_assert_int_eq(pthread_create(&reader, NULL, read_guarded, &obj), 0);
        AWAIT(atomic_load(&obj.is_read));
        reclaim_push(r, &obj.retired);
        grace_ask(g, GRACE_HURRY);
        /* The period has begun and cannot end: a release that is too early would happen now. */
        AWAIT((int32_t)(atomic_load(&g->begun) - obj.retired.stamp) >= 0);
        ck_assert(!grace_is_over(g, obj.retired.stamp));
        ck_assert(!atomic_load(&obj.is_released));
        atomic_store(&obj.may_leave, true);
        AWAIT(atomic_load(&obj.is_released));
        ck_assert(!atomic_load(&obj.was_early));
        pthread_join(reader, NULL);
    }
    ck_assert_uint_gt(ctr_get(reclaim_counters(r), CTR_lazyfree_wait_max_us), 0);
    reclaim_destroy(&r);
}

/* ---- periods that need no waiting -------------------------------------------------------- */

/* Only where the kernel has the barrier for the whole process (membarrier). */
static bool has_membarrier(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) > 0;
}

struct idler {
    _Atomic bool is_registered;
    _Atomic bool may_end;
};

/* A registered thread that is not inside a section. */
static void *idle_registered(void *arg)
{
    struct idler *idler = arg;

    rcu_register();
    atomic_store(&idler->is_registered, true);
    AWAIT(atomic_load(&idler->may_end));
    rcu_unregister();
    return NULL;
}

TEST_LOOP(try_ends_a_period_when_nobody_is_inside, 2)
{
    bool is_alone = _i == 0;
    bool can = is_alone || has_membarrier();
    struct idler idler = {0};
    struct grace g;
    pthread_t thread;

    grace_init(&g);
    rcu_register();
    if (!is_alone) {
        ck_assert_int_eq(pthread_create(&thread, NULL, idle_registered, &idler), 0);
        AWAIT(atomic_load(&idler.is_registered));
    }
    for (unsigned i = 0; i < 3; i++) {
        uint32_t stamp = grace_stamp(&g);

        ck_assert(!grace_is_over(&g, stamp));
        ck_assert(grace_try(&g) == can);
        ck_assert(grace_is_over(&g, stamp) == can);
    }
    if (!is_alone) {
        atomic_store(&idler.may_end, true);
        pthread_join(thread, NULL);
    }
    rcu_unregister();
}

TEST(try_fails_while_a_reader_is_inside)
{
    struct guarded obj = {.retired.fn = release_guarded};
    struct grace g;
    pthread_t reader;

    grace_init(&g);
    rcu_register();
    ck_assert_int_eq(pthread_create(&reader, NULL, read_guarded, &obj), 0);
    AWAIT(atomic_load(&obj.is_read));
    uint32_t early = grace_stamp(&g);
    ck_assert(!grace_try(&g));
    uint32_t late = grace_stamp(&g);
    ck_assert_uint_eq(late, early + 1);
    ck_assert(!grace_try(&g));
    ck_assert(!grace_is_over(&g, early));
    atomic_store(&obj.may_leave, true);
    pthread_join(reader, NULL);
    /* A thread that has ended is ignored; the next period ends the failed ones too. */
    ck_assert(grace_try(&g));
    ck_assert(grace_is_over(&g, early));
    ck_assert(grace_is_over(&g, late));
    rcu_unregister();
}

TEST(try_fails_within_a_section_of_its_own)
{
    struct grace g;

    grace_init(&g);
    rcu_register();
    rcu_begin();
    ck_assert(!grace_try(&g));
    rcu_end();
    ck_assert(grace_try(&g));
    rcu_unregister();
}

/*
 * Periods that other threads end release what waits here; when they stop doing so, the
 * reclaimer runs periods of its own again.
 */
TEST(periods_of_other_threads_count_as_well)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct grace *g = reclaim_grace(r);

    ck_assert_int_eq(reclaim_start(r), MF_OK);
    rcu_register();
    for (unsigned round = 0; round < 20; round++) {
        struct guarded obj = {.retired.fn = release_guarded, .may_leave = true};

        reclaim_push(r, &obj.retired);
        if (round % 2 == 0) {
            AWAIT(grace_try(g) && atomic_load(&obj.is_released));
        } else {
            ck_assert(grace_try(g));
            uint32_t stamp = grace_stamp(g);
            grace_ask(g, GRACE_SOON);
            AWAIT(grace_is_over(g, stamp) && atomic_load(&obj.is_released));
        }
    }
    rcu_unregister();
    reclaim_destroy(&r);
}

TEST(completed_never_goes_back)
{
    struct grace g;

    grace_init(&g);
    atomic_store(&g.begun, UINT32_MAX);
    atomic_store(&g.completed, UINT32_MAX - 2);
    uint32_t slow = grace_begin(&g); /* wraps */
    uint32_t fast = grace_begin(&g);
    grace_complete(&g, fast);
    ck_assert(grace_is_over(&g, slow));
    grace_complete(&g, slow);
    ck_assert(grace_is_over(&g, fast));
    ck_assert_uint_eq(atomic_load(&g.completed), fast);
}

TEST(asking_during_a_period_gets_another_one)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct grace *g = reclaim_grace(r);

    ck_assert_int_eq(reclaim_start(r), MF_OK);
    for (unsigned round = 0; round < 20; round++) {
        struct guarded obj = {0};
        uint32_t first = grace_stamp(g);
        pthread_t reader;

        /* A reader keeps the first period from ending until the second was asked for. */
        ck_assert_int_eq(pthread_create(&reader, NULL, read_guarded, &obj), 0);
        AWAIT(atomic_load(&obj.is_read));
        grace_ask(g, GRACE_HURRY);
        AWAIT(atomic_load(&g->begun) == first);
        uint32_t second = grace_stamp(g);
        ck_assert_uint_eq(second, first + 1);
        grace_ask(g, round % 2 == 0 ? GRACE_SOON : GRACE_HURRY);
        atomic_store(&obj.may_leave, true);
        AWAIT(grace_is_over(g, second));
        pthread_join(reader, NULL);
    }
    reclaim_destroy(&r);
}

/*
 * The clock that the reclaimer's thread reads, linked in place of the real one so that it can
 * be frozen.
 */
static _Atomic bool stands_still;
static _Atomic usec_t moment = 1000000000; /* what it shows then */
static _Thread_local bool is_test;

usec_t __real_clock_mono_us(void);
usec_t __wrap_clock_mono_us(void);

usec_t __wrap_clock_mono_us(void)
{
    return atomic_load(&stands_still) && !is_test ? atomic_load(&moment)
                                                  : __real_clock_mono_us();
}

/* No time passes between the periods, so one that waits for its pace would never run. */
TEST(hurried_periods_do_not_wait_for_their_pace)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct grace *g = reclaim_grace(r);

    is_test = true;
    atomic_store(&stands_still, true);
    ck_assert_int_eq(reclaim_start(r), MF_OK);
    for (unsigned round = 0; round < 50; round++) {
        uint32_t stamp = grace_stamp(g);

        grace_ask(g, GRACE_HURRY);
        AWAIT(grace_is_over(g, stamp));
    }
    reclaim_destroy(&r);
    atomic_store(&stands_still, false);
}

struct hooked {
    struct reclaimer *r;
    _Atomic unsigned calls;
    _Atomic uint64_t periods; /* of the reclaimer's own, at the last call */
};

static uint64_t note_periods(void *arg)
{
    struct hooked *h = arg;

    atomic_store(&h->periods, ctr_get(reclaim_counters(h->r), CTR_lazyfree_grace_periods));
    atomic_fetch_add(&h->calls, 1);
    return RECLAIM_IDLE;
}

/* While others end periods the reclaimer runs none; when no more of theirs comes, it does. */
TEST(periods_are_spared_while_others_end_them)
{
    struct hooked h = {0};
    struct reclaimer *r = reclaim_create(note_periods, &h);
    struct grace *g = reclaim_grace(r);
    const usec_t more_than_a_pace = 1000000;
    unsigned calls;

    h.r = r;
    is_test = true;
    atomic_store(&stands_still, true);
    rcu_register();
    ck_assert_int_eq(reclaim_start(r), MF_OK);
    grace_ask(g, GRACE_HURRY);
    AWAIT(atomic_load(&h.periods) == 1);
    for (unsigned round = 0; round < 5; round++) {
        calls = atomic_load(&h.calls);
        AWAIT(grace_try(g));
        grace_ask(g, GRACE_SOON);
        atomic_fetch_add(&moment, more_than_a_pace);
        AWAIT(atomic_load(&h.calls) > calls);
        ck_assert_uint_eq(atomic_load(&h.periods), 1);
    }
    atomic_fetch_add(&moment, more_than_a_pace);
    AWAIT(atomic_load(&h.periods) == 2);
    rcu_unregister();
    reclaim_destroy(&r);
    atomic_store(&stands_still, false);
}

struct counted {
    struct retired retired;
    _Atomic unsigned *released;
};

static void release_counted(struct retired *r)
{
    struct counted *c = (struct counted *)(void *)r;

    atomic_fetch_add(c->released, 1);
    mem_free(c);
}

#define PUSHERS 3u
#define PUSHES  2000u

struct pusher {
    struct reclaimer *r;
    _Atomic unsigned *released;
};

static void *push_many(void *arg)
{
    struct pusher *p = arg;

    for (unsigned i = 0; i < PUSHES; i++) {
        struct counted *c = mem_alloc(sizeof(*c));

        must(c != NULL);
        *c = (struct counted){.retired.fn = release_counted, .released = p->released};
        reclaim_push(p->r, &c->retired);
        if (i % 500 == 0) {
            nap();
        }
    }
    return NULL;
}

TEST(stop_releases_everything)
{
    _Atomic unsigned released = 0;
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct pusher p = {r, &released};
    pthread_t threads[PUSHERS];

    ck_assert_int_eq(reclaim_start(r), MF_OK);
    for (unsigned i = 0; i < PUSHERS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, push_many, &p), 0);
    }
    for (unsigned i = 0; i < PUSHERS; i++) {
        pthread_join(threads[i], NULL);
    }
    reclaim_stop(r);
    ck_assert_uint_eq(atomic_load(&released), PUSHERS * PUSHES);

    /* It can be started again; destroy stops and drains too. */
    ck_assert_int_eq(reclaim_start(r), MF_OK);
    (void)push_many(&p);
    reclaim_destroy(&r);
    ck_assert_uint_eq(atomic_load(&released), (PUSHERS + 1) * PUSHES);
}

TEST(start_and_stop_at_once_does_not_hang)
{
    for (unsigned i = 0; i < 200; i++) {
        struct reclaimer *r = reclaim_create(NULL, NULL);

        ck_assert_int_eq(reclaim_start(r), MF_OK);
        if (i % 3 == 1) {
            grace_ask(reclaim_grace(r), GRACE_HURRY);
        } else if (i % 3 == 2) {
            grace_ask(reclaim_grace(r), GRACE_SOON);
        }
        reclaim_destroy(&r);
    }
}

static void *ask_and_wait(void *arg)
{
    struct grace *g = arg;

    for (unsigned i = 0; i < 100; i++) {
        uint32_t stamp = grace_stamp(g);

        grace_ask(g, i % 4 == 0 ? GRACE_SOON : GRACE_HURRY);
        AWAIT(grace_is_over(g, stamp));
    }
    return NULL;
}

TEST(no_request_is_lost)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    pthread_t threads[3];

    ck_assert_int_eq(reclaim_start(r), MF_OK);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_and_wait, reclaim_grace(r)), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    reclaim_destroy(&r);
}

/* Called five times without delay, five with one, then not again. */
static uint64_t ten_turns(void *arg)
{
    unsigned turn = atomic_fetch_add((_Atomic unsigned *)arg, 1);

    return turn < 5 ? 0 : turn < 9 ? 100 : RECLAIM_IDLE;
}

TEST(hook_is_called_until_it_has_nothing_left)
{
    _Atomic unsigned turns = 0;
    struct reclaimer *r = reclaim_create(ten_turns, &turns);
    struct grace *g = reclaim_grace(r);

    ck_assert_int_eq(reclaim_start(r), MF_OK);
    grace_ask(g, GRACE_SOON); /* one period; the other turns follow without being asked for */
    AWAIT(atomic_load(&turns) == 10);
    ck_assert_uint_eq(ctr_get(reclaim_counters(r), CTR_lazyfree_grace_periods), 1);
    grace_ask(g, GRACE_SOON);
    AWAIT(atomic_load(&turns) == 11);
    reclaim_destroy(&r);
}

#define SLEEP_MS 20
#define SLEEPS   10

struct dozes {
    _Atomic unsigned count;
    int64_t ended_ns;
    int64_t gap_ns; /* the shortest from the end of a call to the next */
};

static int64_t mono_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Takes long, but no CPU. */
static uint64_t doze(void *arg)
{
    struct dozes *n = arg;
    struct timespec t = {.tv_nsec = SLEEP_MS * 1000000L};
    int64_t gap = mono_ns() - n->ended_ns;

    if (atomic_load(&n->count) > 0 && gap < n->gap_ns) {
        n->gap_ns = gap;
    }
    nanosleep(&t, NULL);
    n->ended_ns = mono_ns();
    return atomic_fetch_add(&n->count, 1) + 1 < SLEEPS ? 0 : RECLAIM_IDLE;
}

TEST(who_had_to_wait_for_the_cpu_rests_no_longer)
{
    struct dozes n = {.gap_ns = INT64_MAX};
    struct reclaimer *r = reclaim_create(doze, &n);

    ck_assert_int_eq(reclaim_start(r), MF_OK);
    grace_ask(reclaim_grace(r), GRACE_SOON);
    AWAIT(atomic_load(&n.count) == SLEEPS);
    reclaim_stop(r);
    ck_assert_int_lt(n.gap_ns, SLEEP_MS * 1000000); /* of three times as long a rest */
    reclaim_destroy(&r);
}

/* ---- idle -------------------------------------------------------------------------------- */

/* Reads a small file of a thread of this process; false when it is not there. */
static bool read_task_file(const char *tid, const char *name, char *out, size_t n)
{
    char path[96];

    snprintf(path, sizeof(path), "/proc/self/task/%.20s/%s", tid, name);
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return false;
    }
    out[0] = '\0';
    bool ok = fgets(out, (int)n, f) != NULL;
    fclose(f);
    return ok;
}

/* The thread id of the reclaimer, as text; false until it has set its name. */
static bool find_reclaimer(char tid[24])
{
    char comm[32];
    struct dirent *e;
    bool is_found = false;
    DIR *d = opendir("/proc/self/task");

    ck_assert_ptr_nonnull(d);
    while (!is_found && (e = readdir(d)) != NULL) {
        is_found = e->d_name[0] != '.' &&
                   read_task_file(e->d_name, "comm", comm, sizeof(comm)) &&
                   strcmp(comm, "reclaimer\n") == 0;
        if (is_found) {
            snprintf(tid, 24, "%.20s", e->d_name);
        }
    }
    closedir(d);
    return is_found;
}

/* Does the thread wait for this futex, without a timeout? */
static bool sleeps_for_good(const char *tid, const void *word)
{
    char line[256];
    unsigned long number, addr, op, value, timeout;

    return read_task_file(tid, "syscall", line, sizeof(line)) &&
           sscanf(line, "%lu %lx %lx %lx %lx", &number, &addr, &op, &value, &timeout) == 5 &&
           number == SYS_futex && addr == (unsigned long)(uintptr_t)word && timeout == 0;
}

TEST(idle_reclaimer_sleeps_without_a_timeout)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct grace *g = reclaim_grace(r);
    char tid[24], line[256];

    ck_assert_int_eq(reclaim_start(r), MF_OK);
    AWAIT(find_reclaimer(tid));
    if (!read_task_file(tid, "syscall", line, sizeof(line))) {
        reclaim_destroy(&r); /* this kernel does not report what a thread waits for */
        return;
    }
    AWAIT(sleeps_for_good(tid, &g->need));
    for (unsigned i = 0; i < 20; i++) {
        uint32_t stamp = grace_stamp(g);

        grace_ask(g, i % 2 == 0 ? GRACE_SOON : GRACE_HURRY);
        AWAIT(grace_is_over(g, stamp));
        AWAIT(sleeps_for_good(tid, &g->need));
        ck_assert_uint_eq(atomic_load(&g->need), GRACE_IDLE);
        ck_assert_uint_eq(ctr_get(reclaim_counters(r), CTR_lazyfree_grace_periods), i + 1);
    }
    reclaim_destroy(&r);
}
