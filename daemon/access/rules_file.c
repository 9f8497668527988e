/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See rules_file.h. Only the main thread reads the file.
 */
#include "daemon/access/rules_file.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "daemon/base/path.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"

int rules_file_init(struct rules_file *f, const char *path)
{
    must_be_main();
    memset(f, 0, sizeof(*f));
    if (path == NULL) {
        return 0;
    }
    f->path = path_absolute(path);
    if (f->path == NULL) {
        log_error("access, cannot start (out of memory)");
        return EX_OSERR;
    }
    return 0;
}

static void complain_of_line(void *arg, unsigned line, const char *why)
{
    struct rules_file *f = arg;

    if (line > 0) {
        complaint(&f->complaint, "access, %s:%u: %s", f->path, line, why);
    } else {
        complaint(&f->complaint, "access, %s: %s", f->path, why);
    }
}

/* Read the file into a table; NULL after a message was written. */
static struct rules *read_rules(struct rules_file *f, bool *is_ended)
{
    struct rules *rules = NULL;
    struct file_text text;
    const char *why = file_read_all(f->path, RULES_FILE_MAX, &text);

    if (why != NULL) {
        complaint(&f->complaint, "access, could not read %s (%s)", f->path, why);
    } else {
        rules = rules_create(span_of(text.bytes, text.len), complain_of_line, f);
        *is_ended = text.len == 0 || text.bytes[text.len - 1] == '\n';
    }
    mem_free(text.bytes);
    return rules;
}

int rules_file_load(struct rules_file *f)
{
    struct rules *rules;

    must_be_main();
    if (!rules_file_is_on(f)) {
        return 0;
    }
    rules = read_rules(f, &f->is_ended);
    if (rules == NULL) {
        return EXIT_FAILURE;
    }
    atomic_store_explicit(&f->rules, rules, memory_order_release);
    log_info("access, loaded %zu rules from %s", rules_count(rules), f->path);
    return 0;
}

/* Does the file look as if it was cut, compared with the one in use? NULL: no. */
static const char *why_cut(const struct rules_file *f, const struct rules *now, bool is_ended,
                           const struct rules *before)
{
    if (rules_count(now) == 0 && rules_count(before) > 0) {
        return "it has no rules";
    }
    return !is_ended && f->is_ended ? "its last line has no end" : NULL;
}

bool rules_file_reload(struct rules_file *f)
{
    struct rules *old = atomic_load_explicit(&f->rules, memory_order_acquire);
    bool is_ended = false;
    struct rules *rules = read_rules(f, &is_ended);
    const char *why = rules != NULL ? why_cut(f, rules, is_ended, old) : NULL;

    must_be_main();
    if (why != NULL) {
        complaint(&f->complaint, "access, %s seems to be cut off (%s)", f->path, why);
        rules_destroy(rules);
        rules = NULL;
    }
    if (rules == NULL) {
        log_error("access, kept the rules in use");
        return false;
    }
    old = atomic_exchange_explicit(&f->rules, rules, memory_order_acq_rel);
    rcu_wait();
    rules_destroy(old);
    f->is_ended = is_ended;
    f->is_fresh = true;
    return true;
}

void rules_file_log_reload(struct rules_file *f)
{
    must_be_main();
    if (f->is_fresh) {
        f->is_fresh = false;
        log_notice("access, reloaded %s (%zu rules)", f->path,
                   rules_count(atomic_load_explicit(&f->rules, memory_order_acquire)));
    }
}

void rules_file_fini(struct rules_file *f)
{
    must_be_main();
    rules_destroy(atomic_load_explicit(&f->rules, memory_order_acquire));
    mem_free(f->path);
    memset(f, 0, sizeof(*f));
}
