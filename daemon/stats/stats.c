/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sub-commands of `stats`: a table from name to handler. Sections that can be answered at
 * once are in stats_general.c, stats_tables.c and stats_latency.c; those that query other
 * workers or walk over items are in stats_conns.c, stats_detail.c and stats_sizes.c.
 */
#include "daemon/stats/stats.h"

#include "daemon/stats/stats_parts.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "proto/reply.h"
#include "proto/request.h"

/* One `stats` command while it is dispatched. */
struct ask {
    struct worker *w;
    struct span args; /* after the sub-command */
    struct buf *out;
    stats_done_fn done;
    void *done_arg;
};

/* ---- answers of one line ----------------------------------------------------------------- */

static enum stats_result answer(const struct ask *a, enum reply reply)
{
    struct span text = reply_text(reply);

    return buf_append(a->out, text.ptr, text.len) ? STATS_DONE : STATS_NO_MEMORY;
}

static enum stats_result do_reset(const struct ask *a)
{
    stats_sum_reset(a->w->crew);
    atomic_fetch_add_explicit(&a->w->crew->stats->detail_epoch, 1, memory_order_relaxed);
    return answer(a, REPLY_STATS_RESET);
}

static enum stats_result do_detail(const struct ask *a)
{
    struct span rest = a->args;
    struct span word = span_word(&rest);

    if (a->w->settings->no_dump) {
        return answer(a, REPLY_DETAIL_OFF); /* prefixes are of keys */
    }
    if (span_is(word, "on")) {
        setting_set(a->w->crew->settings, detail_enabled, true);
        return answer(a, REPLY_OK);
    }
    if (span_is(word, "off")) {
        setting_set(a->w->crew->settings, detail_enabled, false);
        return answer(a, REPLY_OK);
    }
    if (span_is(word, "dump")) {
        return stats_gather_begin(&gather_detail, a->w, a->out, a->done, a->done_arg);
    }
    return answer(a, REPLY_DETAIL_USAGE);
}

/* As in memcached, these two answers have no END. */
static enum stats_result do_sizes_enable(const struct ask *a)
{
    if (a->w->settings->no_cas) {
        return answer(a, REPLY_SIZES_NEED_CAS);
    }
    atomic_store_explicit(&a->w->crew->stats->tracks_sizes, true, memory_order_relaxed);
    return answer(a, REPLY_SIZES_ENABLED);
}

static enum stats_result do_sizes_disable(const struct ask *a)
{
    atomic_store_explicit(&a->w->crew->stats->tracks_sizes, false, memory_order_relaxed);
    return answer(a, REPLY_SIZES_DISABLED);
}

/* ---- sections ---------------------------------------------------------------------------- */

typedef void (*section_fn)(struct worker *w, struct stats_out *o);

static enum stats_result section(const struct ask *a, section_fn fn)
{
    struct stats_out o = stats_out_to(a->out);
    size_t start = buf_len(a->out);

    fn(a->w, &o);
    return stats_out_end(&o, start) ? STATS_DONE : STATS_NO_MEMORY;
}

static enum stats_result do_latency(const struct ask *a)
{
    struct span rest = a->args;
    struct span word = span_word(&rest);

    if (word.len == 0) {
        return section(a, stats_latency);
    }
    return span_is(word, "workers") ? section(a, stats_latency_workers)
                                    : answer(a, REPLY_ERROR);
}

/* Both show keys. */
static enum stats_result do_hotkeys(const struct ask *a)
{
    return a->w->settings->no_dump
               ? answer(a, REPLY_KEYS_OFF)
               : stats_gather_begin(&gather_hotkeys, a->w, a->out, a->done, a->done_arg);
}

static enum stats_result do_bigkeys(const struct ask *a)
{
    if (a->w->settings->no_dump) {
        return answer(a, REPLY_KEYS_OFF);
    }
    if ((a->w->gate & GATE_MISSES) != 0) {
        return answer(a, REPLY_NOT_IN_STEP);
    }
    return stats_gather_begin(&gather_bigkeys, a->w, a->out, a->done, a->done_arg);
}

static enum stats_result do_conns(const struct ask *a)
{
    return stats_gather_begin(&gather_conns, a->w, a->out, a->done, a->done_arg);
}

