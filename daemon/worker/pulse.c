/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See worker.h.
 */
#include "daemon/worker/worker.h"

#include "daemon/worker/crew.h"

static void on_pulse(struct message *m, void *receiver)
{
    struct worker *w = receiver;

    must_be_worker(w);
    (void)m;
    atomic_store_explicit(&w->pulse.asked_us, 0, memory_order_release);
}

void pulse_init(struct pulse *p)
{
    p->message.fn = on_pulse;
    atomic_init(&p->asked_us, 0);
}

void pulse_ask(struct crew *crew)
{
    usec_t now = clock_mono_us();

    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        struct worker *w = &crew->workers[i];
        usec_t none = 0;

        if (roster_role(&crew->roster, i) == WORKER_PARKED) {
            continue; /* a parked worker has nothing to serve, and is not woken */
        }

        /* The message belongs to the worker until it answers: acquire its last use. */
        if (atomic_compare_exchange_strong_explicit(
                &w->pulse.asked_us, &none, now, memory_order_acq_rel, memory_order_relaxed)) {
            mailbox_post(&w->mailbox, &w->pulse.message);
        }
    }
}

usec_t pulse_delay_us(const struct crew *crew)
{
    usec_t now = clock_mono_us();
    usec_t worst = 0;

    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        usec_t asked =
            atomic_load_explicit(&crew->workers[i].pulse.asked_us, memory_order_relaxed);
        usec_t delay = asked == 0 ? 0 : now - asked + 1;

        worst = delay > worst ? delay : worst;
    }
    return worst;
}
