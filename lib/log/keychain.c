/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The logs that belong to a snapshot: see keychain.h.
 */
#include "lib/log/keychain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/num.h"
#include "lib/format/decode.h"
#include "lib/format/load_file.h"

/* Number of keys whose places are prefetched while others are added. */
#define AHEAD 32u

/* ---- names ------------------------------------------------------------------------------- */

bool keychain_name(char out[KEYCHAIN_NAME_MAX], const char *base, uint64_t number)
{
    return snprintf(out, KEYCHAIN_NAME_MAX, "%s.log.%" PRIu64, base, number) <
           KEYCHAIN_NAME_MAX - 8; /* with room for the name of one that is begun */
}

/* The number of a log with this name; 0: it is none of this base. */
static uint64_t number_of(const char *name, const char *base)
{
    size_t n = strlen(base);
    uint64_t number = 0;

    if (strncmp(name, base, n) != 0 || strncmp(name + n, ".log.", 5) != 0) {
        return 0;
    }
    return num_u64(span_str(name + n + 5), &number) == MF_OK && number < UINT64_MAX / 2 ? number
                                                                                        : 0;
}

bool keychain_is_name(const char *name)
{
    size_t n = strlen(name);
    size_t digits = 0;

    while (digits < n && name[n - digits - 1] >= '0' && name[n - digits - 1] <= '9') {
        digits++;
    }
    return digits != 0 && n - digits >= 5 && strncmp(name + n - digits - 5, ".log.", 5) == 0;
}

/* Is it what lib/format/newfile.h leaves when it is interrupted? */
static bool is_begun(const char *name, const char *base)
{
    size_t len = strlen(name);
    char log[KEYCHAIN_NAME_MAX];

    if (name[0] != '.' || len < 6 || len >= sizeof(log) ||
        strcmp(name + len - 4, ".new") != 0) {
        return false;
    }
    snprintf(log, sizeof(log), "%.*s", (int)(len - 5), name + 1);
    return number_of(log, base) != 0;
}

/*
 * The next log of this base in a folder, or, with number 0, one that is begun. False: there are
 * no more, or *error is set to an errno.
 */
static bool next_log(DIR *d, const char *base, const char **name, uint64_t *number, int *error)
{
    const struct dirent *entry;

    while (errno = 0, (entry = readdir(d)) != NULL) {
        *name = entry->d_name;
        *number = number_of(entry->d_name, base);
        if (*number != 0 || is_begun(entry->d_name, base)) {
            return true;
        }
    }
    *error = errno != 0 ? errno : *error;
    return false;
}

int keychain_find(const char *dir, const char *base, uint64_t *highest, uint64_t *count)
{
    DIR *d = opendir(dir);
    const char *name;
    uint64_t number;
    int error = 0;

    *highest = 0;
    *count = 0;
    if (d == NULL) {
        return errno;
    }
    while (next_log(d, base, &name, &number, &error)) {
        *highest = number > *highest ? number : *highest;
        *count += number != 0;
    }
    closedir(d);
    return error;
}

int keychain_remove(const struct io_calls *io, const char *dir, const char *base,
                    uint64_t below)
{
    DIR *d = opendir(dir);
    const char *name;
    uint64_t number;
    int error = 0;

    if (d == NULL) {
        return errno;
    }
    while (next_log(d, base, &name, &number, &error)) {
        if ((number == 0 || number < below) && io->unlink_at(dirfd(d), name) != 0 &&
            errno != ENOENT) {
            error = errno;
        }
    }
    closedir(d);
    return error;
}

int keychain_rename(const struct io_calls *io, const char *dir, const char *base,
                    const char *to)
{
    DIR *d = opendir(dir);
    const char *from;
    uint64_t number;
    bool is_changed = false;
    int error = 0;

    if (d == NULL) {
        return errno;
    }
    while (error == 0 && next_log(d, base, &from, &number, &error)) {
        char name[KEYCHAIN_NAME_MAX];

        if (number == 0) {
            continue;
        }
        if (!keychain_name(name, to, number)) {
            error = ENAMETOOLONG;
        } else if (io->rename_at(dirfd(d), from, name) != 0) {
            error = errno;
        }
        is_changed = true;
    }
    if (error == 0 && is_changed && io->fsync(dirfd(d)) != 0) {
        error = errno;
    }
    closedir(d);
    return error;
}

