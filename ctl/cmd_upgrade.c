/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `upgrade`: another program takes over the server. It is asked for, and then looked after
 * until it has or was refused. The connection may end meanwhile, as that of any client: then
 * another one asks on.
 */

#include "ctl/commands.h"

#include "ctl/ask.h"
#include "ctl/json.h"

/* The server waits a minute for the program, and then for its clients. */
#define WAIT_S  120.0
#define PAUSE_S 0.05

/* Is this status one that another connection may better? */
static bool is_gone(enum ctl_status status)
{
    return status == CTL_LINK;
}

/* Ask until it has an end: *s has the answer then. */
static enum ctl_status wait_for_end(struct ctl *c, struct stats *s)
{
    const double began = ctl_now_s();
    struct span state = {0};

    for (;;) {
        enum ctl_status status = ask_stats(c, "persistence", s);

        if (status == CTL_OK && !stats_find(s, "upgrade_state", &state)) {
            return ctl_fail(c, CTL_REFUSED, "the server does not say what becomes of it");
        }
        if (status == CTL_OK && !span_is(state, "asked") && !span_is(state, "under-way")) {
            return CTL_OK;
        }
        if ((status != CTL_OK && !is_gone(status)) || ctl_is_interrupted()) {
            return status;
        }
        if (ctl_now_s() - began > WAIT_S) {
            return status != CTL_OK ? status
                                    : ctl_fail(c, CTL_LINK, "no end of it after two minutes");
        }
        if (is_gone(status)) {
            ask_disconnect(c);
            c->why[0] = '\0';
        }
        (void)ctl_sleep(PAUSE_S);
    }
}

static enum ctl_status tell_upgrade(struct ctl *c, const struct stats *s)
{
    struct json j = ctl_json(c);
    struct span why = {0};

    (void)stats_find(s, "upgrade_reason", &why);
    if (stats_is(s, "upgrade_state", "refused")) {
        return ctl_fail(c, CTL_REFUSED, "%.*s; nothing has changed, the server's log has more",
                        (int)why.len, why.ptr);
    }
    if (!stats_is(s, "upgrade_state", "done")) {
        return ctl_fail(c, CTL_NO, "the server was started anew instead; its log says why");
    }
    json_begin(&j, NULL, '{');
    json_bool(&j, "upgraded", true);
    json_double(&j, "items", stats_get(s, "restart_items"));
    json_end(&j, '{');
    ctl_say(c, "the program took over, with %.0f items\n", stats_get(s, "restart_items"));
    return stats_is(s, "restart_state", "warm")
               ? CTL_OK
               : ctl_fail(c, CTL_NO, "it has not taken the items over");
}

int cmd_upgrade(struct ctl *c, const struct ctl_words *args)
{
    struct stats s = {0};
    enum ctl_status status = ask_done(c, ask_words(c, args, false));

    if (status != CTL_OK) {
        return status;
    }
    status = wait_for_end(c, &s);
    if (status == CTL_OK) {
        status = tell_upgrade(c, &s);
    }
    stats_fini(&s);
    return status;
}
