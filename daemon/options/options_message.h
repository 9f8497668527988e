/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is said when an option keeps the server from starting. Every message has one shape:
 *
 *     mayflyd: [FILE:LINE: ]OPTION: REASON[ (HINT)]
 *
 * with the option as it was typed (-m, --memory-limit, -o memory_limit, MAYFLY_MEMORY_LIMIT, or
 * the name in a file),
 * and a reason that names the value.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_MESSAGE_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_MESSAGE_H

#include "daemon/options/settings.h"
#include "lib/base/check.h"

/*
 * Messages about options: to standard error, or, while fn is not NULL, to fn, without the name
 * of the program and the end of the line. Context: main.
 */
typedef void (*option_sink_fn)(const char *text);
void option_messages_to(option_sink_fn fn);

/* One message. fmt has no line end. Context: main. */
MF_PRINTF(1, 2) void option_say(const char *fmt, ...);

/*
 * The value of this option, or its absence, is the reason. Before the log is set up and where
 * it goes to standard error that is a message as above, in the journal and where lines are JSON
 * an error of the log.
 * Context: main.
 */
MF_PRINTF(3, 4)
void option_fault(const struct settings *s, enum option_id id, const char *fmt, ...);

/* What the names of variables of the environment begin with that are options. */
#define OPTION_VARIABLE_PREFIX "MAYFLY_"

/* The option as it was typed; if it was not given, as it can be typed. Fills text. */
#define OPTION_GIVEN_BYTES 64
const char *option_given(const struct settings *s, enum option_id id, char *text);

/* The same for an option that is being read in this form. */
const char *option_in_form(enum option_id id, enum option_form form, char *text);

#endif
