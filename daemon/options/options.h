/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of the daemon: from files and the command line to struct settings.
 *
 * Every option is a row of options.def, or of lib/base/engine_options.def when the engine reads
 * it; options of memcached that have no effect here, or are refused, are rows of compat.def.
 * Everything else is derived from the rows:
 *
 *   settings.h       the struct, and the lines of `stats settings`
 *   options_rows.h   the rows as data
 *   options_kind.c   the kinds of options: how numbers are shown, typed and read
 *   options_value.h  one value: read from text, stored, shown
 *   live_text.c      a text that may change while threads read it
 *   replica_address.h  the values of replicaof and replica_announce
 *   options_live.h   options of a running server: lookup, change, list
 *   options_passed.c  live options that are handed over in an upgrade
 *   options_apply.h  applies an option by row or name; messages name its file and line;
 *                    rules between options; flags, of the command line or of a file
 *   conf_line.h      the lines of a configuration file
 *   conf_words.c     the words of a file of flags
 *   conf_file.h      files of options, and included files
 *   options_share.c  numbers computed from the machine's memory and CPUs
 *   options_help.c   -h, -V, -i
 *   options_print.c  settings printed as a configuration file
 *   options_rewrite.c  new files with the settings of a running server
 *   options.h        runs all of it, in order
 *
 * The folder may include daemon/base and lib/base.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/options/conf_file.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/settings.h"
#include "lib/base/buf.h"
#include "lib/base/span.h"

enum options_result {
    OPTIONS_RUN,   /* the settings are complete and checked: start */
    OPTIONS_CHECK, /* the same, but only see whether a start would succeed */
    OPTIONS_EXIT,  /* end with *exit_status; help or a message was printed */
};

/*
 * Fill settings from defaults, files and command line, and check them against each other.
 * Messages go to standard error, help and version to standard output. The texts in the settings
 * are copies: argv is not needed afterwards (getopt permutes it). Call settings_fini() in
 * either case. Context: main, before start.
 */
enum options_result options_parse(int argc, char **argv, struct settings *out,
                                  int *exit_status);

enum options_again {
    OPTIONS_AGAIN_FILES, /* the files alone */
    OPTIONS_AGAIN_ALL,   /* also the command line, and values derived from options */
};

/*
 * Reread the files that a server was started with, into separate settings; s was filled by
 * options_parse(). texts: as for conf_read(). False: there is an error, and said has the
 * messages. Call settings_fini() in either case. Context: main.
 */
bool options_read_again(const struct settings *s, enum options_again what, struct settings *out,
                        struct conf_texts *texts, struct option_messages *said);

/*
 * Log at info (-v) each option that was set, with its source, and each option that was accepted
 * without effect. Context: main, after log_init().
 */
void options_log(const struct settings *s);

/* ---- options_help.c ---------------------------------------------------------------------- */

/*
 * Help and other texts made from the tables. Context of all: main.
 */

/* -h, -V and -i. */
void options_print_help(FILE *out);
void options_print_version(FILE *out);
void options_print_license(FILE *out);

/* Is there a flag --no-name? */
bool option_has_no_form(const struct option_row *row);

/* The form of a flag's value: "=<threads>", "[=0..2]", "=auto|ascii|binary". Fills text. */
void option_value_form(const struct option_row *row, char *text);

/* The words about range and default, or nothing. Fills text. */
void option_value_note(enum option_id id, char *text);

/* Call put for each flag and name that is accepted without effect; letter 0: only with -o. */
void options_each_ignored(FILE *out, void (*put)(FILE *out, const char *name, int letter));

/* ---- options_passed.c -------------------------------------------------------------------- */

/*
 * Live options that a program hands over to the one that it becomes (daemon/service/server.h).
 * These are the options that differ from files and command line, which `config rewrite` would
 * write. The format is text that any version can read, one line for each:
 *
 *     NAME GIVEN VALUE
 *
 * A value with a blank or a quote is quoted as in a configuration file (conf_line.h). If files
 * and command line still have GIVEN, the next program uses VALUE. If they have another value,
 * that is newer and is used.
 */

/*
 * Append the lines. given: the values of files and command line; live: the present values. Only
 * live options are compared. Returns false without memory. Context: main.
 */
bool options_passed_write(struct buf *out, const struct settings *given,
                          const struct settings *live);

