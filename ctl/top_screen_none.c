/* SPDX-License-Identifier: BSD-3-Clause */
/* See top.h: of a build without ncurses. A round is a line. */
#include "ctl/top.h"

bool top_screen_is_possible(void)
{
    return false;
}

enum ctl_status top_screen(struct top *t, uint64_t count)
{
    (void)count;
    return ctl_fail(t->c, CTL_SYSTEM, "this mayflyctl was built without ncurses");
}
