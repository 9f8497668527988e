/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slabs, lru and lru_crawler. Most of them adjust mechanisms of memcached that this server does
 * not have: they are checked and acknowledged as in memcached, so that tools continue to work.
 * The crawler is the search for expired keys, and makes dumps. Runs on the worker of the
 * client, outside the read-side section of the turn.
 */
#include "daemon/command/exec.h"

#include "daemon/base/log.h"
#include "daemon/base/slab_class.h"
#include "daemon/options/settings.h"
#include "daemon/worker/crew.h"
#include "lib/base/num.h"

#define CRAWLER_SLEEP_MAX 1000000u
#define LRU_PCT_SUM_MAX   80u
#define MOVE_WINDOW_MIN   3u
#define MOVE_WINDOW_MAX   1800u
#define HOLD_MAX_S        86400u

/* The most words that any of these commands has after its name. */
#define WORDS_MAX 6u

struct words {
    struct span word[WORDS_MAX];
    unsigned count;
};

static void split_words(struct span args, struct words *out)
{
    out->count = span_words(args, out->word, WORDS_MAX);
}

/* The settings, to be changed: only live fields may be. */
static struct settings *live_settings(struct turn *t)
{
    return t->w->crew->settings;
}

/* ---- settings without effect here -------------------------------------------------------- */

static bool is_class(int64_t id)
{
    return id >= 0 && id <= SLAB_CLASS_MAX;
}

static enum turn_stop slabs_reassign(struct turn *t, const struct request *r,
                                     const struct words *w)
{
    int64_t from;
    int64_t to;

    if (!t->w->settings->slab_reassign) {
        return turn_answer(t, r, REPLY_SLABS_OFF);
    }
    if (num_i32(w->word[1], &from) != MF_OK || num_i32(w->word[2], &to) != MF_OK) {
        return turn_answer(t, r, REPLY_BAD_FORMAT);
    }
    if (from == to) {
        return turn_answer(t, r, REPLY_SLABS_SAME_CLASS);
    }
    return !is_class(from) || !is_class(to) ? turn_answer(t, r, REPLY_SLABS_BAD_CLASS)
                                            : turn_answer(t, r, REPLY_SLABS_NOSPARE);
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
        if (w->count < 3 || !num_fraction(w->word[2], &fraction)) {
            return turn_answer(t, r, REPLY_ERROR);
        }
        if (is_ratio) {
            setting_set(s, slab_automove_ratio, fraction);
        } else {
            setting_set(s, slab_automove_freeratio, fraction);
        }
        return turn_answer(t, r, REPLY_OK);
    }
    if (span_is(what, "window")) {
        if (w->count < 3 || num_u32(w->word[2], &number) != MF_OK) {
            return turn_answer(t, r, REPLY_BAD_FORMAT);
        }
        if (number < MOVE_WINDOW_MIN || number > MOVE_WINDOW_MAX) {
            return turn_answer(t, r, REPLY_SLABS_WINDOW);
        }
        setting_set(s, slab_automove_window, number);
        return turn_answer(t, r, REPLY_OK);
    }
    if (num_u32(what, &number) != MF_OK) {
        return turn_answer(t, r, REPLY_BAD_FORMAT);
    }
    if (number > 2) {
        return turn_answer(t, r, REPLY_ERROR);
    }
    setting_set(s, slab_automove, number);
    return turn_answer(t, r, REPLY_OK);
}

enum turn_stop exec_slabs(struct turn *t, const struct request *r)
{
    struct words w;

    split_words(r->args, &w);
    if (w.count == 3 && span_is(w.word[0], "reassign")) {
        return slabs_reassign(t, r, &w);
    }
    return w.count >= 2 && span_is(w.word[0], "automove") ? slabs_automove(t, r, &w)
                                                          : turn_answer(t, r, REPLY_ERROR);
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
        num_u32(w->word[2], &warm) != MF_OK || !num_fraction(w->word[3], &hot_factor) ||
        !num_fraction(w->word[4], &warm_factor)) {
        return turn_answer(t, r, REPLY_ERROR);
    }
    if ((uint64_t)hot + warm > LRU_PCT_SUM_MAX) {
        return turn_answer(t, r, REPLY_LRU_PERCENT);
    }
    if (hot_factor <= 0 || warm_factor <= 0) {
        return turn_answer(t, r, REPLY_LRU_FACTOR);
    }
    setting_set(s, hot_lru_pct, hot);
    setting_set(s, warm_lru_pct, warm);
    setting_set(s, hot_max_factor, hot_factor);
    setting_set(s, warm_max_factor, warm_factor);
    return turn_answer(t, r, REPLY_OK);
}

