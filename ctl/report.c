/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints what was found in a file: see examine.h.
 */
#include "ctl/examine.h"

#include <inttypes.h>

#include "ctl/show.h"

/* The kinds of blocks: for people after "blocks", and as JSON names. */
static const struct {
    const char *text, *name;
} kinds[EXAMINE_KINDS] = {
    [SNAP_ITEMS] = {"of items", "items"},
    [SNAP_VALUE] = {"of large values", "value"},
    [SNAP_KEYS] = {"of keys", "keys"},
    [SNAP_META] = {"of deadlines", "meta"},
    [SNAP_FLUSH] = {"of flushes", "flush"},
    [SNAP_PING] = {"of pings", "ping"},
    [SNAP_END] = {"the end", "end"},
    [SNAP_PAD] = {"of padding", "pad"},
    [SNAP_DUE] = {"of expiry", "due"},
    [SNAP_PREFIX] = {"of flushed prefixes", "prefix"},
    [EXAMINE_KINDS - 1] = {"unknown", "other"},
};

static uint64_t all_blocks(const struct examined *x)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < EXAMINE_KINDS; i++) {
        sum += x->blocks[i];
    }
    return sum;
}

#define LOGS_TEXT_MAX (SNAP_FAULT_TEXT_MAX + 32)

/* Describe the fault of the logs of a snapshot. */
static const char *logs_fault(const struct examined_logs *l, char out[LOGS_TEXT_MAX])
{
    char text[SNAP_FAULT_TEXT_MAX];

    if (l->end == KEYCHAIN_MISSING) {
        snprintf(out, LOGS_TEXT_MAX, "log %" PRIu64 " is missing", l->number);
    } else if (l->end == KEYCHAIN_FOREIGN) {
        snprintf(out, LOGS_TEXT_MAX, "log %" PRIu64 " belongs to another snapshot", l->number);
    } else {
        snprintf(out, LOGS_TEXT_MAX, "log %" PRIu64 ": %s", l->number,
                 snap_fault_text(&l->fault, text));
    }
    return out;
}

/* ---- words ------------------------------------------------------------------------------- */

static void put_time(FILE *out, int64_t unix_ms)
{
    char text[UNIT_TEXT_BYTES];

    unit_short(text, UNIT_UNIX_S, (double)unix_ms / 1000);
    if (text[0] == '\0') { /* the number may be any, and have no date */
        fprintf(out, "at %" PRId64, unix_ms);
    } else {
        fputs(text, out);
    }
}

static void put_bytes(FILE *out, const char *before, uint64_t bytes)
{
    char text[UNIT_TEXT_BYTES];

    unit_short(text, UNIT_BYTES, (double)bytes);
    fprintf(out, "%s%s", before, text);
}

static void put_made(FILE *out, const struct examined *x, int64_t now)
{
    char text[UNIT_TEXT_BYTES];

    fputs("    made         ", out);
    put_time(out, x->header.unix_ms);
    if (now >= x->header.unix_ms && x->header.unix_ms >= 0) {
        duration_text(text, (double)((now - x->header.unix_ms) / 1000));
        fprintf(out, ", %s ago", text);
    }
    if (x->last_unix_ms > x->header.unix_ms) {
        duration_text(text, ((double)x->last_unix_ms - (double)x->header.unix_ms) / 1000);
        fprintf(out, ", within %s", text);
    }
    fputc('\n', out);
}

static void put_blocks(FILE *out, const struct examined *x)
{
    const char *before = ": ";

    fprintf(out, "    blocks       %" PRIu64, all_blocks(x));
    for (unsigned i = 0; i < EXAMINE_KINDS; i++) {
        if (i == SNAP_END && x->blocks[i] == 1) {
            fprintf(out, "%sthe end", before);
        } else if (x->blocks[i] != 0) {
            fprintf(out, "%s%" PRIu64 " %s", before, x->blocks[i], kinds[i].text);
            before = ", ";
        }
    }
    fputc('\n', out);
}

static void put_items(FILE *out, const struct examined *x)
{
    fprintf(out,
            "    items        %" PRIu64 ": %" PRIu64 " expired by now, %" PRIu64
            " without a deadline, %" PRIu64 " in parts\n",
            x->items, x->expired, x->forever, x->in_parts);
    if (x->cut != 0) {
        fprintf(out,
                "    omitted      %" PRIu64
                " large values that changed while they were saved\n",
                x->cut);
    }
}

static void put_sizes(FILE *out, const struct examined *x)
{
    put_bytes(out, "    bytes        ", x->bytes);
    put_bytes(out, ": keys ", x->key_bytes);
    put_bytes(out, ", values ", x->value_bytes);
    if (x->packed == 0) {
        fputs("\n    compression  none\n", out);
    } else {
        put_bytes(out, "\n    compression  zstd, ", x->raw_bytes);
        put_bytes(out, " to ", x->stored_bytes);
        fputc('\n', out);
    }
}

