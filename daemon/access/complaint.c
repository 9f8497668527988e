/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See complaint.h.
 */
#include "daemon/access/complaint.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/options/options_apply.h"
#include "lib/base/context.h"

/* Without its subject. */
static const char *text_of(const char *complaint)
{
    const char *comma = strstr(complaint, ", ");

    return comma != NULL ? comma + 2 : complaint;
}

bool complaint_keep(struct complaint *c, const char *fmt, ...)
{
    char text[COMPLAINT_BYTES];
    va_list args;

    must_be_main();
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (c->starting != NULL) {
        option_fault(c->starting, c->option, "%s", text_of(text));
        return false;
    }
    if (c->first[0] == '\0') {
        memcpy(c->first, text, sizeof(c->first));
    }
    return true;
}

const char *complaint_first(const struct complaint *c)
{
    must_be_main();
    return text_of(c->first);
}
