/* SPDX-License-Identifier: BSD-3-Clause */
/* See access_file.h. */
#include "daemon/access/access_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/base/file.h"
#include "daemon/options/options_apply.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"

/* ---- complaints -------------------------------------------------------------------------- */

/* Without its subject. */
static const char *text_of(const char *complaint)
{
    const char *comma = strstr(complaint, ", ");

    return comma != NULL ? comma + 2 : complaint;
}

bool access_file_keep(struct access_file *f, const char *fmt, ...)
{
    char text[ACCESS_COMPLAINT_BYTES];

    must_be_main();
    MF_FORMAT(text, sizeof(text), fmt);
    if (f->starting != NULL) {
        option_fault(f->starting, f->option, "%s", text_of(text));
        return false;
    }
    if (f->complaint[0] == '\0') {
        memcpy(f->complaint, text, sizeof(f->complaint));
    }
    return true;
}

const char *access_file_complaint(const struct access_file *f)
{
    must_be_main();
    return text_of(f->complaint);
}

/* ---- the file ---------------------------------------------------------------------------- */

int access_file_init(struct access_file *f, const struct access_file_kind *kind,
                     enum option_id option, const char *path)
{
    must_be_main();
    memset(f, 0, sizeof(*f));
    f->kind = kind;
    f->option = option;
    f->path = path != NULL ? path_absolute(path) : NULL;
    if (path != NULL && f->path == NULL) {
        log_error("%s, cannot start (out of memory)", kind->area);
        return EX_OSERR;
    }
    return 0;
}

/* The content of the file as it is now; NULL after a complaint. */
static void *read_content(struct access_file *f, bool *is_ended)
{
    const struct access_file_kind *kind = f->kind;
    void *content = NULL;
    struct file_text text;
    const char *why = file_read_all(f->path, kind->bytes_max, &text);

    if (why != NULL) {
        access_file_complain(f, "%s, could not read %s%s (%s)", kind->area, kind->noun, f->path,
                             why);
    } else {
        content = kind->parse(f, span_of(text.bytes, text.len));
        *is_ended = text.len == 0 || text.bytes[text.len - 1] == '\n';
    }
    if (text.bytes != NULL) {
        explicit_bzero(text.bytes, text.cap); /* it may have had passwords */
        mem_free(text.bytes);
    }
    return content;
}

static void warn(const struct access_file *f, const void *content)
{
    if (f->kind->warn != NULL) {
        f->kind->warn(f, content);
    }
}

int access_file_load(struct access_file *f, const struct settings *settings)
{
    must_be_main();
    if (!access_file_is_on(f)) {
        return 0;
    }
    f->starting = settings;
    void *content = read_content(f, &f->is_ended);
    f->starting = NULL;
    if (content == NULL) {
        return EXIT_FAILURE;
    }
    atomic_store_explicit(&f->content, content, memory_order_release);
    log_info("%s, loaded %zu %s from %s%s", f->kind->area, f->kind->count(content),
             f->kind->contents, f->kind->noun, f->path);
    warn(f, content);
    return 0;
}

/*
 * Why the file seems to be cut off, compared with that in use, as one that is being written
 * does; NULL: it does not.
 */
static const char *why_cut(const struct access_file *f, const void *now, bool is_ended)
{
    if (f->kind->count(now) == 0 && f->kind->count(access_file_get(f)) > 0) {
        return f->kind->is_empty;
    }
    return !is_ended && f->is_ended ? "its last line has no end" : NULL;
}

bool access_file_reload(struct access_file *f)
{
    const struct access_file_kind *kind = f->kind;
    bool is_ended = false;

    must_be_main();
    if (!access_file_is_on(f)) {
        return false;
    }
    f->complaint[0] = '\0';
    void *content = read_content(f, &is_ended);
    const char *why = content != NULL ? why_cut(f, content, is_ended) : NULL;
    if (why != NULL) {
        access_file_complain(f, "%s, %s%s seems to be cut off (%s)", kind->area, kind->noun,
                             f->path, why);
        kind->destroy(content);
        content = NULL;
    }
    if (content == NULL) {
        log_error("%s, kept the %s in use", kind->area, kind->contents);
        return false;
    }
    content = atomic_exchange_explicit(&f->content, content, memory_order_acq_rel);
    rcu_wait();
    kind->destroy(content);
    f->is_ended = is_ended;
    f->is_fresh = true;
    return true;
}

void access_file_log_reload(struct access_file *f)
{
    must_be_main();
    if (f->is_fresh) {
        f->is_fresh = false;
        log_notice("%s, reloaded %s%s (%zu %s)", f->kind->area, f->kind->noun, f->path,
                   f->kind->count(access_file_get(f)), f->kind->contents);
        warn(f, access_file_get(f));
    }
}

void access_file_fini(struct access_file *f)
{
    must_be_main();
    if (access_file_get(f) != NULL) {
        f->kind->destroy(access_file_get(f));
    }
    mem_free(f->path);
    memset(f, 0, sizeof(*f));
}
