/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread of the reclaimer. One turn of its loop runs a grace period if one is due, releases
 * a burst of objects whose period is over, and calls the hook if it is due. If there is more to
 * do, it rests for a moment and starts over. Otherwise it sleeps until the hook is due or a
 * period is asked for. It reacts to that at once if the need is HURRY or the last period ended
 * at least PACE_US ago, else when PACE_US have passed.
 *
 * So after a period the thread sleeps PACE_US in any case, and during that time asking for
 * another one needs no system call. A loaded server sees one wake-up per period, an idle one
 * none: after the last period one sleep of PACE_US ends, and the next one has no timeout.
 *
 * While workers end periods themselves, none is run here (is_period_spared()): the thread wakes
 * up as often, releases what those periods made free, and does not clear the need.
 *
 * No retired object is forgotten. reclaim_push() dates it, pushes it and asks for a period, in
 * this order. rcu_wait() makes every thread execute a barrier between the clearing of the need
 * and the taking of the queue. So an object that is pushed too late to be taken finds the need
 * cleared and raises it; and the queue is checked again before every sleep.
 */
#include "lib/base/reclaim.h"

#include "lib/base/budgets.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"
#include "lib/base/thread.h"

#ifdef MAYFLY_TSAN
_Atomic int rcu_tsan_word;
#endif

#define PACE_US 4000 /* from the end of a period to the next one, unless that is in a hurry */

/*
 * After a burst the thread rests for REST_TIMES the CPU time of the burst, unless a grace
 * period is in a hurry: it uses at most a quarter of a CPU. While an index is being touched the
 * hook asks for a pause as long as the touching took, so the thread then uses half of a CPU.
 * Only CPU time counts: other threads that take the CPU from it delay it enough already.
 */
#define REST_TIMES 3

/* Small, because -k locks whole stacks; nothing here nests deeply. */
#define STACK_BYTES ((size_t)256 << 10)

#define USEC_NEVER INT64_MAX

struct reclaimer {
    /* [const] */
    reclaim_hook_fn hook;
    void *hook_arg;
    /* [atomic] */
    struct grace grace;
    struct mpsc incoming; /* retired, not yet taken by the reclaimer */
    struct counters counters;
    _Atomic bool is_stopping; /* sequentially consistent, as is need */
    /* [reclaimer] */
    struct mpsc_node *waiting; /* retired, oldest first */
    struct mpsc_node *waiting_last;
    usec_t period_at; /* no period before this time, unless in a hurry */
    uint32_t seen;    /* the newest period that is known to have ended */
    usec_t hook_at;
    /* [main] */
    struct thread thread;
};

/* ---- retired objects --------------------------------------------------------------------- */

static void take_incoming(struct reclaimer *r)
{
    struct mpsc_node *n = mpsc_take(&r->incoming);

    if (n == NULL) {
        return;
    }
    if (r->waiting == NULL) {
        r->waiting = n;
    } else {
        r->waiting_last->next = n;
    }
    while (n->next != NULL) {
        n = n->next;
    }
    r->waiting_last = n;
}

static bool has_retired(const struct reclaimer *r)
{
    return r->waiting != NULL || !mpsc_is_empty(&r->incoming);
}

/*
 * The oldest object, if its period is over. Two threads may push in the opposite order of their
 * stamps. Then the later stamp makes the earlier one wait a period longer, which does no harm.
 */
static struct retired *next_released(struct reclaimer *r)
{
    if (r->waiting == NULL) {
        return NULL;
    }

    struct retired *obj = MF_OUTER(r->waiting, struct retired, node);
    return grace_is_over(&r->grace, obj->stamp) ? obj : NULL;
}

/* Release at least one object, and go on until `until`. True when more could be released. */
static bool release_burst(struct reclaimer *r, usec_t until)
{
    struct retired *obj;

    take_incoming(r);
    while ((obj = next_released(r)) != NULL) {
        r->waiting = obj->node.next; /* before fn, which releases the object */
        obj->fn(obj);
        must_not_be_reading();
        if (until != USEC_NEVER && clock_mono_us() >= until) {
            return next_released(r) != NULL;
        }
    }
    return false;
}

/* ---- periods and hook -------------------------------------------------------------------- */

/* Run a grace period. The need is cleared first: raised from then on, it means the next one. */
static void run_period(struct reclaimer *r)
{
    struct grace *g = &r->grace;
    usec_t start = clock_mono_us();

    must_not_be_reading();
    (void)atomic_exchange(&g->need, (uint32_t)GRACE_IDLE);
    uint32_t number = grace_begin(g);
    rcu_wait();
    grace_complete(g, number);
    r->seen = atomic_load_explicit(&g->completed, memory_order_relaxed);

    usec_t end = clock_mono_us();
    ctr_add(&r->counters, CTR_lazyfree_grace_periods, 1);
    ctr_max(&r->counters, CTR_lazyfree_wait_max_us, (uint64_t)(end - start));
    r->period_at = end + PACE_US;
    r->hook_at = end;
}

static bool is_period_due(const struct reclaimer *r, usec_t now)
{
    uint32_t need = atomic_load_explicit(&r->grace.need, memory_order_relaxed);

    if (need == GRACE_HURRY) {
        return true;
    }
    return now >= r->period_at && (need != GRACE_IDLE || has_retired(r));
}

