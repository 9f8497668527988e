/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mayflyd: settings, then server_run(), which holds the order of start and stop.
 */
#include "daemon/options/options.h"

#include "daemon/service/privs.h"
#include "daemon/service/server.h"

int main(int argc, char **argv)
{
    struct settings settings;
    int status = privs_open_std_fds();

    if (status != 0) {
        return status;
    }
    if (options_parse(argc, argv, &settings, &status) == OPTIONS_RUN) {
        status = server_run(&settings);
    }
    settings_fini(&settings);
    return status;
}
