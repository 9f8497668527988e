/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands about the server as a whole: `config`, `watch`, `ping`, `version`, `flush`, `raw`,
 * `bgsave`, `shutdown`, `upgrade`.
 */
#include "ctl/commands.h"

#include <stdio.h>
#include <string.h>

#include "ctl/answer.h"
#include "ctl/ask.h"
#include "ctl/json.h"
#include "ctl/show.h"
#include "lib/base/num.h"
#include "proto/encode.h"

/* ---- config ------------------------------------------------------------------------------ */

/* A value, which is quoted if mayfly.conf requires it. */
static void put_config_json(struct json *j, struct span value)
{
    char text[4096];
    size_t len;

    if (value.len >= 2 && value.len < sizeof(text) && value.ptr[0] == '"' &&
        value.ptr[value.len - 1] == '"' &&
        show_unescape(text, &len, span_of(value.ptr + 1, value.len - 2))) {
        json_text(j, NULL, span_of(text, len));
    } else {
        json_scalar(j, NULL, value);
    }
}

/* Notes of reload and rewrite about options whose value differs, or will differ. */
static const struct {
    const char *word;
    const char *json;
    const char *text;
} notes[] = {
    {"OVERRIDDEN", "overridden", "will be overridden at the next start with"},
    {"RESTART", "restart", "needs a restart for"},
};

/*
 * Print a line that begins with a word of the table. In JSON, notes of one kind form one
 * object; *group is the kind of the preceding note, NULL if there was none. Returns false if
 * the line is no note.
 */
static bool put_note(struct ctl *c, struct json *j, struct span line, const char **group)
{
    struct span name, value;

    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
        if (!answer_pair(line, notes[i].word, &name, &value)) {
            continue;
        }
        if (!c->options.json) {
            (void)show_text(c->out, name, c->is_utf8);
            fprintf(c->out, " %s ", notes[i].text);
            ctl_put_line(c, value);
            return true;
        }
        if (*group != notes[i].json) {
            if (*group != NULL) {
                json_end(j, '{');
            }
            json_begin(j, notes[i].json, '{');
            *group = notes[i].json;
        }
        json_name(j, name);
        put_config_json(j, value);
        return true;
    }
    return false;
}

/* Print a line of the answer to config, except its last. */
static void put_config(struct ctl *c, struct json *j, struct span line)
{
    struct span name, value;
    bool is_pair = answer_pair(line, "CONFIG", &name, &value);

    if (c->options.json) {
        if (is_pair) {
            json_name(j, name);
            put_config_json(j, value);
        } else {
            json_name(j, line);
            json_text(j, NULL, (struct span){0});
        }
    } else if (is_pair) {
        size_t columns = show_text(c->out, name, c->is_utf8);

        fprintf(c->out, "%*s", columns < 26 ? (int)(26 - columns) : 1, "");
        ctl_put_line(c, value);
    } else {
        ctl_put_line(c, line);
    }
}

int cmd_config(struct ctl *c, const struct ctl_words *args)
{
    struct ctl_words whole = *args;
    struct span line = {0};
    struct json j = ctl_json(c);
    const char *group = NULL;

    if (args->count == 2 && span_is(args->word[1], "get")) {
        whole.word[whole.count++] = span_str("*");
    }
    enum ctl_status status = ask_answer(c, ask_words(c, &whole, true), &line);
    if (status != CTL_OK) {
        return status;
    }
    json_begin(&j, NULL, '{');
    while (status == CTL_OK && !span_is(line, "END") && !span_is(line, "OK")) {
        if (!put_note(c, &j, line, &group)) {
            put_config(c, &j, line);
        }
        status = ask_answer(c, CTL_OK, &line);
    }
    if (group != NULL) {
        json_end(&j, '{');
    }
    json_end(&j, '{');
    if (status == CTL_OK && span_is(line, "OK")) {
        ctl_say(c, "OK\n");
    }
    return status;
}

/* ---- watch ------------------------------------------------------------------------------- */

