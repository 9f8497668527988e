/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of the operator: flush_all, flush_prefix, version, verbosity, cache_memlimit,
 * shutdown, upgrade, quit, watch; the commands for memcached's memory and LRU are in
 * exec_lru.c. Runs on the worker of the client, outside the turn's read-side section.
 */
#include "daemon/command/exec.h"

#include <string.h>

#include "daemon/base/version.h"
#include "daemon/options/settings.h"
#include "daemon/worker/crew.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"
#include "lib/engine/flush.h"
#include "lib/engine/prefix.h"
#include "proto/text_parse.h"

#define VERBOSITY_MAX   2u
#define MEMLIMIT_MIN_MB 8u
#define MEMLIMIT_MAX_MB 1000000000u

/* ---- flush, verbosity, limit, shutdown --------------------------------------------------- */

/* A client that waits until the snapshot's file is removed. */
struct flush_wait {
    struct client_wait wait; /* must be first */
    struct request req;      /* its spans are no longer valid when the answer comes */
};

static void on_removed(struct message *m, void *receiver)
{
    struct flush_wait *wait = MF_OUTER(m, struct flush_wait, wait.ask.answer);
    const bool is_done = wait->wait.ask.is_done;
    char reply[BIN_REPLY_MAX];
    struct span text = span_of("", 0);

    must_be_worker(receiver);
    if (wait->req.cls != CLASS_ADMIN) {
        if (!is_done || !wait->req.noreply) {
            enum bin_reply bin = is_done ? BIN_REPLY_OK : BIN_REPLY_BUSY;

            text = span_of(reply, bin_compose_reply(reply, &wait->req, bin, 0));
        }
    } else if (!wait->req.noreply) {
        text = reply_text(is_done ? REPLY_OK : REPLY_FLUSH_KEPT);
    }
    (void)client_answer(&wait->wait.late, text, true);
    mem_free(wait);
}

/* Answer a flush in the client's protocol: with `reply` or with bin_reply. */
static enum turn_stop answer_flush(struct turn *t, const struct request *r, enum reply reply,
                                   enum bin_reply bin_reply)
{
    if (r->cls == CLASS_ADMIN) {
        return turn_answer(t, r, reply);
    }
    turn_bin_reply(t, r, bin_reply, 0);
    return TURN_GOES_ON;
}

/* Flushed items must not reappear: answer when no snapshot contains them. */
static enum turn_stop forget_file(struct turn *t, const struct request *r,
                                  struct flush_wait *wait)
{
    if (wait != NULL) {
        wait->req = *r;
        enum snapshots_removal removal =
            snapshots_note_flush(&t->w->crew->snapshots, &wait->wait.ask);
        if (removal == SNAPSHOTS_LATER) {
            return TURN_ASKED;
        }
        client_wait_cancel(t->client, wait);
        if (removal == SNAPSHOTS_KEPT) {
            return answer_flush(t, r, REPLY_FLUSH_KEPT, BIN_REPLY_BUSY);
        }
    }
    return answer_flush(t, r, REPLY_OK, BIN_REPLY_OK);
}

/* Start the requested flush. */
static enum outcome begin_flush(struct turn *t, const struct request *r)
{
    struct span args = r->args;
    struct span prefix;

    if (r->command != CMD_FLUSH_PREFIX) {
        return engine_flush(t->e, turn_flush_at(t, r->exptime), t->now, t->may_wait);
    }
    must(text_next_key(&args, &prefix)); /* the parser has seen it */
    enum outcome out = engine_flush_prefix(t->e, prefix);
    return out == OUT_WAIT && !t->may_wait ? OUT_EXISTS : out;
}

enum turn_stop exec_flush(struct turn *t, const struct request *r)
{
    const bool is_prefix = r->command == CMD_FLUSH_PREFIX;
    struct flush_wait *wait = NULL;

    if (t->w->settings->no_flush_all) {
        /* memcached counts it in the text protocol all the same */
        ctr_add(&t->w->counters, CTR_cmd_flush, r->cls == CLASS_ADMIN && !is_prefix);
        return answer_flush(t, r, is_prefix ? REPLY_PREFIX_OFF : REPLY_FLUSH_OFF,
                            BIN_REPLY_AUTH_FAILURE);
    }
    if ((t->w->gate & GATE_STOPS) != 0) {
        enum reply why = guard_ask_gate(t);

        if (why == REPLY_FAILOVER) {
            return TURN_WAITS;
        }
        if (why != REPLY_LOG_VOID) { /* a flush removes the items that make the log void */
            return answer_flush(t, r, why, guard_count(t, why));
        }
    }
    if (snapshots_is_on(&t->w->crew->snapshots)) {
        wait = client_wait_begin(t->client, t->w, sizeof(*wait), on_removed);
        if (wait == NULL) {
            return answer_flush(t, r, REPLY_NO_MEMORY, BIN_REPLY_NO_MEMORY);
        }
    }
    enum outcome out = begin_flush(t, r);
    if (out == OUT_OK) {
        ctr_add(&t->w->counters, is_prefix ? CTR_cmd_flush_prefix : CTR_cmd_flush, 1);
        return forget_file(t, r, wait);
    }
    client_wait_cancel(t->client, wait);
    switch (out) {
    case OUT_WAIT:
        return TURN_WAITS;
    case OUT_EXISTS:
        return turn_answer(t, r, REPLY_PREFIX_FULL);
    default:
        return answer_flush(t, r, REPLY_NO_MEMORY, BIN_REPLY_NO_MEMORY);
    }
}

enum turn_stop exec_verbosity(struct turn *t, const struct request *r)
{
    uint32_t level = r->amount < VERBOSITY_MAX ? (uint32_t)r->amount : VERBOSITY_MAX;

