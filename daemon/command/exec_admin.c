/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of the operator: flush_all, version, verbosity, cache_memlimit, shutdown, quit,
 * and those that adjust mechanisms of memcached that this server does not have (slabs, lru,
 * lru_crawler): they are checked and acknowledged as memcached does, so that tools go on
 * working. Runs on the worker of the client, outside the read-side section of the turn.
 */
#include "daemon/command/exec_admin.h"

#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/slab_class.h"
#include "daemon/base/version.h"
#include "daemon/net/tls.h"
#include "daemon/options/settings.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/num.h"
#include "lib/engine/flush.h"
#include "proto/text_compose.h"
#include "proto/text_parse.h"

#define VERBOSITY_MAX     2u
#define MEMLIMIT_MIN_MB   8u
#define MEMLIMIT_MAX_MB   1000000000u
#define CRAWLER_SLEEP_MAX 1000000u
#define LRU_PCT_SUM_MAX   80u

/* The most words that any of these commands has after its name. */
#define WORDS_MAX 6u

struct words {
    struct span word[WORDS_MAX];
    unsigned count; /* WORDS_MAX + 1: more than that */
};

static void split(struct span args, struct words *out)
{
    struct span word;

    out->count = 0;
    while (out->count <= WORDS_MAX && text_next_key(&args, &word)) {
        if (out->count < WORDS_MAX) {
            out->word[out->count] = word;
        }
        out->count++;
    }
}

static enum turn_stop say(struct turn *t, const struct request *r, enum reply reply)
{
    if (!r->noreply) {
        turn_reply(t, reply);
    }
    return TURN_GOES_ON;
}

/* The settings, to be changed: only live fields may be. */
static struct settings *live_settings(struct turn *t)
{
    return t->w->crew->settings;
}

/* ---- memcached's commands with an effect ------------------------------------------------- */

/* How a flush ended, in the words of both protocols. */
static enum turn_stop answer_flush(struct turn *t, const struct request *r, enum reply reply,
                                   enum bin_reply bin_reply)
{
    if (r->cls == CLASS_ADMIN) {
        return say(t, r, reply);
    }
    turn_bin_reply(t, r, bin_reply, 0);
    return TURN_GOES_ON;
}

enum turn_stop exec_flush(struct turn *t, const struct request *r)
{
    msec_t at = r->exptime > 0 ? turn_deadline(t, r->exptime) : t->now;

    must_be_worker(t->w);
    must_not_be_reading();
    if (t->w->settings->no_flush_all) {
        return answer_flush(t, r, REPLY_FLUSH_OFF, BIN_REPLY_AUTH_FAILURE);
    }
    switch (engine_flush(t->e, at, t->now, t->may_wait)) {
    case OUT_OK:
        ctr_add(&t->w->counters, CTR_cmd_flush, 1);
        return answer_flush(t, r, REPLY_OK, BIN_REPLY_OK);
    case OUT_WAIT:
        return TURN_WAITS;
    default:
        return answer_flush(t, r, REPLY_NO_MEMORY, BIN_REPLY_NO_MEMORY);
    }
}

static enum turn_stop verbosity(struct turn *t, const struct request *r)
{
    uint32_t level = r->verbosity < VERBOSITY_MAX ? (uint32_t)r->verbosity : VERBOSITY_MAX;

    setting_set(live_settings(t), verbosity, level);
    return say(t, r, REPLY_OK);
}

static enum turn_stop cache_memlimit(struct turn *t, const struct request *r)
{
    uint64_t bytes;

    if (r->megabytes < MEMLIMIT_MIN_MB) {
        return say(t, r, REPLY_MEMLIMIT_SMALL);
    }
    if (r->megabytes > MEMLIMIT_MAX_MB) {
        return say(t, r, REPLY_MEMLIMIT_BYTES);
    }
    bytes = r->megabytes << 20;
    if (!engine_set_limit(t->e, bytes)) {
        return say(t, r, REPLY_MEMLIMIT_FAILED);
    }
    setting_set(live_settings(t), memory_limit_bytes, bytes);
    return say(t, r, REPLY_OK);
}

static enum turn_stop shutdown_server(struct turn *t, const struct request *r)
{
    enum crew_stop how = CREW_STOP_SOON;

    if (!t->w->settings->enable_shutdown) {
        return say(t, r, REPLY_SHUTDOWN_OFF);
    }
    if (span_is(r->args, "graceful")) {
        how = CREW_STOP_GRACEFUL;
    } else if (r->args.len > 0) {
        return say(t, r, REPLY_SHUTDOWN_MODE);
    }
    crew_request_stop(t->w->crew, how);
    return TURN_CLOSES;
}