/* Print an event as an object. The server sends keys URI-encoded. */
static void put_event_json(struct ctl *c, struct span line)
{
    struct span name, value;
    struct json j;
    char key[ANSWER_KEY_MAX];
    size_t len;

    json_init_lines(&j, c->out);
    json_begin(&j, NULL, '{');
    while (answer_field(&line, &name, &value)) {
        if (name.len == 0) {
            name = span_str("text");
        }
        if (span_is(name, "key") && answer_uri(key, sizeof(key), &len, value)) {
            (void)json_bytes(&j, "key", span_of(key, len));
        } else {
            json_pair(&j, name, value);
        }
    }
    json_end(&j, '{');
}

int cmd_watch(struct ctl *c, const struct ctl_words *args)
{
    struct span line = {0};
    uint64_t seen = 0;
    enum ctl_status status = ask_done(c, ask_words(c, args, false));

    while ((status = ask_event(c, status, &line)) == CTL_OK) {
        if (c->options.json) {
            put_event_json(c, line);
        } else {
            ctl_put_line(c, line);
        }
        if (fflush(c->out) != 0 || ++seen == c->options.count) {
            break;
        }
    }
    ask_disconnect(c); /* a watching connection serves nothing else */
    if (ctl_is_interrupted()) {
        c->why[0] = '\0';
        return CTL_OK;
    }
    return status;
}

/* ---- ping, version, flush ---------------------------------------------------------------- */

/*
 * The server closed the connection instead of answering `mn`. A server with users does that,
 * and explains it in its answer to other commands. If it does not, keep the first message.
 */
static enum ctl_status ask_why_closed(struct ctl *c)
{
    char why[CTL_WHY_BYTES];
    struct span line = {0};

    memcpy(why, c->why, sizeof(why));
    enum ctl_status status = ask_answer(c, ask_line(c, "version"), &line);
    return status == CTL_REFUSED ? status : ctl_fail(c, CTL_LINK, "%s", why);
}

int cmd_ping(struct ctl *c, const struct ctl_words *args)
{
    struct span line = {0};
    struct json j = ctl_json(c);
    char text[UNIT_TEXT_BYTES];
    enum ctl_status status = ask_connect(c);
    const bool is_connected = status == CTL_OK;
    double began = ctl_now_s();

    (void)args;
    if (is_connected) {
        status = ask_answer(c, ask_line(c, "mn"), &line);
    }
    if (status == CTL_OK && !span_is(line, "MN")) {
        return ask_garbled(c, line);
    }
    if (status == CTL_LINK && is_connected && c->options.user == NULL) {
        return ask_why_closed(c);
    }
    if (status != CTL_OK) {
        return status;
    }
    double seconds = ctl_now_s() - began;
    json_begin(&j, NULL, '{');
    json_bool(&j, "answers", true);
    json_double(&j, "seconds", seconds);
    json_end(&j, '{');
    duration_text(text, seconds);
    ctl_say(c, "the server answered after %s\n", text);
    return CTL_OK;
}

int cmd_version(struct ctl *c, const struct ctl_words *args)
{
    struct stats s = {0};
    struct json j = ctl_json(c);
    struct span level = {0}, own = {0};

    (void)args;
    enum ctl_status status = ask_stats(c, "", &s);
    if (status == CTL_OK) {
        bool is_ours = stats_find(&s, "mayfly_version", &own);

        (void)stats_find(&s, "version", &level);
        json_begin(&j, NULL, '{');
        json_text(&j, "mayfly", own); /* null: another server */
        json_text(&j, "memcached", level);
        json_end(&j, '{');
        if (!c->options.json) {
            fputs(is_ours ? "mayfly " : "not mayfly", c->out);
            (void)show_text(c->out, own, c->is_utf8);
            fputs(is_ours ? ", protocol of memcached " : ", memcached ", c->out);
            ctl_put_line(c, level);
        }
    }
    stats_fini(&s);
    return status;
}

static bool is_prefix(struct span s)
{
    return s.len != 0 && s.len <= ASK_KEY_MAX && encode_is_plain(s);
}