/* ---- reading ----------------------------------------------------------------------------- */

bool keychain_path(const struct keychain *c, uint64_t number, char out[PATH_MAX])
{
    char name[KEYCHAIN_NAME_MAX];

    return keychain_name(name, c->base, number) &&
           snprintf(out, PATH_MAX, "%s/%s", c->dir, name) < PATH_MAX;
}

static enum keychain_end read_fails(struct keychain *c, int error)
{
    c->fault = (struct snap_fault){.kind = SNAP_FAULT_READ, .number = (uint64_t)error};
    return KEYCHAIN_BAD;
}

static enum keychain_end open_log(struct keychain *c, struct load_file *log, int flags)
{
    char path[PATH_MAX];

    if (!keychain_path(c, c->number, path)) {
        return read_fails(c, ENAMETOOLONG);
    }
    if (load_open_any(log, path, flags | O_NOFOLLOW)) {
        return KEYCHAIN_DONE;
    }
    c->fault = log->fault;
    return log->fault.kind == SNAP_FAULT_READ && log->fault.number == ENOENT ? KEYCHAIN_MISSING
                                                                             : KEYCHAIN_BAD;
}

/* Truncate the log after its last good block. */
static enum keychain_end cut(struct keychain *c, const struct load_file *log, uint64_t at)
{
    if (c->io->truncate(log->fd, (int64_t)at) != 0) {
        return read_fails(c, errno);
    }
    c->cut_bytes = log->bytes - at;
    c->is_sealed = false;
    c->bytes -= c->cut_bytes;
    return KEYCHAIN_DONE;
}

static void add_keys(struct keychain *c, const struct snap_block *b, struct span content)
{
    for (uint32_t i = 0; i < b->items; i++) {
        if (i + AHEAD < b->items) {
            keyset_prefetch(&c->set, snap_key_of(content, i + AHEAD));
        }
        keyset_add(&c->set, snap_key_of(content, i));
    }
    c->keys += b->items;
    c->last_keys = c->number;
}

static void note_block(struct keychain *c, const struct snap_block *b, struct span content)
{
    int64_t due;

    if (b->kind == SNAP_KEYS) {
        add_keys(c, b, content);
    } else if (b->kind == SNAP_DUE && snap_instant_of(content, &due)) {
        c->unix_ms = due > c->unix_ms ? due : c->unix_ms;
    } else if (b->kind == SNAP_VALUE || b->kind == SNAP_FLUSH || b->kind == SNAP_PREFIX ||
               (b->kind == SNAP_ITEMS && b->items != 0)) {
        c->states += b->items;
        c->has_states = true;
    }
    c->unix_ms = b->unix_ms > c->unix_ms ? b->unix_ms : c->unix_ms;
    c->is_sealed = b->kind == SNAP_ITEMS && b->items == 0;
}

static enum keychain_end read_blocks(struct keychain *c, const struct load_file *log,
                                     struct snap_reader *r, struct snap_opener *o, bool is_last)
{
    while (r->offset != log->bytes) {
        struct snap_block b;
        struct span content;

        if (snap_reader_next(r, &b, &c->fault) == SNAP_NEXT_BLOCK &&
            snap_block_open(r, &b, o, &content, &c->fault)) {
            note_block(c, &b, content);
            continue;
        }
        if (!is_last || !c->may_cut || !torn_is_end(r, o, &c->fault)) {
            return KEYCHAIN_BAD;
        }
        return cut(c, log, c->fault.offset);
    }
    return KEYCHAIN_DONE;
}

