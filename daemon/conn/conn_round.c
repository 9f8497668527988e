/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds; see conn_execute.h. Runs on the worker.
 */
#include "daemon/conn/conn_execute.h"

#include "daemon/conn/conn_state.h"
#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

struct round *round_create(void)
{
    struct round *r = mem_alloc(sizeof(*r));

    if (r != NULL) {
        r->n = 0;
        r->filled = 0;
    }
    return r;
}

void round_destroy(struct round *r)
{
    mem_free(r);
}

void round_add(struct conn *c, char *p, size_t len)
{
    struct worker *w = c->worker;
    struct round *r = w->conns->round;

    must_be_worker(c->worker);
    must(r->n < ROUND_LOTS);
    debug_must(p == w->rbuf + r->filled && c->state != CONN_ROUND && !conn_is_parked(c));
    r->filled += len;
    c->state = CONN_ROUND;
    lot_init(&r->lot[r->n++], c, INPUT_READ, p, len);
}

/*
 * Parse the inputs from lot i on until there is no room for more requests. Returns the first
 * lot that has to wait for the next time.
 */
static unsigned parse_some(struct turn *t, struct round *r, unsigned i)
{
    steps_clear(&r->steps);
    for (; i < r->n && !steps_are_full(&r->steps); i++) {
        struct lot *lot = &r->lot[i];
        struct conn *c = lot->conn;

        if (MF_LIKELY(!conn_has_pending(c))) {
            batch_parse(t, c, &r->steps, &lot->batch, lot->p, lot->len, false);
            lot->is_parsed = true;
        }
    }
    steps_prefetch(t, &r->steps);
    return i;
}

/* Serve all lots in one turn. */
static void serve_lots(struct worker *w, struct round *r)
{
    uint64_t units = 0;
    unsigned parsed = 0;
    struct turn t;

    turn_begin(&t, w);
    for (unsigned i = 0; i < r->n; i++) {
        struct lot *lot = &r->lot[i];

        /* Renew section and clock about as often as for one connection that pipelines. */
        if (units >= BUDGET_light_units) {
            turn_renew(&t);
            units = 0;
        }
        if (i == parsed) {
            parsed = parse_some(&t, r, i);
        }
        lot->conn->state = CONN_INPUT;
        t.is_followed = i + 1 < r->n;
        lot_execute(&t, lot);
        units += t.units;
    }
    turn_end(&t);
}

void conn_round_run(struct worker *w)
{
    struct round *r = w->conns->round;
    unsigned n = r->n;

    must_be_worker(w);
    must_not_be_reading();
    if (n == 0) {
        return;
    }
    r->lot[n - 1].behind = WORKER_RBUF_BYTES - r->filled;
    if (n == 1) {
        struct lot *lot = &r->lot[0];

        r->n = 0;
        r->filled = 0;
        lot->conn->state = CONN_INPUT;
        conn_execute(lot->conn, INPUT_READ, lot->p, lot->len);
        return;
    }
    serve_lots(w, r);
    /* The inputs are consumed or kept, so the buffer may be reused. */
    r->n = 0;
    r->filled = 0;
    for (unsigned i = 0; i < n; i++) {
        lot_finish(&r->lot[i]);
    }
}
