/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses flags and their arguments, of the command line or of a file.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_FLAGS_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_FLAGS_H

#include <stdbool.h>

#include "daemon/options/conf_words.h"
#include "daemon/options/options_apply.h"

/* What the command line requests as a whole. Texts are borrowed from argv. */
struct flags_wishes {
    const char *config;         /* --config; NULL: not given */
    const char *memcached_conf; /* --memcached-conf; NULL: not given */
    bool check;                 /* --check-config */
    bool print;                 /* --print-config */
    bool is_ambiguous;          /* two of a kind */
    bool is_question;           /* help, version or the like */
};

/*
 * Look for these flags at any place. If the command line asks for help, or is wrong, the others
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
