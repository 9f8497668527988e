/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See options.h.
 */
#include "daemon/options/options.h"

#include <string.h>

#include "daemon/options/conf_line.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_value.h"
#include "lib/base/context.h"

/* Append a value so that take_word() reads it again. */
static bool put_word(struct buf *out, const char *value)
{
    return strchr(value, ' ') != NULL ? conf_value_quote(out, value)
                                      : conf_value_append(out, value);
}

bool options_passed_write(struct buf *out, const struct settings *given,
                          const struct settings *live)
{
    enum option_id ids[OPTION_COUNT];
    const unsigned count = options_differing(given, live, true, ids);
    char then[OPTION_TEXT_BYTES];
    char now[OPTION_TEXT_BYTES];
    bool is_done = true;

    must_be_main();
    for (unsigned i = 0; i < count && is_done; i++) {
        is_done = buf_printf(out, "%s ", option_name(ids[i])) &&
                  put_word(out, option_typed(given, ids[i], then)) && buf_append(out, " ", 1) &&
                  put_word(out, option_typed(live, ids[i], now)) && buf_append(out, "\n", 1);
    }
    return is_done;
}

/* A line. */
struct passed {
    char name[OPTION_TEXT_BYTES];
    char given[OPTION_TEXT_BYTES];
    char value[OPTION_TEXT_BYTES];
};

/* Take a word up to the next blank. */
static void take_plain(struct span *line, char word[OPTION_TEXT_BYTES])
{
    const struct span whole = span_cut(line, ' ');
    const size_t kept = whole.len < OPTION_TEXT_BYTES ? whole.len : OPTION_TEXT_BYTES - 1;

    span_copy_short(word, whole.ptr, kept);
    word[kept] = '\0';
}

/*
 * Take a word in quotes up to its last quote, or to where it is wrong; cut if it is too long
 * for any option.
 */
static void take_quoted(struct span *line, char word[OPTION_TEXT_BYTES])
{
    size_t used = 0;
    size_t at = 1;
    char c;

    while (at < line->len && line->ptr[at] != '"') {
        const size_t len = conf_char_take(span_of(line->ptr + at, line->len - at), &c);

        if (len == 0 || c == '\0') {
            break;
        }
        at += len;
        if (used < OPTION_TEXT_BYTES - 1) {
            word[used++] = c;
        }
    }
    word[used] = '\0';
    *line = span_of(line->ptr + at, line->len - at);
}

/* The next word of a line, cut if it is too long for any option. */
static void take_word(struct span *line, char word[OPTION_TEXT_BYTES])
{
    char rest[OPTION_TEXT_BYTES];

    if (line->len != 0 && line->ptr[0] == '"') {
        take_quoted(line, word);
        take_plain(line, rest); /* the quote, and the blank after it */
    } else {
        take_plain(line, word);
    }
}

static bool next_line(struct span *lines, struct passed *p)
{
    const size_t len = lines->len;
    struct span line = span_cut(lines, '\n');

    if (line.len == len) {
        return false; /* no end of a line */
    }
    take_word(&line, p->name);
    take_word(&line, p->given);
    take_word(&line, p->value);
    return true;
}

/*
 * Take one line. False: nothing changes by it. given: the settings as they were before the
 * first.
 */
static bool take_option(struct settings *s, const struct settings *given,
                        const struct passed *p, enum passed_option *result,
                        char why[OPTION_TEXT_BYTES])
{
    const enum option_id id = option_find(p->name, strlen(p->name));
    char text[OPTION_TEXT_BYTES];

    *result = PASSED_REFUSED;
    if (id == OPTION_COUNT) {
        snprintf(why, OPTION_TEXT_BYTES, "this option no longer exists");
        return true;
    }
    if (!option_is_live(id, why)) {
        return true;
    }
    const char *now = option_typed(given, id, text);
    if (strcmp(now, p->value) == 0) {
        return false;
    }
    if (strcmp(now, p->given) != 0) {
        *result = PASSED_OVERRIDDEN;
        return true;
    }
    if (option_change(s, id, p->value, why)) {
        *result = PASSED_TAKEN;
    }
    return true;
}

static void take_all(struct settings *s, const struct settings *given, struct span lines)
{
    char why[OPTION_TEXT_BYTES];
    enum passed_option result;
    struct passed p;

    while (next_line(&lines, &p)) {
        (void)take_option(s, given, &p, &result, why);
    }
}

/* Do the options go with each other? */
static bool are_sound(struct settings *s, struct option_messages *said)
{
    s->messages = said;
    bool is_sound = options_check(s) == 0;
    s->messages = NULL;
    return is_sound;
}

void options_passed_take(struct settings *s, struct span lines, option_passed_fn fn, void *arg)
{
    char why[OPTION_TEXT_BYTES];
    struct settings given = {0};
    struct option_messages said = {.is_logged = false};
    enum passed_option result;
    struct passed p;

    must_be_main();
    options_copy_live(&given, s);
    take_all(s, &given, lines);
    bool is_sound = are_sound(s, &said);
    if (is_sound) {
        take_all(s, &given, lines); /* flags that imply others, such as -M, have been at work */
    } else {
        options_copy_live(s, &given);
    }
    while (next_line(&lines, &p)) {
        struct settings tried = {0};

        why[0] = '\0';
        options_copy_live(&tried, &given);
        if (!take_option(&tried, &given, &p, &result, why)) {
            continue;
        }
        if (result == PASSED_TAKEN && !is_sound) {
            result = PASSED_REFUSED;
            snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, said.first);
        }
        fn(arg, result, p.name, p.value, why);
    }
}
