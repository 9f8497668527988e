/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The filter of privs.h in a build without libseccomp. options_check() has refused
 * -o drop_privileges.
 */
#include "daemon/service/privs.h"

#include <sysexits.h>

#include "lib/base/context.h"

int filter_prepare(const struct settings *settings)
{
    must_be_main();
    (void)settings;
    return EX_USAGE;
}

int filter_install(const struct settings *settings)
{
    must_be_main();
    (void)settings;
    return EX_USAGE;
}
