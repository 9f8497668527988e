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

/* [main] */
static char first[COMPLAINT_BYTES];

/* [main] What is read at the start. */
static const struct settings *starting; /* [borrowed] NULL: nothing is */
static enum option_id option;

void complaint_of(const struct settings *settings, enum option_id id)
{
    must_be_main();
    starting = settings;
    option = id;
}

/* Without its subject. */
static const char *text_of(const char *complaint)
{
    const char *comma = strstr(complaint, ", ");

    return comma != NULL ? comma + 2 : complaint;
}

bool complaint_keep(const char *fmt, ...)
{
    char text[COMPLAINT_BYTES];
    va_list args;

    must_be_main();
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (starting != NULL) {
        option_fault(starting, option, "%s", text_of(text));
        return false;
    }
    if (first[0] == '\0') {
        memcpy(first, text, sizeof(first));
    }
    return true;
}

void complaint_clear(void)
{
    must_be_main();
    first[0] = '\0';
}

const char *complaint_first(void)
{
    must_be_main();
    return text_of(first);
}