static enum keychain_end read_log(struct keychain *c, const struct snap_header *h, bool is_last)
{
    enum keychain_end end = KEYCHAIN_NO_MEMORY;
    struct snap_opener o;
    struct snap_reader r;
    struct load_file log;
    enum keychain_end opened = open_log(c, &log, is_last && c->may_cut ? O_RDWR : O_RDONLY);

    if (opened != KEYCHAIN_DONE) {
        return opened;
    }
    if (!snap_reader_begin(&r, load_read, &log, &c->fault)) {
        end = KEYCHAIN_BAD;
    } else if ((r.header.flags & SNAP_IS_LOG) == 0 || r.header.chain != h->chain ||
               r.header.log != c->number) {
        end = KEYCHAIN_FOREIGN;
    } else if (snap_opener_init(&o)) {
        c->unix_ms = r.header.unix_ms > c->unix_ms ? r.header.unix_ms : c->unix_ms;
        c->is_sealed = false;
        end = read_blocks(c, &log, &r, &o, is_last);
        snap_opener_fini(&o);
    }
    /*
     * Also if the log was whole: its writer may have been killed before the data was durable.
     */
    if (end == KEYCHAIN_DONE && is_last && c->io->fsync(log.fd) != 0) {
        end = read_fails(c, errno);
    }
    c->logs += end == KEYCHAIN_DONE;
    load_close(&log);
    return end;
}

/* Number of keys in a log according to the headers of its blocks, which are not trusted. */
static uint64_t count_keys(struct load_file *log)
{
    struct snap_fault fault;
    struct snap_reader r;
    struct snap_block b;
    uint64_t keys = 0;

    if (snap_reader_begin(&r, load_read, log, &fault)) {
        while (snap_reader_next(&r, &b, &fault) == SNAP_NEXT_BLOCK) {
            keys += b.kind == SNAP_KEYS ? b.items : 0;
        }
    }
    return keys;
}

/* How long they are in all, up to the last one; all have to be there. *keys: see above. */
static enum keychain_end measure(struct keychain *c, uint64_t first, uint64_t last,
                                 uint64_t *keys)
{
    *keys = 0;
    for (c->number = first; c->number <= last; c->number++) {
        struct load_file log;
        enum keychain_end end = open_log(c, &log, O_RDONLY);

        if (end != KEYCHAIN_DONE) {
            return end;
        }
        c->bytes += log.bytes;
        *keys += count_keys(&log);
        load_close(&log);
    }
    return KEYCHAIN_DONE;
}

enum keychain_end keychain_read(struct keychain *c, const struct snap_header *h)
{
    uint64_t last;
    uint64_t count;
    uint64_t keys;
    int error = keychain_find(c->dir, c->base, &last, &count);

    c->set = (struct keyset){.words = NULL};
    c->number = c->logs = c->bytes = c->keys = c->cut_bytes = 0;
    c->states = c->last_keys = 0;
    c->has_states = c->is_sealed = false;
    c->first = h->log;
    c->unix_ms = 0;
    c->fault = (struct snap_fault){.kind = SNAP_FINE};
    if (error != 0) {
        return read_fails(c, error);
    }
    if (h->log == 0 || ((h->flags & SNAP_HAS_LOG) == 0 && last < h->log)) {
        return KEYCHAIN_DONE;
    }
    if (last < h->log) {
        c->number = h->log;
        return KEYCHAIN_MISSING;
    }
    enum keychain_end end = measure(c, h->log, last, &keys);
    if (end != KEYCHAIN_DONE) {
        return end;
    }
    if (!keyset_init(&c->set, keys, h->chain)) {
        return KEYCHAIN_NO_MEMORY;
    }
    for (c->number = h->log; end == KEYCHAIN_DONE && c->number <= last; c->number++) {
        end = read_log(c, h, c->number == last);
        if (end != KEYCHAIN_DONE) {
            return end;
        }
    }
    c->number = last;
    return KEYCHAIN_DONE;
}

void keychain_fini(struct keychain *c)
{
    keyset_fini(&c->set);
}
