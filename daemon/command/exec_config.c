/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `config`: the options of the running server, by the names and in the words of the command
 * line. Only for who was given RIGHT_CONFIG: options say where files are, and changing them may
 * stop the service. Runs on the worker of the client, outside the section of the turn, or on
 * main; what a change needs is in daemon/worker/live.c.
 */
#include "daemon/command/exec_config.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/command/config_words.h"
#include "daemon/options/conf_line.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "daemon/options/replica_address.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "proto/text_compose.h"
#include "proto/text_parse.h"

/* Patterns and names of one command: as many as there may be words. */
#define FIRST_ARG 1u

/* ---- answers ----------------------------------------------------------------------------- */

static enum turn_stop refuse_text(struct turn *t, const struct request *r, const char *why)
{
    if (!r->noreply) {
        t->out.len += text_compose_refusal(turn_room(t, TEXT_REPLY_MAX), span_str(why));
    }
    return TURN_GOES_ON;
}

static enum turn_stop refuse(struct turn *t, const struct request *r, const char *name,
                             const char *why)
{
    char reason[OPTION_NAME_MAX + 2 + OPTION_TEXT_BYTES];

    snprintf(reason, sizeof(reason), "%.*s: %s", OPTION_NAME_MAX, name, why);
    return refuse_text(t, r, reason);
}

static enum turn_stop refuse_name(struct turn *t, const struct request *r, const char *name)
{
    const char *nearest = option_nearest(name, strlen(name));
    const char *instead = option_instead(name, strlen(name));
    char why[OPTION_TEXT_BYTES];

    if (instead != NULL) {
        snprintf(why, sizeof(why), "is an option of Redis: %s", instead);
        return refuse(t, r, name, why);
    }
    if (nearest == NULL) {
        return refuse(t, r, name, "is not an option");
    }
    snprintf(why, sizeof(why), "is not an option (did you mean \"%s\"?)", nearest);
    return refuse(t, r, name, why);
}

/* ---- get --------------------------------------------------------------------------------- */

static void put_quoted(struct turn *t, const char *value)
{
    char text[CONF_CHAR_MAX];

    turn_emit(t, "\"", 1);
    for (; *value != '\0'; value++) {
        turn_emit(t, text, conf_char_quote(*value, text));
    }
    turn_emit(t, "\"", 1);
}

/* A line for an option; its value may be longer than the output. */
static void put_option(void *arg, const char *name, const char *value)
{
    struct turn *t = arg;

    turn_emit(t, "CONFIG ", 7);
    turn_emit(t, name, strlen(name));
    if (value[0] != '\0') {
        turn_emit(t, " ", 1);
    }
    if (conf_value_needs_quotes(value)) {
        put_quoted(t, value);
    } else {
        turn_emit(t, value, strlen(value));
    }
    turn_emit(t, "\r\n", 2);
}

static enum turn_stop config_get(struct turn *t, const struct config_words *w)
{
    options_each_matching(t->w->settings, &w->word[FIRST_ARG], w->count - FIRST_ARG, put_option,
                          t);
    turn_reply(t, REPLY_END);
    return TURN_GOES_ON;
}

/* ---- what main is asked for -------------------------------------------------------------- */

/* A client that waits for main. */
struct config_wait {
    struct config_ask ask; /* stands first: it is released as a whole */
    struct late_answer late;
    bool noreply;
};

static void on_config(struct message *m, void *receiver)
{
    struct config_wait *wait =
        (struct config_wait *)(void *)((char *)m - offsetof(struct config_wait, ask.answer));
    struct span reply = wait->noreply ? span_of("", 0) : buf_span(&wait->ask.reply);

    must_be_worker(receiver);
    (void)client_answer(&wait->late, reply, wait->ask.is_composed || wait->noreply);
    buf_fini(&wait->ask.reply);
    mem_free(wait);
}

