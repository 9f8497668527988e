/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See exec.h.
 */
#include "daemon/command/exec.h"

#include "daemon/command/guard.h"
#include "proto/meta_compose.h"
#include "proto/meta_parse.h"

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

/* Refuse an operator's command that the client may not use. */
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
    enum turn_stop stop = request_is_binary(r) ? exec_by_opcode[r->opcode](t, r)
                                               : exec_by_command[r->command](t, r);
    if (is_operators && stop != TURN_WAITS && stop != TURN_QUEUES) {
        audit_command(t, r, true); /* once, however often it was tried */
    }
    turn_enter_section(t); /* it may have taken long, and changed what is observed */
    return stop;
}

/* Errors are answered in words, as those of the text protocol; q hides only success. */
static void answer_meta(struct turn *t, const struct request *r, enum outcome outcome)
{
    const struct meta_facts facts = {.shows = META_SHOWS_KEY};
    enum meta_code code = outcome == OUT_DELETED  ? META_HD
                          : outcome == OUT_EXISTS ? META_EX
                                                  : META_NF;

    if (outcome == OUT_NON_NUMERIC || outcome == OUT_NO_MEMORY) {
        turn_reply(t, outcome == OUT_NO_MEMORY ? REPLY_NO_MEMORY : REPLY_NON_NUMERIC);
    } else if (code != META_HD || !meta_has(r->letters, 'q')) {
        t->out.len += meta_compose(turn_room(t, META_LINE_MAX), code, r, &facts);
    }
}

enum turn_stop exec_answer(struct turn *t, const struct request *r, enum outcome outcome)
{
    must_be_in_turn(t);
    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    switch (wire_of(r)) {
    case WIRE_TEXT:
        t->out.len += text_compose(turn_room(t, TEXT_REPLY_MAX), r, outcome, 0);
        break;
    case WIRE_META:
        answer_meta(t, r, outcome);
        break;
    case WIRE_BIN:
        turn_bin_reply(t, r, bin_reply_of(r, outcome), 0);
        break;
    }
    return TURN_GOES_ON;
}
