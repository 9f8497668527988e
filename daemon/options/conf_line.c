/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conf_line.h.
 */
#include "daemon/options/conf_line.h"

#include <string.h>

#include "lib/base/num.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

static struct span skip_blanks(struct span s)
{
    while (s.len > 0 && is_blank(s.ptr[0])) {
        s = span_of(s.ptr + 1, s.len - 1);
    }
    return s;
}

static struct span trim_end(struct span s)
{
    while (s.len > 0 && is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}

size_t conf_char_take(struct span s, char *out)
{
    if (s.ptr[0] != '\\') {
        *out = s.ptr[0];
        return 1;
    }
    if (s.len >= 2 && (s.ptr[1] == '"' || s.ptr[1] == '\\')) {
        *out = s.ptr[1];
        return 2;
    }
    int byte = s.len >= 4 && s.ptr[1] == 'x' ? num_hex_byte(s.ptr + 2) : -1;
    *out = (char)byte;
    return byte >= 0 ? 4 : 0;
}

/* The rest of a line after its opening quote. */
static const char *take_quoted(struct span s, struct conf_line *line)
{
    size_t at = 0;

    line->is_quoted = true;
    while (at < s.len && s.ptr[at] != '"') {
        char c;
        const size_t len = conf_char_take(span_of(s.ptr + at, s.len - at), &c);
        if (len == 0 || c == '\0') {
            return "after a backslash in quotes stands \", \\ or xHH";
        }
        at += len;
    }
    line->raw = span_of(s.ptr, at);
    if (at == s.len) {
        return "the quote is not closed";
    }
    s = skip_blanks(span_of(s.ptr + at + 1, s.len - at - 1));
    return s.len == 0 || s.ptr[0] == '#' ? NULL : "something stands after the closing quote";
}

static const char *take_plain(struct span s, struct conf_line *line)
{
    for (size_t at = 0; at < s.len; at++) {
        if (s.ptr[at] == '#' && (at == 0 || is_blank(s.ptr[at - 1]))) {
            s.len = at;
        }
    }
    line->raw = trim_end(s);
    return s.len > 0 && s.ptr[0] == '\'' ? "only double quotes enclose a value" : NULL;
}

/* Read the line without its end. Returns what is wrong with it, or NULL. */
static const char *take_setting(struct span s, struct conf_line *line)
{
    for (size_t i = 0; i < s.len; i++) {
        if (is_control(s.ptr[i]) && s.ptr[i] != '\t') {
            return s.ptr[i] == '\0' ? "a NUL byte: this is not a text file"
                                    : "a control character";
        }
    }
    s = skip_blanks(s);
    if (s.len == 0 || s.ptr[0] == '#') {
        return NULL;
    }
    const char *equals = memchr(s.ptr, '=', s.len);
    const struct span name =
        trim_end(span_of(s.ptr, equals != NULL ? (size_t)(equals - s.ptr) : 0));
    if (name.len == 0 || memchr(name.ptr, ' ', name.len) != NULL ||
        memchr(name.ptr, '\t', name.len) != NULL) {
        return "a line has the form name = value";
    }
    line->name = name;
    s = skip_blanks(span_of(equals + 1, s.len - (size_t)(equals + 1 - s.ptr)));
    line->raw = span_of(s.ptr, 0);
    return s.len > 0 && s.ptr[0] == '"' ? take_quoted(span_of(s.ptr + 1, s.len - 1), line)
                                        : take_plain(s, line);
}

bool conf_line_next(struct span *text, struct conf_line *line)
{
    static const char mark[] = "\xef\xbb\xbf"; /* that editors put before UTF-8 */
    const unsigned number = line->number + 1;

    memset(line, 0, sizeof(*line));
    line->number = number;
    if (text->len == 0) {
        return false;
    }
    struct span s = span_cut(text, '\n');
    line->whole = span_of(s.ptr, (size_t)(text->ptr - s.ptr));
    if (number == 1 && s.len >= 3 && memcmp(s.ptr, mark, 3) == 0) {
        s = span_of(s.ptr + 3, s.len - 3);
    }
    s.len -= s.len > 0 && s.ptr[s.len - 1] == '\r';
    line->why = take_setting(s, line);
    return true;
}

void conf_line_value(const struct conf_line *line, char *out)
{
    struct span rest = line->raw;

    while (rest.len > 0) {
        size_t len = 1;

        if (line->is_quoted) {
            len = conf_char_take(rest, out);
        } else {
            *out = rest.ptr[0];
        }
        out++;
        rest = span_of(rest.ptr + len, rest.len - len);
    }
    *out = '\0';
}

/* A blank in front of a # would make a comment; blanks at the ends would be lost. */
bool conf_value_needs_quotes(const char *value)
{
    const size_t len = strlen(value);
    bool is_special = len > 0 && (is_blank(value[0]) || is_blank(value[len - 1]) ||
                                  strchr("\"'#", value[0]) != NULL);

    for (size_t i = 0; i < len; i++) {
        is_special |= is_control(value[i]) || (is_blank(value[i]) && value[i + 1] == '#');
    }
    return is_special;
}

size_t conf_char_quote(char c, char out[CONF_CHAR_MAX])
{
    return (size_t)(is_control(c) ? snprintf(out, CONF_CHAR_MAX, "\\x%02x", (unsigned char)c)
                                  : snprintf(out, CONF_CHAR_MAX, "%s%c",
                                             c == '"' || c == '\\' ? "\\" : "", c));
}

size_t conf_value_print(FILE *out, const char *value)
{
    char text[CONF_CHAR_MAX];
    size_t len = 2;

    if (!conf_value_needs_quotes(value)) {
        fputs(value, out);
        return strlen(value);
    }
    fputc('"', out);
    for (const char *p = value; *p != '\0'; p++) {
        len += conf_char_quote(*p, text);
        fputs(text, out);
    }
    fputc('"', out);
    return len;
}

bool conf_value_quote(struct buf *out, const char *value)
{
    char text[CONF_CHAR_MAX];
    bool is_done = buf_append(out, "\"", 1);

    for (const char *p = value; is_done && *p != '\0'; p++) {
        is_done = buf_append(out, text, conf_char_quote(*p, text));
    }
    return is_done && buf_append(out, "\"", 1);
}

bool conf_value_append(struct buf *out, const char *value)
{
    if (conf_value_needs_quotes(value)) {
        return conf_value_quote(out, value);
    }
    return value[0] == '\0' || buf_append(out, value, strlen(value));
}

/* ---- a file changed as a text ------------------------------------------------------------ */

static bool append_span(struct buf *out, struct span s)
{
    return s.len == 0 || buf_append(out, s.ptr, s.len);
}

static bool append_text(struct buf *out, const char *text)
{
    return append_span(out, span_str(text));
}

static enum conf_edit result(bool is_done)
{
    return is_done ? CONF_EDITED : CONF_EDIT_NO_MEMORY;
}

/* The text before and after a value, quotes included. */
static void split_line(struct span text, const struct conf_line *line, struct span *before,
                       struct span *after)
{
    const char *begin = line->raw.ptr - (line->is_quoted ? 1 : 0);
    const char *end = line->raw.ptr + line->raw.len + (line->is_quoted ? 1 : 0);