/* Copies of the changes, behind the wait; their texts behind them. */
static void copy_changes(struct config_wait *wait, const struct live_change *changes,
                         unsigned count)
{
    struct live_change *to = (struct live_change *)(void *)(wait + 1);
    char *text = (char *)(to + count);

    wait->ask.changes = to;
    wait->ask.change_count = count;
    for (unsigned i = 0; i < count; i++) {
        to[i] = changes[i];
        if (changes[i].value != NULL) {
            const size_t len = strlen(changes[i].value) + 1;

            to[i].value = memcpy(text, changes[i].value, len);
            text += len;
        }
    }
}

static size_t bytes_of(const struct live_change *changes, unsigned count)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        bytes += sizeof(changes[i]);
        bytes += changes[i].value != NULL ? strlen(changes[i].value) + 1 : 0;
    }
    return bytes;
}

/* Not here, because that reads or writes files, or makes threads. */
static enum turn_stop ask_main(struct turn *t, const struct request *r, enum config_wish wish,
                               const struct live_change *changes, unsigned count)
{
    struct config_wait *wait = mem_zalloc(sizeof(*wait) + bytes_of(changes, count));

    if (wait == NULL) {
        return turn_answer(t, r, REPLY_NO_MEMORY_STATS);
    }
    wait->ask.answer.fn = on_config;
    wait->ask.to = &t->w->mailbox;
    wait->ask.wish = wish;
    wait->noreply = r->noreply;
    copy_changes(wait, changes, count);
    buf_init(&wait->ask.reply);
    client_expect(t->client, &wait->late);
    crew_ask_for_config(t->w->crew, &wait->ask);
    return TURN_ASKED;
}

/* ---- set, reset -------------------------------------------------------------------------- */

bool exec_config_limit(struct turn *t, uint64_t bytes)
{
    must_be_outside_section(t);
    return live_set_limit(t->w->crew, bytes);
}

/* An address may be typed as two words, as in Redis: they are one value. */
static void join_addresses(struct config_words *w)
{
    for (unsigned i = FIRST_ARG; i + 2 < w->count; i += 2) {
        if (option_is_address(option_find(w->word[i], strlen(w->word[i]))) &&
            replica_address_has_two_words(w->word[i + 1], w->word[i + 2])) {
            config_words_join(w, i + 1);
        }
    }
}

static bool has_one_for_main(const struct live_change *changes, unsigned count)
{
    enum option_id ids[LIVE_CHANGES_MAX];

    for (unsigned i = 0; i < count; i++) {
        ids[i] = changes[i].id;
    }
    return live_is_for_main(ids, count);
}

static enum turn_stop config_set(struct turn *t, const struct request *r,
                                 const struct config_words *w)
{
    struct live_change changes[LIVE_CHANGES_MAX];
    struct live_refusal refusal;
    char texts[LIVE_CHANGES_MAX][OPTION_ALIAS_BYTES];
    char text[OPTION_TEXT_BYTES];
    unsigned count = 0;

    for (unsigned i = FIRST_ARG; i + 1 < w->count; i += 2) {
        const char *name = w->word[i];

        if (count == LIVE_CHANGES_MAX) {
            return refuse(t, r, name, "is too many");
        }
        changes[count].id = option_find(name, strlen(name));
        changes[count].value = option_alias_value(name, w->word[i + 1], texts[count]);
        if (changes[count].id == OPTION_COUNT) {
            return refuse_name(t, r, name);
        }
        count++;
    }
    if (has_one_for_main(changes, count)) {
        return ask_main(t, r, CONFIG_SET, changes, count);
    }
    if (!live_set(t->w->crew, changes, count, &refusal)) {
        for (unsigned i = 0; i < count; i++) {
            if (changes[i].id == refusal.id) {
                return refuse(t, r, w->word[FIRST_ARG + 2 * i], refusal.why);
            }
        }
    }
    for (unsigned i = 0; i < count; i++) {
        const char *now = option_typed(t->w->settings, changes[i].id, text);
        const bool is_other = strcmp(now, changes[i].value) != 0;

        log_notice("options, %s is %s now (config set%s%s)", w->word[FIRST_ARG + 2 * i],
                   now[0] != '\0' ? now : "unset", is_other ? " " : "",
                   is_other ? changes[i].value : "");
    }
    return turn_answer(t, r, REPLY_OK);
}

