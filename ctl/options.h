/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands and options: the tables commands.def and options.def as data, and the parser of the
 * command line. Options may come before, between and after arguments, until "--". A word that
 * begins with a minus and a digit is an argument.
 */
#ifndef MAYFLY_CTL_OPTIONS_H
#define MAYFLY_CTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"

#define CONTROL_PATH "/run/mayfly/control"

enum command_id {
#define COMMAND(id, args, least, most, words, help) COMMAND_##id,
#include "ctl/commands.def"
#undef COMMAND
    COMMAND_COUNT
};

struct ctl;
struct ctl_words;

struct ctl_command_row {
    const char *name;
    const char *args;
    unsigned least, most;
    const char *words;
    const char *help;
    int (*run)(struct ctl *c, const struct ctl_words *args); /* enum ctl_status */
};

extern const struct ctl_command_row ctl_commands[COMMAND_COUNT];

/* The command of that name; COMMAND_COUNT: there is none. */
enum command_id ctl_command_find(const char *name);

/* The command whose name is most similar to an unknown one; NULL: none is similar enough. */
const char *ctl_command_near(const char *name);

/*
 * The word that is most similar to `given`, of those that may be the first argument of the
 * command (the row's `words`). Empty: none is similar enough, or given is one.
 */
struct span ctl_word_near(enum command_id id, struct span given);

enum ctl_option_kind { KIND_FLAG, KIND_TEXT, KIND_SECONDS, KIND_COUNT, KIND_BYTES };

enum ctl_option_id {
#define OPTION(id, letter, name, kind, arg, value, who, help) OPT_##id,
#include "ctl/options.def"
#undef OPTION
    OPT_COUNT
};

#define OPTION_ANY UINT64_MAX /* every command, and none */

struct ctl_option_row {
    char letter;
    enum ctl_option_kind kind;
    const char *name;
    const char *arg;
    const char *value;
    uint64_t who; /* a bit for each command */
    const char *help;
};

extern const struct ctl_option_row ctl_options[OPT_COUNT];

typedef bool option_FLAG;
typedef const char *option_TEXT; /* [borrowed] of the command line */
typedef double option_SECONDS;
typedef uint64_t option_COUNT, option_BYTES;

struct options {
    uint64_t given; /* a bit for each option */
#define OPTION(id, letter, name, kind, arg, value, who, help) option_##kind id;
#include "ctl/options.def"
#undef OPTION
};

static inline bool option_is_given(const struct options *o, enum ctl_option_id id)
{
    return (o->given >> id & 1) != 0;
}

/* Is it an option of this command, and not a global one? */
static inline bool option_goes_with(const struct ctl_option_row *row, enum command_id id)
{
    return row->who != OPTION_ANY && (row->who >> id & 1) != 0;
}

#define WORDS_MAX 1024

/* The words of a line, without options. */
struct ctl_words {
    unsigned count;
    struct span
        word[WORDS_MAX]; /* [borrowed]; NUL-terminated, but may have other NULs within */
};

/* All options at their defaults. */
void options_init(struct options *o);

/*
 * Parse the words of a command line (without the program's name): options go to o, all others
 * to left. Returns false on an error, described in why. A global option at a prompt is an
 * error, unless may_connect.
 */
bool options_read(struct options *o, const struct ctl_words *line, bool may_connect,
                  struct ctl_words *left, char *why, size_t why_bytes);

/* Is every given option accepted by this command? */
bool options_fit(const struct options *o, enum command_id command, char *why, size_t why_bytes);

/*
 * Split a line into words as a shell would, at white space. "..." may have the escapes of
 * show.h, '...' has none, and elsewhere a backslash quotes the next byte. The words are written
 * to store, which has room for line.len + 1 bytes. False: an error, described in why.
 */
bool words_split(struct ctl_words *w, struct span line, char *store, char *why,
                 size_t why_bytes);

#endif
