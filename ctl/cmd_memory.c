/* SPDX-License-Identifier: BSD-3-Clause */
/* `memory`: prints what the limit is used for, and what is resident beyond it. */
#include <math.h>

#include "ctl/commands.h"
#include "ctl/host.h"
#include "ctl/json.h"
#include "ctl/sample.h"
#include "ctl/show.h"
#include "lib/base/mem.h"

#define BAR_COLUMNS 30

/* An amount of memory: a part of what counts towards the limit, or memory beside it. */
struct spent {
    const char *id;    /* in JSON */
    const char *title; /* for people */
    double bytes;
};

enum { LIVE, HOLES, DEAD, UNFILLED, FREE, QUARANTINED, INDEX, OTHER, PARTS };
enum { READ_BUFFERS, INPUT, REPLIES, UPLOADS, BESIDE };

struct spending {
    double limit, held, resident; /* resident: of the process; NAN: not known */
    struct spent part[PARTS];
    struct spent beside[BESIDE];
};

/* Bytes in the segments of a kind, summed over all shards. */
static double segments(const struct stats_sample *s, const char *name)
{
    double sum = 0;
    char line[64];

    for (unsigned i = 0; i < s->shard_count; i++) {
        double n, bytes;

        snprintf(line, sizeof(line), "%u:%s", i, name);
        if (!stats_number(&s->shards, line, &n)) {
            continue;
        }
        snprintf(line, sizeof(line), "%u:segment_bytes", i);
        sum += stats_number(&s->shards, line, &bytes) ? n * bytes : 0;
    }
    return sum;
}

static double above_0(double v)
{
    return v > 0 ? v : 0;
}

static void account(const struct stats_sample *s, struct spending *m)
{
    double used = segments(s, "segments_used");
    double live = sample_sum(s, "bytes");
    double dead = sample_sum(s, "dead_bytes");
    double holes = sample_sum(s, "hole_bytes");
    double freed = segments(s, "segments_free");
    double quarantined = segments(s, "segments_quarantined");
    double index = sample_sum(s, "hash_bytes");

    m->limit = stats_get(&s->general, "limit_maxbytes");
    m->held = sample_sum(s, "resident_bytes");
    m->part[LIVE] = (struct spent){"live", "live items", live};
    m->part[HOLES] = (struct spent){"holes", "dead, reusable", holes};
    m->part[DEAD] = (struct spent){"dead", "dead, not yet reusable", above_0(dead - holes)};
    m->part[UNFILLED] =
        (struct spent){"unfilled", "unused in segments", above_0(used - live - dead)};
    m->part[FREE] = (struct spent){"free", "free segments", freed};
    m->part[QUARANTINED] =
        (struct spent){"quarantined", "free after a grace period", quarantined};
    m->part[INDEX] = (struct spent){"index", "index", index};
    m->part[OTHER] = (struct spent){"other", "timers, ghost keys, rings",
                                    above_0(m->held - used - freed - quarantined - index)};
    m->beside[READ_BUFFERS] = (struct spent){"read_buffers", "worker buffers",
                                             above_0(stats_get(&s->general, "read_buf_bytes") -
                                                     sample_sum(s, "mayfly_in_pending_bytes"))};
    m->beside[INPUT] = (struct spent){"input", "incomplete requests",
                                      sample_sum(s, "mayfly_in_pending_bytes")};
    m->beside[REPLIES] =
        (struct spent){"replies", "unsent replies", sample_sum(s, "mayfly_out_pending_bytes")};
    m->beside[UPLOADS] = (struct spent){"uploads", "values being received",
                                        sample_sum(s, "mayfly_body_pending_bytes")};
}

static void put_line(const struct ctl *c, const struct spending *m, const char *title,
                     double bytes)
{
    char text[UNIT_TEXT_BYTES];
    char bar[BAR_TEXT_BYTES];
    double share = m->limit > 0 ? bytes / m->limit : 0;

    unit_short(text, UNIT_BYTES, bytes);
    bar_text(bar, share, BAR_COLUMNS, c->is_utf8 && !c->options.ascii);
    fprintf(c->out, "  %-24s %10s %6.1f %%  %s\n", title, text, 100 * share, bar);
}

static void put_words(const struct ctl *c, const struct spending *m)
{
    char held[UNIT_TEXT_BYTES], limit[UNIT_TEXT_BYTES];

    unit_short(held, UNIT_BYTES, m->held);
    unit_short(limit, UNIT_BYTES, m->limit);
    fprintf(c->out, "%s held of %s (-m)\n", held, limit);
    for (unsigned i = 0; i < PARTS; i++) {
        put_line(c, m, m->part[i].title, m->part[i].bytes);
    }
    put_line(c, m, "total", m->held);
    put_line(c, m, "available", above_0(m->limit - m->held));
    fputs("\nconnections, mostly not counted in the limit\n", c->out);
    for (unsigned i = 0; i < BESIDE; i++) {
        put_line(c, m, m->beside[i].title, m->beside[i].bytes);
    }
    if (!isnan(m->resident)) {
        fputs("\nthe process\n", c->out);
        put_line(c, m, "resident", m->resident);
    }
}

static void put_parts(struct json *j, const char *name, const struct spent *parts, unsigned n)
{
    json_begin(j, name, '{');
    for (unsigned i = 0; i < n; i++) {
        json_double(j, parts[i].id, parts[i].bytes);
    }
    json_end(j, '{');
}

static void put_json(const struct ctl *c, const struct spending *m)
{
    struct json j = ctl_json(c);

    json_begin(&j, NULL, '{');
    json_double(&j, "limit_bytes", m->limit);
    json_double(&j, "held_bytes", m->held);
    put_parts(&j, "parts", m->part, PARTS);
    put_parts(&j, "connections", m->beside, BESIDE);
    json_double(&j, "resident_bytes", m->resident);
    json_end(&j, '{');
}

int cmd_memory(struct ctl *c, const struct ctl_words *args)
{
    struct stats_sample *s = mem_zalloc(sizeof(*s));
    struct spending m = {.resident = (double)NAN};

    (void)args;
    if (s == NULL) {
        return ctl_fail(c, CTL_SYSTEM, "no memory");
    }
    enum ctl_status status = sample_take(c, s, NULL);
    if (status == CTL_OK && s->shard_count == 0) {
        status = ctl_fail(c, CTL_REFUSED, "the server has no `stats shards`: it is not mayfly");
    }
    if (status == CTL_OK) {
        struct host host;

        account(s, &m);
        host_read(&host, HOST_ROOT, host_pid(c, &s->general));
        m.resident = host.resident_bytes;
        if (c->options.json) {
            put_json(c, &m);
        } else {
            put_words(c, &m);
        }
    }
    sample_fini(s);
    mem_free(s);
    return status;
}
