/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/options.h"

#include <stdio.h>
#include <string.h>

#include "ctl/commands.h"
#include "ctl/show.h"
#include "lib/base/edits.h"
#include "lib/base/num.h"

const struct ctl_command_row ctl_commands[COMMAND_COUNT] = {
#define COMMAND(id, args, least, most, words, help)                                            \
    [COMMAND_##id] = {#id, args, least, most, words, help, cmd_##id},
#include "ctl/commands.def"
#undef COMMAND
};

#define ANY      OPTION_ANY
#define FOR(cmd) ((uint64_t)1 << COMMAND_##cmd)

const struct ctl_option_row ctl_options[OPT_COUNT] = {
#define OPTION(id, letter, name, kind, arg, value, who, help)                                  \
    [OPT_##id] = {letter, KIND_##kind, name, arg, value, who, help},
#include "ctl/options.def"
#undef OPTION
};

enum command_id ctl_command_find(const char *name)
{
    unsigned id;

    for (id = 0; id < COMMAND_COUNT; id++) {
        if (strcmp(ctl_commands[id].name, name) == 0) {
            break;
        }
    }
    return (enum command_id)id;
}

/* ---- values ------------------------------------------------------------------------------ */

static bool read_seconds(const char *text, double *out)
{
    double v;

    if (!num_fraction(span_str(text), &v) || !(v >= 0.001) || v > 1e9) {
        return false;
    }
    *out = v;
    return true;
}

/* Parse a whole number. is_bytes: a letter for a unit may follow. */
static bool read_whole(const char *text, bool is_bytes, uint64_t *out)
{
    size_t len = strlen(text);
    unsigned shift = 0;
    uint64_t v;

    if (is_bytes && len > 0) {
        static const char letters[] = "kKmMgG";
        const char *found = strchr(letters, text[len - 1]);

        if (found != NULL) {
            shift = (unsigned)(10 * ((found - letters) / 2 + 1));
            len--;
        }
    }
    if (num_u64(span_of(text, len), &v) != MF_OK || v > UINT64_MAX >> shift) {
        return false;
    }
    *out = v << shift;
    return true;
}

static bool set_option(struct options *o, enum ctl_option_id id, const char *value)
{
    bool is_ok = false;

    switch (id) {
#define OPTION(id, letter, name, kind, arg, value_, who, help)                                 \
    case OPT_##id:                                                                             \
        is_ok = SET_##kind(o->id, value);                                                      \
        break;
#define SET_FLAG(field, value)    ((field) = true)
#define SET_TEXT(field, value)    ((field) = (value), true)
#define SET_SECONDS(field, value) read_seconds((value), &(field))
#define SET_COUNT(field, value)   read_whole((value), false, &(field))
#define SET_BYTES(field, value)   read_whole((value), true, &(field))
#include "ctl/options.def"
#undef OPTION
    case OPT_COUNT:
        break;
    }
    return is_ok;
}

void options_init(struct options *o)
{
    memset(o, 0, sizeof(*o));
    for (unsigned id = 0; id < OPT_COUNT; id++) {
        if (ctl_options[id].value != NULL) {
            must(set_option(o, (enum ctl_option_id)id, ctl_options[id].value));
        }
    }
}

/* ---- the command line -------------------------------------------------------------------- */

/* Find an option by its name or letter, whichever is given. OPT_COUNT: there is none. */
static enum ctl_option_id find_option(struct span name, char letter)
{
    unsigned id = 0;

    while (id < OPT_COUNT && !(letter != '\0' ? ctl_options[id].letter == letter
                                              : span_is(name, ctl_options[id].name))) {
        id++;
    }
    return (enum ctl_option_id)id;
}

struct reading {
    struct options *o;
    const struct ctl_words *line;
    unsigned next; /* number of the next word */
    bool may_connect;
    char *why;
    size_t why_bytes;
};

/* Take an option that was found. value: the text that follows it in its word, or NULL. */
static bool take_option(struct reading *r, enum ctl_option_id id, const char *value)
{
    const struct ctl_option_row *row = &ctl_options[id];
    static const char *const wants[] = {
        [KIND_FLAG] = "nothing",
        [KIND_TEXT] = "a text",
        [KIND_SECONDS] = "seconds, at least 0.001",
        [KIND_COUNT] = "a whole number",
        [KIND_BYTES] = "a number of bytes, such as 512 or 64k",
    };

    if (!r->may_connect && row->who == OPTION_ANY && id != OPT_json && id != OPT_help) {
        snprintf(r->why, r->why_bytes, "--%s is accepted on the command line only", row->name);
        return false;
    }
    if (row->kind != KIND_FLAG && value == NULL) {
        if (r->next == r->line->count) {
            snprintf(r->why, r->why_bytes, "--%s needs %s", row->name, wants[row->kind]);
            return false;
        }
        value = r->line->word[r->next++].ptr;
    }
    if ((row->kind == KIND_FLAG && value != NULL) || !set_option(r->o, id, value)) {
        snprintf(r->why, r->why_bytes, "--%s needs %s, not \"%s\"", row->name, wants[row->kind],
                 value);
        return false;
    }
    r->o->given |= (uint64_t)1 << id;
    return true;
}

const char *ctl_command_near(const char *name)
{
    struct edits_guess best = {0};

    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        edits_guess(&best, span_str(name), span_str(ctl_commands[id].name));
    }
    return best.name.ptr;
}

struct span ctl_word_near(enum command_id id, struct span given)
{
    struct edits_guess best = {0};
    struct span rest = span_str(ctl_commands[id].words);
    struct span word;

    while ((word = span_word(&rest)).len > 0) {
        edits_guess(&best, given, word);
    }
    return best.edits > 0 ? best.name : span_of(NULL, 0);
}

static void refuse_long(struct reading *r, struct span name)
{
    struct edits_guess best = {0};

    for (unsigned id = 0; id < OPT_COUNT; id++) {
        edits_guess(&best, name, span_str(ctl_options[id].name));
    }
    snprintf(r->why, r->why_bytes, "there is no option --%.*s (%s%s%s)", (int)name.len,
             name.ptr, best.name.len > 0 ? "did you mean --" : "see mayflyctl --help",
             best.name.len > 0 ? best.name.ptr : "", best.name.len > 0 ? "?" : "");
}

static bool read_long(struct reading *r, const char *text)
{
    struct span name = span_of(text, strcspn(text, "="));
    enum ctl_option_id id = find_option(name, '\0');

    if (id == OPT_COUNT) {
        refuse_long(r, name);
        return false;
    }
    return take_option(r, id, text[name.len] == '=' ? text + name.len + 1 : NULL);
}

static bool read_letters(struct reading *r, const char *text)
{
    for (; *text != '\0'; text++) {
        enum ctl_option_id id = find_option(span_str(""), *text);

        if (id == OPT_COUNT) {
            snprintf(r->why, r->why_bytes, "there is no option -%c", *text);
            return false;
        }
        if (ctl_options[id].kind != KIND_FLAG) {
            return take_option(r, id, text[1] != '\0' ? text + 1 : NULL);
        }
        if (!take_option(r, id, NULL)) {
            return false;
        }
    }
    return true;
}

bool options_read(struct options *o, const struct ctl_words *line, bool may_connect,
                  struct ctl_words *left, char *why, size_t why_bytes)
{
    struct reading r = {o, line, 0, may_connect, why, why_bytes};
    bool is_over = false;

    left->count = 0;
    while (r.next < line->count) {
        struct span word = line->word[r.next++];
        bool is_option = !is_over && word.len > 1 && word.ptr[0] == '-' &&
                         !(word.ptr[1] >= '0' && word.ptr[1] <= '9');

        if (!is_option) {
            left->word[left->count++] = word;
        } else if (span_is(word, "--")) {
            is_over = true;
        } else if (word.ptr[1] == '-' ? !read_long(&r, word.ptr + 2)
                                      : !read_letters(&r, word.ptr + 1)) {
            return false;
        }
    }
    return true;
}

bool options_fit(const struct options *o, enum command_id command, char *why, size_t why_bytes)
{
    for (unsigned id = 0; id < OPT_COUNT; id++) {
        if (option_is_given(o, (enum ctl_option_id)id) &&
            (ctl_options[id].who >> command & 1) == 0) {
            snprintf(why, why_bytes, "--%s cannot be used with %s", ctl_options[id].name,
                     ctl_commands[command].name);
            return false;
        }
    }
    return true;
}

/* ---- lines of the prompt ----------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Find the closing quote; `at` is after the opening one. line.len: there is none. */
static size_t find_quote(struct span line, size_t at, char quote)
{
    while (at < line.len && line.ptr[at] != quote) {
        at += quote == '"' && line.ptr[at] == '\\' && at + 1 < line.len ? 2 : 1;
    }
    return at;
}

/*
 * Take the quoted part that begins at *at, and write its meaning to *store; both are advanced.
 * Returns NULL, or a text that says what is wrong.
 */
static const char *take_quoted(struct span line, size_t *at, char **store)
{
    char quote = line.ptr[*at];
    size_t end = find_quote(line, *at + 1, quote);
    struct span inner = span_of(line.ptr + *at + 1, end - *at - 1);
    size_t len = inner.len;

    if (end >= line.len) {
        return "unterminated quote";
    }
    if (quote == '\'') {
        memcpy(*store, inner.ptr, inner.len);
    } else if (!show_unescape(*store, &len, inner)) {
        return "in \"...\" a backslash is followed by n, r, t, xNN, \\ or \"";
    }
    *store += len;
    *at = end + 1;
    return NULL;
}

bool words_split(struct ctl_words *w, struct span line, char *store, char *why,
                 size_t why_bytes)
{
    size_t at = 0;

    w->count = 0;
    for (;;) {
        char *begin = store;

        while (at < line.len && is_blank(line.ptr[at])) {
            at++;
        }
        if (at == line.len) {
            return true;
        }
        if (w->count == WORDS_MAX) {
            snprintf(why, why_bytes, "more than %d words", WORDS_MAX);
            return false;
        }
        while (at < line.len && !is_blank(line.ptr[at])) {
            char c = line.ptr[at];

            if (c == '"' || c == '\'') {
                const char *wrong = take_quoted(line, &at, &store);

                if (wrong != NULL) {
                    snprintf(why, why_bytes, "%s", wrong);
                    return false;
                }
            } else {
                at += c == '\\' && at + 1 < line.len ? 1 : 0;
                *store++ = line.ptr[at++];
            }
        }
        w->word[w->count++] = span_of(begin, (size_t)(store - begin));
        *store++ = '\0'; /* in the place of a blank, a quote, or after the end */
    }
}
