/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The headings under which the manual lists options: topics.def.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_TOPICS_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_TOPICS_H

#include <stdio.h>

#include "daemon/options/settings.h"

/*
 * Call begin for each topic, in order, then put for each of its options, then end; out is for
 * them. Context: any thread.
 */
void options_each_by_topic(FILE *out, void (*begin)(FILE *out, const char *title),
                           void (*put)(FILE *out, enum option_id id), void (*end)(FILE *out));

#endif
