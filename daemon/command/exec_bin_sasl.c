/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SASL in the binary protocol. A server that asks nobody who he is does not know the opcodes,
 * as memcached without -S. Runs on the worker of the connection, inside the read-side section
 * of the turn.
 */
#include "daemon/command/exec_bin.h"

#include "daemon/access/auth_sasl.h"
#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"

/* An answer that is nothing but a value. */
static void answer_mechanisms(struct turn *t, const struct request *r)
{
    struct span list = auth_sasl_mechanisms();

    t->out.len +=
        bin_compose_stat(turn_room(t, BIN_HEADER_BYTES + list.len), r, span_of(NULL, 0), list);
}

enum turn_stop exec_bin_sasl(struct turn *t, const struct request *r)
{
    if (!t->w->settings->sasl) {
        exec_bin_reply(t, r, BIN_REPLY_UNKNOWN, 0);
        return TURN_GOES_ON;
    }
    if (r->opcode == BIN_SASL_LIST) {
        answer_mechanisms(t, r);
        return TURN_GOES_ON;
    }
    if (r->key.len > AUTH_MECH_MAX) {
        exec_bin_reply(t, r, BIN_REPLY_INVALID, 0);
        return TURN_GOES_ON;
    }
    return conn_sasl(t, r);
}