/* ---- settings without effect here -------------------------------------------------------- */

/* Digits that count; more of them after the point are ignored. */
#define FRACTION_DIGITS_MAX 30

/* A decimal fraction, perhaps negative; false when it is not one. */
static bool parse_fraction(struct span s, double *out)
{
    bool is_negative = s.len > 0 && s.ptr[0] == '-';
    bool has_dot = false;
    unsigned digits = 0;
    double scale = 1;
    double n = 0;

    for (size_t i = is_negative ? 1 : 0; i < s.len; i++) {
        char c = s.ptr[i];

        if (c == '.' && !has_dot) {
            has_dot = true;
        } else if (c < '0' || c > '9' || (digits == FRACTION_DIGITS_MAX && !has_dot)) {
            return false;
        } else if (digits < FRACTION_DIGITS_MAX) {
            n = n * 10 + (c - '0');
            scale *= has_dot ? 10 : 1;
            digits++;
        }
    }
    *out = (is_negative ? -n : n) / scale;
    return digits > 0;
}

static bool is_class(int64_t id)
{
    return id >= 0 && id <= SLAB_CLASS_MAX;
}

static enum turn_stop slabs_reassign(struct turn *t, const struct request *r,
                                     const struct words *w)
{
    int64_t from;
    int64_t to;

    if (num_i64(w->word[1], &from) != MF_OK || num_i64(w->word[2], &to) != MF_OK) {
        return say(t, r, REPLY_BAD_FORMAT);
    }
    if (from == to) {
        return say(t, r, REPLY_SLABS_SAME_CLASS);
    }
    if (!is_class(from) || !is_class(to)) {
        return say(t, r, REPLY_SLABS_BAD_CLASS);
    }
    return say(t, r, REPLY_SLABS_NOSPARE);
}

static enum turn_stop slabs_automove(struct turn *t, const struct request *r,
                                     const struct words *w)
{
    struct settings *s = live_settings(t);
    struct span what = w->word[1];
    bool is_ratio = span_is(what, "ratio");
    uint32_t number;
    double fraction;

    if (is_ratio || span_is(what, "freeratio")) {
        if (w->count < 3 || !parse_fraction(w->word[2], &fraction)) {
            return say(t, r, REPLY_ERROR);
        }
        if (is_ratio) {
            setting_set(s, slab_automove_ratio, fraction);
        } else {
            setting_set(s, slab_automove_freeratio, fraction);
        }
        return say(t, r, REPLY_OK);
    }
    if (span_is(what, "window")) {
        if (w->count < 3 || num_u32(w->word[2], &number) != MF_OK) {
            return say(t, r, REPLY_BAD_FORMAT);
        }
        setting_set(s, slab_automove_window, number);
        return say(t, r, REPLY_OK);
    }
    if (num_u32(what, &number) != MF_OK) {
        return say(t, r, REPLY_BAD_FORMAT);
    }
    if (number > 2) {
        return say(t, r, REPLY_ERROR);
    }
    setting_set(s, slab_automove, number);
    return say(t, r, REPLY_OK);
}

static enum turn_stop slabs(struct turn *t, const struct request *r)
{
    struct words w;

    split(r->args, &w);
    if (w.count == 3 && span_is(w.word[0], "reassign")) {
        return slabs_reassign(t, r, &w);
    }
    if (w.count >= 2 && span_is(w.word[0], "automove")) {
        return slabs_automove(t, r, &w);
    }
    return say(t, r, REPLY_ERROR);
}

/* tune <hot %> <warm %> <hot factor> <warm factor> */
static enum turn_stop lru_tune(struct turn *t, const struct request *r, const struct words *w)
{
    struct settings *s = live_settings(t);
    uint32_t hot;
    uint32_t warm;
    double hot_factor;
    double warm_factor;

    if (w->count < 5 || num_u32(w->word[1], &hot) != MF_OK ||
        num_u32(w->word[2], &warm) != MF_OK || !parse_fraction(w->word[3], &hot_factor) ||
        !parse_fraction(w->word[4], &warm_factor)) {
        return say(t, r, REPLY_ERROR);
    }
    if ((uint64_t)hot + warm > LRU_PCT_SUM_MAX) {
        return say(t, r, REPLY_LRU_PERCENT);
    }
    if (hot_factor <= 0 || warm_factor <= 0) {
        return say(t, r, REPLY_LRU_FACTOR);
    }
    setting_set(s, hot_lru_pct, hot);
    setting_set(s, warm_lru_pct, warm);
    setting_set(s, hot_max_factor, hot_factor);
    setting_set(s, warm_max_factor, warm_factor);
    return say(t, r, REPLY_OK);
}

