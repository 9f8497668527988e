/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "ctl/answer.h"
#include "lib/base/num.h"
#include "lib/link/password.h"

/* ---- the connection ---------------------------------------------------------------------- */

void ask_disconnect(struct ctl *c)
{
    link_close(&c->link);
}

/* The connection has failed: record the reason, and close it. */
static enum ctl_status lose(struct ctl *c, enum link_result result)
{
    enum ctl_status status = CTL_LINK;

    if (result == LINK_TOO_LONG) {
        status = CTL_GARBLED;
    } else if (result == LINK_NO_MEMORY) {
        status = CTL_SYSTEM;
    }
    (void)ctl_fail(c, status, "%s", link_why(c->link));
    ask_disconnect(c);
    return status;
}

/* Round up, so that less than a millisecond is not 0. Beyond the range it is MSEC_NEVER. */
static msec_t timeout_ms(double seconds)
{
    double ms = ceil(seconds * 1000);

    return ms < (double)INT64_MAX ? (msec_t)ms : MSEC_NEVER;
}

/*
 * The password that was typed. It is kept until the process exits, as the prompt may connect
 * again.
 */
static char typed[LINK_NAME_BYTES];

static enum ctl_status read_file(struct ctl *c, const char *path, char out[LINK_NAME_BYTES])
{
    char why[400];
    bool is_exposed;
    bool is_read =
        password_read_file(path, out, &is_exposed, ctl_is_interrupted, why, sizeof(why));

    if (is_exposed) {
        fprintf(stderr, "mayflyctl: %s is accessible by other users: chmod 600\n", path);
    }
    return is_read ? CTL_OK : ctl_fail(c, CTL_USAGE, "%s", why);
}

/* Read the password from the terminal, without echo. */
static enum ctl_status ask_terminal(struct ctl *c, char out[LINK_NAME_BYTES])
{
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    struct termios before, silent;

    if (fd < 0 || tcgetattr(fd, &before) != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return ctl_fail(c, CTL_USAGE,
                        "no terminal to prompt for the password; use --password-file");
    }
    silent = before;
    silent.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
    (void)tcsetattr(fd, TCSAFLUSH, &silent); /* discards earlier input */
    dprintf(fd, "Password of %s: ", c->options.user);
    bool is_read = password_read_line(fd, out, ctl_is_interrupted);
    (void)tcsetattr(fd, TCSAFLUSH, &before);
    dprintf(fd, "\n");
    (void)close(fd);
    return is_read ? CTL_OK : ctl_fail(c, CTL_USAGE, "no password");
}

/*
 * Log in as --user, with the password of --password-file or one that is typed. A password is
 * never part of the command line, which others on the host can read.
 */
static enum ctl_status login(struct ctl *c)
{
    const char *user = c->options.user;
    const char *file = c->options.password_file;
    struct span answer = {0};
    enum ctl_status status = CTL_OK;

    if (!link_user_is_valid(user)) {
        return ctl_fail(c, CTL_USAGE, "the user name is too long or contains a space");
    }
    if (typed[0] == '\0') {
        status = file != NULL ? read_file(c, file, typed) : ask_terminal(c, typed);
    }
    if (status != CTL_OK) {
        return status;
    }
    enum link_result result = link_login(c->link, user, typed, &answer);
    if (result != LINK_REFUSED) {
        return ask_judge(c, result, answer);
    }
    status = ask_judge(c, LINK_OK, answer);
    if (status == CTL_OK) {
        return ask_garbled(c, answer);
    }
    explicit_bzero(typed, sizeof(typed)); /* it may have been mistyped */
    return status;
}

enum ctl_status ask_connect(struct ctl *c)
{
    const struct options *o = &c->options;
    struct link_target target = {
        .path = o->host == NULL ? o->control : NULL,
        .host = o->host,
        .port = o->port,
        .uses_tls = o->tls,
        .ca = o->ca,
        .cert = o->cert,
        .key = o->key,
        .tls_name = o->tls_name,
        .timeout_ms = timeout_ms(o->timeout),
        .timeout_option = "--timeout",
        .has_terminal = true,
        .ca_option = "--ca",
        .cert_option = "--cert",
        .name_option = "--tls-name",
        .is_interrupted = ctl_is_interrupted,
    };
    char why[400];

