/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file, read to its end or its first damage: see examine.h.
 */
#include "ctl/examine.h"

#include "lib/format/scan.h"
#include "lib/log/keychain.h"

struct examiner {
    struct examined *x;
    int64_t now;
    struct snap_item large; /* the value in parts that is under way; its spans are gone */
    bool is_dropped;        /* it ended too early: by its own mark if another block follows */
};

static void note_item(struct examiner *e, const struct snap_item *it)
{
    struct examined *x = e->x;

    if ((it->marks & SNAP_GONE) != 0) {
        x->gone++;
        return;
    }
    x->items++;
    x->key_bytes += it->key.len;
    x->value_bytes += it->value_len;
    if (it->deadline == SNAP_DEADLINE_NEVER) {
        x->forever++;
    } else if (it->deadline <= e->now) {
        x->expired++;
    }
}

static bool on_item(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    (void)b;
    note_item(arg, it);
    return true;
}

static bool on_value_begin(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    struct examiner *e = arg;

    (void)b;
    e->large = *it;
    return true;
}

static bool on_value_part(void *arg, struct span bytes)
{
    (void)arg;
    (void)bytes;
    return true;
}

static bool on_value_end(void *arg)
{
    struct examiner *e = arg;

    note_item(e, &e->large);
    e->x->in_parts++;
    return true;
}

static void on_value_drop(void *arg)
{
    struct examiner *e = arg;

    e->is_dropped = true;
}

static bool on_flush(void *arg, int64_t at_unix_ms)
{
    struct examiner *e = arg;

    if (at_unix_ms == 0) {
        return true; /* it took place, in a log */
    }
    e->x->flush_at = at_unix_ms < e->x->flush_at ? at_unix_ms : e->x->flush_at;
    return true;
}

static void on_due(void *arg, int64_t due_unix_ms)
{
    struct examined *x = ((struct examiner *)arg)->x;

    x->due_unix_ms = due_unix_ms > x->due_unix_ms ? due_unix_ms : x->due_unix_ms;
}

static void on_block(void *arg, const struct snap_block *b)
{
    struct examiner *e = arg;
    struct examined *x = e->x;

    x->cut += e->is_dropped;
    e->is_dropped = false;
    x->blocks[b->kind < EXAMINE_KINDS - 1 ? b->kind : EXAMINE_KINDS - 1]++;
    x->keys += b->kind == SNAP_KEYS ? b->items : 0;
    if (examine_is_log(x) && b->unsynced < SNAP_UNSYNCED_MAX && b->unsynced < b->offset &&
        b->offset - b->unsynced > x->synced) {
        x->synced = b->offset - b->unsynced;
    }
    x->packed += (b->flags & SNAP_PACKED) != 0;
    x->stored_bytes += b->stored;
    x->raw_bytes += b->raw;
    x->last_unix_ms = b->unix_ms > x->last_unix_ms ? b->unix_ms : x->last_unix_ms;
}

/* A log has no END: it is whole if it ends where a block would begin. */
static bool is_end_of_log(const struct examined *x, snap_read_fn read, void *arg)
{
    char byte;

    return examine_is_log(x) && x->fault.kind == SNAP_FAULT_CUT &&
           read(arg, &byte, 1, x->fault.offset) == 0;
}

bool examine(struct examined *x, snap_read_fn read, void *arg, int64_t now_unix_ms)
{
    struct examiner e = {.x = x, .now = now_unix_ms};
    const struct scan_sink sink = {
        .arg = &e,
        .item = on_item,
        .value_begin = on_value_begin,
        .value_part = on_value_part,
        .value_end = on_value_end,
        .value_drop = on_value_drop,
        .flush = on_flush,
        .due = on_due,
        .block = on_block,
    };
    struct snap_opener o;
    struct scan s;
    bool is_done = true;

    *x = (struct examined){.flush_at = INT64_MAX};
    if (!scan_init(&s, read, arg)) {
        x->fault = s.fault;
        scan_fini(&s);
        return true;
    }
    x->has_header = true;
    x->header = s.reader.header;
    x->synced = examine_is_log(x) ? SNAP_HEADER_BYTES : 0;
    is_done = snap_opener_init(&o);
    if (is_done) {
        scan_run(&s, &o, &sink);
        x->fault = s.fault;
        x->is_torn = examine_is_log(x) && torn_is_end(&s.reader, &o, &s.fault);
        snap_opener_fini(&o);
        x->blocks[SNAP_END] += s.is_whole;
        x->bytes =
            s.is_whole || s.fault.kind == SNAP_FAULT_READ ? s.reader.offset : s.fault.offset;
        if (is_end_of_log(x, read, arg)) {
            x->fault = (struct snap_fault){.kind = SNAP_FINE};
            x->is_torn = false;
        }
    }
    scan_fini(&s);
    return is_done;
}

static enum check_verdict verdict_of(const struct snap_fault *fault)
{
    switch (fault->kind) {
    case SNAP_FINE:
        return VERDICT_WHOLE;
    case SNAP_FAULT_READ:
        return VERDICT_UNREADABLE;
    case SNAP_FAULT_EMPTY:
    case SNAP_FAULT_FOREIGN:
    case SNAP_FAULT_RDB:
    case SNAP_FAULT_VERSION:
    case SNAP_FAULT_PACKED:
        return VERDICT_OTHER;
    default:
        return VERDICT_DAMAGED;
    }
}

static enum check_verdict verdict_of_logs(const struct examined_logs *l)
{
    if (l->end == KEYCHAIN_DONE) {
        return VERDICT_WHOLE;
    }
    return l->end == KEYCHAIN_BAD && l->fault.kind == SNAP_FAULT_READ ? VERDICT_UNREADABLE
                                                                      : VERDICT_DAMAGED;
}

enum check_verdict examine_verdict(const struct examined *x)
{
    enum check_verdict of_file = verdict_of(&x->fault);
    enum check_verdict of_logs = verdict_of_logs(&x->logs);

    return of_file > of_logs ? of_file : of_logs;
}

uint64_t examine_salvage(const struct examined *x, int64_t now_unix_ms)
{
    return x->flush_at <= now_unix_ms ? 0 : x->items - x->expired;
}
