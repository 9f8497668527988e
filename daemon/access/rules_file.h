/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of rules (--access): read at the start and again when the operator asks for it.
 * Workers read the table inside their read-side sections, as that of auth.h.
 */
#ifndef MAYFLY_DAEMON_ACCESS_RULES_FILE_H
#define MAYFLY_DAEMON_ACCESS_RULES_FILE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "daemon/access/complaint.h"
#include "daemon/access/rules.h"

struct rules_file {
    /* [const] */
    char *path; /* owned; NULL: there are no rules */
    /* [rcu] */
    struct rules *_Atomic rules; /* owned; release, acquire */
    /* [main] */
    bool is_ended; /* its last line has its line feed */
    bool is_fresh; /* reloaded and not yet logged */
    struct complaint complaint;
};

/*
 * Remember the file by its absolute path; NULL: none. Returns 0, or the exit status after a
 * message was written. Context: main, before start.
 */
int rules_file_init(struct rules_file *f, const char *path);

/*
 * Read it. Returns 0, or the exit status after a message was written for every line that is
 * wrong. Context: main, before start, with the rights that the process has later.
 */
int rules_file_load(struct rules_file *f);

/*
 * Read it again. When that fails the old rules stay, and the log says so; also when the file
 * seems to be cut off: half a file of rules might allow what the whole one does not. True:
 * there are new rules. Context: main.
 */
bool rules_file_reload(struct rules_file *f);

/* Log it, if there are new rules since this was called last. Context: main. */
void rules_file_log_reload(struct rules_file *f);

/* Release it. Context: main, after the last reader. */
void rules_file_fini(struct rules_file *f);

static inline bool rules_file_is_on(const struct rules_file *f)
{
    return f->path != NULL;
}

/* The rules in force; NULL: there are none. Context: read side; main. */
static inline const struct rules *rules_file_get(const struct rules_file *f)
{
    return atomic_load_explicit(&f->rules, memory_order_acquire);
}

#endif
