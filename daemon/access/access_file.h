/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file of users or of rules: read at the start and again when the operator asks for it. What
 * is made of it is published; workers use it inside their read-side sections.
 */
#ifndef MAYFLY_DAEMON_ACCESS_ACCESS_FILE_H
#define MAYFLY_DAEMON_ACCESS_ACCESS_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/log.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"
#include "lib/base/span.h"

struct access_file;

/* The longest complaint is kept whole if paths are of usual length. */
#define ACCESS_COMPLAINT_BYTES 512

/* In what files of users and files of rules differ. */
struct access_file_kind {
    /* for messages, such as "auth, loaded 3 users from authfile /etc/users" */
    const char *area, *contents, *noun; /* noun: with a space at its end, or empty */
    const char *is_empty;               /* why a file without contents seems to be cut off */
    size_t bytes_max;
    /* Make the content of a text; NULL after a complaint. Context: main. */
    void *(*parse)(struct access_file *f, struct span text);
    size_t (*count)(const void *content);
    void (*destroy)(void *content);
    /* Warn of what is odd in new content; may be NULL. Context: main. */
    void (*warn)(const struct access_file *f, const void *content);
};

struct access_file {
    /* [const] */
    const struct access_file_kind *kind;
    char *path; /* owned, absolute; NULL: there is no file */
    /* [rcu] */
    void *_Atomic content; /* owned; release, acquire */
    /* [main] */
    bool is_ended;                   /* its last line has its line feed */
    bool is_fresh;                   /* reloaded and not yet logged */
    enum option_id option;           /* the one that names the file */
    const struct settings *starting; /* [borrowed] while the server starts; NULL: it has */
    char complaint[ACCESS_COMPLAINT_BYTES]; /* the first of the last reload; or empty */
};

/*
 * Remember the file that an option names by its absolute path; NULL: none. Returns 0, or the
 * exit status after a message was written. Context: main, before start.
 */
int access_file_init(struct access_file *f, const struct access_file_kind *kind,
                     enum option_id option, const char *path);

/*
 * Read it, if there is one. Returns 0, or the exit status after messages about the option were
 * written (settings NULL: they are logged). Context: main, before start, with the rights that
 * the process has later.
 */
int access_file_load(struct access_file *f, const struct settings *settings);

/*
 * Read it again, if there is one. When that fails the old content stays, and the log says so;
 * also when the file seems to be cut off: if it is empty, or its last line has no line feed
 * while that of the file in use had one. True: there is new content, and some that was may be
 * gone. Context: main.
 */
bool access_file_reload(struct access_file *f);

/*
 * Something is wrong in the file. At the start that is a message about its option. On a reload
 * it is logged, in the form of daemon/base/log.h, and kept if it is the first, for the operator
 * who asked for the reload. Context: main.
 */
#define access_file_complain(f, ...)                                                           \
    do {                                                                                       \
        if (access_file_keep(f, __VA_ARGS__)) {                                                \
            log_error(__VA_ARGS__);                                                            \
        }                                                                                      \
    } while (0)

/* Keep or print it. True: it is to be logged. Context: main. */
bool access_file_keep(struct access_file *f, const char *fmt, ...) MF_PRINTF(2, 3);

/* The first complaint, without its subject; "": there was none. Context: main. */
const char *access_file_complaint(const struct access_file *f);

/* Log it, if there is new content since this was called last. Context: main. */
void access_file_log_reload(struct access_file *f);

/* Release it; accepts one that was zeroed. Context: main, after the last reader. */
void access_file_fini(struct access_file *f);

static inline bool access_file_is_on(const struct access_file *f)
{
    return f->path != NULL;
}

/* What is in force; NULL: nothing was loaded. Context: read side; main. */
static inline void *access_file_get(const struct access_file *f)
{
    return atomic_load_explicit(&f->content, memory_order_acquire);
}

#endif
