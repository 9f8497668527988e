/* SPDX-License-Identifier: BSD-3-Clause */
/* What concerns the server as a whole: `config`, `watch`, `ping`, `version`, `flush`. */
#include <string.h>

#include "ctl/answer.h"
#include "ctl/ask.h"
#include "ctl/commands.h"
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

/* What reload and rewrite say of options that have other values, or will have. */
static const struct {
    const char *word;
    const char *json;
    const char *text;
} notes[] = {
    {"OVERRIDDEN", "overridden", "the next start overrides it with"},
    {"RESTART", "restart", "waits for a restart with"},
};

/*
 * Print a line that begins with a word of the table. *group: the kind of the preceding notes,
 * which are together in one object of JSON; NULL: there were none. Returns false if the line is
 * no note.
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

/* One line of an answer to config that is not its last. */
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
            json_null(j, NULL);
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
    enum ctl_status status = ask_first(c, ask_words(c, &whole, true), &line);
    if (status != CTL_OK) {
        return status;
    }
    json_begin(&j, NULL, '{');
    while (status == CTL_OK && !span_is(line, "END") && !span_is(line, "OK")) {
        if (!put_note(c, &j, line, &group)) {
            put_config(c, &j, line);
        }
        status = ask_answer(c, &line);
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

/* An event as an object. The keys of items come URI-encoded. */
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

    while (status == CTL_OK) {
        status = ask_event(c, &line);
        if (status != CTL_OK) {
            break;
        }
        if (c->options.json) {
            put_event_json(c, line);
        } else {
            ctl_put_line(c, line);
        }
        if (fflush(c->out) != 0 || ++seen == c->options.count) {
            break;
        }
    }
    ask_disconnect(c); /* a connection that watches does nothing else */
    if (ctl_is_interrupted()) {
        c->why[0] = '\0';
        return CTL_OK;
    }
    return status;
}

/* ---- ping, version, flush ---------------------------------------------------------------- */

/*
 * The connection was closed instead of an answer: as a server with users does, which says so to
 * other commands. Leaves what was said of the close where it is not that.
 */
static enum ctl_status ask_why_closed(struct ctl *c)
{
    char why[CTL_WHY_BYTES];
    struct span line = {0};

    memcpy(why, c->why, sizeof(why));
    enum ctl_status status = ask_first(c, ask_line(c, "version"), &line);
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
    if (status == CTL_OK) {
        status = ask_first(c, ask_line(c, "mn"), &line);
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
    ctl_say(c, "the server answers, after %s\n", text);
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
            fputs(is_ours ? ", speaks as memcached " : ", memcached ", c->out);
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
        return ctl_fail(c, CTL_USAGE, "a prefix is flushed at once: no number of seconds");
    }
    if (prefix != NULL && !is_prefix(span_str(prefix))) {
        return ctl_fail(c, CTL_USAGE, "a prefix has 1 to %d bytes, and no space: %.300s",
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
