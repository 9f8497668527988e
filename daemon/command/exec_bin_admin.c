/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of the binary protocol to the operator's side: flush, version, quit, and the frames
 * of stat. Runs on the worker of the connection, outside the read-side section of the turn.
 *
 * Statistics are written once, as text (stats.c), and turned into frames here: a frame for each
 * "STAT name value", then an empty one. memcached leaves that out behind some answers, and its
 * clients wait for it in vain.
 */
#include "daemon/command/exec_bin.h"

#include <string.h>

#include "daemon/base/version.h"
#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"

static enum turn_stop flush(struct turn *t, const struct request *r)
{
    enum outcome outcome;

    if (t->w->settings->no_flush_all) {
        exec_bin_reply(t, r, BIN_REPLY_AUTH_FAILURE, 0);
        return TURN_GOES_ON;
    }
    outcome = exec_flush(t, r->exptime);
    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    exec_bin_reply(t, r, outcome == OUT_OK ? BIN_REPLY_OK : BIN_REPLY_NO_MEMORY, 0);
    return TURN_GOES_ON;
}

/* Statistic without a name, and version: a body that is only a value. */
static enum turn_stop version(struct turn *t, const struct request *r)
{
    static const char level[] = MEMCACHED_LEVEL;

    t->out.len += bin_compose_stat(turn_room(t, BIN_REPLY_MAX), r, span_of(NULL, 0),
                                   span_of(level, sizeof(level) - 1));
    return TURN_GOES_ON;
}

enum turn_stop exec_bin_admin(struct turn *t, const struct request *r)
{
    switch ((enum command)r->command) {
    case CMD_FLUSH_ALL:
        return flush(t, r);
    case CMD_VERSION:
        return version(t, r);
    default:
        break;
    }
    exec_bin_reply(t, r, BIN_REPLY_OK, 0); /* quit */
    return TURN_CLOSES;
}

/* ---- statistics -------------------------------------------------------------------------- */

static bool begins_with(struct span s, const char *head)
{
    size_t len = strlen(head);

    return s.len >= len && memcmp(s.ptr, head, len) == 0;
}

bool exec_bin_has_stat(struct span key)
{
    return !begins_with(key, "cachedump") && !begins_with(key, " ");
}

bool exec_bin_is_dump(struct span key)
{
    return begins_with(key, "detail");
}

static bool append_stat(struct buf *out, const struct request *r, struct span name,
                        struct span value)
{
    if (!buf_reserve(out, BIN_HEADER_BYTES + name.len + value.len)) {
        return false;
    }
    out->end += bin_compose_stat(buf_end(out), r, name, value);
    return true;
}

static bool append_reply(struct buf *out, const struct request *r, enum bin_reply reply)
{
    if (!buf_reserve(out, BIN_REPLY_MAX)) {
        return false;
    }
    out->end += bin_compose_reply(buf_end(out), r, reply, 0);
    return true;
}

/* The line at the front of *text, without its end, taken off it. */
static struct span next_line(struct span *text)
{
    const char *end = memchr(text->ptr, '\n', text->len);
    size_t whole = end != NULL ? (size_t)(end - text->ptr) + 1 : text->len;
    struct span line = span_of(text->ptr, whole);

    *text = span_of(text->ptr + whole, text->len - whole);
    while (line.len > 0 && (line.ptr[line.len - 1] == '\n' || line.ptr[line.len - 1] == '\r')) {
        line.len--;
    }
    return line;
}

/* A frame for each STAT line. */
static bool append_lines(struct buf *out, const struct request *r, struct span text)
{
    while (begins_with(text, "STAT ")) {
        struct span line = next_line(&text);
        const char *name = line.ptr + 5;
        size_t left = line.len - 5;
        const char *space = memchr(name, ' ', left);
        size_t name_len = space != NULL ? (size_t)(space - name) : left;
        size_t past = space != NULL ? name_len + 1 : name_len;

        if (!append_stat(out, r, span_of(name, name_len), span_of(name + past, left - past))) {
            return false;
        }
    }
    return true;
}

static bool convert(struct buf *out, const struct request *r, bool is_dump, struct span text)
{
    if (begins_with(text, REPLY_BYTES(NO_MEMORY_STATS))) {
        return append_reply(out, r, BIN_REPLY_NO_MEMORY_STATS);
    }
    if (is_dump && (begins_with(text, "PREFIX ") || begins_with(text, REPLY_BYTES(END)))) {
        if (!append_stat(out, r, span_str("detailed"), text)) {
            return false;
        }
    } else if (begins_with(text, "STAT ")) {
        if (!append_lines(out, r, text)) {
            return false;
        }
    } else if (!begins_with(text, REPLY_BYTES(END)) &&
               !begins_with(text, REPLY_BYTES(STATS_RESET)) &&
               !begins_with(text, REPLY_BYTES(OK))) {
        return append_reply(out, r, BIN_REPLY_NOT_FOUND);
    }
    return append_stat(out, r, span_of(NULL, 0), span_of(NULL, 0));
}

bool exec_bin_convert_stats(const struct request *r, bool is_dump, struct buf *text)
{
    struct buf out;

    buf_init(&out);
    if (!convert(&out, r, is_dump, buf_span(text))) {
        buf_fini(&out);
        return false;
    }
    buf_fini(text);
    *text = out;
    return true;
}
