/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log beside the snapshot (`appendonly`): which keys have changed since it was made, so
 * that after a crash it is loaded without them, or what they have become, so that it is loaded
 * with that (lib/snapshot/keylog.h). It belongs to the
 * snapshots, whose thread makes all calls that no context is given for: it keeps numbers and
 * lengths, and says when the snapshot is to be made anew.
 *
 * There is always a snapshot that the log belongs to, or one is about to be made: at the start,
 * after a flush, after a gap of the log, and when the log has grown.
 */
#ifndef MAYFLY_DAEMON_WORKER_APPEND_H
#define MAYFLY_DAEMON_WORKER_APPEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/options/settings.h"
#include "daemon/worker/base_file.h"
#include "daemon/worker/gate.h"
#include "lib/snapshot/keychain.h"
#include "lib/snapshot/keylog.h"
#include "lib/snapshot/load.h"
#include "lib/snapshot/save.h"

struct engine;

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

/* A look at it, for statistics. */
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
    struct base_file *base;     /* [borrowed] what the log belongs to */
    struct keylog *log;         /* its threads; NULL: they could not be made */
    void (*on_gap)(void *arg);  /* the snapshot must never be loaded */
    void *arg;                  /* [borrowed] of on_gap */
    pthread_mutex_t telling;    /* held while the next is called */
    void (*on_done)(void *arg); /* under `telling`: see append_tell(); NULL: nobody */
    void *done_arg;
    /* the snapshots' thread's */
    struct keychain chain_read; /* what was read at the start */
    uint64_t chain;             /* the header's word; 0: not drawn yet */
    uint64_t next;              /* number of the next log */
    uint64_t written_mark;      /* bytes of all logs when the snapshot under way began */
    /* [atomic] for whoever watches */
    _Atomic uint32_t
        mode; /* enum append_mode: what is kept; `appendonly` says what is wanted */
    _Atomic bool is_behind; /* the log does not keep up */
};

/* dir, name and record of the snapshot; on_gap is for any thread. */
void append_init(struct append *a, struct settings *settings, struct gate *gate,
                 const char *dir, const char *name, struct base_file *base,
                 void (*on_gap)(void *arg), void *arg);

/*
 * When the newest log that may belong to a snapshot was written to last, in unix seconds: so
 * old is what the two have. 0: there is none. Context: main.
 */
int64_t append_written_s(const struct append *a, const struct snap_header *h);

/*
 * Before the snapshot is loaded: read which of its keys have changed since, and have `l` leave
 * them out. LOAD_DONE; or it must not be loaded, which was logged: LOAD_BAD, with l->fault if a
 * log has one, or LOAD_NO_MEMORY.
 */
enum load_end append_read(struct append *a, const struct snap_header *h, struct load *l);

/*
 * After it: keep a log from now on, if the options say so. header: of the snapshot's file, if
 * that was loaded, or is about to be; NULL: it was not. goes_on: the file and its logs have all
 * that there is, so another log may follow them. base_offset_ms: see keylog_base(). False: no
 * log was begun, or there are too many: the file, if there is one, must go, and another one be
 * made.
 */
bool append_begin(struct append *a, struct engine *engine, const struct snap_header *header,
                  bool goes_on, uint64_t base_bytes, int64_t base_offset_ms);

/*
 * Is what a snapshot of this header and its logs have what there was when append_end() has
 * returned this number? Then they are read, and the last log can be followed by another; `dir`
 * has no other logs. Nothing is said. Context: the snapshots' thread, before append_begin().
 */
bool append_is_left(struct append *a, const struct snap_header *h, uint32_t left);

/*
 * Write what is left. Returns a number that tells what snapshot and logs have from what any
 * others have; 0: they do not have everything. Context: main, after the snapshots' thread.
 */
uint32_t append_end(struct append *a);

/*
 * A snapshot is about to be saved, in this epoch of flushes: have it begin with a log of its
 * own, which follows the base that is there as well. Returns 0 or an errno.
 */
int append_before_save(struct append *a, struct save *s, uint64_t epoch);

/* It was saved, and has its name. */
void append_after_save(struct append *a, const struct save *s);

/* Is a log kept, or about to be? Context: any thread. */
static inline bool append_is_used(const struct append *a)
{
    return atomic_load(&a->mode) != APPEND_OFF;
}

/*
 * `appendonly` may have changed: keep another kind of log, or one at all, from the next
 * snapshot on, which has to be made then. False: there is nothing to do.
 */
bool append_change(struct append *a);

/*
 * Is none to be kept any more? Then a snapshot with a whole log goes first, durably, and
 * append_end_use() is due. A base that is still there keeps the logs that it has.
 */
bool append_is_unwanted(const struct append *a);
void append_end_use(struct append *a);

/* `appendfsync` may have changed. Context: any thread. */
void append_set_sync(struct append *a);

/* Is each change logged from now on? True if no log is kept. Context: any thread. */
bool append_is_logging(const struct append *a);

/* Does the log have each change since the snapshot began? Context: any thread. */
bool append_is_whole(const struct append *a);

/* Does the log have flushes as well, those too that were just carried out? Context: so. */
bool append_has_flushes(const struct append *a);

/*
 * If it has states: have the disk have all that was changed before the call. False: it has not,
 * or the log is of another kind. Context: any thread, outside a section.
 */
bool append_make_durable(struct append *a);

/*
 * The base has changed. If it is void, a crash would undo changes that the log lacks, so
 * the log is as after a gap; otherwise no base of an epoch before this is there any more, and
 * the log of one ends. Context: any thread, under base->naming or when there is no base.
 */
void append_base_changed(struct append *a, uint64_t epoch);

/* Has the log a gap, and its snapshot may be there yet? Context: any thread. */
bool append_is_void(const struct append *a);

/*
 * A ticket for all that the caller has changed so far, 0 if nobody has to wait; is it done? See
 * keylog_ask(). fn is called when more is done; when append_tell() returns, the one before is
 * not called any more. Context: any thread.
 */
uint64_t append_ask(const struct append *a);
bool append_is_done(const struct append *a, uint64_t ticket);
void append_tell(struct append *a, void (*fn)(void *arg), void *arg);

/* Has the log grown so much that the snapshot should be made anew? */
bool append_is_long(const struct append *a);

/* Context: any thread. */
void append_look(const struct append *a, struct append_info *info);

#endif