/*
 * Workers that store much end periods themselves, between their sections. While they do, no
 * thread waits for a period of ours, and waiting for a worker in a section would only take the
 * CPU from it. The need is not cleared: if no period of theirs ends within PACE_US, ours is
 * due.
 */
static bool is_period_spared(struct reclaimer *r, usec_t now)
{
    struct grace *g = &r->grace;
    uint32_t completed = atomic_load_explicit(&g->completed, memory_order_acquire);

    if (completed == r->seen ||
        atomic_load_explicit(&g->need, memory_order_relaxed) == GRACE_HURRY) {
        return false;
    }
    r->seen = completed;
    r->period_at = now + PACE_US;
    r->hook_at = now; /* there is something to release, as after one of ours */
    return true;
}

/* True when the hook wants to be called again at once. */
static bool call_hook(struct reclaimer *r)
{
    uint64_t delay_us = r->hook != NULL ? r->hook(r->hook_arg) : RECLAIM_IDLE;
    usec_t now = clock_mono_us();

    must_not_be_reading();
    r->hook_at = delay_us < (uint64_t)(USEC_NEVER - now) ? now + (usec_t)delay_us : USEC_NEVER;
    return delay_us == 0;
}

static bool is_stopping(const struct reclaimer *r)
{
    return atomic_load(&r->is_stopping);
}

/*
 * Sleep until something is due. A push that comes after the queue was checked has raised the
 * need, which ends the sleep or forbids it. reclaim_stop() sets its flag and then raises the
 * need; if a period has cleared the need since, the flag is seen here.
 */
static void sleep_until_due(struct reclaimer *r)
{
    usec_t now = clock_mono_us();
    usec_t until = r->hook_at;
    enum grace_need wakes_at = GRACE_SOON;

    if (is_stopping(r)) {
        return;
    }
    if (now < r->period_at) {
        wakes_at = GRACE_HURRY;
        until = until < r->period_at ? until : r->period_at;
    } else if (has_retired(r)) {
        return;
    }
    if (until > now) {
        grace_sleep(&r->grace, wakes_at, until == USEC_NEVER ? -1 : until - now);
    }
}

/* Rest after a burst that took `took` of CPU time, with more to do. */
static void rest(struct reclaimer *r, usec_t took)
{
    if (!is_stopping(r) && took > 0) {
        grace_sleep(&r->grace, GRACE_HURRY, took * REST_TIMES);
    }
}

/* Release everything, however many periods that takes. */
static void drain(struct reclaimer *r)
{
    while (has_retired(r)) {
        run_period(r);
        (void)release_burst(r, USEC_NEVER);
    }
}

static void reclaim_main(void *arg)
{
    struct reclaimer *r = arg;

    while (!is_stopping(r)) {
        usec_t now = clock_mono_us();
        usec_t used = clock_thread_us();

        if (is_period_due(r, now) && !is_period_spared(r, now)) {
            run_period(r);
            now = clock_mono_us();
        }
        bool has_more = release_burst(r, now + BUDGET_reclaim_us);
        if (r->hook_at <= now && call_hook(r)) {
            has_more = true;
        }
        if (has_more) {
            rest(r, clock_thread_us() - used);
        } else {
            sleep_until_due(r);
        }
    }

    drain(r);
}

static const struct thread_kind reclaimer_kind = {
    .name = "reclaimer",
    .run = reclaim_main,
    .role = THREAD_RECLAIMER,
    .stack_bytes = STACK_BYTES,
};

/* ---- public ------------------------------------------------------------------------------ */

struct reclaimer *reclaim_create(reclaim_hook_fn hook, void *arg)
{
    struct reclaimer *r = mem_zalloc(sizeof(*r));

    if (r == NULL) {
        return NULL;
    }
    r->hook = hook;
    r->hook_arg = arg;
    r->hook_at = USEC_NEVER;
    grace_init(&r->grace);
    mpsc_init(&r->incoming);
    return r;
}

enum mf_err reclaim_start(struct reclaimer *r)
{
    must_be_main();
    atomic_store(&r->is_stopping, false);
    return thread_start(&r->thread, &reclaimer_kind, r) == 0 ? MF_OK : MF_ESYS;
}

void reclaim_stop(struct reclaimer *r)
{
    must_be_main();
    must_not_be_reading();
    if (r->thread.is_running) {
        atomic_store(&r->is_stopping, true);
        grace_wake(&r->grace, GRACE_HURRY);
        thread_join(&r->thread);
    }
    drain(r);
}

void reclaim_destroy(struct reclaimer **r)
{
    must_be_main();
    if (*r == NULL) {
        return;
    }
    reclaim_stop(*r);
    mem_free(*r);
    *r = NULL;
}

struct grace *reclaim_grace(struct reclaimer *r)
{
    return &r->grace;
}

void reclaim_push(struct reclaimer *r, struct retired *obj)
{
    debug_must(obj->fn != NULL);
    obj->stamp = grace_stamp(&r->grace);
    mpsc_push(&r->incoming, &obj->node);
    grace_ask(&r->grace, GRACE_SOON);
}

const struct counters *reclaim_counters(const struct reclaimer *r)
{
    return &r->counters;
}

void reclaim_run_once(struct reclaimer *r)
{
    must(!r->thread.is_running);
    run_period(r);
    (void)release_burst(r, USEC_NEVER);
    (void)call_hook(r);
}
