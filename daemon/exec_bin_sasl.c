/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SASL in the binary protocol. A server that asks nobody who he is does not know the opcodes,
 * as memcached without -S. Runs on the worker of the connection, inside the read-side section
 * of the turn.
 */
#include "daemon/exec_bin.h"

enum turn_stop exec_bin_sasl(struct turn *t, const struct request *r)
{
    exec_bin_reply(t, r, BIN_REPLY_UNKNOWN, 0);
    return TURN_GOES_ON;
}
