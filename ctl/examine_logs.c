/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The logs beside a snapshot: see examine.h.
 */
#include "ctl/examine.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/snapshot/load_file.h"

static void fails(struct examined_logs *l, int error)
{
    l->end = error == ENOENT ? KEYCHAIN_MISSING : KEYCHAIN_BAD;
    l->fault = (struct snap_fault){.kind = SNAP_FAULT_READ, .number = (uint64_t)error};
}

/* Folder and name of a path. False: it is too long. */
static bool split_path(const char *path, char dir[PATH_MAX], const char **name)
{
    const char *slash = strrchr(path, '/');
    int n = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);

    *name = slash != NULL ? slash + 1 : path;
    return snprintf(dir, PATH_MAX, "%.*s", n, slash != NULL ? path : ".") < PATH_MAX;
}

/* One log that is open, of which *x says what is in it. */
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
    if (!load_open_any(&file, path)) {
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