enum passed_option {
    PASSED_TAKEN,      /* the value is in the settings, set at run time */
    PASSED_OVERRIDDEN, /* files or command line have another value than before */
    PASSED_REFUSED,    /* this version rejects it, for the reason in why */
};

/* Called with the result of a line. All texts are borrowed for the call. */
typedef void (*option_passed_fn)(void *arg, enum passed_option result, const char *name,
                                 const char *value, const char *why);

/*
 * Apply the lines of options_passed_write() to settings of options_parse(), and call fn for
 * each line that changes something or would have. The lines may have any bytes. If rules
 * between options are broken then (options_check()), the settings are restored, and fn is
 * called with that for each option that had been taken. Context: main, before start.
 */
void options_passed_take(struct settings *s, struct span lines, option_passed_fn fn, void *arg);

/* ---- options_print.c --------------------------------------------------------------------- */

/*
 * Prints settings as a configuration file. Context of all: main.
 */

/* Room for a path and the number of a line. */
#define OPTION_WHERE_BYTES (PATH_MAX + 16)

/* Where the value of an option comes from, such as "default" or "FILE:12". Fills text. */
const char *option_where(const struct settings *s, enum option_id id, char *text);

/*
 * --print-config: every option that has an effect or was set, with its value and, as a comment,
 * its source. A configuration file of these lines gives the same values. No option is secret:
 * passwords and keys are in separate files, of which only the names are shown.
 */
void options_print_config(FILE *out, const struct settings *s);

/* ---- options_rewrite.c ------------------------------------------------------------------- */

/*
 * `config rewrite`: computes the new content of the files of --config, so that a start gives
 * the present values of the server. Nothing is written here.
 *
 * If the value of an option differs from files and command line, the last line that sets it is
 * changed, in whichever file it is. Without such a line one is added to the file of --config
 * (conf_line.h). Options that are not live cannot have been changed: if a file has another
 * value, that needs a restart, and is kept.
 *
 * Finally the new files are parsed below the command line, as a start would do. So the values
 * of the next start are known, and a file that would be rejected is never written.
 */

struct options_rewrite {
    struct conf_texts texts;            /* the files; those to be written are marked */
    struct settings live;               /* the values that are written; live ones only */
    struct settings files;              /* values of the new files, with their lines */
    struct settings next;               /* values of the next start */
    enum option_id edits[OPTION_COUNT]; /* options that are written */
    unsigned edit_count;
    enum option_id overridden[OPTION_COUNT]; /* live options with another value in next */
    unsigned overridden_count;
};

/*
 * Fill in *out. given: the result of options_parse(); live: the present values of live options
 * (others are not used). Returns false if the files have errors or would get some: said has the
 * messages. Call options_rewrite_fini() in either case. Context: main.
 */
bool options_rewrite_plan(const struct settings *given, const struct settings *live,
                          struct options_rewrite *out, struct option_messages *said);

/* Release it. Context: main. */
void options_rewrite_fini(struct options_rewrite *r);

/* ---- options_share.c --------------------------------------------------------------------- */

/*
 * Options that were set to a share of the machine (OPT_SHARE, OPT_AUTO), such as
 * memory_limit=80% and threads=auto: computes their numbers. machine_look() tells the machine's
 * size.
 */

/* Largest memory in bytes that the process may use beyond memory_limit. Context: any thread. */
uint64_t options_beside_bytes(const struct settings *s);

/* May the largest item be stored in that much memory? Context: any thread. */
bool options_fit_items(const struct settings *s, uint64_t memory_bytes);

/*
 * Store the number of each option that was set to a share. Returns false if that is impossible
 * for one: *id and why (OPTION_TEXT_BYTES) name it and the reason, and its number is unchanged.
 * Context: before start, later any thread.
 */
bool options_settle_shares(struct settings *s, enum option_id *id, char *why);

/*
 * Fill text (OPTION_TEXT_BYTES) with the computation of such an option's number: "80% of the
 * 512 megabytes of the control group, less 48 for connections and the process". Context: any
 * thread.
 */
const char *option_share_reason(const struct settings *s, enum option_id id, char *text);

/* Fill ids with the options that are set to a share. Returns how many. Context: any thread. */
#define OPTION_SHARES_MAX 2u
unsigned options_with_share(const struct settings *s, enum option_id ids[OPTION_SHARES_MAX]);

#endif
