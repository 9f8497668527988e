/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a file to its end or its first damage, and the logs beside a snapshot: see examine.h.
 */
#include "ctl/examine.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/format/load_file.h"
#include "lib/format/scan.h"
#include "lib/log/keychain.h"

struct examiner {
    struct examined *x;
    int64_t now;
    struct snap_item large; /* item of the current value in parts; its spans are invalid */
    bool is_dropped;        /* the last value in parts was incomplete */
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

bool examine(struct examined *x, snap_read_fn read, void *arg, int64_t now_unix_ms)
{
    struct examiner e = {.x = x, .now = now_unix_ms};
    const struct scan_sink sink = {
        .arg = &e,
        .item = on_item,
        .value_begin = on_value_begin,
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
        if (snap_is_end_of_log(&s.reader, &s.fault)) {
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

/* ---- the logs of a snapshot -------------------------------------------------------------- */

static void fails(struct examined_logs *l, int error)
{
    l->end = error == ENOENT ? KEYCHAIN_MISSING : KEYCHAIN_BAD;
    l->fault = (struct snap_fault){.kind = SNAP_FAULT_READ, .number = (uint64_t)error};
}

/* Split a path into folder and name. False: the path is too long. */
static bool split_path(const char *path, char dir[PATH_MAX], const char **name)
{
    const char *slash = strrchr(path, '/');
    int n = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);

    *name = slash != NULL ? slash + 1 : path;
    return snprintf(dir, PATH_MAX, "%.*s", n, slash != NULL ? path : ".") < PATH_MAX;
}

/* Judge a log by its content, *x. */
static void judge(struct examined_logs *l, const struct examined *x,
                  const struct snap_header *h, bool is_last)
{
    if (!x->has_header) {
        l->end = KEYCHAIN_BAD;
        l->fault = x->fault;
    } else if (!examine_is_log(x) || x->header.chain != h->chain ||
               x->header.log != l->number) {
        l->end = KEYCHAIN_FOREIGN;
    } else if (x->fault.kind != SNAP_FINE && (!is_last || !x->is_torn)) {
        l->end = KEYCHAIN_BAD;
        l->fault = x->fault;
    } else {
        l->is_torn = x->is_torn;
        l->count++;
    }
}

/* False: no memory. */
static bool examine_log(struct examined_logs *l, const struct keychain *c,
                        const struct snap_header *h, bool is_last)
{
    char path[PATH_MAX];
    struct load_file file;
    struct examined x;

    if (!keychain_path(c, l->number, path)) {
        fails(l, ENAMETOOLONG);
        return true;
    }
    if (!load_open_any(&file, path, O_RDONLY)) {
        l->end = KEYCHAIN_BAD;
        l->fault = file.fault;
        if (file.fault.kind == SNAP_FAULT_READ) {
            fails(l, (int)file.fault.number);
        }
        return true;
    }
    bool is_done = examine(&x, load_read, &file, 0);
    load_close(&file);
    if (is_done) {
        judge(l, &x, h, is_last);
    }
    return is_done;
}

bool examine_logs(struct examined_logs *l, const char *path, const struct snap_header *h)
{
    struct keychain c = {.io = &io_system};
    char dir[PATH_MAX];
    bool is_done = true;
    uint64_t count;
    uint64_t last;

    *l = (struct examined_logs){.end = KEYCHAIN_DONE};
    if (h->log == 0) {
        return true;
    }
    if (!split_path(path, dir, &c.base)) {
        fails(l, ENAMETOOLONG);
        return true;
    }
    c.dir = dir;
    int error = keychain_find(dir, c.base, &last, &count);
    if (error != 0) {
        fails(l, error);
        return true;
    }
    if (last < h->log) {
        l->number = (h->flags & SNAP_HAS_LOG) != 0 ? h->log : 0;
        l->end = l->number != 0 ? KEYCHAIN_MISSING : KEYCHAIN_DONE;
        return true;
    }
    for (uint64_t n = h->log; is_done && l->end == KEYCHAIN_DONE && n <= last; n++) {
        l->number = n;
        is_done = examine_log(l, &c, h, n == last);
    }
    return is_done;
}
