/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The differences of a TLS connection from a plain one: it begins with a handshake; and no
 * event announces bytes that OpenSSL has already read from the socket, so it gets its turns
 * from the worker's ready list while there may be some.
 *
 * The signing of a handshake takes up to milliseconds, and a storm of connections brings
 * hundreds of them at once. They queue in the ready list too and share BUDGET_run_us between
 * two checks of the sockets, so that a request of an open connection waits for no more than
 * that and one step of a handshake.
 */
#include "daemon/conn/conn_steps.h"

#include "lib/base/context.h"

/* One step of the handshake. */
static void shake(struct conn *c)
{
    switch (tls_handshake(c->client.io.tls)) {
    case TLS_OPEN:
        conn_deadline_clear(c);
        c->last_active = worker_now(c->worker);
        conn_note_login(c);
        conn_settle(c);
        break;
    case TLS_WANTS_READ:
        conn_arm(c, UV_READABLE);
        break;
    case TLS_WANTS_WRITE:
        conn_arm(c, UV_WRITABLE);
        break;
    case TLS_FAILED:
        /* Not with a reset, or the alert with the reason may be lost. */
        c->then = CONN_ENDS;
        conn_settle(c);
        break;
    }
}

void conn_tls_begin(struct conn *c)
{
    must_be_worker(c->worker);
    conn_deadline_set(c, DEADLINE_HANDSHAKE);
    conn_arm(c, UV_READABLE);
}

void conn_tls_shake(struct conn *c, usec_t *slice_end)
{
    must_be_worker(c->worker);
    if (*slice_end == 0) {
        *slice_end = clock_mono_us() + BUDGET_run_us;
    }
    if (clock_mono_us() < *slice_end) {
        shake(c);
    } else {
        conn_park(c, PARK_READY);
    }
}