static void put_content(FILE *out, const struct examined *x, int64_t now)
{
    fprintf(out, "    format       version %u, readable from version %u on\n",
            x->header.version, x->header.least);
    put_made(out, x, now);
    put_blocks(out, x);
    if (examine_is_log(x)) {
        fprintf(out,
                "    log          number %" PRIu64 ", %" PRIu64 " changed keys, %" PRIu64
                " removed keys\n",
                x->header.log, x->keys, x->gone);
        put_bytes(out, "    synced       ", x->synced);
        fputs(" or more had been synced to disk\n", out);
        if (x->due_unix_ms != 0) {
            fputs("    expired      items due by ", out);
            put_time(out, x->due_unix_ms);
            fputs(" are removed\n", out);
        }
        if (x->items != 0) {
            put_items(out, x);
            put_sizes(out, x);
        }
        return;
    }
    put_items(out, x);
    put_sizes(out, x);
    if (x->logs.count != 0) {
        fprintf(out,
                "    log          loaded with %" PRIu64 " logs, from number %" PRIu64 " on%s\n",
                x->logs.count, x->header.log,
                x->logs.is_torn
                    ? "; aof_load_truncated cuts off the incomplete end of the last one"
                    : "");
    }
    if (x->flush_at != INT64_MAX) {
        fprintf(out, "    flush        everything %s flushed ",
                x->flush_at <= now ? "was to be" : "will be");
        put_time(out, x->flush_at);
        fputc('\n', out);
    }
}

void report_text(FILE *out, const char *name, const struct examined *x, int64_t now,
                 bool is_utf8)
{
    char text[SNAP_FAULT_TEXT_MAX];
    char logs[LOGS_TEXT_MAX];

    show_text(out, span_str(name), is_utf8);
    fprintf(out, ": %s",
            x->fault.kind == SNAP_FINE ? (examine_is_log(x) ? "whole log" : "whole")
                                       : snap_fault_text(&x->fault, text));
    if (x->logs.end != KEYCHAIN_DONE) {
        fprintf(out, ", but %s", logs_fault(&x->logs, logs));
    }
    fputc('\n', out);
    if (x->is_torn) {
        show_text(out, span_str(name), is_utf8);
        fputs(": aof_load_truncated truncates it there if it is the last log\n", out);
    } else if (x->fault.kind != SNAP_FINE && x->has_header && !examine_is_log(x)) {
        show_text(out, span_str(name), is_utf8);
        fprintf(out, ": load=salvage recovers the %" PRIu64 " items before that\n",
                examine_salvage(x, now));
    }
    if (x->has_header) {
        put_content(out, x, now);
    }
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void json_content(struct json *j, const struct examined *x, int64_t now)
{
    char text[LOGS_TEXT_MAX];

    json_text(j, "kind", span_str(examine_is_log(x) ? "log" : "snapshot"));
    json_u64(j, "version", x->header.version);
    json_u64(j, "least_reader", x->header.least);
    json_i64(j, "made_unix_ms", x->header.unix_ms);
    json_begin(j, "blocks", '{');
    for (unsigned i = 0; i < EXAMINE_KINDS; i++) {
        if (kinds[i].name != NULL) {
            json_u64(j, kinds[i].name, x->blocks[i]);
        }
    }
    json_end(j, '{');
    json_u64(j, "log", x->header.log);
    if (!examine_is_log(x)) {
        json_u64(j, "logs", x->logs.count);
        json_text(j, "logs_fault",
                  x->logs.end == KEYCHAIN_DONE ? (struct span){0}
                                               : span_str(logs_fault(&x->logs, text)));
    }
    json_u64(j, "keys", x->keys);
    json_u64(j, "keys_gone", x->gone);
    json_u64(j, "bytes_synced", x->synced);
    json_i64_or_null(j, "due_unix_ms", x->due_unix_ms, 0);
    json_bool(j, "torn_end", x->is_torn || x->logs.is_torn);
    json_u64(j, "items", x->items);
    json_u64(j, "items_expired", x->expired);
    json_u64(j, "items_without_deadline", x->forever);
    json_u64(j, "items_in_parts", x->in_parts);
    json_u64(j, "items_left_out", x->cut);
    json_u64(j, "items_salvaged", examine_salvage(x, now));
    json_u64(j, "bytes", x->bytes);
    json_u64(j, "key_bytes", x->key_bytes);
    json_u64(j, "value_bytes", x->value_bytes);
    json_u64(j, "raw_bytes", x->raw_bytes);
    json_u64(j, "stored_bytes", x->stored_bytes);
    json_text(j, "compression", span_str(x->packed != 0 ? "zstd" : "none"));
    json_i64_or_null(j, "flush_unix_ms", x->flush_at, INT64_MAX);
}

void report_json(struct json *j, const char *name, const struct examined *x, int64_t now)
{
    static const char *const words[] = {[VERDICT_WHOLE] = "whole",
                                        [VERDICT_DAMAGED] = "damaged",
                                        [VERDICT_OTHER] = "other",
                                        [VERDICT_UNREADABLE] = "unreadable"};
    char text[SNAP_FAULT_TEXT_MAX];

    json_begin(j, NULL, '{');
    json_text(j, "file", span_str(name));
    json_text(j, "verdict", span_str(words[examine_verdict(x)]));
    json_text(j, "fault",
              x->fault.kind == SNAP_FINE ? (struct span){0}
                                         : span_str(snap_fault_text(&x->fault, text)));
    if (snap_fault_is_of_block(&x->fault)) {
        json_u64(j, "fault_block", x->fault.block);
        json_u64(j, "fault_offset", x->fault.offset);
    }
    if (x->has_header) {
        json_content(j, x, now);
    }
    json_end(j, '{');
}
