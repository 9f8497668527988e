/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handshakes and logins that take too long; see conn_steps.h. On the worker.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"

msec_t conn_deadline_limit(const struct worker *w, enum conn_deadline which)
{
    msec_t login = (msec_t)setting_get(w->settings, auth_timeout_s) * 1000;

    must_be_worker(w);
    if (which == DEADLINE_LOGIN) {
        return login;
    }
    /* TLS does not extend the time limit of a login. */
    return (w->settings->auth_file != NULL || w->settings->sasl) && login > 0 &&
                   login < TLS_HANDSHAKE_MS
               ? login
               : TLS_HANDSHAKE_MS;
}

void conn_deadline_set(struct conn *c, enum conn_deadline which)
{
    struct worker *w = c->worker;
    struct list *list = &w->conns->deadlines[which];
    msec_t limit = conn_deadline_limit(w, which);

    must_be_worker(w);
    if (list_has_link(&c->deadline_link)) {
        return;
    }
    c->deadline_since = conn_wait_now();
    if (list_is_empty(list) && limit > 0) {
        cron_in(w, CRON_DEADLINES, (uint64_t)limit);
    }
    list_append(list, &c->deadline_link);
}

void conn_deadline_clear(struct conn *c)
{
    must_be_worker(c->worker);
    list_remove(&c->deadline_link);
}
