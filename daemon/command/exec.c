/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See exec.h.
 */
#include "daemon/command/exec.h"

#include "daemon/command/audit.h"

exec_handler *const exec_by_command[CMD_COUNT] = {
    [CMD_NONE] = exec_error,
#define COMMAND(id, text, cls, kind, needs, handler) [CMD_##id] = exec_##handler,
#include "proto/command.def"
#undef COMMAND
};

exec_handler *const exec_by_opcode[] = {
#define OPCODE(number, id, command, cls, quiet, extras, key, value, handler)                   \
    [number] = exec_##handler,
#include "proto/opcodes.def"
#undef OPCODE
};

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
    t->is_first = t->units == t->first_unit; /* sending adds to the units */
    if (!turn_leave_section(t)) {
        return TURN_BLOCKED;
    }
    must_be_outside_section(t);
    stop = request_is_binary(r) ? exec_by_opcode[r->opcode](t, r)
                                : exec_by_command[r->command](t, r);
    if (is_operators && stop != TURN_WAITS && stop != TURN_QUEUES) {
        audit_command(t, r, true); /* once, however often it was tried */
    }
    turn_enter_section(t); /* it may have taken long, and switched what is observed */
    return stop;
}
