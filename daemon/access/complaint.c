/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See complaint.h.
 */
#include "daemon/access/complaint.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/context.h"

/* [main] */
static char first[COMPLAINT_BYTES];

void complaint_keep(const char *fmt, ...)
{
    va_list args;

    must_be_main();
    if (first[0] == '\0') {
        va_start(args, fmt);
        vsnprintf(first, sizeof(first), fmt, args);
        va_end(args);
    }
}

void complaint_clear(void)
{
    must_be_main();
    first[0] = '\0';
}

const char *complaint_first(void)
{
    const char *comma = strstr(first, ", ");

    must_be_main();
    return comma != NULL ? comma + 2 : first;
}
