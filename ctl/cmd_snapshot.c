/* SPDX-License-Identifier: BSD-3-Clause */
/* `save` and `load`: a snapshot of the server goes to a file here, or comes from one. */
#include "ctl/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/ask.h"
#include "ctl/json.h"
#include "ctl/show.h"
#include "lib/base/num.h"
#include "lib/format/newfile.h"
#include "lib/format/scan.h"
#include "proto/encode.h"

/* ---- save -------------------------------------------------------------------------------- */

/* Longest portion of a snapshot that is accepted. */
#define PORTION_MAX ((uint64_t)1 << 20)

/* The destination of a save. */
struct save_target {
    struct ctl *c;
    bool is_file;
    struct newfile file;
    char dir[PATH_MAX];
    char name[NAME_MAX + 1];
};

static enum ctl_status cannot_save(struct save_target *t, int error)
{
    return ctl_fail(t->c, CTL_SYSTEM, "cannot write %s%s: %s", t->is_file ? t->dir : "to ",
                    t->is_file ? t->name : "standard output", strerror(error));
}

/* Open the destination: "-" for standard output, or the path of a file. */
static enum ctl_status begin_target(struct save_target *t, struct span path)
{
    size_t at = path.len;
    struct stat st;

    t->is_file = !span_is(path, "-");
    if (!t->is_file) {
        return isatty(STDOUT_FILENO)
                   ? ctl_fail(t->c, CTL_USAGE, "a snapshot cannot be written to a terminal")
                   : CTL_OK;
    }
    while (at > 0 && path.ptr[at - 1] != '/') {
        at--;
    }
    if (at == path.len || path.len - at >= sizeof(t->name) || at >= sizeof(t->dir) ||
        memchr(path.ptr, '\0', path.len) != NULL) {
        return ctl_fail(t->c, CTL_USAGE, "not a file name");
    }
    snprintf(t->dir, sizeof(t->dir), "%.*s", at != 0 ? (int)at : 2, at != 0 ? path.ptr : "./");
    snprintf(t->name, sizeof(t->name), "%.*s", (int)(path.len - at), path.ptr + at);
    if (stat(path.ptr, &st) == 0 && !S_ISREG(st.st_mode)) {
        return ctl_fail(t->c, CTL_USAGE, "this is no regular file (- is standard output)");
    }
    return newfile_begin(&t->file, &io_system, t->dir, t->name) ? CTL_OK
                                                                : cannot_save(t, t->file.error);
}

static enum ctl_status put_portion(struct save_target *t, struct span bytes)
{
    if (t->is_file) {
        return newfile_write(&t->file, bytes.ptr, bytes.len) ? CTL_OK
                                                             : cannot_save(t, t->file.error);
    }
    return fwrite(bytes.ptr, 1, bytes.len, t->c->out) == bytes.len ? CTL_OK
                                                                   : cannot_save(t, errno);
}

/* The snapshot is complete: give the file its name. */
static enum ctl_status finish_target(struct save_target *t)
{
    if (t->is_file) {
        return newfile_sync(&t->file) && newfile_name(&t->file) ? CTL_OK
                                                                : cannot_save(t, t->file.error);
    }
    return fflush(t->c->out) == 0 ? CTL_OK : cannot_save(t, errno);
}

/* Take the next part of the answer: "PART <n>" and n bytes, or "END <items>". */
static enum ctl_status take_portion(struct save_target *t, struct progress *p, bool *is_over,
                                    uint64_t *items)
{
    struct span line;
    struct span bytes;
    uint64_t n = 0;
    enum ctl_status status = ask_answer(t->c, CTL_OK, &line);

    if (status != CTL_OK) {
        return status;
    }
    if (span_is(line, "OK")) {
        /* A server that knows another `save` command took it for that one. */
        return ctl_fail(t->c, CTL_REFUSED, "the server does not support sending snapshots");
    }
    struct span rest = line;
    struct span word = span_word(&rest);
    if (span_is(word, "BUSY")) {
        return ctl_fail(t->c, CTL_REFUSED,
                        "the server is sending a snapshot to another client");
    }
    *is_over = span_is(word, "END");
    if ((!*is_over && !span_is(word, "PART")) || num_u64(span_word(&rest), &n) != MF_OK ||
        (!*is_over && n > PORTION_MAX)) {
        return ask_garbled(t->c, line);
    }
    if (*is_over) {
        *items = n;
        return CTL_OK;
    }
    status = ask_value(t->c, (size_t)n, &bytes);
    if (status == CTL_OK) {
        status = put_portion(t, bytes);
        progress_add(p, n, 0);
    }
    return status;
}

