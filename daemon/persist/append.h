/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of changes since the snapshot (`appendonly`). It has either the keys that have
 * changed since the snapshot, so that after a crash the snapshot is loaded without them, or the
 * new states of these keys, which are then loaded too (lib/log/keylog.h). It is part of
 * snapshots.h. Calls without a documented context are made by the snapshots' thread. append
 * keeps the numbers and lengths of logs, and decides when a new snapshot is needed.
 *
 * The log always belongs to a snapshot, or a new one is about to be saved: at the start, after
 * a flush, after a gap of the log, and when the log has grown.
 */
#ifndef MAYFLY_DAEMON_PERSIST_APPEND_H
#define MAYFLY_DAEMON_PERSIST_APPEND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/access/gate.h"
#include "daemon/options/settings.h"
#include "lib/log/keychain.h"
#include "lib/log/keylog.h"
#include "lib/snapshot/load.h"
#include "lib/snapshot/save.h"

/* ---- the base ---------------------------------------------------------------------------- */

/*
 * The base: the file under the snapshot's name, which the next start loads, and its log. This
 * record has the kind of content of both. snapshots_flush.c describes when the kind changes.
 *
 * Each flush, and each gap of the log, starts an epoch. A file belongs to the epoch in which
 * its save started, and must not be loaded in a later epoch.
 */

enum base_kind {
    BASE_NONE,
    BASE_GOOD, /* there may be a file, and it may be loaded */
    BASE_VOID, /* there may be a file that must not be loaded and could not be removed yet */
    BASE_KEPT, /* there is one that was not loaded to its end; no save may replace it */
};

struct base_file {
    pthread_mutex_t naming; /* held while a file gets the name, or is removed */
    _Atomic uint32_t kind;  /* enum base_kind; written under naming */
    uint64_t epoch;         /* under naming: of the file, or an earlier one */
    _Atomic uint64_t now;   /* the current epoch */
    /* Written by the snapshots' thread. */
    _Atomic uint64_t bytes;   /* of the file */
    _Atomic int64_t log_mark; /* bytes of all logs when its save began */
    /*
     * enum append_mode: the content of the log for each change since the save of the base
     * started; APPEND_OFF: the log was started later. Meaningless while no log is open.
     */
    _Atomic uint32_t logged;
};

static inline enum base_kind base_file_kind(const struct base_file *b)
{
    return (enum base_kind)atomic_load(&b->kind);
}

/* ---- append.c ---------------------------------------------------------------------------- */

/* appendonly, in the order of its words. */
enum append_mode {
    APPEND_OFF,
    APPEND_KEYS,
    APPEND_FULL,
};

/* appendfsync, in the order of its words. */
enum append_sync {
    APPEND_NO = KEYLOG_SYNC_NO,
    APPEND_EVERYSEC = KEYLOG_SYNC_EVERYSEC,
    APPEND_ALWAYS = KEYLOG_SYNC_ALWAYS,
};

/* State for statistics. */
struct append_info {
    bool is_enabled;
    bool is_whole; /* the snapshot and its log have each change */
    struct keylog_info log;
    uint64_t base_bytes; /* of the snapshot */
    uint64_t log_bytes;  /* of the logs that belong to it */
    /* at the start: keys, states, files, bytes cut off */
    uint64_t load_keys, load_states, load_logs, load_cut;
};

struct append {
    /* [const] once it has begun */
    struct settings *settings;  /* [borrowed] */
    struct gate *gate;          /* [borrowed] GATE_LOG is its own */
    struct engine *engine;      /* [borrowed] */
    const char *dir, *name;     /* [borrowed] */
    struct base_file *base;     /* [borrowed] the base that the log belongs to */
    struct keylog *log;         /* its threads; NULL: they could not be made */
    void (*on_gap)(void *arg);  /* the snapshot must never be loaded */
    void *arg;                  /* [borrowed] of on_gap */
    pthread_mutex_t telling;    /* held while the next is called */
    void (*on_done)(void *arg); /* under `telling`: see append_tell(); NULL: none */
    void *done_arg;
    /* the snapshots' thread's */
    struct keychain chain_read; /* the logs read at the start */
    uint64_t chain;             /* chain number of the header; 0: not drawn yet */
    uint64_t first;             /* number of the first log that belongs to the snapshot */
    uint64_t next;              /* number of the next log */
    uint64_t written_mark;      /* bytes of all logs when the snapshot under way began */
    /* [atomic] for other threads */
    _Atomic uint32_t
        mode; /* enum append_mode: content of the log; `appendonly` is the wanted one */
    _Atomic bool is_behind; /* the log cannot keep up */
};

