/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exports: a snapshot of the data that is sent to a client instead of a file. A separate thread
 * walks over the items and waits for the client. There is one export at a time, so a slow
 * client delays only clients that request the next export. The bytes are passed in portions, by
 * messages to the client's worker, which confirms each portion. If a confirmation is late, the
 * export is aborted.
 */
#ifndef MAYFLY_DAEMON_PERSIST_EXPORTS_H
#define MAYFLY_DAEMON_PERSIST_EXPORTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/mailbox.h"
#include "daemon/options/settings.h"
#include "lib/base/handoff.h"
#include "lib/base/thread.h"
#include "lib/replica/fullsync.h"
#include "lib/snapshot/save.h"

/* Maximum bytes of a portion: nearly always one block of the snapshot. */
#define EXPORT_PORTION_MAX (256u * 1024 + 64)

/* Maximum bytes that the receiver puts before a portion. */
#define EXPORT_HEAD_MAX 32u

/* How an export ended. */
enum export_end {
    EXPORT_DONE,
    EXPORT_FLUSHED, /* everything was flushed meanwhile, so it is incomplete */
    EXPORT_STOPPED, /* the server stops */
    EXPORT_STALLED, /* the client read nothing for too long, or has disconnected */
    EXPORT_FAILED,  /* no memory */
    EXPORT_BUSY,    /* a full sync: another feed of the engine has not ended */
    EXPORT_LOST,    /* a full sync: changes came faster than they could be sent */
};

/*
 * One export, on the heap, owned by the asker, which sets the functions of the messages. Both
 * messages go to the asker's worker: `portion` for each portion, `over` once, as the last one.
 */
struct export
{
    struct message portion; /* len bytes are in buffer; the receiver calls export_taken() */
    struct message over;    /* the export has ended; the receiver calls export_fini() */
    struct relay relay;     /* to the client's worker, for both messages */
    struct handoff handed;  /* the portion, to the worker */
    bool is_sync;           /* [const] for a replica: a full sync instead of a snapshot */
    struct fullsync sync;   /* with `over`: what is reported to the replica; its reader is the
                               asker's */
    enum export_end end;    /* with over */
    uint64_t items;         /* with over: written */
    size_t len;
    /* the bytes, preceded by room for the receiver's header */
    char buffer[EXPORT_HEAD_MAX + EXPORT_PORTION_MAX];
};

/* Figures for statistics. */
struct exports_info {
    bool is_busy;
    bool is_sync;                /* of a replica, instead of a snapshot */
    uint64_t items, items_total; /* of the one under way */
    uint64_t done, failed;       /* numbers of exports that were or were not completed */
};

struct exports {
    struct settings *settings; /* [const] [borrowed] */
    bool is_there;             /* [const] it was started */
    /* Maximum time of a client without progress, and its minimum rate; tests change them. */
    _Atomic int64_t stall_ms, least_bytes;
    bool is_joined; /* [main] */
    struct thread thread;
    struct save save;    /* the thread's; its atomics for anyone */
    int64_t patience_ms; /* the thread's: how long the client may stall now */
    int error;           /* the thread's: why the last portion was not taken; 0: it was */
    pthread_mutex_t mutex;
    pthread_cond_t wake;    /* the thread has something to do */
    struct export *current; /* under the mutex, as the rest; NULL: none */
    bool is_begun, is_stopping;
    uint64_t done, failed;
};

/* Create the thread. 0 or an exit status. Context: main, while the engine runs. */
int exports_start(struct exports *x, struct settings *settings, struct engine *engine);

/* The rate option may have changed. Accepts one that was not started. Context: any thread. */
void exports_options_changed(struct exports *x);

/*
 * Abort the running export, allow no further one, and end the thread. Accepts one that was not
 * started. Context: main, while the workers run.
 */
void exports_stop(struct exports *x);

/*
 * Begin an export. The caller has set the messages' functions; `to` is the mailbox of its
 * worker. False: another export is running, or the server stops. Context: any thread.
 */
bool exports_begin(struct exports *x, struct export *e, struct mailbox *to);

/*
 * Confirm that the client has received the portion (true), or has disconnected. Must be called
 * even after the time limit. Context: the worker of the client, before it has run the message
 * `over`.
 */
void export_taken(struct export *e, bool is_there);

/* Context: the same, after the message over. */
static inline void export_fini(struct export *e)
{
    handoff_fini(&e->handed);
    relay_fini(&e->relay);
}

/* Context: any thread. */
void exports_look(struct exports *x, struct exports_info *info);

#endif
