/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * daemon/persist/ is the folder of the persistence threads: the snapshot (snapshots*.[ch]), its
 * log (append.[ch]), and snapshots that are sent to a client (exports.[ch]). It does not depend
 * on workers. It includes itself, access (the gate), options, base and lib.
 *
 * The snapshot of the data in a file. It is loaded when the server starts (before or while it
 * serves), and saved while it runs and when it stops. A separate thread does all this
 * (lib/snapshot/). Only clients that request a save wait for it. Without `dir` there is no
 * thread, and nothing is saved.
 *
 * Flushed items must not reappear. So the file is removed before a flush command is answered,
 * and a save in progress restarts: see snapshots_flush.c. With `appendonly`, deleted or
 * overwritten items must not reappear either: see append.h.
 */
#ifndef MAYFLY_DAEMON_PERSIST_SNAPSHOTS_H
#define MAYFLY_DAEMON_PERSIST_SNAPSHOTS_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/mailbox.h"
#include "daemon/options/save_rules.h"
#include "daemon/options/settings.h"
#include "daemon/persist/append.h"
#include "lib/base/thread.h"
#include "lib/snapshot/load.h"
#include "lib/snapshot/save.h"

/* Result of the load at the start. */
enum snapshots_load {
    SNAPSHOTS_NOT_LOADED, /* loading was not requested */
    SNAPSHOTS_NO_FILE,
    SNAPSHOTS_LOADED,
    SNAPSHOTS_SALVAGED, /* the part before the damage was loaded */
    SNAPSHOTS_BAD,      /* nothing was loaded; the file is kept as .bad */
    SNAPSHOTS_TOO_OLD,
    SNAPSHOTS_FLUSHED,     /* while serving: everything was flushed before it was loaded */
    SNAPSHOTS_PASSED_OVER, /* not needed: the items were in memory already */
};

/* State of the thread, in order. Only keeper_move() sets it. */
enum keeper_state {
    KEEPER_OFF,        /* there is no thread */
    KEEPER_LOADING,    /* loads the file before the server serves */
    KEEPER_STARTING,   /* begins the log */
    KEEPER_FIRST_SAVE, /* with a full log: saves a first file */
    KEEPER_BESIDE,     /* loads the file while requests are served */
    KEEPER_SERVING,    /* waits for something to do */
    KEEPER_SAVING,
    KEEPER_ENDING, /* saves for the last time, if that was ordered */
    KEEPER_ENDED,  /* has ended its work */
};

/* The latest order of main; the value only rises. */
enum keeper_order {
    KEEPER_GOES_ON,
    KEEPER_BEGINS_NO_SAVE,
    KEEPER_ENDS,
    KEEPER_SAVES_AND_ENDS,
};

/* Pending work of the thread, as bits of snapshots.wants. */
enum keeper_wants {
    KEEPER_WANTS_SAVE = 1, /* save when no save runs; set by snapshots_begin() */
    KEEPER_WANTS_ANEW = 2, /* the same by snapshots_want_anew(), with a pause after a failure */
    KEEPER_WANTS_OPTIONS = 4, /* apply `appendonly`; set when options have changed */
};

/* What pending flushes require; the strongest of them counts. */
enum flush_duty {
    FLUSH_NONE,
    FLUSH_IS_LOGGED, /* make the log durable, which has the flush */
    FLUSH_REMOVES,   /* remove the file */
};

/* State for statistics. */
struct snapshots_info {
    bool is_on, is_saving, is_loading, is_scheduled;
    bool is_void;         /* a file that must not be loaded could not be removed */
    bool was_good;        /* the last save; true: there was none */
    int64_t saved_unix_s; /* the last good one; 0: none */
    uint64_t saved_ms;    /* duration of the last one */
    uint64_t saved_items, saved_bytes, saved_expired, saved_left_out; /* of the last good one */
    uint64_t saves, failures, flushed; /* numbers of saves; flushed: aborted because of
                                          flushes */
    uint64_t items, items_total;       /* of the one under way */
    uint64_t changes;                  /* since the last good one began */
    enum snapshots_load load;
    uint64_t load_items, load_expired, load_refused, load_changed, load_ms;
    uint64_t load_gone;  /* not loaded, because the key was removed meanwhile */
    uint64_t load_total; /* about how many the file has, while it is loaded */
    struct append_info log;
};

