/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle connections; see conn_steps.h. On their worker.
 *
 * The slots are a ring of IDLE_SLOTS seconds. Connections that are due later are in the last
 * slot, and are moved on when its second has come. So a connection is examined once in its
 * timeout or in IDLE_SLOTS seconds, whichever is less.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/* The interval of the check while there is an idle timeout, milliseconds. */
#define CHECK_MS 1000u

/*
 * Maximum number of connections examined in a turn of the loop, or a sixteenth of that closed.
 */
#define LOOKS_MAX   256u
#define CLOSE_LOOKS 16u

static msec_t second_of(msec_t ms)
{
    return ms / 1000;
}

static struct list *slot_of(struct idle *idle, msec_t second)
{
    return &idle->slot[(uint64_t)second % IDLE_SLOTS];
}

/* The timeout by which the slots were filled; the option may have changed since. */
static msec_t timeout_ms(const struct worker *w)
{
    return w->conns->idle.timeout_ms;
}

/*
 * May the connection be idle? Not while its request is in progress, its replies wait for the
 * log, or it watches or follows this server. conn_ready_retry() limits waits for room.
 */
static bool may_be_idle(const struct conn *c)
{
    return c->client.watcher == NULL && c->client.service == NULL && !conn_is_waiting(c) &&
           c->client.log_state != LOG_HELD &&
           (!client_is_waiting(&c->client) || client_has_output(&c->client));
}

/* Examine it again when it is due, which is in `second` at the earliest. */
static void wait_until(struct conn *c, msec_t due, msec_t second)
{
    struct idle *idle = &c->worker->conns->idle;
    msec_t last = idle->second + IDLE_SLOTS - 1;
    msec_t at = second_of(due);

    at = at < second ? second : at;
    list_append(slot_of(idle, at < last ? at : last), &c->idle_link);
}

void conn_idle_begin(struct conn *c)
{
    struct worker *w = c->worker;
    struct idle *idle = &w->conns->idle;

    must_be_worker(w);
    if (timeout_ms(w) == 0) {
        return;
    }
    if (idle->count == 0) {
        idle->second = second_of(worker_now(w));
        cron_in(w, CRON_IDLE, CHECK_MS);
    }
    idle->count++;
    wait_until(c, c->last_active + timeout_ms(w) + 1, idle->second);
}

void conn_idle_changed(struct worker *w)
{
    const msec_t wanted = (msec_t)setting_get(w->settings, idle_timeout_s) * 1000;

    must_be_worker(w);
    if (wanted == timeout_ms(w)) {
        return;
    }
    for (struct conn *c = w->conns->first; c != NULL; c = c->next) {
        conn_leave_idle(c);
    }
    w->conns->idle.timeout_ms = wanted;
    for (struct conn *c = w->conns->first; c != NULL; c = c->next) {
        conn_idle_begin(c);
    }
}

/* Close the connection, or move it to a later slot. Returns the cost: see LOOKS_MAX. */
static unsigned look_at(struct conn *c, msec_t now)
{
    struct worker *w = c->worker;
    msec_t due = c->last_active + timeout_ms(w) + 1;

    c->idle_pass = w->conns->idle.pass;
    if (!may_be_idle(c)) {
        wait_until(c, now, second_of(now) + 1);
        return 1;
    }
    if (due > now) {
        wait_until(c, due, second_of(now));
        return 1;
    }
    ctr_add(&w->counters, CTR_idle_kicks, 1);
    c->close_reason = CLOSE_IDLE;
    conn_close(c);
    return CLOSE_LOOKS;
}

/* Returns false if there are more than may be examined. */
static bool check_slot(struct idle *idle, msec_t now, unsigned *looks)
{
    struct list *slot = slot_of(idle, idle->second);
    struct conn *c;

    while ((c = LIST_FIRST(slot, struct conn, idle_link)) != NULL) {
        /*
         * The slot now has only connections that are due later in this second; all others were
         * checked.
         */
        if (c->idle_pass == idle->pass) {
            break;
        }
        if (*looks >= LOOKS_MAX) {
            return false;
        }
        *looks += look_at(c, now);
    }
    return true;
}

void conn_idle_check(struct worker *w, msec_t now)
{
    struct idle *idle = &w->conns->idle;
    msec_t last = second_of(now);
    unsigned looks = 0;

    must_be_worker(w);
    must_not_be_reading();
    if (last - idle->second >= IDLE_SLOTS) {
        idle->second = last - IDLE_SLOTS + 1; /* each slot once */
    }
    while (check_slot(idle, now, &looks)) {
        if (idle->second >= last) {
            idle->pass++;
            if (idle->count > 0) {
                cron_in(w, CRON_IDLE, CHECK_MS);
            }
            return;
        }
        idle->second++;
    }
    cron_in(w, CRON_IDLE, 0);
}