static enum turn_stop lru_mode(struct turn *t, const struct request *r, struct span mode)
{
    bool is_segmented = span_is(mode, "segmented");

    if (!is_segmented && !span_is(mode, "flat")) {
        return say(t, r, REPLY_ERROR);
    }
    setting_set(live_settings(t), lru_segmented, is_segmented);
    return say(t, r, REPLY_OK);
}

static enum turn_stop lru_temp_ttl(struct turn *t, const struct request *r, struct span word)
{
    struct settings *s = live_settings(t);
    int64_t ttl;

    if (num_i64(word, &ttl) != MF_OK) {
        return say(t, r, REPLY_ERROR);
    }
    setting_set(s, temp_lru, ttl >= 0);
    if (ttl >= 0) {
        setting_set(s, temporary_ttl, (uint32_t)(ttl < UINT32_MAX ? ttl : UINT32_MAX));
    }
    return say(t, r, REPLY_OK);
}

static enum turn_stop lru(struct turn *t, const struct request *r)
{
    struct words w;

    split(r->args, &w);
    if (w.count < 2) {
        return say(t, r, REPLY_ERROR);
    }
    if (span_is(w.word[0], "tune")) {
        return lru_tune(t, r, &w);
    }
    if (span_is(w.word[0], "mode")) {
        return lru_mode(t, r, w.word[1]);
    }
    if (span_is(w.word[0], "temp_ttl")) {
        return lru_temp_ttl(t, r, w.word[1]);
    }
    return say(t, r, REPLY_ERROR);
}

/* ---- lru_crawler: the search for expired keys -------------------------------------------- */

/* The reply to a comma list of class numbers, and whether ours is one of them. */
static enum reply check_classes(struct span list, bool *has_ours)
{
    enum reply reply = REPLY_CRAWLER_NOT_STARTED;

    *has_ours = false;

    while (list.len > 0) {
        const char *comma = memchr(list.ptr, ',', list.len);
        size_t len = comma != NULL ? (size_t)(comma - list.ptr) : list.len;
        size_t past = comma != NULL ? len + 1 : len;
        uint32_t id;

        if (len > 0) {
            if (num_u32(span_of(list.ptr, len), &id) != MF_OK || id == 0 ||
                id > SLAB_CLASS_MAX) {
                return REPLY_CRAWLER_BAD_CLASS;
            }
            *has_ours |= id == SLAB_CLASS_OURS;
            reply = REPLY_OK;
        }
        list = span_of(list.ptr + past, list.len - past);
    }
    return reply;
}

/*
 * Run one pass now: every worker drops what is due in its shard without waiting for its timer.
 * Other items need no check, because expired keys are known by their deadlines.
 */
static enum turn_stop crawl(struct turn *t, const struct request *r, struct span classes)
{
    enum reply reply = REPLY_OK;
    bool has_ours = true;

    if (!setting_get(t->w->settings, engine.active_expire)) {
        return say(t, r, REPLY_CRAWLER_OFF);
    }
    if (!span_is(classes, "all")) {
        reply = check_classes(classes, &has_ours);
    }
    if (reply == REPLY_OK && has_ours) {
        crew_poke_all(t->w->crew);
    }
    return say(t, r, reply);
}

/*
 * A line for every item. memcached walks by class or by its hash table; here both are the same
 * walk, of one class. It does not need the sampler, so unlike in memcached it also runs while
 * that is off.
 */
static enum turn_stop begin_dump(struct turn *t, const struct request *r,
                                 enum dump_format format, struct span classes)
{
    enum reply reply = REPLY_OK;
    bool has_ours = true;

    if (t->w->settings->no_dump) {
        return say(t, r, REPLY_DUMP_OFF);
    }
    if (!span_is(classes, "all") && !span_is(classes, "hash")) {
        reply = check_classes(classes, &has_ours);
    }
    if (reply != REPLY_OK) {
        return say(t, r, reply);
    }
    if (format == DUMP_META) {
        turn_reply(t, REPLY_OK);
    }
    t->client->dump =
        (struct dump){.format = (uint8_t)format, .is_empty = !has_ours, .is_active = true};
    return TURN_LASTS;
}

static enum turn_stop crawler_number(struct turn *t, const struct request *r,
                                     const struct words *w)
{
    bool is_sleep = span_is(w->word[0], "sleep");
    uint32_t n;

    if (num_u32(w->word[1], &n) != MF_OK) {
        return say(t, r, REPLY_BAD_FORMAT);
    }
    if (is_sleep && n > CRAWLER_SLEEP_MAX) {
        return say(t, r, REPLY_CRAWLER_SLEEP);
    }
    if (is_sleep) {
        setting_set(live_settings(t), lru_crawler_sleep, n);
    } else {
        setting_set(live_settings(t), lru_crawler_tocrawl, n);
    }
    return say(t, r, REPLY_OK);
}