int cmd_save(struct ctl *c, const struct ctl_words *args)
{
    struct save_target t = {.c = c, .file = {.dir = -1, .fd = -1}};
    struct progress p;
    uint64_t items = 0;
    bool is_over = false;
    enum ctl_status status = begin_target(&t, args->word[1]);

    progress_begin(&p, "saved");
    if (status == CTL_OK) {
        status = ask_line(c, "save -");
    }
    while (status == CTL_OK && !is_over) {
        status = take_portion(&t, &p, &is_over, &items);
    }
    if (status == CTL_OK) {
        status = finish_target(&t);
    }
    progress_end(&p);
    if (t.is_file) {
        newfile_end(&t.file);
        if (status == CTL_OK) {
            fprintf(c->out, "saved %" PRIu64 " items, %" PRIu64 " bytes\n", items, p.bytes);
        }
    }
    if (status != CTL_OK && !is_over) {
        ask_disconnect(c); /* further portions may arrive */
    }
    return status;
}

/* ---- load -------------------------------------------------------------------------------- */

/*
 * A snapshot is read block by block as it arrives, and each block is checked by its sum. Its
 * items are sent as adds by meta commands. `restore begin` tells the server beforehand: from
 * then on it turns away items whose keys were removed meanwhile.
 */

/*
 * Bytes of requests that are sent before their answers are read. Answers are short, so neither
 * side waits for the other.
 */
#define BATCH_BYTES (64u * 1024)

/* Longest value that is sent. */
#define VALUE_MAX ((uint32_t)1 << 30)

struct loading {
    struct ctl *c;
    const char *name; /* [borrowed] of the file, or "-" */
    int fd;
    uint64_t offset; /* bytes read */
    int64_t flush_at;
    int64_t now_ms;
    struct buf batch; /* requests */
    uint64_t in_batch;
    enum ctl_status status; /* of the connection */
    struct progress progress;
    struct snap_item large; /* the value in parts that is under way */
    char key[256];
    struct buf value;
    bool is_passed_over;
    uint64_t sent, expired, stale, not_stored, refused;
    char why[160]; /* the first refusal */
};

/* snap_read_fn of a file that may be a pipe: it can only be read in order. */
static ssize_t read_stream(void *arg, void *out, size_t n, uint64_t offset)
{
    struct loading *l = arg;
    ssize_t got;

    if (offset != l->offset) {
        return -ESPIPE;
    }
    do {
        got = read(l->fd, out, n);
    } while (got < 0 && errno == EINTR && !ctl_is_interrupted());
    if (got < 0) {
        return -errno;
    }
    l->offset += (uint64_t)got;
    progress_add(&l->progress, (uint64_t)got, 0);
    return got;
}

/* ---- requests ---------------------------------------------------------------------------- */

static bool no_memory(struct loading *l)
{
    l->status = ctl_fail(l->c, CTL_SYSTEM, "no memory");
    return false;
}

/* Send the batch, and read the answers. False: failed, with l->status. */
static bool send_batch(struct loading *l)
{
    struct span line;

    if (l->in_batch == 0) {
        return true;
    }
    if (!buf_append(&l->batch, "mn\r\n", 4)) {
        return no_memory(l);
    }
    l->status = ask_bytes(l->c, buf_span(&l->batch));
    buf_clear(&l->batch);
    while (l->status == CTL_OK) {
        l->status = ask_answer(l->c, CTL_OK, &line);
        if (l->status == CTL_REFUSED) {
            if (l->refused++ == 0) {
                snprintf(l->why, sizeof(l->why), "%.*s", (int)sizeof(l->why) - 1, l->c->why);
            }
            l->c->why[0] = '\0';
            l->status = CTL_OK;
        } else if (l->status == CTL_OK && span_is(line, "NS")) {
            l->not_stored++;
        } else if (l->status == CTL_OK && span_is(line, "MN")) {
            break;
        } else if (l->status == CTL_OK) {
            l->status = ask_garbled(l->c, line);
        }
    }
    progress_add(&l->progress, 0, l->in_batch);
    l->in_batch = 0;
    l->now_ms = ctl_unix_ms();
    return l->status == CTL_OK;
}

/* Is the item to be sent? *deadline: when it expires or is flushed, whichever is first. */
static bool is_wanted(struct loading *l, const struct snap_item *it, int64_t *deadline)
{
    *deadline = it->deadline < l->flush_at ? it->deadline : l->flush_at;
    if (*deadline <= l->now_ms) {
        l->expired++;
        return false;
    }
    /*
     * Adding a stale item would make it fresh. An item that waits for its first value would
     * get an empty one.
     */
    if ((it->marks & SNAP_STALE) != 0 || ((it->marks & SNAP_WON) != 0 && it->value_len == 0)) {
        l->stale++;
        return false;
    }
    return true;
}

