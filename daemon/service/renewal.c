/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reloading certificates; see server.h. All functions but load() run on main.
 */
#include "daemon/service/server.h"

#include <stdio.h>
#include <sysexits.h>

#include "daemon/base/list.h"
#include "daemon/base/log.h"
#include "daemon/base/pool.h"
#include "daemon/net/tls.h"
#include "daemon/service/notify.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

struct renewal {
    struct pool_job job; /* must be the first member; comes back to main */

    /* [const] */
    struct server *server; /* [borrowed] */
    struct pool *pool;     /* owned; one thread; NULL: stopped */
    uv_timer_t pause;      /* until the next load may begin */

    /* [main] */
    struct list waiting;   /* of struct main_ask: for the next load */
    struct list under_way; /* for the one that runs */
    bool is_wanted;        /* a client or a signal has requested a load */
    bool is_loading;
    bool is_paused; /* the timer runs */

    /* of the job while it runs, else [main] */
    enum tls_renewal result;
    char why[TLS_WHY_BYTES];
};

static struct renewal *renewal_of(struct server *s)
{
    must_be_main();
    return s->renewal;
}

/* ---- answers ----------------------------------------------------------------------------- */

static void answer_all(struct list *l, bool is_loaded, const char *why)
{
    struct list_link *link;

    while ((link = list_take_first(l)) != NULL) {
        struct main_ask *ask = MF_OUTER(link, struct main_ask, link);

        ask->is_loaded = is_loaded;
        snprintf(ask->why, sizeof(ask->why), "%s", why);
        mailbox_post(ask->to, &ask->answer);
    }
}

/* ---- a load ------------------------------------------------------------------------------ */

static void load(struct pool_job *job)
{
    struct renewal *r = (struct renewal *)(void *)job;

    must_be_pool();
    r->result = tls_reload(r->server->crew.tls, r->why);
}

/* Start a load if one is requested and due. */
static void begin_load(struct renewal *r)
{
    if (!r->is_wanted || r->is_loading || r->is_paused || r->pool == NULL) {
        return;
    }
    r->is_wanted = false;
    r->is_loading = true;
    list_take_all(&r->under_way, &r->waiting);
    must(pool_post(r->pool, &r->job)); /* it is the only one */
}

static void on_pause_over(uv_timer_t *timer)
{
    struct renewal *r = timer->data;

    must_be_main();
    r->is_paused = false;
    begin_load(r);
}

static void log_result(const struct renewal *r)
{
    switch (r->result) {
    case TLS_RENEWED:
        log_notice("tls, reloaded the certificates");
        break;
    case TLS_UNCHANGED:
        log_info("tls, the certificates have not changed");
        break;
    case TLS_KEPT:
        log_error("tls, kept the certificates in use (%s)", r->why);
        break;
    }
}

static void on_loaded(struct message *m, void *receiver)
{
    struct renewal *r = (struct renewal *)(void *)m;
    unsigned pause_ms = r->result == TLS_UNCHANGED ? RENEWAL_LOOK_MS : RENEWAL_LOAD_MS;

    must_be_main();
    (void)receiver;
    r->is_loading = false;
    if (r->pool == NULL) {
        return; /* stopped meanwhile: no client waits any more */
    }
    log_result(r);
    answer_all(&r->under_way, r->result != TLS_KEPT, r->result == TLS_KEPT ? r->why : "");
    if (!r->is_wanted && r->server->stopping == CREW_STOP_NONE) {
        notify_ready("serving"); /* a signal may have requested the load */
    }
    r->is_paused = true;
    uv_timer_start(&r->pause, on_pause_over, pause_ms, 0);
}

/* ---- requests ---------------------------------------------------------------------------- */

void renewal_want(struct server *s)
{
    struct renewal *r = renewal_of(s);

    r->is_wanted = true;
    begin_load(r);
}

void renewal_ask(struct server *s, struct main_ask *ask)
{
    struct renewal *r = renewal_of(s);

    if (r->pool == NULL) {
        mem_free(ask); /* the workers have ended, so there is no client to answer */
        return;
    }
    list_append(&r->waiting, &ask->link);
    renewal_want(s);
}

/* ---- life -------------------------------------------------------------------------------- */

int renewal_start(struct server *s)
{
    struct renewal *r;

    must_be_main();
    if (s->crew.tls == NULL) {
        return 0;
    }
    r = mem_zalloc(sizeof(*r));
    if (r == NULL) {
        log_error("tls, cannot start (out of memory)");
        return EX_OSERR;
    }
    r->pool = pool_start("tls", 1);
    if (r->pool == NULL) {
        log_error("tls, cannot start a thread for certificates");
        mem_free(r);
        return EX_OSERR;
    }
    r->server = s;
    list_init(&r->waiting);
    list_init(&r->under_way);
    r->job.message.fn = on_loaded;
    r->job.to = &s->crew.main_mailbox;
    r->job.run = load;
    uv_timer_init(&s->loop, &r->pause);
    r->pause.data = r;
    s->renewal = r;
    return 0;
}

void renewal_stop(struct server *s)
{
    static const char stopping[] = "Error loading the certificates: the server is stopping";
    struct renewal *r = renewal_of(s);

    if (r == NULL || r->pool == NULL) {
        return;
    }
    answer_all(&r->under_way, false, stopping);
    answer_all(&r->waiting, false, stopping);
    uv_close((uv_handle_t *)&r->pause, NULL);
    bool is_done = pool_stop(r->pool);
    r->pool = NULL;
    if (!is_done) {
        /* The thread may still use both: they are not released. The process ends anyway. */
        log_warn("tls, abandoned a load of certificates that did not finish");
        s->is_tls_abandoned = true;
    }
}

void renewal_destroy(struct server *s)
{
    must_be_main();
    if (!s->is_tls_abandoned) {
        mem_free(s->renewal);
    }
    s->renewal = NULL;
}
