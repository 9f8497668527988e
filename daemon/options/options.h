/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of the daemon: from files and the command line to struct settings.
 *
 * Every option is a row of options.def, or of lib/base/engine_options.def when the engine reads
 * it; options of memcached that have no effect here, or are refused, are rows of compat.def.
 * All else follows from the rows:
 *
 *   settings.h       the struct, and the lines of `stats settings`
 *   options_rows.h   the rows as data
 *   options_kind.c   the kinds of options: how numbers are shown, typed and read
 *   options_value.h  one value: read from text, stored, shown
 *   live_text.h      a text that may change while threads read it
 *   replica_address.h  the values of replicaof and replica_announce
 *   options_live.h   options of a running server: lookup, change, list
 *   options_passed.h  live options that are handed over in an upgrade
 *   options_apply.h  applies an option by row or name; messages name its file and line;
 *                    rules between options; flags, of the command line or of a file
 *   conf_line.h      the lines of a configuration file
 *   conf_words.h     the words of a file of flags
 *   conf_file.h      files of options, and included files
 *   options_share.h  numbers computed from the machine's memory and CPUs
 *   options_help.h   -h, -V, -i
 *   options_print.h  settings printed as a configuration file
 *   options_rewrite.h  new files with the settings of a running server
 *   options.h        runs all of it, in order
 *
 * The folder may include daemon/base and lib/base.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_H

#include <stdbool.h>

#include "daemon/options/conf_file.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/settings.h"

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
    OPTIONS_AGAIN_ALL,   /* also the command line above them, and what follows from options */
};

/*
 * Read the files again that a server was started with, into settings of their own; s has what
 * options_parse() filled. texts: as for conf_read(). False: something is wrong, and said has
 * the messages. Call settings_fini() in either case. Context: main.
 */
bool options_read_again(const struct settings *s, enum options_again what, struct settings *out,
                        struct conf_texts *texts, struct option_messages *said);

/*
 * Log at info (-v) what was set and by what, and each option that was accepted without effect.
 * Context: main, after log_init().
 */
void options_log(const struct settings *s);

#endif
