/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See exec.h.
 */
#include "daemon/command/exec.h"

#include "daemon/command/exec_admin.h"
#include "daemon/command/exec_stats.h"

enum turn_stop exec_outside(struct turn *t, const struct request *r)
{
    enum turn_stop stop;

    if (!turn_leave_section(t)) {
        return TURN_BLOCKED;
    }
    if (r->command == CMD_STATS) {
        stop = exec_stats(t, r);
    } else {
        stop = r->cls == CLASS_ADMIN ? exec_admin(t, r) : exec_bin_admin(t, r);
    }
    turn_enter_section(t); /* it may have taken long, and switched what is observed */
    return stop;
}
