/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See server.h.
 */
#include "daemon/service/server.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/loop.h"
#include "daemon/service/notify.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"

/* Between two lines of status. */
#define STATUS_MS 10000u

/* The watchdog is notified this many times in its interval, so one or two may be late. */
#define FEEDS 4u

/* "12.3 MiB" and the like; out has room for it. */
static const char *size_text(double bytes, char out[32])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    unsigned i = 0;

    while (bytes >= 1024 && i + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1024;
        i++;
    }
    snprintf(out, 32, i == 0 ? "%.0f %s" : "%.1f %s", bytes, units[i]);
    return out;
}

static void tell_status(struct server *s)
{
    struct vigil *v = &s->vigil;
    unsigned conns = (unsigned)atomic_load(&s->crew.conns_open);
    uint64_t sum[CTR_COUNT];
    char used[32], limit[32], ratio[48] = "", saving[64] = "";
    struct snapshots_info snapshot;
    char text[320];

    if (s->stopping != CREW_STOP_NONE) {
        snprintf(text, sizeof(text), "stopping, %u connections left", conns);
        notify_status(text);
        return;
    }
    stats_sum_raw(&s->crew, sum);
    uint64_t gets = sum[CTR_cmd_get] - v->gets;
    uint64_t hits = sum[CTR_get_hits] - v->hits;
    v->gets = sum[CTR_cmd_get];
    v->hits = sum[CTR_get_hits];
    if (gets != 0) {
        snprintf(ratio, sizeof(ratio), ", hit ratio %.1f %%",
                 100.0 * (double)hits / (double)gets);
    }
    snapshots_look(&s->crew.snapshots, &snapshot);
    if (snapshot.is_saving) {
        snprintf(saving, sizeof(saving), ", saved %" PRIu64 " of %" PRIu64, snapshot.items,
                 snapshot.items_total);
    } else if (snapshot.is_loading) {
        snprintf(saving, sizeof(saving), ", loaded %" PRIu64 " of %" PRIu64,
                 snapshot.load_items, snapshot.load_total);
    }
    snprintf(text, sizeof(text),
             "serving %u connections, %" PRIu64 " items, %s of %s in use%s%s", conns,
             sum[CTR_curr_items],
             size_text((double)atomic_load_explicit(&s->crew.engine.budget.used_bytes,
                                                    memory_order_relaxed),
                       used),
             size_text((double)budget_limit(&s->crew.engine.budget), limit), ratio, saving);
    notify_status(text);
}

static void on_timer(uv_timer_t *timer)
{
    struct server *s = timer->data;
    uint64_t now = uv_now(&s->loop);

    must_be_main();
    if (s->vigil.has_watchdog) {
        /*
         * Health checks ping workers too. A worker is stuck after a period without an answer.
         */
        if (pulse_delay_us(&s->crew) / 1000 < (usec_t)s->vigil.period_ms) {
            notify_alive();
        }
        pulse_ask(&s->crew);
    }
    if (now >= s->vigil.status_due_ms) {
        s->vigil.status_due_ms = now + STATUS_MS;
        tell_status(s);
    }
}

void vigil_begin(struct server *s)
{
    struct vigil *v = &s->vigil;
    uint64_t watchdog_ms = notify_watchdog_us() / 1000;

    must_be_main();
    if (!notify_has_manager()) {
        return;
    }
    v->has_watchdog = watchdog_ms != 0;
    v->period_ms = STATUS_MS;
    if (v->has_watchdog && watchdog_ms / FEEDS < STATUS_MS) {
        v->period_ms = watchdog_ms / FEEDS > 0 ? watchdog_ms / FEEDS : 1;
    }
    /* The first line comes early, so that the manager does not show "serving" for long. */
    loop_timer_begin(&v->timer, &s->loop, s, on_timer,
                     v->period_ms < 1000 ? v->period_ms : 1000, v->period_ms);
}