/* Append an add to the batch. The value need not be that of *it, which may have only a part. */
static bool put_add(struct loading *l, const struct snap_item *it, struct span value,
                    int64_t deadline)
{
    char encoded[ENCODE_BASE64_BYTES(256)];
    struct span key = it->key;
    bool is_encoded = !encode_is_plain(key);

    if (is_encoded) {
        key = span_of(encoded, encode_base64(encoded, key));
    }
    bool is_ok = buf_printf(&l->batch, "ms %.*s %zu ME q F%" PRIu32 "%s", (int)key.len, key.ptr,
                            value.len, it->client_flags, is_encoded ? " b" : "");
    if (deadline != SNAP_DEADLINE_NEVER) {
        /* The server adds a millisecond to a requested deadline. */
        is_ok = is_ok && buf_printf(&l->batch, " p%" PRId64, deadline - 1);
    }
    is_ok = is_ok && buf_append(&l->batch, "\r\n", 2) &&
            buf_append(&l->batch, value.ptr, value.len) && buf_append(&l->batch, "\r\n", 2);
    if (!is_ok) {
        return no_memory(l);
    }
    l->sent++;
    l->in_batch++;
    return buf_len(&l->batch) < BATCH_BYTES || send_batch(l);
}

/* ---- the scan ---------------------------------------------------------------------------- */

static bool on_item(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    struct loading *l = arg;
    int64_t deadline;

    (void)b;
    return !is_wanted(l, it, &deadline) || put_add(l, it, it->value, deadline);
}

static bool on_value_part(void *arg, struct span bytes)
{
    struct loading *l = arg;

    return l->is_passed_over || buf_append(&l->value, bytes.ptr, bytes.len) || no_memory(l);
}

static bool on_value_begin(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    struct loading *l = arg;
    int64_t deadline;

    (void)b;
    l->large = *it;
    memcpy(l->key, it->key.ptr, it->key.len);
    l->large.key.ptr = l->key;
    buf_clear(&l->value);
    l->is_passed_over = !is_wanted(l, it, &deadline);
    if (it->value_len > VALUE_MAX && !l->is_passed_over) {
        l->is_passed_over = true;
        l->refused++;
    }
    return on_value_part(l, it->value);
}

static bool on_value_end(void *arg)
{
    struct loading *l = arg;
    int64_t deadline;

    return l->is_passed_over || !is_wanted(l, &l->large, &deadline) ||
           put_add(l, &l->large, buf_span(&l->value), deadline);
}

static void on_value_drop(void *arg)
{
    buf_clear(&((struct loading *)arg)->value);
}

/* The record of a pending flush precedes all items. */
static bool on_flush(void *arg, int64_t at_unix_ms)
{
    struct loading *l = arg;

    l->flush_at = at_unix_ms < l->flush_at ? at_unix_ms : l->flush_at;
    return true;
}

/* Read and send all items. False: failed, with s->fault or l->status. */
static bool scan_all(struct loading *l, struct scan *s)
{
    const struct scan_sink sink = {
        .arg = l,
        .item = on_item,
        .value_begin = on_value_begin,
        .value_part = on_value_part,
        .value_end = on_value_end,
        .value_drop = on_value_drop,
        .flush = on_flush,
    };
    struct snap_opener o;

    if (!snap_opener_init(&o)) {
        return no_memory(l);
    }
    scan_run(s, &o, &sink);
    snap_opener_fini(&o);
    /* Items before a damaged block are sent too. */
    return l->status == CTL_OK && send_batch(l) && s->is_whole;
}

/* ---- before and after -------------------------------------------------------------------- */

static enum ctl_status begin_restore(struct loading *l, uint64_t items)
{
    struct span line = {0};
    enum ctl_status status =
        ask_answer(l->c, ask_line(l->c, "restore begin %" PRIu64, items), &line);

    if (status == CTL_OK && span_is(line, "BUSY another load is under way")) {
        return ctl_fail(l->c, CTL_REFUSED, "another load is running in the server");
    }
    return status == CTL_OK && !span_is(line, "OK") ? ask_garbled(l->c, line) : status;
}

/* Parse "RESTORED <turned away>": the number of items that were not stored. */
static enum ctl_status end_restore(struct loading *l, uint64_t *gone)
{
    struct span line = {0};
    enum ctl_status status = ask_answer(l->c, ask_line(l->c, "restore end"), &line);

