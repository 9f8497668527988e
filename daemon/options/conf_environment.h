/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options from the environment: MAYFLY_MEMORY_LIMIT=80% is memory-limit = 80%. Files and
 * command line override them. A variable without a value is as one that is not there.
 *
 * A variable that is no option is left alone: Kubernetes, for example, makes
 * MAYFLY_SERVICE_HOST and MAYFLY_PORT=tcp://... where a service has that name. If its name is
 * near that of an option, a message says so. Values of such variables are never shown.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_CONF_ENVIRONMENT_H
#define MAYFLY_DAEMON_OPTIONS_CONF_ENVIRONMENT_H

#include <stdbool.h>

#include "daemon/options/settings.h"

/*
 * Read the options of the environment, as OPTION_ENVIRONMENT. tells: print a message for what
 * is nearly the name of one. Returns 0, or the exit status of the first error. Context: main,
 * before start; later into settings of the caller's.
 */
int conf_read_environment(struct settings *s, bool tells);

/* Log the names of variables that begin like options and are none (-v). Context: main. */
void conf_log_environment(void);

#endif
