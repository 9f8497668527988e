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
    msec_t login = (msec_t)setting_get(w->settings, auth_timeout_s) * 1000;

    if (which == DEADLINE_LOGIN) {
        return login;
    }
    /* Who has to log in gets no more time because it speaks TLS. */
    return (w->settings->auth_file != NULL || w->settings->sasl) && login > 0 &&
                   login < TLS_HANDSHAKE_MS
               ? login
               : TLS_HANDSHAKE_MS;
}

void conn_deadline_set(struct conn *c, enum conn_deadline which)
{
    struct worker *w = c->worker;
    struct list *list = &w->conns->deadlines[which];
    msec_t limit = limit_of(w, which);

    must_be_worker(w);
    if (list_has_link(&c->deadline_link)) {
        return;
    }
    c->deadline_since = conn_wait_now();
    if (list_is_empty(list) && limit > 0) {
        cron_check_deadlines_in(w, (uint64_t)limit);
    }
    list_append(list, &c->deadline_link);
}

void conn_deadline_clear(struct conn *c)
{
    must_be_worker(c->worker);
    list_remove(&c->deadline_link);
}

static void close_late(struct conn *c, enum conn_deadline which)
{
    if (c->state == CONN_SHAKES) {
        tls_handshake_failed(c->client.io.tls, "too slow");
    }
    if (which == DEADLINE_LOGIN) {
        ctr_add(&c->worker->counters, CTR_auth_timeouts, 1);
        log_info("auth, connection closed (did not authenticate in time)");
    }
    if (c->state == CONN_HEADER) {
        conn_proxied_failed(c, "its header is late");
        return;
    }
    c->close_reason = CLOSE_IDLE;
    conn_close(c);
}

/* The one that began first; NULL: there is none. */
static struct conn *find_first(const struct worker *w, enum conn_deadline which)
{
    struct list_link *link = list_first(&w->conns->deadlines[which]);

    return link != NULL ? LIST_MEMBER(link, struct conn, deadline_link) : NULL;
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

        while (c != NULL && limit > 0 && now - c->deadline_since >= limit) {
            close_late(c, which);
            c = find_first(w, which);
        }
        if (c != NULL && limit > 0) {
            cron_check_deadlines_in(w, (uint64_t)(c->deadline_since + limit - now));
        }
    }
}