/* Begin. dir, name and base are those of the snapshot; any thread may call on_gap. */
void append_init(struct append *a, struct settings *settings, struct gate *gate,
                 const char *dir, const char *name, struct base_file *base,
                 void (*on_gap)(void *arg), void *arg);

/*
 * Time of the last write to the newest log that may belong to a snapshot, in Unix seconds: the
 * age of the data in both. 0: there is no log. Context: main.
 */
int64_t append_written_s(const struct append *a, const struct snap_header *h);

/*
 * Call before the snapshot is loaded: reads from its logs which keys have changed since, and
 * makes `l` skip them. LOAD_DONE; or the snapshot must not be loaded, which was logged:
 * LOAD_BAD, with l->fault if a log has a fault, or LOAD_NO_MEMORY.
 */
enum load_end append_read(struct append *a, const struct snap_header *h, struct load *l);

/*
 * After the load: start a log, if the options request one. header: that of the snapshot's file,
 * if it was loaded or is about to be; NULL: it was not. goes_on: the file and its logs are
 * complete, so another log may follow them. base_offset_ms: see keylog_base(). Returns false if
 * no log was started, or there are too many: then the file, if there is one, must be removed,
 * and a new one saved.
 */
bool append_begin(struct append *a, struct engine *engine, const struct snap_header *header,
                  bool goes_on, uint64_t base_bytes, int64_t base_offset_ms);

/*
 * Do this snapshot and its logs have exactly the items that the server had when append_end()
 * returned this number? Then the logs have been read, and another log can follow the last one.
 * `dir` must have no other logs. Writes no message. Context: the snapshots' thread, before
 * append_begin().
 */
bool append_is_left(struct append *a, const struct snap_header *h, uint32_t left);

/*
 * Write the rest of the log. Returns a number that identifies the content of snapshot and logs;
 * 0: they are not complete. Context: main, after the snapshots' thread.
 */
uint32_t append_end(struct append *a);

/*
 * A snapshot is about to be saved, in this epoch: begin a new log for it, which also continues
 * the log of the present base. Returns 0 or an errno.
 */
int append_before_save(struct append *a, struct save *s, uint64_t epoch);

/* That snapshot was saved and renamed to its name. */
void append_after_save(struct append *a, const struct save *s);

/* Is the log on, or about to be? Context: any thread. */
static inline bool append_is_used(const struct append *a)
{
    return atomic_load(&a->mode) != APPEND_OFF;
}

/*
 * `appendonly` may have changed: write this kind of log from the next snapshot on. True: the
 * caller must save a snapshot. False: nothing has changed.
 */
bool append_change(struct append *a);

/*
 * Was the log switched off? Then the caller removes a snapshot whose log is complete, durably,
 * and calls append_end_use(). A base that remains keeps its logs.
 */
bool append_is_unwanted(const struct append *a);
void append_end_use(struct append *a);

/* `appendfsync` may have changed. Context: any thread. */
void append_set_sync(struct append *a);

/* Is each change logged from now on? True if the log is off. Context: any thread. */
bool append_is_logging(const struct append *a);

/* Has a log of the snapshot been removed from the folder? Context: the snapshots' thread. */
bool append_lacks_log(const struct append *a);

/* Does the log have each change since the snapshot began? Context: any thread. */
bool append_is_whole(const struct append *a);

/* Does the log have flushes too, including the latest one? Context: any thread. */
bool append_has_flushes(const struct append *a);

/*
 * With a log of states: wait until all changes made before the call are on the disk. Returns
 * false if they are not, or if the log is of another kind. Context: any thread, outside a
 * section.
 */
bool append_make_durable(struct append *a);

/*
 * The base has changed. If it is void, loading it after a crash would undo changes that the log
 * lacks, so the log becomes void as after a gap. Otherwise no base of an earlier epoch exists,
 * and a log that belongs to one ends. Context: any thread, under base->naming or when there is
 * no base.
 */
void append_base_changed(struct append *a, uint64_t epoch);

/* Does the log have a gap while its snapshot may still exist? Context: any thread. */
bool append_is_void(const struct append *a);

/*
 * A ticket for all changes that the caller has made; 0 if no wait is needed. Is a ticket done?
 * See keylog_ask(). append_tell(): fn is called when more tickets are done. When it returns,
 * the previous fn is no longer called. Context: any thread.
 */
uint64_t append_ask(const struct append *a);
bool append_is_done(const struct append *a, uint64_t ticket);
void append_tell(struct append *a, void (*fn)(void *arg), void *arg);

/* Is the log long enough that a new snapshot should be made? */
bool append_is_long(const struct append *a);

/* Context: any thread. */
void append_look(const struct append *a, struct append_info *info);

#endif
