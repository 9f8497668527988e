/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See exec.h.
 */
#include "daemon/command/exec.h"

#include "daemon/command/audit.h"
#include "daemon/command/exec_admin.h"
#include "daemon/command/exec_stats.h"
#include "lib/base/context.h"
#include "lib/engine/body.h"

/* An operator's command that its client may not give. */
static enum turn_stop refuse(struct turn *t, const struct request *r, enum reply why)
{
    struct request refused = *r;

    refused.cls = request_is_binary(r) ? CLASS_BINARY_REFUSED : CLASS_REFUSED;
    refused.refusal = why;
    return exec_refused(t, &refused);
}

enum turn_stop exec_outside(struct turn *t, const struct request *r)
{
    bool is_operators;
    enum reply why = guard_operator(t, r, &is_operators);
    enum turn_stop stop;

    must_be_in_turn(t);
    if (why != REPLY_NONE) {
        audit_command(t, r, false);
        return refuse(t, r, why);
    }
    if (!turn_leave_section(t)) {
        return TURN_BLOCKED;
    }
    if (r->command == CMD_STATS) {
        stop = exec_stats(t, r);
    } else {
        stop = r->cls == CLASS_ADMIN ? exec_admin(t, r) : exec_bin_admin(t, r);
    }
    if (is_operators && stop != TURN_WAITS && stop != TURN_QUEUES) {
        audit_command(t, r, true); /* once, however often it was tried */
    }
    turn_enter_section(t); /* it may have taken long, and switched what is observed */
    return stop;
}

enum turn_stop exec_store_body(struct turn *t, const struct request *r, struct body **body)
{
    must_be_in_turn(t);
    MF_PROBE3(request_start, r->command, r->key.ptr, r->key.len);
    switch (r->cls) {
    case CLASS_BINARY:
        return exec_bin_store(t, r, body);
    case CLASS_META:
        return exec_meta_set(t, r, body);
    default:
        must(r->cls == CLASS_STORE);
        return exec_store(t, r, body);
    }
}

bool exec_place(struct turn *t, const struct request *r, struct body *b)
{
    struct store s;

    must_be_worker(t->w);
    must_be_reading();
    switch (r->cls) {
    case CLASS_BINARY:
        exec_bin_prepare_store(t, r, &s);
        break;
    case CLASS_META:
        exec_meta_prepare_set(t, r, &s);
        break;
    default:
        must(r->cls == CLASS_STORE);
        exec_store_prepare(t, r, &s);
        break;
    }
    /* If there is no room at once, it is better to wait for it with the value read. */
    s.may_wait = true;
    return body_place(b, &s, t->now);
}