static enum turn_stop crawler_switch(struct turn *t, const struct request *r, bool is_on)
{
    struct settings *s = live_settings(t);

    if (is_on && setting_get(s, engine.active_expire)) {
        return say(t, r, REPLY_CRAWLER_RUNS);
    }
    setting_set(s, engine.active_expire, is_on);
    if (is_on) {
        crew_poke_all(t->w->crew);
    }
    return say(t, r, REPLY_OK);
}

static enum turn_stop lru_crawler(struct turn *t, const struct request *r)
{
    struct words w;

    split(r->args, &w);
    if (w.count == 1 && span_is(w.word[0], "enable")) {
        return crawler_switch(t, r, true);
    }
    if (w.count == 1 && span_is(w.word[0], "disable")) {
        return crawler_switch(t, r, false);
    }
    if (w.count == 2 && (span_is(w.word[0], "sleep") || span_is(w.word[0], "tocrawl"))) {
        return crawler_number(t, r, &w);
    }
    if (w.count == 2 && span_is(w.word[0], "crawl")) {
        return crawl(t, r, w.word[1]);
    }
    if (w.count == 2 && span_is(w.word[0], "metadump")) {
        return begin_dump(t, r, DUMP_META, w.word[1]);
    }
    if (w.count == 2 && span_is(w.word[0], "mgdump")) {
        return begin_dump(t, r, DUMP_MG, w.word[1]);
    }
    return say(t, r, REPLY_ERROR);
}

/* ---- TLS --------------------------------------------------------------------------------- */

/* Load the certificates again; a failure is answered in memcached's words. */
static enum turn_stop refresh_certs(struct turn *t, const struct request *r)
{
    char why[TLS_WHY_BYTES];

    if (!BUILT_WITH_TLS) {
        return say(t, r, REPLY_ERROR);
    }
    if (t->w->crew->tls == NULL) {
        return say(t, r, REPLY_NO_TLS);
    }
    /* Reading files and checking keys takes milliseconds: after it others get their turn. */
    t->units = t->units > t->unit_limit ? t->units : t->unit_limit;
    if (tls_reload(t->w->crew->tls, why)) {
        return say(t, r, REPLY_OK);
    }
    log_error("tls, kept the certificates in use (%s)", why);
    turn_emit(t, why, strlen(why));
    turn_emit(t, "\r\n", 2);
    return TURN_GOES_ON;
}

/* ---- watch ------------------------------------------------------------------------------- */

/* The client watches these streams from now on, or is told why not. */
static enum turn_stop begin_watching(struct turn *t, uint32_t streams)
{
    switch (watch_add(t->w, t->client, streams, &t->client->watcher)) {
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
static enum turn_stop watch(struct turn *t, const struct request *r)
{
    struct span args = r->args;
    struct span word;
    uint32_t streams = 0;

    if (t->w->settings->no_watch) {
        return say(t, r, REPLY_WATCH_OFF);
    }
    while (text_next_key(&args, &word)) {
        uint32_t stream = watch_stream_of(word);

        if (stream == 0) {
            return say(t, r, REPLY_ERROR);
        }
        streams |= stream;
    }
    return begin_watching(t, streams != 0 ? streams : WATCH_FETCHERS);
}

enum turn_stop exec_admin(struct turn *t, const struct request *r)
{
    must_be_outside_section(t);
    switch (r->command) {
    case CMD_FLUSH_ALL:
        return exec_flush(t, r);
    case CMD_VERSION:
        t->out.len +=
            text_compose_version(turn_room(t, TEXT_REPLY_MAX), span_str(MEMCACHED_LEVEL));
        return TURN_GOES_ON;
    case CMD_VERBOSITY:
        return verbosity(t, r);
    case CMD_CACHE_MEMLIMIT:
        return cache_memlimit(t, r);
    case CMD_SHUTDOWN:
        return shutdown_server(t, r);
    case CMD_QUIT:
        return TURN_CLOSES;
    case CMD_SLABS:
        return slabs(t, r);
    case CMD_LRU:
        return lru(t, r);
    case CMD_LRU_CRAWLER:
        return lru_crawler(t, r);
    case CMD_WATCH:
        return watch(t, r);
    case CMD_REFRESH_CERTS:
        return refresh_certs(t, r);
    default:
        /* extstore: not part of this server. */
        return say(t, r, REPLY_ERROR);
    }
}