static enum turn_stop lru_mode(struct turn *t, const struct request *r, struct span mode)
{
    bool is_segmented = span_is(mode, "segmented");

    if (!is_segmented && !span_is(mode, "flat")) {
        return turn_answer(t, r, REPLY_ERROR);
    }
    setting_set(live_settings(t), lru_segmented, is_segmented);
    return turn_answer(t, r, REPLY_OK);
}

static enum turn_stop lru_temp_ttl(struct turn *t, const struct request *r, struct span word)
{
    struct settings *s = live_settings(t);
    int64_t ttl;

    if (num_i32(word, &ttl) != MF_OK) {
        return turn_answer(t, r, REPLY_ERROR);
    }
    setting_set(s, temp_lru, ttl >= 0);
    if (ttl >= 0) {
        setting_set(s, temporary_ttl, (uint32_t)ttl);
    }
    return turn_answer(t, r, REPLY_OK);
}

enum turn_stop exec_lru(struct turn *t, const struct request *r)
{
    struct words w;

    split_words(r->args, &w);
    if (w.count < 2) {
        return turn_answer(t, r, REPLY_ERROR);
    }
    if (span_is(w.word[0], "tune")) {
        return lru_tune(t, r, &w);
    }
    if (!t->w->settings->lru_maintainer) {
        return turn_answer(t, r, REPLY_ERROR);
    }
    if (span_is(w.word[0], "mode")) {
        return lru_mode(t, r, w.word[1]);
    }
    return span_is(w.word[0], "temp_ttl") ? lru_temp_ttl(t, r, w.word[1])
                                          : turn_answer(t, r, REPLY_ERROR);
}

/* ---- lru_crawler: the search for expired keys -------------------------------------------- */

/* The reply to "all" or a comma list of class numbers, and whether ours is one of them. */
static enum reply check_classes(struct span list, bool *has_ours)
{
    enum reply reply = REPLY_CRAWLER_NOT_STARTED;

    *has_ours = span_is(list, "all");
    if (*has_ours) {
        return REPLY_OK;
    }
    while (list.len > 0) {
        struct span number = span_cut(&list, ',');
        uint32_t id;

        if (number.len > 0) {
            if (num_u32(number, &id) != MF_OK || id == 0 || id > SLAB_CLASS_MAX) {
                return REPLY_CRAWLER_BAD_CLASS;
            }
            *has_ours |= id == SLAB_CLASS_OURS;
            reply = REPLY_OK;
        }
    }
    return reply;
}

/*
 * Run one pass now: every worker drops what is due in its shard without waiting for its timer.
 * Other items need no check, because expired keys are known by their deadlines.
 */
static enum turn_stop crawl(struct turn *t, const struct request *r, struct span classes)
{
    bool has_ours;

    if (!setting_get(t->w->settings, engine.active_expire)) {
        return turn_answer(t, r, REPLY_CRAWLER_OFF);
    }
    enum reply reply = check_classes(classes, &has_ours);
    if (reply == REPLY_OK && has_ours) {
        crew_poke_all(t->w->crew);
    }
    return turn_answer(t, r, reply);
}

/*
 * A line for every item. memcached walks by class or by its hash table; here both are the same
 * walk, of one class. It does not need the sampler, but tools that switch the crawler off rely
 * on the refusal.
 */
static enum turn_stop begin_dump(struct turn *t, const struct request *r,
                                 enum dump_format format, struct span classes)
{
    enum reply reply = REPLY_OK;
    bool has_ours = true;

