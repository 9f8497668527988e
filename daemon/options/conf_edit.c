/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conf_edit.h.
 */
#include "daemon/options/conf_edit.h"

#include <string.h>

#include "daemon/options/conf_line.h"

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

/* What stands before and behind a value, quotes included. */
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
