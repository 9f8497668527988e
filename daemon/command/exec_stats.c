/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stats command of a client, on its worker. Some answers are gathered from other workers;
 * until they are complete, no input of the client is read or executed. It may close meanwhile:
 * then the answer is released when it arrives. Statistics take longer than a request, so they
 * are answered from the budget of tasks (worker.h).
 *
 * Statistics are written as text (stats.c). For the binary protocol they are converted to
 * frames here: a frame for each "STAT name value", then an empty one. memcached omits the empty
 * frame after some answers, and its clients then wait for it forever.
 */
#include "daemon/command/exec.h"

#include <string.h>

#include "daemon/base/slab_class.h"
#include "daemon/options/settings.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/worker.h"
#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "proto/bin_compose.h"
#include "proto/text_parse.h"

/* Statistics written, in bytes, that cost about as much as a unit of work. */
#define UNIT_BYTES 128u

/* Maximum long answers that a worker composes at once at a time. */
#define WHOLE_MAX 4u

/* An answer that may have to wait for other workers. */
struct stats_ask {
    struct late_answer late; /* first member */
    struct worker *worker;   /* [borrowed] */
    struct buf reply;
    struct request req;        /* its spans are no longer valid when the answer comes */
    bool is_whole;             /* binary: all lines make one statistic */
    bool is_lost;              /* there was no memory for all lines */
    struct buf whole;          /* if is_whole: the portions that have arrived */
    struct stats_gather *rest; /* [borrowed] while the client takes a portion */
};

/* ---- frames of the binary protocol ------------------------------------------------------- */

static bool begins_with(struct span s, const char *head)
{
    size_t len = strlen(head);

    return s.len >= len && memcmp(s.ptr, head, len) == 0;
}

