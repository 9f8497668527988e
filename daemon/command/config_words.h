/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of a `config` command. Blanks separate them; a word in double quotes may have
 * blanks, and is written as in a configuration file: within the quotes \" \\ and \xHH stand for
 * a character.
 */
#ifndef MAYFLY_DAEMON_COMMAND_CONFIG_WORDS_H
#define MAYFLY_DAEMON_COMMAND_CONFIG_WORDS_H

#include "lib/base/span.h"

#define CONFIG_WORDS_MAX 260u
#define CONFIG_TEXT_MAX  2048u

struct config_words {
    unsigned count;
    const char *word[CONFIG_WORDS_MAX]; /* [borrowed] of text, each ended by NUL */
    char text[CONFIG_TEXT_MAX];
};

/* Join the word at this index and the next one, with a blank between. Context: any thread. */
void config_words_join(struct config_words *w, unsigned at);

/* Split a line into words. Returns NULL, or an error message. Context: any thread. */
const char *config_words_split(struct config_words *w, struct span line);

#endif
