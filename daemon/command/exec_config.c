/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `config`: the options of the running server, with the names and values of the command line.
 * Requires RIGHT_CONFIG: options contain paths of files, and changing them may stop the
 * service. Runs on the worker of the client, outside the section of the turn, or on main;
 * changes are made by daemon/worker/live.c. Also refresh_certs, which main executes too.
 */
#include "daemon/command/exec.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/version.h"
#include "daemon/options/conf_line.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "daemon/options/replica_address.h"
#include "daemon/worker/crew.h"
#include "lib/base/buf.h"
#include "lib/base/mem.h"

/* The word after the name of the subcommand. */
#define FIRST_ARG 1u

/* Options of one change: each of a set, which may name one twice, or those that are reset. */
#define IDS_MAX (LIVE_CHANGES_MAX > OPTION_COUNT ? LIVE_CHANGES_MAX : OPTION_COUNT)

/* A refusal: the name of an option, a colon and the reason. */
#define WHY_BYTES (OPTION_NAME_MAX + 2 + OPTION_TEXT_BYTES)

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
struct main_wait {
    struct main_ask ask; /* must be first: freed with the whole struct */
    struct late_answer late;
};

/* Certificates that cannot be loaded are reported in memcached's words. */
static void compose_certs(struct main_ask *ask)
{
    ask->is_composed = ask->is_loaded ? buf_append(&ask->reply, REPLY_BYTES(OK), REPLY_LEN(OK))
                                      : buf_printf(&ask->reply, "%s\r\n", ask->why);
}

static void on_answer(struct message *m, void *receiver)
{
    struct main_wait *wait = MF_OUTER(m, struct main_wait, ask.answer);
    const bool noreply = wait->ask.noreply;

    must_be_worker(receiver);
    if (wait->ask.wish == MAIN_LOADS_CERTS) {
        compose_certs(&wait->ask);
    }
    struct span reply = noreply ? span_of("", 0) : buf_span(&wait->ask.reply);
    (void)client_answer(&wait->late, reply, wait->ask.is_composed || noreply);
    buf_fini(&wait->ask.reply);
    mem_free(wait);
}

/* Send a request to main, which reads and writes files and creates threads. */
static enum turn_stop ask_main(struct turn *t, const struct request *r, enum main_wish wish)
{
    struct main_wait *wait = mem_zalloc(sizeof(*wait) + r->args.len);

    if (wait == NULL) {
        return turn_answer(t, r, REPLY_NO_MEMORY_STATS);
    }
    if (r->args.len > 0) {
        memcpy(wait + 1, r->args.ptr, r->args.len);
    }
    wait->ask.answer.fn = on_answer;
    wait->ask.to = &t->w->mailbox;
    wait->ask.wish = wish;
    wait->ask.args = span_of((const char *)(wait + 1), r->args.len);
    wait->ask.noreply = r->noreply && wish != MAIN_LOADS_CERTS;
    client_expect(t->client, &wait->late);
    crew_ask_main(t->w->crew, &wait->ask);
    return TURN_ASKED;
}

enum turn_stop exec_refresh_certs(struct turn *t, const struct request *r)
{
    if (!BUILT_WITH_TLS) {
        return turn_answer(t, r, REPLY_ERROR);
    }
    if (t->w->crew->tls == NULL) {
        return turn_answer(t, r, REPLY_NO_TLS);
    }
    must(t->client != NULL); /* refused in datagrams */
    return ask_main(t, r, MAIN_LOADS_CERTS);
}

/* ---- set, reset -------------------------------------------------------------------------- */

/* The changes of one set or reset. */
struct config_change {
    bool is_reset;
    unsigned count;
    enum option_id ids[IDS_MAX];
    const char *names[OPTION_COUNT]; /* [borrowed] by id, as typed; NULL: not typed by name */
    struct live_change set[LIVE_CHANGES_MAX];
    char texts[LIVE_CHANGES_MAX][OPTION_ALIAS_BYTES]; /* of values in another unit */
};

