/* SPDX-License-Identifier: BSD-3-Clause */
/* `dump`: prints a line for every item that passes the filters. */
#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

#include "ctl/answer.h"
#include "ctl/ask.h"
#include "ctl/commands.h"
#include "ctl/json.h"
#include "ctl/show.h"

struct item_dump {
    struct ctl *c;
    struct json json;
    int64_t now_s; /* by the clock of the server */
    uint64_t shown;
};

static int64_t ttl_of(const struct item_dump *d, const struct dump_item *item)
{
    return item->deadline_s > d->now_s ? item->deadline_s - d->now_s : 0;
}

static bool passes(const struct item_dump *d, const struct dump_item *item)
{
    const struct options *o = &d->c->options;
    char key[ANSWER_KEY_MAX + 1];

    if (o->match != NULL) {
        memcpy(key, item->key, item->key_len);
        key[item->key_len] = '\0';
        if (memchr(key, '\0', item->key_len) != NULL || fnmatch(o->match, key, 0) != 0) {
            return false;
        }
    }
    return !(o->min_size > 0 && item->size < o->min_size) &&
           !(o->within > 0 && (item->deadline_s < 0 || (double)ttl_of(d, item) > o->within)) &&
           !(o->never && item->deadline_s >= 0) && !(o->unread && item->was_fetched);
}

static bool put_json(struct item_dump *d, const struct dump_item *item)
{
    struct json *j = &d->json;

    json_begin(j, NULL, '{');
    bool is_ok = json_bytes(j, "key", span_of(item->key, item->key_len));
    if (!d->c->options.keys) {
        json_u64(j, "size", item->size);
        json_u64(j, "flags", item->flags);
        json_u64(j, "cas", item->cas);
        json_i64_or_null(j, "expires_at", item->deadline_s < 0 ? -1 : item->deadline_s, -1);
        json_i64(j, "last_use_at", item->access_s);
        json_bool(j, "was_fetched", item->was_fetched);
    }
    json_end(j, '{');
    return is_ok;
}

static void put_line(struct item_dump *d, const struct dump_item *item)
{
    FILE *out = d->c->out;
    char ttl[UNIT_TEXT_BYTES] = "never";
    char use[UNIT_TEXT_BYTES];

    if (!d->c->options.keys) {
        if (d->shown == 0) {
            fprintf(out, "%10s  %-15s %-15s %-7s  %s\n", "size", "expires in", "last use",
                    "fetched", "key");
        }
        if (item->deadline_s >= 0) {
            duration_text(ttl, (double)ttl_of(d, item));
        }
        duration_text(use, (double)(d->now_s > item->access_s ? d->now_s - item->access_s : 0));
        fprintf(out, "%10" PRIu64 "  %-15s %-15s %-7s  ", item->size, ttl, use,
                item->was_fetched ? "yes" : "no");
    }
    (void)show_text(out, span_of(item->key, item->key_len), d->c->is_utf8);
    fputc('\n', out);
}

/* Take a line of the answer. Sets *is_over after the last item that is wanted. */
static enum ctl_status take_item(struct item_dump *d, struct span line, bool *is_over)
{
    struct dump_item item;
    bool is_item =
        d->c->options.keys ? answer_dump_key(line, &item) : answer_dump_item(line, &item);

    if (!is_item) {
        return ask_garbled(d->c, line);
    }
    if (!passes(d, &item)) {
        return CTL_OK;
    }
    if (!d->c->options.json) {
        put_line(d, &item);
    } else if (!put_json(d, &item)) {
        return ctl_fail(d->c, CTL_SYSTEM, "no memory");
    }
    d->shown++;
    *is_over = d->shown == d->c->options.count || ferror(d->c->out);
    return CTL_OK;
}

static enum ctl_status ask_now(struct item_dump *d)
{
    struct stats s = {0};
    enum ctl_status status = ask_stats(d->c, "", &s);

    d->now_s = (int64_t)stats_get(&s, "time");
    stats_fini(&s);
    return status;
}

/* Does the server's crawler refuse to run? */
static bool is_refusal(struct span line)
{
    struct span first = span_word(&line);

    return span_is(first, "BUSY") || span_is(first, "NOTSTARTED") || span_is(first, "BADCLASS");
}

int cmd_dump(struct ctl *c, const struct ctl_words *args)
{
    const struct options *o = &c->options;
    struct item_dump d = {.c = c, .json = ctl_json(c)};
    struct span line = {0};
    bool is_over = false;

    (void)args;
    if (o->keys && (o->min_size > 0 || o->within > 0 || o->never || o->unread)) {
        return ctl_fail(c, CTL_USAGE, "--keys can be combined only with --match and --count");
    }
    enum ctl_status status = o->keys ? CTL_OK : ask_now(&d);
    if (status == CTL_OK) {
        status = ask_line(c, "lru_crawler %s all", o->keys ? "mgdump" : "metadump");
    }
    if (status == CTL_OK) {
        json_begin(&d.json, NULL, '[');
    }
    while (!is_over && (status = ask_answer(c, status, &line)) == CTL_OK) {
        if (span_is(line, "OK")) {
            continue; /* before the first item */
        }
        if (span_is(line, "END") || span_is(line, "EN")) {
            break;
        }
        if (is_refusal(line)) {
            status = ctl_fail(c, CTL_REFUSED, "the server answers: %.*s",
                              line.len > 100 ? 100 : (int)line.len, line.ptr);
        } else {
            status = take_item(&d, line, &is_over);
        }
    }
    if (is_over) {
        ask_disconnect(c); /* the rest is not wanted */
    }
    if (d.json.depth > 0) {
        json_end(&d.json, '[');
    }
    return status;
}