    if (status != CTL_OK) {
        return status;
    }
    struct span rest = line;
    if (!span_is(span_word(&rest), "RESTORED") || num_u64(span_word(&rest), gone) != MF_OK) {
        return ask_garbled(l->c, line);
    }
    return CTL_OK;
}

static void report_load(const struct loading *l, uint64_t gone)
{
    uint64_t loaded = l->sent - l->not_stored - l->refused;
    uint64_t there = l->not_stored - (gone < l->not_stored ? gone : l->not_stored);
    struct json j = ctl_json(l->c);

    if (l->c->options.json) {
        json_begin(&j, NULL, '{');
        json_u64(&j, "loaded", loaded);
        json_u64(&j, "expired", l->expired);
        json_u64(&j, "there", there);
        json_u64(&j, "gone", gone);
        json_u64(&j, "stale", l->stale);
        json_u64(&j, "refused", l->refused);
        json_end(&j, '{');
        return;
    }
    fprintf(l->c->out,
            "loaded %" PRIu64 " items; %" PRIu64 " had expired, %" PRIu64
            " existed already, %" PRIu64 " were removed meanwhile, %" PRIu64
            " were stale, %" PRIu64 " were refused%s",
            loaded, l->expired, there, gone, l->stale, l->refused,
            l->why[0] != '\0' ? ": " : "");
    ctl_put_line(l->c, span_str(l->why)); /* it is the server's */
}

static enum ctl_status fault_of(struct loading *l, const struct snap_fault *fault)
{
    char text[SNAP_FAULT_TEXT_MAX];

    return ctl_fail(l->c, fault->kind == SNAP_FAULT_READ ? CTL_SYSTEM : CTL_NO, "%s: %s",
                    l->name, snap_fault_text(fault, text));
}

/*
 * Is the file complete without others? A log has only changes. A snapshot that has logs would
 * bring back, without them, items that were deleted.
 */
static enum ctl_status check_alone(struct loading *l, uint32_t flags)
{
    if ((flags & SNAP_IS_LOG) != 0) {
        return ctl_fail(l->c, CTL_NO, "%s: this is the log of a snapshot", l->name);
    }
    if ((flags & SNAP_HAS_LOG) != 0) {
        return ctl_fail(l->c, CTL_NO,
                        "%s: it has logs, so only a server can load it (dir); mayflyctl "
                        "save makes a snapshot without logs",
                        l->name);
    }
    return CTL_OK;
}

/* The header is read: send the rest. */
static enum ctl_status load_items(struct loading *l, struct scan *s)
{
    uint64_t gone = 0;
    enum ctl_status status = check_alone(l, s->reader.header.flags);

    if (status == CTL_OK) {
        status = begin_restore(l, s->reader.header.items);
    }
    if (status != CTL_OK) {
        return status;
    }
    l->now_ms = ctl_unix_ms();
    bool is_whole = scan_all(l, s);
    progress_end(&l->progress);
    if (l->status != CTL_OK) {
        return l->status;
    }
    status = end_restore(l, &gone);
    if (status == CTL_OK) {
        report_load(l, gone);
        status = is_whole ? CTL_OK : fault_of(l, &s->fault);
    }
    return status;
}

static enum ctl_status open_file(struct loading *l)
{
    if (strcmp(l->name, "-") == 0) {
        l->fd = STDIN_FILENO;
        return isatty(l->fd)
                   ? ctl_fail(l->c, CTL_USAGE, "a snapshot cannot be read from a terminal")
                   : CTL_OK;
    }
    l->fd = open(l->name, O_RDONLY | O_CLOEXEC);
    return l->fd >= 0 ? CTL_OK : ctl_fail(l->c, CTL_SYSTEM, "%s: %s", l->name, strerror(errno));
}

int cmd_load(struct ctl *c, const struct ctl_words *args)
{
    struct loading l = {
        .c = c, .name = args->word[1].ptr, .fd = -1, .flush_at = SNAP_DEADLINE_NEVER};
    enum ctl_status status = open_file(&l);
    struct scan s;

    progress_begin(&l.progress, "loaded");
    if (status == CTL_OK) {
        if (scan_init(&s, read_stream, &l)) {
            status = load_items(&l, &s);
        } else {
            status = fault_of(&l, &s.fault);
        }
        scan_fini(&s);
    }
    progress_end(&l.progress);
    if (status != CTL_OK) {
        ask_disconnect(c); /* this ends the restore */
    }
    if (l.fd > STDERR_FILENO) {
        close(l.fd);
    }
    buf_fini(&l.batch);
    buf_fini(&l.value);
    return status;
}