/* Is there an answer to a binary stat with this key? Those that dump keys have none. */
static bool has_answer(struct span key)
{
    return !begins_with(key, "cachedump") && !begins_with(key, " ");
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

/* Remove the first line from *text, and return it without its line end. */
static struct span next_line(struct span *text)
{
    struct span line = span_cut(text, '\n');

    while (line.len > 0 && line.ptr[line.len - 1] == '\r') {
        line.len--;
    }
    return line;
}

/* A frame for each STAT line. */
static bool append_lines(struct buf *out, const struct request *r, struct span text)
{
    while (begins_with(text, "STAT ")) {
        struct span line = next_line(&text);
        struct span value = span_after(line, 5);
        struct span name = span_cut(&value, ' ');

        if (!append_stat(out, r, name, value)) {
            return false;
        }
    }
    return true;
}

static bool append_frames(struct buf *out, const struct request *r, bool is_dump,
                          struct span text)
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

/*
 * Replace the text of stats_command() by frames. is_portion: text has only lines, and no end.
 * False: no memory; *text is unchanged.
 */
static bool to_frames(const struct stats_ask *ask, bool is_portion, struct buf *text)
{
    const struct request *r = &ask->req;
    struct buf out = {0};

    if (!(is_portion ? append_lines(&out, r, buf_span(text))
                     : append_frames(&out, r, ask->is_whole, buf_span(text)))) {
        buf_fini(&out);
        return false;
    }
    buf_fini(text);
    *text = out;
    return true;
}

/* ---- answers ----------------------------------------------------------------------------- */

static void ask_destroy(struct stats_ask **ask)
{
    buf_fini(&(*ask)->reply);
    buf_fini(&(*ask)->whole);
    mem_free(*ask);
    *ask = NULL;
}

/* Convert the answer, or a portion of it, to the protocol of the request. */
static bool to_protocol(const struct stats_ask *ask, bool is_portion, struct buf *reply)
{
    return ask->req.cls == CLASS_ADMIN || to_frames(ask, is_portion, reply);
}

static enum turn_stop answer_no_memory(struct turn *t, const struct request *r)
{
    if (r->cls == CLASS_ADMIN) {
        turn_reply(t, REPLY_NO_MEMORY_STATS);
    } else {
        turn_bin_reply(t, r, BIN_REPLY_NO_MEMORY_STATS, 0);
    }
    return TURN_GOES_ON;
}

/* The client has taken a portion, or is gone. */
static void on_taken(struct late_answer *late)
{
    struct stats_ask *ask = (struct stats_ask *)(void *)late; /* its first member */

    stats_go_on(ask->rest, late->client != NULL);
}

/* Append a portion to the earlier ones. False: no memory. */
static bool collect(struct stats_ask *ask, struct buf *text)
{
    ask->is_lost |= !buf_append(&ask->whole, buf_begin(text), buf_len(text));
    buf_clear(text);
    return !ask->is_lost;
}

/* Put the earlier portions before the last one, unless that is an error. */
static void put_in_front(struct stats_ask *ask, struct buf *text)
{
    if (begins_with(buf_span(text), REPLY_BYTES(NO_MEMORY_STATS))) {
        return;
    }
    if (collect(ask, text)) {
        struct buf whole = ask->whole;

        ask->whole = *text;
        *text = whole;
    }
}

static void on_portion(struct stats_ask *ask, struct buf *text, struct stats_gather *rest)
{
    ask->rest = rest;
    if (ask->late.client == NULL) {
        stats_go_on(rest, false);
    } else if (ask->is_whole) {
        stats_go_on(rest, collect(ask, text));
    } else {
        bool is_composed = to_protocol(ask, true, text);

        /* The client may accept it at once: then the gather is at another worker on return. */
        struct buf portion = *text;

        *text = (struct buf){0};
        client_answer_portion(&ask->late, buf_span(&portion), is_composed, on_taken);
        buf_fini(&portion);
    }
}

/* A portion of the answer has arrived; rest NULL: the last one. */
static void on_gathered(void *arg, struct buf *text, struct stats_gather *rest)
{
    struct stats_ask *ask = arg;
    bool is_composed;

    if (rest != NULL) {
        on_portion(ask, text, rest);
        return;
    }
    if (ask->is_whole) {
        ask->worker->whole_count--;
        put_in_front(ask, text);
    }
    /* Every answer has at least an END; without memory for that one there is none. */
    is_composed =
        ask->late.client != NULL && buf_len(text) > 0 && to_protocol(ask, false, text);
    (void)client_answer(&ask->late, buf_span(text), is_composed);
    ask_destroy(&ask);
}

/* ---- cachedump --------------------------------------------------------------------------- */

/* Most bytes of its answer, as in memcached. */
#define CACHEDUMP_BYTES (2u << 20)

/* Remove the word "cachedump" from the args of stats. */
static bool is_cachedump(struct span *args)
{
    struct span rest = *args;
    struct span word;

    if (!text_next_key(&rest, &word) || !span_is(word, "cachedump")) {
        return false;
    }
    *args = rest;
    return true;
}

/* Begin to answer `cachedump <class> <items; 0: all>`. */
static enum turn_stop begin_cachedump(struct turn *t, const struct request *r, struct span args)
{
    struct span id_word = span_of(NULL, 0);
    struct span limit_word;
    uint32_t id;
    uint32_t limit;

    if (t->w->settings->no_dump) {
        return turn_answer(t, r, REPLY_CACHEDUMP_OFF);
    }
    if (!text_next_key(&args, &id_word) || !text_next_key(&args, &limit_word)) {
        return turn_answer(t, r, REPLY_CACHEDUMP_USAGE);
    }
    if (num_u32(id_word, &id) != MF_OK || num_u32(limit_word, &limit) != MF_OK) {
        return turn_answer(t, r, REPLY_BAD_FORMAT);
    }
    if (id > SLAB_CLASS_MAX) {
        return turn_answer(t, r, REPLY_CACHEDUMP_CLASS);
    }
    return dump_begin(t, r,
                      &(struct dump){
                          .items_left = limit > 0 ? limit : UINT32_MAX,
                          .bytes_left = CACHEDUMP_BYTES,
                          .format = DUMP_CACHE,
                          .is_over = id != SLAB_CLASS_OURS,
                      });
}

/* ---- the command ------------------------------------------------------------------------- */

/* Answer it, or have it answered later. */
static enum turn_stop run_stats(struct turn *t, const struct request *r)
{
    struct stats_ask *ask;
    struct span args = r->cls == CLASS_ADMIN ? r->args : r->key;
    /* The lines of that answer make one statistic together. */
    bool is_whole = r->cls != CLASS_ADMIN && begins_with(args, "detail");

    if (r->cls == CLASS_ADMIN && is_cachedump(&args)) {
        return begin_cachedump(t, r, args);
    }
    if (r->cls != CLASS_ADMIN && !has_answer(args)) {
        turn_bin_reply(t, r, BIN_REPLY_NOT_FOUND, 0);
        return TURN_GOES_ON;
    }
    if (is_whole && t->w->whole_count >= WHOLE_MAX) {
        return TURN_QUEUES;
    }
    ask = mem_zalloc(sizeof(*ask));
    if (ask == NULL) {
        return answer_no_memory(t, r);
    }
    ask->worker = t->w;
    ask->req = *r;
    ask->is_whole = is_whole;
    enum stats_result result = stats_command(t->w, args, &ask->reply, on_gathered, ask);
    if (result == STATS_LATER) {
        t->w->whole_count += is_whole;
        client_expect(t->client, &ask->late);
        return TURN_ASKED;
    }
    if (result == STATS_DONE && to_protocol(ask, false, &ask->reply)) {
        t->units += buf_len(&ask->reply) / UNIT_BYTES;
        turn_emit(t, buf_begin(&ask->reply), buf_len(&ask->reply));
    } else {
        (void)answer_no_memory(t, r);
    }
    ask_destroy(&ask);
    return TURN_GOES_ON;
}

enum turn_stop exec_stats(struct turn *t, const struct request *r)
{
    must(t->client != NULL); /* statistics are refused in datagrams */
    if (!tasks_begin_slice(t->w)) {
        return TURN_QUEUES;
    }
    enum turn_stop stop = run_stats(t, r);
    tasks_end_slice(t->w);
    return stop;
}
