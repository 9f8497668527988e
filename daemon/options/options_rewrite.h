/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of --config shall be so that a start gives the values that a server has now:
 * `config rewrite`. Nothing is written here.
 *
 * An option whose value the files and the command line do not give is changed in the last line
 * that sets it, in whichever file that stands; without one it is added to the file of --config
 * (conf_line.h). Options that are not live have not been changed by anybody: where a file says
 * something else, that waits for a restart, and stays.
 *
 * The new files are read again in the end, below the command line, as a start would. So what
 * the next start has is known, and a file that would be refused is never written.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_REWRITE_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_REWRITE_H

#include <stdbool.h>

#include "daemon/options/conf_file.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/settings.h"

struct options_rewrite {
    struct conf_texts texts;            /* the files; those to be written are marked */
    struct settings live;               /* the values that are written; live ones only */
    struct settings files;              /* what the files give then, and in which lines */
    struct settings next;               /* what the next start has */
    enum option_id edits[OPTION_COUNT]; /* options that are written */
    unsigned edit_count;
    enum option_id overridden[OPTION_COUNT]; /* live, and something else in next */
    unsigned overridden_count;
};

/*
 * Fill out. given: what options_parse() filled; live: the values of live options now (the rest
 * is not looked at). False: the files have errors or would have some, and said has the
 * messages. Call options_rewrite_fini() in either case. Context: main.
 */
bool options_rewrite_plan(const struct settings *given, const struct settings *live,
                          struct options_rewrite *out, struct option_messages *said);

/* Release it. Context: main. */
void options_rewrite_fini(struct options_rewrite *r);

#endif