    if (c->link != NULL) {
        return CTL_OK;
    }
    c->link = link_open(&target, why, sizeof(why));
    if (c->link == NULL) {
        return ctl_fail(c, CTL_LINK, "%s", why);
    }
    enum ctl_status status = o->user != NULL ? login(c) : CTL_OK;
    if (status != CTL_OK) {
        ask_disconnect(c);
    }
    return status;
}

enum ctl_status ask_bytes(struct ctl *c, struct span bytes)
{
    enum ctl_status status = ask_connect(c);

    if (status != CTL_OK) {
        return status;
    }
    enum link_result result = link_send(c->link, bytes);
    return result == LINK_OK ? CTL_OK : lose(c, result);
}

enum ctl_status ask_line(struct ctl *c, const char *fmt, ...)
{
    char line[8192];
    va_list args;

    va_start(args, fmt);
    int len = vsnprintf(line, sizeof(line) - 2, fmt, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof(line) - 2) {
        return ctl_fail(c, CTL_USAGE, "the line is too long");
    }
    if (memchr(line, '\n', (size_t)len) != NULL || memchr(line, '\r', (size_t)len) != NULL) {
        return ctl_fail(c, CTL_USAGE, "a word contains a line end");
    }
    memcpy(line + len, "\r\n", 2);
    return ask_bytes(c, span_of(line, (size_t)len + 2));
}

/* Would the server parse this word differently without quotes? */
static bool needs_quotes(struct span word)
{
    return word.len == 0 || memchr(word.ptr, ' ', word.len) != NULL ||
           memchr(word.ptr, '\t', word.len) != NULL || memchr(word.ptr, '"', word.len) != NULL;
}

static bool append_quoted(struct buf *line, struct span word)
{
    bool is_ok = buf_append(line, "\"", 1);

    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] == '"' || word.ptr[i] == '\\') {
            is_ok = is_ok && buf_append(line, "\\", 1);
        }
        is_ok = is_ok && buf_append(line, &word.ptr[i], 1);
    }
    return is_ok && buf_append(line, "\"", 1);
}

enum ctl_status ask_words(struct ctl *c, const struct ctl_words *args, bool quotes)
{
    struct buf line = {0};
    bool is_ok = true;
    enum ctl_status status;

    for (unsigned i = 0; i < args->count && is_ok; i++) {
        struct span word = args->word[i];

        is_ok = i == 0 || buf_append(&line, " ", 1);
        if (quotes && needs_quotes(word)) {
            is_ok = is_ok && append_quoted(&line, word);
        } else {
            is_ok = is_ok && buf_append(&line, word.ptr, word.len);
        }
    }
    if (!is_ok) {
        status = ctl_fail(c, CTL_SYSTEM, "no memory");
    } else if (memchr(buf_begin(&line), '\0', buf_len(&line)) != NULL) {
        status = ctl_fail(c, CTL_USAGE, "a word contains a NUL byte");
    } else {
        status = ask_line(c, "%.*s", (int)buf_len(&line), buf_begin(&line));
    }
    buf_fini(&line);
    return status;
}

enum ctl_status ask_judge(struct ctl *c, enum link_result result, struct span line)
{
    if (result != LINK_OK) {
        return lose(c, result);
    }
    if (span_is(line, "CLIENT_ERROR unauthenticated")) {
        return ctl_fail(c, CTL_REFUSED, "the server requires a login: --user NAME");
    }
    if (answer_is_error(line)) {
        return ctl_fail(c, CTL_REFUSED, "the server answers: %.*s",
                        line.len > 400 ? 400 : (int)line.len, line.ptr);
    }
    return CTL_OK;
}

enum ctl_status ask_answer(struct ctl *c, enum ctl_status before, struct span *line)
{
    return before == CTL_OK ? ask_judge(c, link_line(c->link, line), *line) : before;
}

enum ctl_status ask_done(struct ctl *c, enum ctl_status before)
{
    struct span line = {0};
    enum ctl_status status = ask_answer(c, before, &line);

    return status == CTL_OK && !span_is(line, "OK") ? ask_garbled(c, line) : status;
}

enum ctl_status ask_event(struct ctl *c, enum ctl_status before, struct span *line)
{
    return before == CTL_OK ? ask_judge(c, link_line_patiently(c->link, line), *line) : before;
}

