/* SPDX-License-Identifier: BSD-3-Clause */
/* What concerns the server as a whole: `config`, `watch`, `ping`, `version`, `flush`. */
#include <string.h>
#include <time.h>

#include "ctl/answer.h"
#include "ctl/ask.h"
#include "ctl/commands.h"
#include "ctl/json.h"
#include "ctl/show.h"
#include "lib/base/num.h"

static double monotonic_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Send words as a line, with spaces between; the first is the command. */
static enum ctl_status ask_words(struct ctl *c, const struct words *args)
{
    char line[4096];
    size_t n = 0;

    for (unsigned i = 0; i < args->count; i++) {
        struct span word = args->word[i];

        if (word.len + n + 2 > sizeof(line)) {
            return ctl_fail(c, CTL_USAGE, "the line is too long");
        }
        if (memchr(word.ptr, '\0', word.len) != NULL) {
            return ctl_fail(c, CTL_USAGE, "a NUL byte in a word");
        }
        n += i > 0 ? (line[n] = ' ', 1) : 0;
        memcpy(line + n, word.ptr, word.len);
        n += word.len;
    }
    return ask_line(c, "%.*s", (int)n, line);
}

/* ---- config ------------------------------------------------------------------------------ */

static bool is_last(struct span line)
{
    return span_is(line, "END") || span_is(line, "OK");
}

/* One line of an answer to config that is not its last. */
static void put_config(struct ctl *c, struct json *j, struct span line)
{
    struct span name, value;
    bool is_pair = answer_pair(line, "CONFIG", &name, &value);

    if (c->options.json) {
        if (is_pair) {
            json_name_of(j, name);
            json_scalar(j, value);
        } else {
            json_name_of(j, line);
            json_null(j);
        }
    } else if (is_pair) {
        size_t columns = show_text(c->out, name, c->is_utf8);

        fprintf(c->out, "%*s", columns < 26 ? (int)(26 - columns) : 1, "");
        (void)show_text(c->out, value, c->is_utf8);
        fputc('\n', c->out);
    } else {
        (void)show_text(c->out, line, c->is_utf8);
        fputc('\n', c->out);
    }
}

int cmd_config(struct ctl *c, const struct words *args)
{
    struct words whole = *args;
    struct span line = {0};
    struct json j;
    enum ctl_status status;

    if (args->count == 2 && span_is(args->word[1], "get")) {
        whole.word[whole.count++] = span_str("*");
    }
    status = ask_words(c, &whole);
    if (status == CTL_OK) {
        status = ask_answer(c, &line);
    }
    if (status != CTL_OK) {
        return status;
    }
    json_init(&j, c->out);
    if (c->options.json) {
        json_begin(&j, '{');
    }
    while (status == CTL_OK && !is_last(line)) {
        put_config(c, &j, line);
        status = ask_answer(c, &line);
    }
    if (c->options.json) {
        json_end(&j, '{');
    } else if (status == CTL_OK && span_is(line, "OK")) {
        fputs("OK\n", c->out);
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
    json_begin(&j, '{');
    while (answer_field(&line, &name, &value)) {
        if (name.len == 0) {
            name = span_str("text");
        }
        if (span_is(name, "key") && answer_uri(key, sizeof(key), &len, value)) {
            (void)json_bytes(&j, "key", span_of(key, len));
        } else {
            json_name_of(&j, name);
            json_scalar(&j, value);
        }
    }
    json_end(&j, '{');
}

int cmd_watch(struct ctl *c, const struct words *args)
{
    struct span line = {0};
    uint64_t seen = 0;
    enum ctl_status status = ask_words(c, args);

    if (status == CTL_OK) {
        status = ask_answer(c, &line);
    }
    if (status == CTL_OK && !span_is(line, "OK")) {
        return ask_garbled(c, line);
    }
    while (status == CTL_OK) {
        status = ask_event(c, &line);
        if (status != CTL_OK) {
            break;
        }
        if (c->options.json) {
            put_event_json(c, line);
        } else {
            (void)show_text(c->out, line, c->is_utf8);
            fputc('\n', c->out);
        }
        if (fflush(c->out) != 0 || ++seen == c->options.count) {
            break;
        }
    }
    ctl_disconnect(c); /* a connection that watches does nothing else */
    if (ctl_is_interrupted()) {
        c->why[0] = '\0';
        return CTL_OK;
    }
    return status;
}

/* ---- ping, version, flush ---------------------------------------------------------------- */

int cmd_ping(struct ctl *c, const struct words *args)
{
    struct span line = {0};
    char text[UNIT_TEXT_BYTES];
    double seconds;
    enum ctl_status status = ask_connect(c);
    double began = monotonic_s();

    (void)args;
    if (status == CTL_OK) {
        status = ask_line(c, "mn");
    }
    if (status == CTL_OK) {
        status = ask_answer(c, &line);
    }
    if (status == CTL_OK && !span_is(line, "MN")) {
        return ask_garbled(c, line);
    }
    if (status != CTL_OK) {
        return status;
    }
    seconds = monotonic_s() - began;
    if (c->options.json) {
        struct json j;

        json_init(&j, c->out);
        json_begin(&j, '{');
        json_name(&j, "answers");
        json_bool(&j, true);
        json_name(&j, "seconds");
        json_double(&j, seconds);
        json_end(&j, '{');
    } else {
        duration_text(text, seconds);
        fprintf(c->out, "the server answers, after %s\n", text);
    }
    return CTL_OK;
}

int cmd_version(struct ctl *c, const struct words *args)
{
    struct stats s;
    struct span level = {0}, own = {0};
    enum ctl_status status;

    (void)args;
    stats_init(&s);
    status = ask_stats(c, "", &s);
    if (status == CTL_OK) {
        bool is_ours = stats_find(&s, "mayfly_version", &own);

        (void)stats_find(&s, "version", &level);
        if (c->options.json) {
            struct json j;

            json_init(&j, c->out);
            json_begin(&j, '{');
            json_name(&j, "mayfly");
            if (is_ours) {
                json_text(&j, own);
            } else {
                json_null(&j);
            }
            json_name(&j, "memcached");
            json_text(&j, level);
            json_end(&j, '{');
        } else {
            fputs(is_ours ? "mayfly " : "not mayfly", c->out);
            (void)show_text(c->out, own, c->is_utf8);
            fputs(is_ours ? ", speaks as memcached " : ", memcached ", c->out);
            (void)show_text(c->out, level, c->is_utf8);
            fputc('\n', c->out);
        }
    }
    stats_fini(&s);
    return status;
}

int cmd_flush(struct ctl *c, const struct words *args)
{
    struct span line = {0};
    uint32_t delay = 0;
    enum ctl_status status;

    if (args->count > 1 && num_u32(args->word[1], &delay) != MF_OK) {
        return ctl_fail(c, CTL_USAGE, "not a number of seconds: %.100s", args->word[1].ptr);
    }
    status =
        delay > 0 ? ask_line(c, "flush_all %u", (unsigned)delay) : ask_line(c, "flush_all");
    if (status == CTL_OK) {
        status = ask_answer(c, &line);
    }
    if (status == CTL_OK && !span_is(line, "OK")) {
        return ask_garbled(c, line);
    }
    if (status == CTL_OK && c->options.json) {
        struct json j;

        json_init(&j, c->out);
        json_begin(&j, '{');
        json_name(&j, "flushed");
        json_bool(&j, true);
        json_end(&j, '{');
    } else if (status == CTL_OK) {
        fputs("OK\n", c->out);
    }
    return status;
}
