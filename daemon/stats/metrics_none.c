/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A build without libmicrohttpd: options_check() refuses the option metrics.
 */
#include "daemon/stats/metrics.h"

#include <stddef.h>

#include "daemon/base/log.h"
#include "daemon/net/sockets.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"

int metrics_open(const struct settings *settings, struct metrics **out)
{
    struct socket_list none = {.count = 0};
    bool is_inherited;
    int status = sockets_inherit(settings, INHERIT_METRICS, &none, &is_inherited);

    must(settings->metrics == NULL);
    *out = NULL;
    if (none.count > 0) {
        log_warn("metrics, ignored a passed socket (not built with metrics)");
    }
    socket_list_close(&none);
    return status;
}

int metrics_check(const struct settings *settings)
{
    must(settings->metrics == NULL);
    return 0;
}

int metrics_start(struct metrics *m, struct crew *crew)
{
    (void)crew;
    must(m == NULL);
    return 0;
}

void metrics_each_socket(const struct metrics *m, void (*fn)(void *arg, int fd), void *arg)
{
    (void)fn;
    (void)arg;
    must(m == NULL);
}

void metrics_close(struct metrics **m)
{
    must(*m == NULL);
}