enum ctl_status ask_value(struct ctl *c, size_t n, struct span *value)
{
    if (n > ASK_VALUE_MAX) {
        ask_disconnect(c);
        return ctl_fail(c, CTL_GARBLED, "the server announces a value of %zu bytes", n);
    }
    enum link_result result = link_bytes(c->link, n, value);
    return result == LINK_OK ? CTL_OK : lose(c, result);
}

enum ctl_status ask_end(struct ctl *c)
{
    struct span line = {0};
    enum link_result result = link_line(c->link, &line);

    if (result == LINK_CLOSED) {
        ask_disconnect(c);
        return CTL_OK;
    }
    return result == LINK_OK && !answer_is_error(line) ? ask_garbled(c, line)
                                                       : ask_judge(c, result, line);
}

enum ctl_status ask_garbled(struct ctl *c, struct span line)
{
    enum ctl_status status =
        ctl_fail(c, CTL_GARBLED, "the answer does not follow the protocol: %.*s",
                 line.len > 200 ? 200 : (int)line.len, line.ptr);

    ask_disconnect(c);
    return status;
}

/* ---- statistics -------------------------------------------------------------------------- */

void stats_fini(struct stats *s)
{
    buf_fini(&s->text);
    buf_fini(&s->rows);
    s->count = 0;
}

bool stats_take(struct stats *s, struct span line)
{
    struct span name, value;
    struct stats_row row;

    if (!answer_pair(line, "STAT", &name, &value) || s->count == STATS_ROWS_MAX ||
        buf_len(&s->text) + line.len > STATS_BYTES_MAX) {
        return false;
    }
    row = (struct stats_row){(uint32_t)buf_len(&s->text), (uint32_t)name.len,
                             (uint32_t)value.len};
    if (!buf_append(&s->text, name.ptr, name.len) ||
        !buf_append(&s->text, value.ptr, value.len) ||
        !buf_append(&s->rows, &row, sizeof(row))) {
        return false;
    }
    s->count++;
    return true;
}

static const struct stats_row *row_at(const struct stats *s, size_t i)
{
    must(i < s->count);
    return (const struct stats_row *)(const void *)buf_begin(&s->rows) + i;
}

struct span stats_name(const struct stats *s, size_t i)
{
    return span_of(buf_begin(&s->text) + row_at(s, i)->at, row_at(s, i)->name_len);
}

struct span stats_value(const struct stats *s, size_t i)
{
    const struct stats_row *row = row_at(s, i);

    return span_of(buf_begin(&s->text) + row->at + row->name_len, row->value_len);
}

bool stats_find(const struct stats *s, const char *name, struct span *value)
{
    for (size_t i = 0; i < s->count; i++) {
        if (span_is(stats_name(s, i), name)) {
            *value = stats_value(s, i);
            return true;
        }
    }
    return false;
}

bool stats_number(const struct stats *s, const char *name, double *value)
{
    struct span text;

    return stats_find(s, name, &text) && num_fraction(text, value);
}

bool stats_is(const struct stats *s, const char *name, const char *value)
{
    struct span text;

    return stats_find(s, name, &text) && span_is(text, value);
}

double stats_get(const struct stats *s, const char *name)
{
    double value = 0;

    (void)stats_number(s, name, &value);
    return value;
}

enum ctl_status ask_stats(struct ctl *c, const char *section, struct stats *s)
{
    struct span line = {0};
    enum ctl_status status = ask_line(c, "stats%s%s", section[0] != '\0' ? " " : "", section);

    stats_fini(s);
    while ((status = ask_answer(c, status, &line)) == CTL_OK) {
        if (answer_is_end(line)) {
            return CTL_OK;
        }
        if (!stats_take(s, line)) {
            return ask_garbled(c, line);
        }
    }
    return status;
}

enum ctl_status ask_stats_if_any(struct ctl *c, enum ctl_status before, const char *section,
                                 struct stats *s)
{
    enum ctl_status status = before == CTL_OK ? ask_stats(c, section, s) : before;

    if (before != CTL_OK || status != CTL_REFUSED) {
        return status;
    }
    stats_fini(s);
    c->why[0] = '\0';
    return CTL_OK;
}
