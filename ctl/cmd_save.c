/* SPDX-License-Identifier: BSD-3-Clause */
/* `save`: a snapshot of the server, here: on standard output, or in a file. */
#include "ctl/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ask.h"
#include "ctl/show.h"
#include "lib/base/num.h"
#include "lib/format/newfile.h"

/* A portion that is longer is none. */
#define PORTION_MAX ((uint64_t)1 << 20)

/* Where it goes. */
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

/* A file of this path: its folder and its name. */
static enum ctl_status begin_target(struct save_target *t, struct span path)
{
    size_t at = path.len;

    t->is_file = !span_is(path, "-");
    if (!t->is_file) {
        return isatty(STDOUT_FILENO)
                   ? ctl_fail(t->c, CTL_USAGE, "a snapshot is nothing for a terminal")
                   : CTL_OK;
    }
    while (at > 0 && path.ptr[at - 1] != '/') {
        at--;
    }
    if (at == path.len || path.len - at >= sizeof(t->name) || at >= sizeof(t->dir) ||
        memchr(path.ptr, '\0', path.len) != NULL) {
        return ctl_fail(t->c, CTL_USAGE, "this is no name of a file");
    }
    snprintf(t->dir, sizeof(t->dir), "%.*s", at != 0 ? (int)at : 2, at != 0 ? path.ptr : "./");
    snprintf(t->name, sizeof(t->name), "%.*s", (int)(path.len - at), path.ptr + at);
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

/* It is whole: the file gets its name. */
static enum ctl_status finish_target(struct save_target *t)
{
    if (t->is_file) {
        return newfile_sync(&t->file) && newfile_name(&t->file) ? CTL_OK
                                                                : cannot_save(t, t->file.error);
    }
    return fflush(t->c->out) == 0 ? CTL_OK : cannot_save(t, errno);
}

/* "PART <n>" and the bytes, or "END <items>". */
static enum ctl_status take_portion(struct save_target *t, struct progress *p, bool *is_over,
                                    uint64_t *items)
{
    struct span line;
    struct span bytes;
    uint64_t n = 0;
    enum ctl_status status = ask_answer(t->c, &line);

    if (status != CTL_OK) {
        return status;
    }
    if (span_is(line, "OK")) {
        /* What it was asked to do is something else to it. */
        return ctl_fail(t->c, CTL_REFUSED, "the server sends no snapshots");
    }
    struct span rest = line;
    struct span word = span_word(&rest);
    if (span_is(word, "BUSY")) {
        return ctl_fail(t->c, CTL_REFUSED, "the server sends a snapshot to another client");
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
        status = ask_connect(c);
    }
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
        ask_disconnect(c); /* portions may still come */
    }
    return status;
}