/* The options that a name or pattern of reset means; none: it means nothing. */
static unsigned options_meant(const char *name, enum option_id ids[OPTION_COUNT])
{
    if (strpbrk(name, "*?[") != NULL) {
        return options_matching(name, true, ids);
    }
    ids[0] = option_find(name, strlen(name));
    return ids[0] != OPTION_COUNT;
}

static enum turn_stop reset_on_main(struct turn *t, const struct request *r,
                                    const enum option_id *ids, unsigned count)
{
    struct live_change changes[OPTION_COUNT];

    for (unsigned i = 0; i < count; i++) {
        changes[i] = (struct live_change){.id = ids[i], .value = NULL};
    }
    return ask_main(t, r, CONFIG_RESET, changes, count);
}

static enum turn_stop config_reset(struct turn *t, const struct request *r,
                                   const struct config_words *w)
{
    enum option_id ids[OPTION_COUNT];
    bool is_wanted[OPTION_COUNT] = {false};
    struct live_refusal refusal;
    unsigned count = 0;

    for (unsigned i = FIRST_ARG; i < w->count; i++) {
        const unsigned meant = options_meant(w->word[i], ids);

        if (meant == 0) {
            return refuse_name(t, r, w->word[i]);
        }
        for (unsigned k = 0; k < meant; k++) {
            is_wanted[ids[k]] = true;
        }
    }
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if (is_wanted[id]) {
            ids[count++] = (enum option_id)id;
        }
    }
    if (live_is_for_main(ids, count)) {
        return reset_on_main(t, r, ids, count);
    }
    if (!live_reset(t->w->crew, ids, count, &refusal)) {
        return refuse(t, r, option_name(refusal.id), refusal.why);
    }
    for (unsigned i = FIRST_ARG; i < w->count; i++) {
        log_notice("options, %s is as it was given (config reset)", w->word[i]);
    }
    return turn_answer(t, r, REPLY_OK);
}

/* ---- the command ------------------------------------------------------------------------- */

static bool may_config(const struct turn *t)
{
    return t->client != NULL && (t->client->rights & RIGHT_CONFIG) != 0;
}

enum turn_stop exec_config(struct turn *t, const struct request *r)
{
    struct config_words w;
    const char *why;

    must_be_outside_section(t);
    if (!may_config(t)) {
        return turn_answer(t, r, REPLY_CONFIG_DENIED);
    }
    why = config_words_split(&w, r->args);
    if (why != NULL) {
        return refuse_text(t, r, why);
    }
    w.count -= w.count > 0 && r->noreply && strcmp(w.word[w.count - 1], "noreply") == 0;
    if (w.count >= 2 && strcmp(w.word[0], "get") == 0) {
        return config_get(t, &w);
    }
    if (w.count >= 3 && strcmp(w.word[0], "set") == 0) {
        join_addresses(&w);
        if (w.count % 2 == 1) {
            return config_set(t, r, &w);
        }
    }
    if (w.count >= 2 && strcmp(w.word[0], "reset") == 0) {
        return config_reset(t, r, &w);
    }
    if (w.count == 1 && strcmp(w.word[0], "reload") == 0) {
        return ask_main(t, r, CONFIG_RELOAD, NULL, 0);
    }
    if (w.count == 1 && strcmp(w.word[0], "rewrite") == 0) {
        return ask_main(t, r, CONFIG_REWRITE, NULL, 0);
    }
    return turn_answer(t, r, REPLY_CONFIG_USAGE);
}