    setting_set(t->w->crew->settings, verbosity, level);
    return turn_answer(t, r, REPLY_OK);
}

enum turn_stop exec_cache_memlimit(struct turn *t, const struct request *r)
{
    if (r->amount < MEMLIMIT_MIN_MB) {
        return turn_answer(t, r, REPLY_MEMLIMIT_SMALL);
    }
    if (r->amount > MEMLIMIT_MAX_MB) {
        return turn_answer(t, r, REPLY_MEMLIMIT_BYTES);
    }
    return turn_answer(
        t, r, live_set_limit(t->w->crew, r->amount << 20) ? REPLY_OK : REPLY_MEMLIMIT_FAILED);
}

enum turn_stop exec_shutdown(struct turn *t, const struct request *r)
{
    enum crew_stop how = CREW_STOP_SOON;
    enum crew_save saves = CREW_SAVE_AS_SET;
    struct span args = r->args;
    struct span word;

    if (!t->w->settings->enable_shutdown && !turn_is_control(t)) {
        return turn_answer(t, r, REPLY_SHUTDOWN_OFF);
    }
    while (text_next_key(&args, &word)) {
        if (span_is(word, "graceful") && how == CREW_STOP_SOON) {
            how = CREW_STOP_GRACEFUL;
        } else if (span_is(word, "save") && saves == CREW_SAVE_AS_SET) {
            saves = CREW_SAVE_YES;
        } else if (span_is(word, "nosave") && saves == CREW_SAVE_AS_SET) {
            saves = CREW_SAVE_NO;
        } else {
            return turn_answer(t, r, REPLY_SHUTDOWN_MODE);
        }
    }
    if (saves != CREW_SAVE_AS_SET && !t->w->settings->extensions) {
        return turn_answer(t, r, REPLY_SHUTDOWN_MODE);
    }
    if (saves == CREW_SAVE_YES && !snapshots_is_on(&t->w->crew->snapshots)) {
        return turn_answer(t, r, REPLY_SAVE_OFF);
    }
    if (saves != CREW_SAVE_AS_SET) {
        atomic_store(&t->w->crew->save_wanted, (uint32_t)saves);
    }
    crew_request_stop(t->w->crew, how);
    return TURN_CLOSES;
}

/* The result is only in the log: when it is known, the client is disconnected already. */
enum turn_stop exec_upgrade(struct turn *t, const struct request *r)
{
    const struct settings *set = t->w->settings;
    struct span args = r->args;
    struct span program = span_of("", 0);
    struct span word;

    if (!set->enable_shutdown && !turn_is_control(t)) {
        return turn_answer(t, r, REPLY_SHUTDOWN_OFF);
    }
    if (text_next_key(&args, &program) &&
        (text_next_key(&args, &word) || program.ptr[0] != '/' || program.len >= PATH_MAX)) {
        return turn_answer(t, r, REPLY_UPGRADE_USAGE);
    }
    if (program.len > 0 && !turn_is_control(t)) {
        return turn_answer(t, r, REPLY_UPGRADE_CONTROL);
    }
    if (set->memory_file == NULL || set->drop_privileges) {
        return turn_answer(t, r, REPLY_UPGRADE_OFF);
    }
    crew_request_upgrade(t->w->crew, program);
    return turn_answer(t, r, REPLY_OK);
}

/* ---- watch ------------------------------------------------------------------------------- */

/* Start watching these streams, or answer with the reason of the refusal. */
static enum turn_stop begin_watching(struct turn *t, uint32_t streams)
{
    struct client *c = t->client;

    switch (watch_add(t->w, c, streams, client_is_local(c), &c->watcher)) {
    case WATCH_ADDED:
        turn_reply(t, REPLY_OK);
        return TURN_STREAMS;
    case WATCH_TOO_MANY:
        turn_reply(t, REPLY_WATCHER_TOO_MANY);
        break;
    case WATCH_NO_MEMORY:
        turn_reply(t, REPLY_WATCHER_FAILED);
        break;
    }
    return TURN_GOES_ON;
}

/* watch [stream ...]; without a word: fetchers. */
enum turn_stop exec_watch(struct turn *t, const struct request *r)
{
    struct span args = r->args;
    struct span word;
    uint32_t streams = 0;

    if (t->w->settings->no_watch) {
        return turn_answer(t, r, REPLY_WATCH_OFF);
    }
    if (!t->is_first) {
        return turn_answer(t, r, REPLY_WATCH_LATER);
    }
    while (text_next_key(&args, &word)) {
        uint32_t stream = watch_stream_of(word);

        if (stream == 0) {
            return turn_answer(t, r, REPLY_ERROR);
        }
        streams |= stream;
    }
    return begin_watching(t, streams != 0 ? streams : WATCH_FETCHERS);
}

/* ---- what is answered at once ------------------------------------------------------------ */

enum turn_stop exec_version(struct turn *t, const struct request *r)
{
    struct span level = span_str(MEMCACHED_LEVEL);
    char *p = turn_room(t, TEXT_REPLY_MAX);

    t->out.len += request_is_binary(r) ? bin_compose_stat(p, r, span_of(NULL, 0), level)
                                       : text_compose_version(p, level);
    return TURN_GOES_ON;
}

enum turn_stop exec_quit(struct turn *t, const struct request *r)
{
    if (request_is_binary(r)) {
        turn_bin_reply(t, r, BIN_REPLY_OK, 0);
    }
    return TURN_CLOSES;
}

/* extstore: not part of this server. */
enum turn_stop exec_error(struct turn *t, const struct request *r)
{
    return turn_answer(t, r, REPLY_ERROR);
}