static void put_sizes_off(struct worker *w, struct stats_out *o)
{
    (void)w;
    stats_put_text(o, "sizes_status", "disabled");
}

static enum stats_result do_sizes(const struct ask *a)
{
    if (!atomic_load_explicit(&a->w->crew->stats->tracks_sizes, memory_order_relaxed)) {
        return section(a, put_sizes_off);
    }
    return stats_sizes(a->w, a->out, a->done, a->done_arg);
}

/* ---- dispatch ---------------------------------------------------------------------------- */

/* Conditions of a section, in addition to the rights of enum command_needs. */
enum {
    SHOWS_KEYS = 1 << 4, /* of other users: a user limited to a prefix has to be an operator */
    BY_WORD = 1 << 5,    /* depends on its first argument */
};

static const struct {
    const char *name;
    uint8_t needs; /* 0 counts as NEED_ADMIN */
    enum stats_result (*fn)(const struct ask *a);
    section_fn section; /* if there is no fn */
} handlers[] = {
    {"", NEED_READ, .section = stats_general},
    {"reset", NEED_ADMIN, .fn = do_reset},
    {"settings", NEED_READ, .section = stats_settings},
    {"items", NEED_READ | SHOWS_KEYS, .section = stats_items},
    {"slabs", NEED_READ | SHOWS_KEYS, .section = stats_slabs},
    {"sizes", NEED_READ | SHOWS_KEYS, .fn = do_sizes},
    {"sizes_enable", NEED_ADMIN, .fn = do_sizes_enable},
    {"sizes_disable", NEED_ADMIN, .fn = do_sizes_disable},
    {"conns", NEED_READ | SHOWS_KEYS, .fn = do_conns},
    {"detail", NEED_READ | SHOWS_KEYS | BY_WORD, .fn = do_detail},
    {"expire", NEED_READ, .section = stats_expire},
    {"shards", NEED_READ, .section = stats_shards},
    {"latency", NEED_READ, .fn = do_latency},
    {"moves", NEED_READ, .section = stats_moves},
    {"persistence", NEED_READ, .section = stats_persistence},
    {"replication", NEED_READ | SHOWS_KEYS,
     .section = stats_replication}, /* addresses, as conns */
    {"hotkeys", NEED_READ | SHOWS_KEYS, .fn = do_hotkeys},
    {"bigkeys", NEED_ADMIN, .fn = do_bigkeys}, /* a walk over all keys, as a dump */
    {"budgets", NEED_READ, .section = stats_budgets},
};

#define HANDLERS (sizeof(handlers) / sizeof(handlers[0]))

uint8_t stats_needs(struct span args, bool has_all_keys)
{
    struct span name = span_word(&args);
    uint8_t needs = NEED_READ;
    size_t i = 0;

    if (span_is(name, "cachedump")) {
        return NEED_ADMIN; /* a dump, as that of lru_crawler */
    }
    while (i < HANDLERS && !span_is(name, handlers[i].name)) {
        i++;
    }
    if (i < HANDLERS) {
        needs = handlers[i].needs != 0 ? handlers[i].needs : NEED_ADMIN;
    }
    if ((needs & BY_WORD) != 0 && !span_is(span_word(&args), "dump")) {
        needs = NEED_ADMIN; /* on and off */
    }
    if ((needs & SHOWS_KEYS) != 0 && !has_all_keys) {
        needs |= NEED_ADMIN;
    }
    return needs & (uint8_t) ~(SHOWS_KEYS | BY_WORD);
}

enum stats_result stats_command(struct worker *w, struct span args, struct buf *out,
                                stats_done_fn done, void *arg)
{
    struct span rest = args;
    struct span name = span_word(&rest);
    struct ask a = {w, rest, out, done, arg};

    must_be_worker(w);
    must_not_be_reading();
    for (size_t i = 0; i < HANDLERS; i++) {
        if (span_is(name, handlers[i].name)) {
            return handlers[i].fn != NULL ? handlers[i].fn(&a)
                                          : section(&a, handlers[i].section);
        }
    }
    return answer(&a, REPLY_ERROR);
}
