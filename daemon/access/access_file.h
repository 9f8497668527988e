/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file of users or of rules: read at the start, and reloaded when the operator asks for it.
 * The parsed content is published; workers use it inside their read-side sections.
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

/* Long enough for every complaint if paths have a usual length. */
#define ACCESS_COMPLAINT_BYTES 512

/* The differences between files of users and files of rules. */
struct access_file_kind {
    /* for messages, such as "auth, loaded 3 users from authfile /etc/users" */
    const char *area, *contents, *noun; /* noun: with a space at its end, or empty */
    const char *is_empty;               /* the reason given for refusing an empty file */
    size_t bytes_max;
    /* Parse a text; NULL after a complaint. Context: main. */
    void *(*parse)(struct access_file *f, struct span text);
    size_t (*count)(const void *content);
    void (*destroy)(void *content);
    /* Log warnings about new content; may be NULL. Context: main. */
    void (*warn)(const struct access_file *f, const void *content);
};

struct access_file {
    /* [const] */
    const struct access_file_kind *kind;
    char *path; /* owned, absolute; NULL: there is no file */
    /* [rcu] */
    void *_Atomic content; /* owned; release, acquire */
    /* [main] */
    bool is_ended;                          /* its last line ends with a line feed */
    bool is_fresh;                          /* reloaded, but not yet logged */
    enum option_id option;                  /* the option that names the file */
    const struct settings *starting;        /* [borrowed] while the server starts; then NULL */
    char complaint[ACCESS_COMPLAINT_BYTES]; /* the first of the last reload; or empty */
};

/*
 * Store the absolute path of the file that an option names; path NULL: there is no file.
 * Returns 0, or the exit status after a message was written. Context: main, before start.
 */
int access_file_init(struct access_file *f, const struct access_file_kind *kind,
                     enum option_id option, const char *path);

/*
 * Read the file, if there is one. Returns 0, or the exit status after messages about the option
 * were written (settings NULL: they are logged). Context: main, before start, with the
 * privileges that the process has later.
 */
int access_file_load(struct access_file *f, const struct settings *settings);

/*
 * Reload the file, if there is one. True: there is new content, in which earlier entries may be
 * missing. On failure the old content stays in use, which is logged. A file that seems to be
 * truncated is refused too: it is empty, or its last line has no line feed although that of the
 * file in use had one. Context: main.
 */
bool access_file_reload(struct access_file *f);

/*
 * Report an error in the file. At the start it is printed as a message about the option. On a
 * reload it is logged, in the form of daemon/base/log.h; the first one is also kept, for the
 * reply to the operator. Context: main.
 */
#define access_file_complain(f, ...)                                                           \
    do {                                                                                       \
        if (access_file_keep(f, __VA_ARGS__)) {                                                \
            log_error(__VA_ARGS__);                                                            \
        }                                                                                      \
    } while (0)

/* Print or keep the complaint. True: the caller must log it. Context: main. */
bool access_file_keep(struct access_file *f, const char *fmt, ...) MF_PRINTF(2, 3);

/* The first complaint, without its subject; "": there was none. Context: main. */
const char *access_file_complaint(const struct access_file *f);

/* Log the reload, if there is new content since the last call. Context: main. */
void access_file_log_reload(struct access_file *f);

/* Release it; accepts one that was zeroed. Context: main, after the last reader. */
void access_file_fini(struct access_file *f);

static inline bool access_file_is_on(const struct access_file *f)
{
    return f->path != NULL;
}

/* The content in force; NULL: nothing was loaded. Context: read side; main. */
static inline void *access_file_get(const struct access_file *f)
{
    return atomic_load_explicit(&f->content, memory_order_acquire);
}

#endif
