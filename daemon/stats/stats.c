/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sub-commands of `stats`: a table from name to handler. Sections that can be answered at
 * once are in stats_general.c, stats_items.c and stats_expire.c; those that ask other workers
 * or walk over items are in stats_conns.c, stats_detail.c and stats_sizes.c.
 */
#include "daemon/stats/stats.h"

#include <string.h>

#include "daemon/stats/stats_conns.h"
#include "daemon/stats/stats_detail.h"
#include "daemon/stats/stats_general.h"
#include "daemon/stats/stats_sizes.h"
#include "daemon/stats/stats_sum.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "proto/reply.h"

/* One `stats` command while it is dispatched. */
struct ask {
    struct worker *w;
    struct span args; /* after the sub-command */
    struct buf *out;
    stats_done_fn done;
    void *done_arg;
};

/* The next word of a line, taken off its front; empty at the end. */
static struct span next_word(struct span *rest)
{
    struct span word;

    while (rest->len > 0 && *rest->ptr == ' ') {
        rest->ptr++;
        rest->len--;
    }
    word = span_of(rest->ptr, 0);
    while (rest->len > 0 && *rest->ptr != ' ') {
        rest->ptr++;
        rest->len--;
        word.len++;
    }
    return word;
}

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
    struct span word = next_word(&rest);

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
        return stats_detail_dump(a->w, a->out, a->done, a->done_arg);
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

static enum stats_result section(const struct ask *a,
                                 void (*fn)(struct worker *w, struct stats_out *o))
{
    struct stats_out o = stats_out_to(a->out);
    size_t start = buf_len(a->out);

    fn(a->w, &o);
    return stats_out_end(&o, start) ? STATS_DONE : STATS_NO_MEMORY;
}

static enum stats_result do_general(const struct ask *a)
{
    return section(a, stats_general);
}

static enum stats_result do_settings(const struct ask *a)
{
    return section(a, stats_settings);
}

static enum stats_result do_items(const struct ask *a)
{
    return section(a, stats_items);
}

static enum stats_result do_slabs(const struct ask *a)
{
    return section(a, stats_slabs);
}

static enum stats_result do_expire(const struct ask *a)
{
    return section(a, stats_expire);
}

static enum stats_result do_shards(const struct ask *a)
{
    return section(a, stats_shards);
}

static enum stats_result do_latency(const struct ask *a)
{
    struct span rest = a->args;
    struct span word = next_word(&rest);

    if (word.len == 0) {
        return section(a, stats_latency);
    }
    return span_is(word, "workers") ? section(a, stats_latency_workers)
                                    : answer(a, REPLY_ERROR);
}

static enum stats_result do_conns(const struct ask *a)
{
    return stats_conns(a->w, a->out, a->done, a->done_arg);
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

static const struct {
    const char *name;
    enum stats_result (*fn)(const struct ask *a);
} handlers[] = {
    {"", do_general},
    {"reset", do_reset},
    {"settings", do_settings},
    {"items", do_items},
    {"slabs", do_slabs},
    {"sizes", do_sizes},
    {"sizes_enable", do_sizes_enable},
    {"sizes_disable", do_sizes_disable},
    {"conns", do_conns},
    {"detail", do_detail},
    {"expire", do_expire},
    {"shards", do_shards},
    {"latency", do_latency},
};

enum stats_result stats_command(struct worker *w, struct span args, struct buf *out,
                                stats_done_fn done, void *arg)
{
    struct span rest = args;
    struct span name = next_word(&rest);
    struct ask a = {w, rest, out, done, arg};
    size_t i;

    must_be_worker(w);
    must_not_be_reading();
    for (i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
        if (span_is(name, handlers[i].name)) {
            return handlers[i].fn(&a);
        }
    }
    return answer(&a, REPLY_ERROR);
}