    if (!setting_get(t->w->settings, engine.active_expire)) {
        return turn_answer(t, r, REPLY_CRAWLER_OFF);
    }
    if (t->w->settings->no_dump) {
        return turn_answer(t, r, format == DUMP_META ? REPLY_DUMP_OFF : REPLY_MGDUMP_OFF);
    }
    if (!t->is_first) {
        return turn_answer(t, r,
                           format == DUMP_META ? REPLY_METADUMP_LATER : REPLY_MGDUMP_LATER);
    }
    if (!span_is(classes, "hash")) {
        reply = check_classes(classes, &has_ours);
    }
    if (reply != REPLY_OK) {
        return turn_answer(t, r, reply);
    }
    return dump_begin(t, r, &(struct dump){.format = (uint8_t)format, .is_over = !has_ours});
}

static enum turn_stop crawler_number(struct turn *t, const struct request *r,
                                     const struct words *w)
{
    bool is_sleep = span_is(w->word[0], "sleep");
    uint32_t n;

    if (num_u32(w->word[1], &n) != MF_OK) {
        return turn_answer(t, r, REPLY_BAD_FORMAT);
    }
    if (is_sleep && n > CRAWLER_SLEEP_MAX) {
        return turn_answer(t, r, REPLY_CRAWLER_SLEEP);
    }
    if (is_sleep) {
        setting_set(live_settings(t), lru_crawler_sleep, n);
    } else {
        setting_set(live_settings(t), lru_crawler_tocrawl, n);
    }
    return turn_answer(t, r, REPLY_OK);
}

static enum turn_stop crawler_switch(struct turn *t, const struct request *r, bool is_on)
{
    struct settings *s = live_settings(t);

    if (is_on && setting_get(s, engine.active_expire)) {
        return turn_answer(t, r, REPLY_CRAWLER_RUNS);
    }
    setting_set(s, engine.active_expire, is_on);
    if (is_on) {
        crew_poke_all(t->w->crew);
    }
    return turn_answer(t, r, REPLY_OK);
}

/* Remove no expired items for this number of seconds; 0: remove them again. */
static enum turn_stop hold_expired(struct turn *t, const struct request *r, struct span seconds)
{
    uint32_t n;

    if (num_u32(seconds, &n) != MF_OK || n > HOLD_MAX_S) {
        return turn_answer(t, r, REPLY_EXPIRE_HOLD_USAGE);
    }
    engine_hold_expired(t->e, n > 0 ? t->now + (msec_t)n * 1000 : t->now);
    crew_poke_all(t->w->crew); /* wake workers that sleep until an item is due */
    log_notice_limited("expiry, expired items are kept for %u s (expire_hold)", n);
    return turn_answer(t, r, REPLY_OK);
}

enum turn_stop exec_expire_hold(struct turn *t, const struct request *r)
{
    struct words w;

    split_words(r->args, &w);
    w.count -= r->noreply && w.count > 1;
    return w.count == 1 ? hold_expired(t, r, w.word[0])
                        : turn_answer(t, r, REPLY_EXPIRE_HOLD_USAGE);
}

/* The words of lru_crawler that memcached does not have. */
static bool is_hold(const struct turn *t, const struct words *w)
{
    return turn_has_extensions(t) && ((w->count == 2 && span_is(w->word[0], "hold")) ||
                                      (w->count == 1 && span_is(w->word[0], "release")));
}

enum turn_stop exec_lru_crawler(struct turn *t, const struct request *r)
{
    struct words w;

    split_words(r->args, &w);
    if (w.count == 1 && span_is(w.word[0], "enable")) {
        return crawler_switch(t, r, true);
    }
    if (w.count == 1 && span_is(w.word[0], "disable")) {
        return crawler_switch(t, r, false);
    }
    if (is_hold(t, &w)) {
        return hold_expired(t, r, w.count == 2 ? w.word[1] : span_str("0"));
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
    return w.count == 2 && span_is(w.word[0], "mgdump") ? begin_dump(t, r, DUMP_MG, w.word[1])
                                                        : turn_answer(t, r, REPLY_ERROR);
}
