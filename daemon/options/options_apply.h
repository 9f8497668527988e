/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applies options from the command line or from a file, by row or by name. Error messages name
 * the file and the line.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_APPLY_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_APPLY_H

#include <stdbool.h>

#include "daemon/options/conf_line.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"
#include "lib/base/span.h"

/* Where options are read from, and where they go. */
struct option_giver {
    struct settings *settings;
    enum option_source source;
    struct option_place place; /* file NULL: the command line */
    unsigned errors;           /* number of errors */
    int status;                /* exit status of the first error */
};

/* Maximum number of errors shown. */
#define OPTION_ERRORS_MAX 100u

/*
 * Print a message with the place on standard error, and count it. Returns status, the exit
 * status of the process. Context: main.
 */
MF_PRINTF(3, 4) int option_complain(struct option_giver *g, int status, const char *fmt, ...);

/*
 * " (did you mean ...?)", or " (see mayflyd --help)", for a name that is unknown. Fills text.
 * Context: main.
 */
const char *option_hint(const char *given, size_t len, char *text);

/*
 * Set an option; value NULL: it was given without one. g->place.form is the form in which it
 * was typed, `given` its text for messages. All return 0, or an exit status after a message.
 * Context: main, before start.
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

/* ---- messages ---------------------------------------------------------------------------- */

/*
 * Messages about options that prevent the start. All have the same form:
 *
 *     mayflyd: [FILE:LINE: ]OPTION: REASON[ (HINT)]
 *
 * with the option as it was typed (-m, --memory-limit, -o memory_limit, MAYFLY_MEMORY_LIMIT, or
 * the name in a file), and a reason that contains the value.
 */

/*
 * Messages about options that do not go to standard error, without the name of the program and
 * the end of the line. The first is kept, and all are logged if requested. A struct of zeros
 * has none.
 */
#define OPTION_MESSAGE_BYTES 1024
struct option_messages {
    bool is_logged;
    char first[OPTION_MESSAGE_BYTES]; /* "": there was none; cut if it is longer */
};

/* One message, there or (NULL) to standard error. fmt has no line end. Context: main. */
MF_PRINTF(2, 3) void option_say(struct option_messages *to, const char *fmt, ...);

/*
 * The value of this option, or its absence, is the reason. Before the log is set up and where
 * it goes to standard error that is a message as above, in the journal and where lines are JSON
 * an error of the log.
 * Context: main.
 */
MF_PRINTF(3, 4)
void option_fault(const struct settings *s, enum option_id id, const char *fmt, ...);

/* Prefix of the names of environment variables that are options. */
#define OPTION_VARIABLE_PREFIX "MAYFLY_"

/* The option as it can be typed in this form. Fills text. */
#define OPTION_GIVEN_BYTES 64
const char *option_in_form(enum option_id id, enum option_form form, char *text);

/* ---- options_check.c --------------------------------------------------------------------- */

/* Rules between options. */

/*
 * Set values derived from other options, and check combinations. Prints a message and returns
 * memcached's exit status, or 0. Context: main, before start, after all are set.
 */
int options_check(struct settings *s);

/* ---- options_flags.c --------------------------------------------------------------------- */

/* Parses flags and their arguments, of the command line or of a file. */

/* Requests of the command line as a whole. Texts are borrowed from argv. */
struct flags_wishes {
    const char *config;         /* --config; NULL: not given */
    const char *memcached_conf; /* --memcached-conf; NULL: not given */
    bool check;                 /* --check-config */
    bool print;                 /* --print-config */
    bool is_ambiguous;          /* two of a kind */
    bool is_question;           /* help, version or the like */
};

/*
 * Search the whole command line for these flags. If it requests help, or is wrong, the others
 * are not reported. Returns false without memory. Context: main, before start.
 */
bool flags_scan(int argc, char **argv, struct flags_wishes *wishes);

enum flags_result {
    FLAGS_APPLIED,
    FLAGS_ANSWERED, /* help, version or the like was printed */
    FLAGS_REFUSED,  /* a message was printed; the giver has the exit status */
};

/* Apply the command line up to the first error. Context: main, before start. */
enum flags_result flags_apply(struct option_giver *g, int argc, char **argv);

/* Apply the flags of a file, each with the line of its word. Context: as above. */
void flags_apply_words(struct option_giver *g, const struct conf_words *words);

#endif