int cmd_flush(struct ctl *c, const struct ctl_words *args)
{
    const char *prefix = c->options.prefix;
    uint32_t delay = 0;

    if (args->count > 1 && num_u32(args->word[1], &delay) != MF_OK) {
        return ctl_fail(c, CTL_USAGE, "not a number of seconds: %.100s", args->word[1].ptr);
    }
    if (prefix != NULL && args->count > 1) {
        return ctl_fail(c, CTL_USAGE, "--prefix cannot be combined with a number of seconds");
    }
    if (prefix != NULL && !is_prefix(span_str(prefix))) {
        return ctl_fail(c, CTL_USAGE, "a prefix has 1 to %d bytes and no space: %.300s",
                        ASK_KEY_MAX, prefix);
    }
    if (!confirm(c, prefix != NULL ? "Drop all items whose keys have this prefix"
                                   : "Drop all items")) {
        return CTL_NO;
    }
    enum ctl_status status = prefix != NULL ? ask_line(c, "flush_prefix %s", prefix)
                             : delay > 0    ? ask_line(c, "flush_all %u", (unsigned)delay)
                                            : ask_line(c, "flush_all");
    status = ask_done(c, status);
    if (status == CTL_OK) {
        ctl_done(c, "flushed", "OK");
    }
    return status;
}

/* ---- raw --------------------------------------------------------------------------------- */

/* Commands that take more than one line, and the command of mayflyctl to use instead. */
static const struct {
    const char *word;
    const char *instead;
} unfit[] = {
    {"set", "set"}, {"add", "set"}, {"replace", "set"}, {"append", "set"}, {"prepend", "set"},
    {"cas", "set"}, {"ms", "set"},  {"watch", "watch"}, {"save", "save"},  {"restore", "load"},
};

/* Commands that need confirmation on a terminal, as those of mayflyctl do. */
static const struct {
    const char *word;
    const char *what;
} final[] = {
    {"flush_all", "Drop all items"},
    {"flush_prefix", "Drop all items whose keys have this prefix"},
    {"shutdown", "Stop the server"},
    {"replicaof", "Change the role"},
    {"promote", "Make a primary"},
    {"failover", "Hand the role of primary to a replica"},
};

/* Does a value follow this line ("VALUE key flags bytes" or "VA bytes")? *bytes: its length. */
static bool value_follows(struct span line, uint64_t *bytes)
{
    struct span word = span_word(&line);
    unsigned skip = span_is(word, "VALUE") ? 2 : 0;

    if (!span_is(word, "VALUE") && !span_is(word, "VA")) {
        return false;
    }
    while (skip-- > 0) {
        (void)span_word(&line);
    }
    return num_u64(span_word(&line), bytes) == MF_OK && *bytes < ASK_VALUE_MAX;
}

/* Show the lines of the answer up to "MN", the answer to the "mn" that was sent after it. */
static enum ctl_status show_all(struct ctl *c, struct json *j)
{
    char refusal[CTL_WHY_BYTES] = "";
    struct span line = {0};
    uint64_t bytes;

    for (;;) {
        enum ctl_status status = ask_answer(c, CTL_OK, &line);

        if (status == CTL_OK && span_is(line, "MN")) {
            break;
        }
        if (status == CTL_REFUSED) {
            memcpy(refusal, c->why, sizeof(refusal));
            continue;
        }
        if (status != CTL_OK) {
            return status;
        }
        ctl_put_answer(c, j, line);
        if (value_follows(line, &bytes)) {
            status = ask_value(c, (size_t)bytes + 2, &line);
            if (status != CTL_OK) {
                return status;
            }
            ctl_put_answer(c, j, span_of(line.ptr, line.len - 2));
        }
    }
    return refusal[0] != '\0' ? ctl_fail(c, CTL_REFUSED, "%s", refusal) : CTL_OK;
}

int cmd_raw(struct ctl *c, const struct ctl_words *args)
{
    struct ctl_words rest = {0};
    struct json j = ctl_json(c);

    for (size_t i = 0; i < sizeof(unfit) / sizeof(unfit[0]); i++) {
        if (span_is(args->word[1], unfit[i].word)) {
            return ctl_fail(c, CTL_USAGE, "raw sends one line, but %s needs more; use %s",
                            unfit[i].word, unfit[i].instead);
        }
    }
    for (size_t i = 0; i < sizeof(final) / sizeof(final[0]); i++) {
        if (span_is(args->word[1], final[i].word) && !confirm(c, final[i].what)) {
            return CTL_NO;
        }
    }
    for (unsigned i = 1; i < args->count; i++) {
        rest.word[rest.count++] = args->word[i];
    }
    enum ctl_status status = ask_words(c, &rest, false);
    if (status == CTL_OK) {
        status = ask_line(c, "mn");
    }
    if (status != CTL_OK) {
        return status;
    }
    json_begin(&j, NULL, '[');
    status = show_all(c, &j);
    json_end(&j, '[');
    return status;
}

