/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `moves`: the progress of workers, connections and items after a change of threads or shards,
 * with a progress line until all items have moved.
 */
#include <stdio.h>

#include "ctl/ask.h"
#include "ctl/commands.h"
#include "ctl/json.h"
#include "ctl/sample.h"
#include "ctl/show.h"

/* Seconds between two requests for the progress. */
#define LOOK_S 0.2

#define BAR_COLUMNS 20u

#define LINE_BYTES 320

/*
 * Describe the move: "43 %, 1.2M of 2.8M items, 120 MiB of 280 MiB", and what it waits for or
 * how long it will take.
 */
static void describe(const struct stats *s, char line[LINE_BYTES])
{
    const double left_ms = stats_get(s, "move_left_ms");
    char done[UNIT_TEXT_BYTES], all[UNIT_TEXT_BYTES];
    char bytes_done[UNIT_TEXT_BYTES], bytes_all[UNIT_TEXT_BYTES];
    char left[UNIT_TEXT_BYTES];

    number_short(done, stats_get(s, "move_items_done"));
    number_short(all, stats_get(s, "move_items_all"));
    unit_short(bytes_done, UNIT_BYTES, stats_get(s, "move_bytes_done"));
    unit_short(bytes_all, UNIT_BYTES, stats_get(s, "move_bytes_all"));
    int n = snprintf(line, LINE_BYTES, "%.0f %%, %s of %s items, %s of %s",
                     100 * sample_move_share(s), done, all, bytes_done, bytes_all);
    if (stats_is(s, "move_waits_for", "room")) {
        snprintf(line + n, LINE_BYTES - (size_t)n, ", waiting for room");
    } else if (stats_is(s, "move_waits_for", "walk")) {
        snprintf(line + n, LINE_BYTES - (size_t)n,
                 ", waiting for the end of a walk over all items");
    } else if (sample_is_moving(s) && left_ms >= 0) {
        duration_text(left, left_ms / 1e3);
        snprintf(line + n, LINE_BYTES - (size_t)n, ", about %s left", left);
    }
}

static void put_words(const struct ctl *c, const struct stats *s)
{
    struct span state = span_str("?");
    char text[LINE_BYTES];

    (void)stats_find(s, "move_state", &state);
    fprintf(c->out, "workers      %.0f active, %.0f wanted, %.0f leaving, %.0f in total\n",
            stats_get(s, "threads_active"), stats_get(s, "threads_wanted"),
            stats_get(s, "threads_leaving"), stats_get(s, "threads_created"));
    fprintf(c->out, "connections  %.0f moving, %.0f moved so far\n",
            stats_get(s, "conns_moving"), stats_get(s, "conns_moved"));
    fprintf(c->out, "shards       %.0f with items, %.0f wanted, %.0f in total\n",
            stats_get(s, "shards_active"), stats_get(s, "shards_wanted"),
            stats_get(s, "shards_created"));
    fputs("state        ", c->out);
    (void)show_text(c->out, state, c->is_utf8);
    fputc('\n', c->out);
    if (stats_get(s, "move_slots_all") > 0) {
        describe(s, text);
        fprintf(c->out, "items        %s\n", text);
        duration_text(text, stats_get(s, "move_elapsed_ms") / 1e3);
        fprintf(c->out, "             %.0f expired, %.0f evicted, no room %.0f times, in %s\n",
                stats_get(s, "move_expired"), stats_get(s, "move_evicted"),
                stats_get(s, "move_waits"), text);
    }
}

/* Show the progress until the move is complete or the user interrupts. */
static enum ctl_status follow(struct ctl *c, struct stats *s)
{
    struct progress p;
    enum ctl_status status = CTL_OK;

    progress_begin(&p, "moves");
    while (status == CTL_OK && p.is_shown && sample_is_moving(s)) {
        char bar[BAR_TEXT_BYTES];
        char words[LINE_BYTES];
        char line[BAR_TEXT_BYTES + LINE_BYTES + 8];

        bar_text(bar, sample_move_share(s), BAR_COLUMNS, c->is_utf8);
        describe(s, words);
        snprintf(line, sizeof(line), "[%s] %s", bar, words);
        progress_tell(&p, line);
        if (!ctl_sleep(LOOK_S)) {
            break;
        }
        status = ask_stats(c, "moves", s);
    }
    progress_end(&p);
    return status;
}

static enum ctl_status cancel_move(struct ctl *c)
{
    struct span line = {0};
    enum ctl_status status = ask_answer(c, ask_line(c, "moves cancel"), &line);

    if (status != CTL_OK) {
        return status;
    }
    if (span_is(line, "NOT_FOUND")) {
        return ctl_fail(c, CTL_NO, "no items are moving");
    }
    if (!span_is(line, "OK")) {
        return ask_garbled(c, line);
    }
    ctl_done(c, "cancelled", "OK, items in transit still arrive (mayflyctl moves)");
    return CTL_OK;
}

int cmd_moves(struct ctl *c, const struct ctl_words *args)
{
    struct stats s = {0};

    if (args->count > 1) {
        return span_is(args->word[1], "cancel")
                   ? cancel_move(c)
                   : ctl_fail(c, CTL_USAGE, "usage: mayflyctl moves [cancel]");
    }
    enum ctl_status status = ask_stats(c, "moves", &s);
    if (status == CTL_OK && !c->options.json) {
        status = follow(c, &s);
    }
    if (status == CTL_OK && c->options.json) {
        struct json j = ctl_json(c);

        stats_put_json(c, &j, &s);
    } else if (status == CTL_OK) {
        put_words(c, &s);
    }
    stats_fini(&s);
    return status;
}
