/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handshakes and logins that take too long; see conn_deadline.h. On the worker.
 */
#include "daemon/conn/conn_deadline.h"

#include "daemon/base/log.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/conn_hold.h"
#include "daemon/conn/conn_proxied.h"
#include "daemon/conn/conn_tls.h"
#include "daemon/options/settings.h"
#include "daemon/worker/cron.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/* Milliseconds; 0: no limit. */
static msec_t limit_of(const struct worker *w, enum conn_deadline which)
{
    return which == DEADLINE_HANDSHAKE
               ? TLS_HANDSHAKE_MS
               : (msec_t)setting_get(w->settings, auth_timeout_s) * 1000;
}

void conn_deadline_set(struct conn *c, enum conn_deadline which)
{
    struct worker *w = c->worker;
    struct list *list = &w->deadlines[which];
    struct conn_place *place = &c->deadlines[which];
    msec_t limit = limit_of(w, which);

    must_be_worker(w);
    if (list_has_link(&place->link)) {
        return;
    }
    place->since = conn_wait_now();
    if (list_is_empty(list) && limit > 0) {
        cron_check_deadlines_in(w, (uint64_t)limit);
    }
    list_append(list, &place->link);
}

void conn_deadline_clear(struct conn *c, enum conn_deadline which)
{
    must_be_worker(c->worker);
    list_remove(&c->deadlines[which].link);
}

void conn_deadline_clear_all(struct conn *c)
{
    for (unsigned which = 0; which < DEADLINES; which++) {
        conn_deadline_clear(c, (enum conn_deadline)which);
    }
}

static void close_late(struct conn *c, enum conn_deadline which)
{
    if (c->is_shaking) {
        tls_handshake_failed(c->client.io.tls, "too slow");
    }
    if (which == DEADLINE_LOGIN) {
        ctr_add(&c->worker->counters, CTR_auth_timeouts, 1);
        log_info("auth, connection closed (did not authenticate in time)");
    }
    if (c->awaits_header) {
        conn_proxied_failed(c, "its header is late");
        return;
    }
    c->close_reason = CLOSE_IDLE;
    conn_close(c);
}

/* The one that began first; NULL: there is none. */
static struct conn *find_first(const struct worker *w, enum conn_deadline which)
{
    struct list_link *link = list_first(&w->deadlines[which]);

    return link != NULL ? LIST_MEMBER(link, struct conn, deadlines[which].link) : NULL;
}

void conn_deadline_check(struct worker *w)
{
    msec_t now = conn_wait_now();

    must_be_worker(w);
    conn_hold_check(w);
    for (unsigned i = 0; i < DEADLINES; i++) {
        enum conn_deadline which = (enum conn_deadline)i;
        msec_t limit = limit_of(w, which);
        struct conn *c = find_first(w, which);

        while (c != NULL && limit > 0 && now - c->deadlines[i].since >= limit) {
            close_late(c, which);
            c = find_first(w, which);
        }
        if (c != NULL && limit > 0) {
            cron_check_deadlines_in(w, (uint64_t)(c->deadlines[i].since + limit - now));
        }
    }
}
