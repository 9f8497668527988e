/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `config rewrite`: computes the new content of the files of --config, so that a start gives
 * the present values of the server. Nothing is written here.
 *
 * If the value of an option differs from files and command line, the last line that sets it is
 * changed, in whichever file it is. Without such a line one is added to the file of --config
 * (conf_line.h). Options that are not live cannot have been changed: if a file has another
 * value, that waits for a restart, and stays.
 *
 * Finally the new files are parsed below the command line, as a start would do. So the values
 * of the next start are known, and a file that would be rejected is never written.
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
    enum option_id overridden[OPTION_COUNT]; /* live options with another value in next */
    unsigned overridden_count;
};

/*
 * Fill out. given: the result of options_parse(); live: the present values of live options
 * (others are not used). Returns false if the files have errors or would get some: said has the
 * messages. Call options_rewrite_fini() in either case. Context: main.
 */
bool options_rewrite_plan(const struct settings *given, const struct settings *live,
                          struct options_rewrite *out, struct option_messages *said);

/* Release it. Context: main. */
void options_rewrite_fini(struct options_rewrite *r);

#endif