/* ---- bgsave, shutdown -------------------------------------------------------------------- */

int cmd_bgsave(struct ctl *c, const struct ctl_words *args)
{
    enum ctl_status status = ask_done(c, ask_line(c, "bgsave"));

    (void)args;
    if (status == CTL_OK) {
        ctl_done(c, "saving", "OK, the server is saving its snapshot (stats persistence)");
    }
    return status;
}

int cmd_shutdown(struct ctl *c, const struct ctl_words *args)
{
    if (!confirm(c, "Stop the server")) {
        return CTL_NO;
    }
    enum ctl_status status = ask_words(c, args, false);
    if (status == CTL_OK) {
        status = ask_end(c);
    }
    if (status == CTL_OK) {
        ctl_done(c, "stopping", "OK, the server is stopping");
    }
    return status;
}

/* ---- upgrade ----------------------------------------------------------------------------- */

/* The server waits up to a minute for the new program, and then for its clients. */
#define WAIT_S  120.0
#define PAUSE_S 0.05

/*
 * Poll until the upgrade has ended; *s is then the answer to `stats persistence`. The upgrade
 * may close the connection, as that of any client: then another one is opened.
 */
static enum ctl_status wait_for_end(struct ctl *c, struct stats *s)
{
    const double began = ctl_now_s();
    struct span state = {0};

    for (;;) {
        enum ctl_status status = ask_stats(c, "persistence", s);

        if (status == CTL_OK && !stats_find(s, "upgrade_state", &state)) {
            return ctl_fail(c, CTL_REFUSED,
                            "the server does not report the state of the upgrade");
        }
        if (status == CTL_OK && !span_is(state, "asked") && !span_is(state, "under-way")) {
            return CTL_OK;
        }
        if ((status != CTL_OK && status != CTL_LINK) || ctl_is_interrupted()) {
            return status;
        }
        if (ctl_now_s() - began > WAIT_S) {
            return status != CTL_OK
                       ? status
                       : ctl_fail(c, CTL_LINK, "the upgrade has not ended after two minutes");
        }
        if (status == CTL_LINK) {
            ask_disconnect(c);
            c->why[0] = '\0';
        }
        (void)ctl_sleep(PAUSE_S);
    }
}

static enum ctl_status tell_upgrade(struct ctl *c, const struct stats *s)
{
    struct json j = ctl_json(c);
    struct span why = {0};

    (void)stats_find(s, "upgrade_reason", &why);
    if (stats_is(s, "upgrade_state", "refused")) {
        return ctl_fail(c, CTL_REFUSED, "%.*s; nothing has changed; see the server's log",
                        (int)why.len, why.ptr);
    }
    if (!stats_is(s, "upgrade_state", "done")) {
        return ctl_fail(c, CTL_NO,
                        "the server was restarted instead; see its log for the reason");
    }
    json_begin(&j, NULL, '{');
    json_bool(&j, "upgraded", true);
    json_double(&j, "items", stats_get(s, "restart_items"));
    json_end(&j, '{');
    ctl_say(c, "the program took over, with %.0f items\n", stats_get(s, "restart_items"));
    return stats_is(s, "restart_state", "warm")
               ? CTL_OK
               : ctl_fail(c, CTL_NO, "the program has not taken over the items");
}

int cmd_upgrade(struct ctl *c, const struct ctl_words *args)
{
    struct stats s = {0};
    enum ctl_status status = ask_done(c, ask_words(c, args, false));

    if (status != CTL_OK) {
        return status;
    }
    status = wait_for_end(c, &s);
    if (status == CTL_OK) {
        status = tell_upgrade(c, &s);
    }
    stats_fini(&s);
    return status;
}
