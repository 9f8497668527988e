/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A build without libmicrohttpd: options_check() refuses the option metrics.
 */
#include <stddef.h>

#include "daemon/metrics/metrics.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"

int metrics_open(const struct settings *settings, struct metrics **out)
{
    must(settings->metrics == NULL);
    *out = NULL;
    return 0;
}

int metrics_start(struct metrics *m, struct crew *crew)
{
    (void)crew;
    must(m == NULL);
    return 0;
}

void metrics_close(struct metrics **m)
{
    must(*m == NULL);
}