struct snapshots {
    /* [const] while the thread runs */
    struct settings *settings; /* [borrowed] */
    struct engine *engine;     /* [borrowed] */
    const char *name;          /* [borrowed] of the file */
    char path[PATH_MAX];       /* of the file; for messages too */
    struct save_rules rules;
    int claim;     /* no other process uses the file, until this one ends or becomes another
                      program */
    uint32_t left; /* SNAPSHOTS_PASSED_OVER: see snapshots_stop(), of the process that left the
                      items */
    int status;    /* exit status if the start must end; 0: it continues. The thread's while it
                      starts */
    struct thread thread;
    struct thread flusher; /* removes the file after flushes */

    struct load_file file; /* [main], then the thread's */
    struct load load;      /* the thread's; its atomics for anyone */
    struct save save;      /* likewise */
    struct behind *behind; /* asynchronous writer of its saves; NULL: no memory for it */
    uint64_t save_epoch;   /* the thread's: the epoch in which the save began */
    struct append append;  /* the log beside the file */
    struct base_file base; /* the file itself */

    pthread_mutex_t mutex;       /* a leaf; the rest is under it */
    pthread_cond_t wake;         /* the thread has something to do */
    pthread_cond_t changed;      /* state or flushes have changed: for main and the flusher */
    _Atomic uint32_t state;      /* enum keeper_state; may be read without the mutex */
    enum keeper_order order;     /* main's */
    uint32_t wants;              /* bits of enum keeper_wants */
    struct late_ask *asks;       /* answered after the save that begins next */
    struct late_ask *asks_now;   /* after the one under way */
    enum flush_duty flush_next;  /* of the flusher, for flush_asks */
    enum flush_duty flush_now;   /* what it does, for flush_asks_now */
    struct late_ask *flush_asks; /* answered after the flush that begins next */
    struct late_ask *flush_asks_now; /* after the one under way */
    struct snapshots_info last;      /* figures of what has ended */
    uint64_t changes_base;           /* changes of the engine when the last good save began */
    int64_t began_ms, tried_ms;      /* last good save, last attempt: by the monotonic clock */
};

/*
 * Must the start fail if the file is damaged? With a full log it must, so that no logged change
 * is lost. Context: any thread.
 */
bool snapshots_are_strict(const struct settings *set);

/*
 * Name (borrowed of the settings) and path of the file; settings->dir is set. Returns 0, or the
 * exit status after a message was written: there can be none. Context: main.
 */
int snapshots_find(const struct settings *settings, const char **name, char path[PATH_MAX]);

/*
 * Ensures that no other process writes to the file, or its logs, while the returned descriptor
 * is open. Negative, after a message: another process does, or the claim failed. Context: main.
 */
int snapshots_claim(const struct settings *settings, const char *name, const char *path);

/* After a failed load_open(): does the file not exist? Context: any thread. */
bool snapshots_is_none(const struct load_file *f);

/*
 * Check folder and file as a start would, without changing anything. Returns 0, or the exit
 * status after a message was written. Context: main, instead of a start.
 */
int snapshots_check(const struct settings *settings);

/*
 * Open the file, if it will be loaded. Returns the number of items in it; 0: there is no file,
 * or loading was not requested. *status is an exit status if the start must fail. Context:
 * main, before the engine starts.
 */
uint64_t snapshots_open(struct snapshots *s, struct settings *settings, struct gate *gate,
                        int *status);

/*
 * The items are in memory already, so the file is not loaded. left: the number that
 * snapshots_stop() returned in the process that left the items, or 0. Context: main, after
 * snapshots_open().
 */
void snapshots_pass_over(struct snapshots *s, uint32_t left);

