/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `config`: the options of the running server, by the names and in the words of the command
 * line. Runs on the worker of the client, outside the read-side section of the turn.
 *
 * The fields of live options are read wherever they matter, so most changes need no more than a
 * store; whoever sleeps by an old value is woken. What an option needs beside that is in
 * prepare(), before anything is changed.
 */
#include "daemon/command/exec_config.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_value.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "proto/text_compose.h"
#include "proto/text_parse.h"

#define LINE_MAX_BYTES (8 + OPTION_NAME_MAX + OPTION_TEXT_BYTES)

/* A word as a text; false when it is too long to be of use. */
static bool copy_word(struct span word, char text[OPTION_TEXT_BYTES])
{
    if (word.len >= OPTION_TEXT_BYTES || memchr(word.ptr, '\0', word.len) != NULL) {
        return false;
    }
    memcpy(text, word.ptr, word.len);
    text[word.len] = '\0';
    return true;
}

/* ---- get --------------------------------------------------------------------------------- */

/* A line for an option; its value may be longer than the output. */
static void put_option(void *arg, const char *name, const char *value)
{
    struct turn *t = arg;
    char line[LINE_MAX_BYTES];
    int len = snprintf(line, sizeof(line), "CONFIG %s%s", name, value[0] != '\0' ? " " : "");

    turn_emit(t, line, (size_t)len);
    turn_emit(t, value, strlen(value));
    turn_emit(t, "\r\n", 2);
}

static enum turn_stop config_get(struct turn *t, const struct request *r, struct span word)
{
    char pattern[OPTION_TEXT_BYTES];

    if (!copy_word(word, pattern)) {
        return turn_answer(t, r, REPLY_CONFIG_USAGE);
    }
    options_each_matching(t->w->settings, pattern, put_option, t);
    turn_reply(t, REPLY_END);
    return TURN_GOES_ON;
}

/* ---- set --------------------------------------------------------------------------------- */

bool exec_config_limit(struct turn *t, uint64_t bytes)
{
    must_be_outside_section(t);
    if (!engine_set_limit(t->e, bytes)) {
        return false;
    }
    setting_set(t->w->crew->settings, memory_limit_bytes, bytes);
    return true;
}

/* What has to be done, and may fail, before an option gets this value. */
static bool prepare(struct turn *t, enum option_id id, const char *value, char *why)
{
    struct settings wanted;

    memset(&wanted, 0, sizeof(wanted));
    if (!option_change(&wanted, id, value, why)) {
        return false;
    }
    if (id == OPTION_memory_limit_bytes) {
        snprintf(why, OPTION_TEXT_BYTES, "out of bounds or unable to adjust");
        return exec_config_limit(t, setting_get(&wanted, memory_limit_bytes));
    }
    if (id == OPTION_detail_enabled && t->w->settings->no_dump) {
        snprintf(why, OPTION_TEXT_BYTES, "not allowed: -X was given");
        return false;
    }
    return true;
}

/* Whoever sleeps by the old value looks again. */
static void tell_all(struct turn *t)
{
    crew_poke_all(t->w->crew);
    engine_options_changed(t->e);
}

static enum turn_stop refuse(struct turn *t, const struct request *r, const char *name,
                             const char *why)
{
    char reason[OPTION_NAME_MAX + OPTION_TEXT_BYTES];
    int len = snprintf(reason, sizeof(reason), "%.*s: %s", OPTION_NAME_MAX, name, why);

    if (!r->noreply) {
        t->out.len +=
            text_compose_refusal(turn_room(t, TEXT_REPLY_MAX), span_of(reason, (size_t)len));
    }
    return TURN_GOES_ON;
}

static enum turn_stop refuse_name(struct turn *t, const struct request *r, const char *name)
{
    const char *nearest = option_nearest(name, strlen(name));
    char why[OPTION_TEXT_BYTES];

    if (nearest == NULL) {
        return refuse(t, r, name, "is not an option");
    }
    snprintf(why, sizeof(why), "is not an option (did you mean \"%s\"?)", nearest);
    return refuse(t, r, name, why);
}

static enum turn_stop config_set(struct turn *t, const struct request *r, struct span name_word,
                                 struct span value_word)
{
    struct settings *s = t->w->crew->settings;
    char name[OPTION_TEXT_BYTES];
    char value[OPTION_TEXT_BYTES];
    char why[OPTION_TEXT_BYTES];
    enum option_id id;

    if (!copy_word(name_word, name) || !copy_word(value_word, value)) {
        return turn_answer(t, r, REPLY_CONFIG_USAGE);
    }
    id = option_find(name, strlen(name));
    if (id == OPTION_COUNT) {
        return refuse_name(t, r, name);
    }
    if (!option_is_live(id, why)) {
        return refuse(t, r, name, why);
    }
    if (!prepare(t, id, value, why) || !option_change(s, id, value, why)) {
        return refuse(t, r, name, why);
    }
    tell_all(t);
    log_notice("options, %s is %s now (config set)", name, value);
    return turn_answer(t, r, REPLY_OK);
}

enum turn_stop exec_config(struct turn *t, const struct request *r)
{
    struct span args = r->args;
    struct span word[4];
    unsigned count = 0;

    must_be_outside_section(t);
    while (count < 4 && text_next_key(&args, &word[count])) {
        count++;
    }
    count -= count > 0 && r->noreply && args.len == 0;
    if (count == 2 && span_is(word[0], "get")) {
        return config_get(t, r, word[1]);
    }
    if (count == 3 && span_is(word[0], "set")) {
        return config_set(t, r, word[1], word[2]);
    }
    return turn_answer(t, r, REPLY_CONFIG_USAGE);
}
