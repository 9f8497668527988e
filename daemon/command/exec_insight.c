/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * latency, slowlog: commands about measurements of requests. Runs on the worker of the client,
 * outside the read-side section of the turn.
 */
#include "daemon/command/exec.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/worker/crew.h"
#include "daemon/worker/insight.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "proto/encode.h"

/* Default number of entries of slowlog get, as in Redis. */
#define SLOWLOG_GET_DEFAULT 10u

_Static_assert(TURN_LINE_MAX >= 320 + SLOWLOG_PEER_BYTES + ENCODE_URI_BYTES(SLOWLOG_KEY_BYTES),
               "a line has room for an entry with its key");

/* The words of a command, without a noreply at the end; how many there are. */
static unsigned cut(const struct request *r, struct span *word, unsigned max)
{
    unsigned count = span_words(r->args, word, max);

    return count - (count > 0 && r->noreply);
}

enum turn_stop exec_latency(struct turn *t, const struct request *r)
{
    struct span word[2];

    if (cut(r, word, 2) != 1 || !span_is(word[0], "reset")) {
        return turn_answer(t, r, REPLY_LATENCY_USAGE);
    }
    latency_reset(t->w->crew);
    return turn_answer(t, r, REPLY_STATS_RESET);
}

/* ---- slowlog ----------------------------------------------------------------------------- */

static void put_entry(struct turn *t, const struct slow_entry *e)
{
    const struct slow_request *r = &e->first;
    size_t kept = r->key_bytes < SLOWLOG_KEY_BYTES ? r->key_bytes : SLOWLOG_KEY_BYTES;
    size_t peer_len = strnlen(e->peer, sizeof(e->peer));
    struct span command = command_name((enum command)r->command);
    char key[ENCODE_URI_BYTES(SLOWLOG_KEY_BYTES)];
    size_t key_len = encode_uri(key, span_of(r->key, kept));

    if (command.len == 0) {
        command = span_str("-");
    }
    (void)turn_line(
        t,
        "SLOWLOG id=%" PRIu64 " time=%" PRId64 ".%03u us=%" PRIu64
        " command=%.*s key=%.*s key_bytes=%u value_bytes=%" PRIu64 " reply_bytes=%" PRIu64
        " requests=%" PRIu32 " worker=%" PRIu32 " peer=%.*s\r\n",
        e->id, e->unix_ms / 1000, (unsigned)(e->unix_ms % 1000), e->us, (int)command.len,
        command.ptr, key_len > 0 ? (int)key_len : 1, key_len > 0 ? key : "-", r->key_bytes,
        r->value_bytes, e->reply_bytes, e->requests, e->worker, (int)peer_len, e->peer);
}

/* The latest entries; n: how many at most. */
static enum turn_stop slowlog_get(struct turn *t, const struct request *r, uint32_t n)
{
    struct crew *crew = t->w->crew;
    uint32_t max = setting_get(t->w->settings, slowlog_max);
    struct slow_entry *entries;

    if (t->w->settings->no_dump) {
        return turn_answer(t, r, REPLY_SLOWLOG_OFF); /* it shows keys */
    }
    n = n < max ? n : max;
    entries = mem_alloc(n > 0 ? n * sizeof(*entries) : 1);
    if (entries == NULL) {
        return turn_answer(t, r, REPLY_NO_MEMORY_STATS);
    }
    n = slowlog_copy(&crew->slowlog, entries, n, max);
    for (uint32_t i = 0; i < n; i++) {
        put_entry(t, &entries[i]);
    }
    mem_free(entries);
    turn_reply(t, REPLY_END);
    return TURN_GOES_ON;
}

enum turn_stop exec_slowlog(struct turn *t, const struct request *r)
{
    uint32_t n = SLOWLOG_GET_DEFAULT;
    struct span word[3];
    unsigned count = cut(r, word, 3);

    if ((count == 1 || count == 2) && span_is(word[0], "get")) {
        if (count == 2 && span_is(word[1], "-1")) {
            n = UINT32_MAX; /* all, as in Redis */
        } else if (count == 2 && num_u32(word[1], &n) != MF_OK) {
            return turn_answer(t, r, REPLY_BAD_FORMAT);
        }
        return slowlog_get(t, r, n);
    }
    if (count == 1 && span_is(word[0], "len")) {
        return turn_line(
            t, "SLOWLOG %" PRIu32 "\r\n",
            slowlog_len(&t->w->crew->slowlog, setting_get(t->w->settings, slowlog_max)));
    }
    if (count == 1 && span_is(word[0], "reset")) {
        slowlog_reset(&t->w->crew->slowlog);
        return turn_answer(t, r, REPLY_OK);
    }
    return turn_answer(t, r, REPLY_SLOWLOG_USAGE);
}