/*
 * Create the thread, and wait until the file is loaded; with load_async it is loaded after this
 * returns, while requests are served. While it waits, it calls tell repeatedly with a line for
 * the service manager; tell returns true to stop the load. Returns 0 or an exit status.
 * Context: main, the engine runs, but is not in use yet.
 */
int snapshots_start(struct snapshots *s, struct engine *engine, bool (*tell)(const char *line));

/*
 * The server stops. Waiting clients are answered that there is no save, and no further save is
 * started. Waits a moment for flushes. Context: main, while the workers run.
 */
void snapshots_abandon(struct snapshots *s);

/*
 * End the thread; if saves, after a last save. tell as above. Returns a number that identifies
 * the content of file and log; 0: they are not complete. Context: main, after the workers.
 */
uint32_t snapshots_stop(struct snapshots *s, bool saves, bool (*tell)(const char *line));

/* Are snapshots on? Context: any thread. */
static inline bool snapshots_is_on(const struct snapshots *s)
{
    return atomic_load(&s->state) != KEEPER_OFF;
}

enum snapshots_asked {
    SNAPSHOTS_OFF,
    SNAPSHOTS_REFUSED, /* a file that could not be loaded must not be replaced */
    SNAPSHOTS_STARTED,
    SNAPSHOTS_BUSY,      /* a save is running, and no further one was requested */
    SNAPSHOTS_SCHEDULED, /* one more will begin when it ends */
};

/*
 * Begin a save. schedule: if one is in progress, save again after it. ask: posted back when a
 * save that begins from now on has ended; NULL: no client waits. Context: any thread.
 */
enum snapshots_asked snapshots_begin(struct snapshots *s, bool schedule, struct late_ask *ask);

/*
 * Give up the save under way, and what is scheduled. False: there is none. Context: any thread.
 */
bool snapshots_cancel(struct snapshots *s);

enum snapshots_removal {
    SNAPSHOTS_REMOVED, /* or the log has it */
    SNAPSHOTS_LATER,   /* ask is posted back when it is */
    SNAPSHOTS_KEPT,    /* it could not be removed; that was logged */
};

/*
 * Everything was flushed, or a flush was scheduled: no file may keep the old items. The flush
 * command may be answered only when the file is removed, or when the log on the disk has the
 * flush. The first removal after each save waits for the disk. With SNAPSHOTS_LATER ask is
 * posted back when that is done; otherwise the caller keeps it. Context: any thread; after the
 * flush.
 */
enum snapshots_removal snapshots_note_flush(struct snapshots *s, struct late_ask *ask);

/*
 * The same for a flush that a replica has received from its primary, or may have missed,
 * because of a full sync or a promotion without items: removes the file, unless the log has
 * flushes, for which it does not wait. Context: any thread, outside a section; after the flush.
 */
void snapshots_note_followed_flush(struct snapshots *s);

/*
 * This replica is about to receive a full sync: with a log, removes the file and ends the log,
 * which would have an inconsistent set of items. When reads no longer miss, a new file is
 * saved. Without a log the file, which is consistent, stays until the full sync is complete.
 * Context: any thread, outside a section.
 */
void snapshots_note_full_sync(struct snapshots *s);

/*
 * fn is called on a thread of the log when more tickets of append_ask() are done; NULL: no
 * more. Context: any thread.
 */
void snapshots_tell_logged(struct snapshots *s, void (*fn)(void *arg), void *arg);

/*
 * snapshots_may_log(): may `appendonly` be set to anything but no? snapshots_options_changed():
 * options may have changed; the thread begins, ends or replaces the log, after the save in
 * progress. Context: any thread.
 */
bool snapshots_may_log(const struct snapshots *s);
void snapshots_options_changed(struct snapshots *s);

/* Context: any thread, as for the next. */
void snapshots_look(struct snapshots *s, struct snapshots_info *info);

/* The result of the load at the start, as a word. */
const char *snapshots_load_text(const struct snapshots_info *info);

#endif
