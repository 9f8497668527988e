/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of the program before: see server.h.
 */
#include "daemon/service/server.h"

#include <fcntl.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/conn/conn.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* ---- taking ------------------------------------------------------------------------------ */

/*
 * Returns the descriptor if it is a connection that is not in use yet: descriptors that this
 * program has opened itself are close-on-exec.
 */
static int claim(int fd)
{
    return fcntl(fd, F_GETFD) == 0 && socket_option(fd, SO_TYPE) == SOCK_STREAM &&
                   socket_option(fd, SO_ACCEPTCONN) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0
               ? fd
               : -1;
}

static void forget(struct welcome *w)
{
    mem_free(w->fds);
    w->fds = NULL;
    if (w->bytes.base != NULL) {
        explicit_bzero(w->bytes.base, w->bytes.cap); /* it contained keys and clients' input */
    }
    buf_fini(&w->bytes);
    memset(&w->reader, 0, sizeof(w->reader));
}

void welcome_close(struct server *s)
{
    struct welcome *w = &s->welcome;

    must_be_main();
    for (uint32_t i = 0; w->fds != NULL && i < w->reader.count; i++) {
        if (w->fds[i] >= 0) {
            socket_end(w->fds[i]);
        }
    }
    forget(w);
}

void welcome_open(struct server *s)
{
    struct welcome *w = &s->welcome;

    must_be_main();
    if (!passed_on_take_conns(&s->passed_on, &w->bytes)) {
        return;
    }
    enum passed_state state = passed_conns_open(&w->reader, buf_span(&w->bytes));
    w->fds = mem_alloc((w->reader.count + 1) * sizeof(*w->fds));
    for (uint32_t i = 0; i < w->reader.count; i++) {
        int fd = claim(passed_conns_number(&w->reader, i));

        if (w->fds != NULL) {
            w->fds[i] = fd;
        } else if (fd >= 0) {
            socket_end(fd);
        }
    }
    if (w->fds == NULL) {
        log_warn("upgrade, %u connections are closed (no memory)", (unsigned)w->reader.count);
    } else if (state == PASSED_GOOD) {
        access_continue(&s->crew.access, &w->reader.keys.text, &w->reader.keys.sasl);
        return;
    } else if (state == PASSED_FOREIGN) {
        log_warn("upgrade, %u connections are closed (their format is version %u, this program "
                 "reads %u)",
                 (unsigned)w->reader.count, (unsigned)w->reader.version, PASSED_CONNS_VERSION);
    } else {
        log_warn("upgrade, %u connections are closed (their saved state is damaged)",
                 (unsigned)w->reader.count);
    }
    welcome_close(s);
}

/* ---- dealing ----------------------------------------------------------------------------- */

struct deal {
    struct conn_heirs **heirs; /* one for each worker; NULL: none yet */
    uint32_t next_worker;
    uint32_t dealt;
    uint32_t beyond;  /* the limit */
    uint32_t foreign; /* to the options: no such listener, or it has another protocol */
    uint32_t lost;    /* no memory, or no connection */
};

static bool is_for(const struct conn_origin *origin, const struct passed_conn *c)
{
    return origin->protocol == PROTOCOL_AUTO || c->protocol == PROTOCOL_AUTO ||
           origin->protocol == c->protocol;
}

/* Put it with those of the next worker. */
static bool welcome_put(struct server *s, struct deal *d, uint32_t id,
                        const struct passed_conn *c, const struct conn_origin *origin)
{
    const uint32_t workers = roster_active(&s->crew.roster);

    d->next_worker = id + 1 < workers ? id + 1 : 0;
    if (d->heirs[id] == NULL) {
        d->heirs[id] = conn_heirs_create(s->welcome.reader.count / workers + 1);
    }
    return d->heirs[id] != NULL && conn_heirs_put(d->heirs[id], c, origin);
}

/* One more; the descriptor is closed if it is not served. */
static void welcome_take(struct server *s, struct deal *d, const struct passed_conn *c)
{
    const struct conn_origin *origin = listeners_find(s, c->fd, c->transport, c->is_control);
    const uint32_t id = d->next_worker;

    if (origin == NULL || !is_for(origin, c)) {
        d->foreign++;
    } else if (!listeners_have_place(s, origin)) {
        d->beyond++;
    } else if (!welcome_put(s, d, id, c, origin)) {
        d->lost++;
    } else {
        crew_conn_opened(&s->crew.workers[id], origin);
        d->dealt++;
        return;
    }
    socket_end(c->fd);
}

static void deal_all(struct server *s, struct deal *d)
{
    struct welcome *w = &s->welcome;
    struct passed_conn c;

    for (uint32_t i = 0; passed_conns_next(&w->reader, &c); i++) {
        c.fd = w->fds[i];
        w->fds[i] = -1;
        if (c.fd < 0) {
            d->lost++;
        } else {
            welcome_take(s, d, &c);
        }
    }
    d->lost += w->reader.count - w->reader.next;
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        conn_heirs_post(&d->heirs[i], &s->crew.workers[i]);
    }
}

void welcome_all(struct server *s)
{
    struct deal d = {.heirs = NULL};

    must_be_main();
    if (s->welcome.fds == NULL) {
        return;
    }
    d.heirs = mem_zalloc(WORKERS_MAX * sizeof(struct conn_heirs *));
    if (d.heirs == NULL) {
        d.lost = s->welcome.reader.count;
    } else {
        deal_all(s, &d);
    }
    log_notice("upgrade, %u connections continue", (unsigned)d.dealt);
    if (d.beyond + d.foreign + d.lost > 0) {
        log_warn(
            "upgrade, %u connections were closed (beyond -c: %u, no listener for them: %u, "
            "no memory: %u)",
            (unsigned)(d.beyond + d.foreign + d.lost), (unsigned)d.beyond, (unsigned)d.foreign,
            (unsigned)d.lost);
    }
    mem_free(d.heirs);
    welcome_close(s);
}