    *before = span_of(text.ptr, (size_t)(begin - text.ptr));
    *after = span_of(end, (size_t)(text.ptr + text.len - end));
}

enum conf_edit conf_edit_value(struct buf *out, struct span text, unsigned number,
                               const char *value)
{
    struct conf_line line = {0};
    struct span rest = text;
    struct span before;
    struct span after;

    while (line.number < number) {
        if (!conf_line_next(&rest, &line)) {
            return CONF_EDIT_NO_LINE;
        }
    }
    if (line.why != NULL || line.name.len == 0) {
        return CONF_EDIT_NO_LINE;
    }
    split_line(text, &line, &before, &after);
    const bool is_bare = line.raw.len == 0 && !line.is_quoted;
    const bool has_equals = is_bare && before.ptr[before.len - 1] == '=';
    const bool has_comment = is_bare && after.len > 0 && after.ptr[0] == '#';
    return result(
        append_span(out, before) && append_text(out, has_equals ? " " : "") &&
        (line.is_quoted ? conf_value_quote(out, value) : conf_value_append(out, value)) &&
        append_text(out, has_comment ? " " : "") && append_span(out, after));
}

/* Is this the line of the mark? */
static bool is_mark(const struct conf_line *line)
{
    struct span s = line->whole;

    while (s.len > 0 && strchr(" \t\r\n", s.ptr[s.len - 1]) != NULL) {
        s.len--;
    }
    return span_is(s, CONF_EDIT_MARK);
}

/* How lines end here: as the first one does. */
static const char *line_end(struct span text)
{
    const char *feed = text.len > 0 ? memchr(text.ptr, '\n', text.len) : NULL;

    return feed != NULL && feed > text.ptr && feed[-1] == '\r' ? "\r\n" : "\n";
}

/* Where the lines below the mark end; 0: there is no mark. */
static size_t end_of_block(struct span text)
{
    struct conf_line line = {0};
    struct span rest = text;
    bool is_below = false;
    size_t at = 0;

    while (conf_line_next(&rest, &line)) {
        if (is_below && (line.why != NULL || line.name.len == 0)) {
            break;
        }
        is_below |= is_mark(&line);
        at = is_below ? (size_t)(rest.ptr - text.ptr) : 0;
    }
    return at;
}

enum conf_edit conf_edit_add(struct buf *out, struct span text, const char *name,
                             const char *value)
{
    const char *end = line_end(text);
    const size_t block = end_of_block(text);
    const size_t at = block > 0 ? block : text.len;
    const bool is_ended = at == 0 || text.ptr[at - 1] == '\n';
    bool is_done =
        append_span(out, span_of(text.ptr, at)) && append_text(out, is_ended ? "" : end);

    if (block == 0) {
        is_done = is_done && append_text(out, at > 0 ? end : "") &&
                  append_text(out, CONF_EDIT_MARK) && append_text(out, end);
    }
    return result(is_done && append_text(out, name) && append_text(out, " = ") &&
                  conf_value_append(out, value) && append_text(out, end) &&
                  append_span(out, span_of(text.ptr + at, text.len - at)));
}
