/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applying what was read, from the command line or from a file: by row or by name, with a
 * message that says where it stands.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_APPLY_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_APPLY_H

#include "daemon/options/options_message.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"
#include "lib/base/span.h"

/* Where options are read from, and where they go. */
struct option_giver {
    struct settings *settings;
    enum option_source source;
    struct option_place place; /* file NULL: the command line */
    unsigned errors;           /* so far */
    int status;                /* exit status of the first error */
};

/* After so many errors the rest is not shown. */
#define OPTION_ERRORS_MAX 100u

/*
 * Print a message with the place on standard error, and count it. Returns status, with which
 * the process is to exit. Context: main.
 */
MF_PRINTF(3, 4) int option_complain(struct option_giver *g, int status, const char *fmt, ...);

/* " (did you mean ...?)", or nothing, for a name that is unknown. Fills text. Context: main. */
const char *option_hint(const char *given, size_t len, char *text);

/*
 * Give an option its value; NULL: it stood alone. g->place.form says how it was typed, given
 * what is shown of that. All return 0, or an exit status after a message. Context: main, before
 * start.
 */
int option_apply(struct option_giver *g, enum option_id id, const char *given,
                 const char *value);

/* The same for an option of memcached that has another meaning here, or none. */
int option_apply_compat(struct option_giver *g, const struct compat_row *row, const char *given,
                        const char *value);

/*
 * The same for name or name=value of -o, where no_name turns a switch off. Here as in files and
 * in --name=value an empty value unsets an option that may be without one.
 */
int option_apply_suboption(struct option_giver *g, const char *text);

/* The same for name = value of a configuration file. */
int option_apply_setting(struct option_giver *g, struct span name, const char *value);

/* The same for a variable of the environment; name: what it names, as in a file. */
int option_apply_variable(struct option_giver *g, const char *variable, struct span name,
                          const char *value);

/* The same, where an empty value unsets an option that may be without one. */
int option_apply_or_unset(struct option_giver *g, enum option_id id, const char *given,
                          const char *value);

/* Turn a switch off. False: it is none. Context: main, before start. */
bool option_apply_off(struct option_giver *g, enum option_id id);

#endif
