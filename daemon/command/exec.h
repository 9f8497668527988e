/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a request to its handler. A handler reads and writes the engine and composes into the
 * turn's output. It either does its request as a whole and returns TURN_GOES_ON, or says why
 * not.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_H
#define MAYFLY_DAEMON_COMMAND_EXEC_H

#include "daemon/command/exec_arith.h"
#include "daemon/command/exec_bin.h"
#include "daemon/command/exec_expiry.h"
#include "daemon/command/exec_get.h"
#include "daemon/command/exec_meta.h"
#include "daemon/command/exec_store.h"
#include "daemon/command/guard.h"
#include "daemon/command/turn.h"
#include "lib/base/context.h"
#include "lib/base/probes.h"

/*
 * Commands that must not run inside a section, or may take long there: the turn leaves its
 * section for them. Context: worker, in a turn.
 */
enum turn_stop exec_outside(struct turn *t, const struct request *r);

/* A storage command of any protocol whose value is in a body. Context: worker, read side. */
enum turn_stop exec_store_body(struct turn *t, const struct request *r, struct body **body);

/*
 * May the bytes of a body that has none yet go straight to the blocks of the item that r makes?
 * See body_place(). Context: worker, read side.
 */
bool exec_place(struct turn *t, const struct request *r, struct body *b);

/* Execute one request. Context: worker, in a turn. */
static MF_INLINE enum turn_stop exec_request(struct turn *t, const struct request *r)
{
    must_be_in_turn(t);
    MF_PROBE3(request_start, r->command, r->key.ptr, r->key.len);
    switch ((enum command_class)r->cls) {
    case CLASS_GET:
        return exec_get(t, r);
    case CLASS_STORE:
        return exec_store(t, r, NULL);
    case CLASS_DELETE:
        return exec_delete(t, r);
    case CLASS_ARITH:
        return exec_arith(t, r);
    case CLASS_TOUCH:
        return exec_touch(t, r);
    case CLASS_BINARY:
        return exec_bin(t, r);
    case CLASS_ADMIN:
    case CLASS_BINARY_ADMIN:
        return exec_outside(t, r);
    case CLASS_META:
        return exec_meta(t, r);
    case CLASS_DEADLINE:
        return exec_deadline(t, r);
    case CLASS_TTL:
        return exec_ttl(t, r);
    case CLASS_UNLINK:
        return exec_unlink(t, r);
    case CLASS_REFUSED:
    case CLASS_BINARY_REFUSED:
        return exec_refused(t, r);
    }
    unreachable();
}

#endif