/* These write the refusal to why and return false, for a caller that returns the same. */
static bool refuse(char why[WHY_BYTES], const char *name, const char *reason)
{
    snprintf(why, WHY_BYTES, "%.*s: %s", OPTION_NAME_MAX, name, reason);
    return false;
}

static bool refuse_name(char why[WHY_BYTES], const char *name)
{
    const char *nearest = option_nearest(name, strlen(name));
    const char *instead = option_instead(name, strlen(name));
    char reason[OPTION_TEXT_BYTES];

    if (instead != NULL) {
        snprintf(reason, sizeof(reason), "is an option of Redis: %s", instead);
        return refuse(why, name, reason);
    }
    if (nearest == NULL) {
        return refuse(why, name, "is not an option");
    }
    snprintf(reason, sizeof(reason), "is not an option (did you mean \"%s\"?)", nearest);
    return refuse(why, name, reason);
}

/* By the name that was typed; by that of the table where a pattern was. */
static bool refuse_option(char why[WHY_BYTES], const struct config_change *c,
                          const struct live_refusal *refusal)
{
    char shown[OPTION_TEXT_BYTES];
    const char *typed = c->names[refusal->id];

    return refuse(why, typed != NULL ? typed : option_shown_name(refusal->id, shown),
                  refusal->why);
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

/* Split the line, without the word noreply. Returns its error, or NULL. */
static const char *split(struct config_words *w, struct span args, bool noreply)
{
    const char *why = config_words_split(w, args);

    if (why == NULL && w->count > 0 && noreply &&
        strcmp(w->word[w->count - 1], "noreply") == 0) {
        w->count--;
    }
    if (why == NULL && w->count >= 3 && strcmp(w->word[0], "set") == 0) {
        join_addresses(w);
    }
    return why;
}

/* Is it a set or a reset with all its words? */
static bool is_change(const struct config_words *w)
{
    if (w->count >= 3 && strcmp(w->word[0], "set") == 0) {
        return w->count % 2 == 1;
    }
    return w->count >= 2 && strcmp(w->word[0], "reset") == 0;
}

static bool read_set(struct config_change *c, const struct config_words *w, char why[WHY_BYTES])
{
    for (unsigned i = FIRST_ARG; i + 1 < w->count; i += 2) {
        const char *name = w->word[i];
        const enum option_id id = option_find(name, strlen(name));

        if (c->count == LIVE_CHANGES_MAX) {
            return refuse(why, name, "is too many");
        }
        if (id == OPTION_COUNT) {
            return refuse_name(why, name);
        }
        c->set[c->count].id = id;
        c->set[c->count].value = option_alias_value(name, w->word[i + 1], c->texts[c->count]);
        c->ids[c->count++] = id;
        c->names[id] = c->names[id] != NULL ? c->names[id] : name;
    }
    return true;
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

static bool read_reset(struct config_change *c, const struct config_words *w,
                       char why[WHY_BYTES])
{
    enum option_id ids[OPTION_COUNT];
    bool is_wanted[OPTION_COUNT] = {false};

    for (unsigned i = FIRST_ARG; i < w->count; i++) {
        const unsigned meant = options_meant(w->word[i], ids);

        if (meant == 0) {
            return refuse_name(why, w->word[i]);
        }
        if (strpbrk(w->word[i], "*?[") == NULL) {
            c->names[ids[0]] = w->word[i];
        }
        for (unsigned k = 0; k < meant; k++) {
            is_wanted[ids[k]] = true;
        }
    }
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if (is_wanted[id]) {
            c->ids[c->count++] = (enum option_id)id;
        }
    }
    return true;
}

/* Read the changes of w, for which is_change() is true. False: why has the error. */
static bool read_change(struct config_change *c, const struct config_words *w,
                        char why[WHY_BYTES])
{
    memset(c, 0, sizeof(*c));
    c->is_reset = strcmp(w->word[0], "reset") == 0;
    return c->is_reset ? read_reset(c, w, why) : read_set(c, w, why);
}

/* One line for each option that was set, and for each name or pattern that was reset. */
static void log_change(const struct settings *now, const struct config_change *c,
                       const struct config_words *w)
{
    char text[OPTION_TEXT_BYTES];

    for (unsigned i = FIRST_ARG; c->is_reset && i < w->count; i++) {
        log_notice("options, %s is reset to its configured value (config reset)", w->word[i]);
    }
    for (unsigned i = 0; !c->is_reset && i < c->count; i++) {
        const struct live_change *set = &c->set[i];
        const char *value = option_typed(now, set->id, text);
        const bool is_other = strcmp(value, set->value) != 0;

        log_notice("options, %s is %s now (config set%s%s)", c->names[set->id],
                   value[0] != '\0' ? value : "unset", is_other ? " " : "",
                   is_other ? set->value : "");
    }
}

/* False: nothing was changed, and `why` has the reason. */
static bool carry_out(struct crew *crew, struct span args, bool noreply, char why[WHY_BYTES])
{
    struct config_words w;
    struct config_change c;
    struct live_refusal refusal;
    const char *wrong = split(&w, args, noreply);

    if (wrong != NULL || !is_change(&w)) {
        snprintf(why, WHY_BYTES, "%s", wrong != NULL ? wrong : "is no change");
        return false;
    }
    if (!read_change(&c, &w, why)) {
        return false;
    }
    bool is_done = c.is_reset ? live_reset(crew, c.ids, c.count, &refusal)
                              : live_set(crew, c.set, c.count, &refusal);
    if (!is_done) {
        return refuse_option(why, &c, &refusal);
    }
    log_change(crew->settings, &c, &w);
    return true;
}

size_t exec_config_change(struct crew *crew, struct span args, bool noreply,
                          char out[TEXT_REPLY_MAX])
{
    char why[WHY_BYTES];
    const bool is_done = carry_out(crew, args, noreply, why);

    if (noreply) {
        return 0;
    }
    if (is_done) {
        memcpy(out, REPLY_BYTES(OK), REPLY_LEN(OK));
        return REPLY_LEN(OK);
    }
    return text_compose_refusal(out, span_str(why));
}

/* Must main carry it out? One that is wrong is refused where it came in. */
static bool is_for_main(const struct config_words *w)
{
    struct config_change c;
    char why[WHY_BYTES];

    return read_change(&c, w, why) && live_is_for_main(c.ids, c.count);
}

/* ---- the command ------------------------------------------------------------------------- */

enum turn_stop exec_config(struct turn *t, const struct request *r)
{
    struct config_words w;

    if (t->client == NULL || (t->client->rights & RIGHT_CONFIG) == 0) {
        return turn_answer(t, r, REPLY_CONFIG_DENIED);
    }
    const char *why = split(&w, r->args, r->noreply);
    if (why != NULL) {
        if (!r->noreply) {
            t->out.len += text_compose_refusal(turn_room(t, TEXT_REPLY_MAX), span_str(why));
        }
        return TURN_GOES_ON;
    }
    if (w.count >= 2 && strcmp(w.word[0], "get") == 0) {
        return config_get(t, &w);
    }
    if (is_change(&w)) {
        if (is_for_main(&w)) {
            return ask_main(t, r, CONFIG_CHANGE);
        }
        t->out.len +=
            exec_config_change(t->w->crew, r->args, r->noreply, turn_room(t, TEXT_REPLY_MAX));
        return TURN_GOES_ON;
    }
    if (w.count == 1 && strcmp(w.word[0], "reload") == 0) {
        return ask_main(t, r, CONFIG_RELOAD);
    }
    if (w.count == 1 && strcmp(w.word[0], "rewrite") == 0) {
        return ask_main(t, r, CONFIG_REWRITE);
    }
    return turn_answer(t, r, REPLY_CONFIG_USAGE);
}
