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
    switch (options_parse(argc, argv, &settings, &status)) {
    case OPTIONS_RUN:
        status = server_run(&settings);
        break;
    case OPTIONS_CHECK:
        status = server_check(&settings);
        break;
    case OPTIONS_EXIT:
        break;
    }
    settings_fini(&settings);
    return status;
}
