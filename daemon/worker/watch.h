/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `watch`: clients that receive a line for each event. A worker puts an event into its own
 * ring, bounded by worker_logbuf_size, and continues. Main takes it from there, formats the
 * line and puts it into the ring of each watcher of that stream, bounded by
 * watcher_logbuf_size. The worker of that client sends it. No thread waits for another: if
 * there is no room for an event or a line, it is dropped and counted. While no client watches,
 * a worker only reads one word, which is 0.
 */
#ifndef MAYFLY_DAEMON_WORKER_WATCH_H
#define MAYFLY_DAEMON_WORKER_WATCH_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/bytering.h"
#include "daemon/base/mailbox.h"
#include "lib/base/span.h"
#include "lib/engine/engine.h"
#include "lib/memory/item.h"

/* ---- watch_line.c ------------------------------------------------------------------------ */

/*
 * Events logged for watchers: the event as the worker stores it, and the line that watchers
 * get.
 */

/* Streams, as bits of a mask. */
enum watch_stream_bit {
#define WATCH_STREAM(id, word) WATCH_BIT_##id,
#include "daemon/worker/watch_streams.def"
#undef WATCH_STREAM
};

enum watch_stream {
#define WATCH_STREAM(id, word) WATCH_##id = 1 << WATCH_BIT_##id,
#include "daemon/worker/watch_streams.def"
#undef WATCH_STREAM
};

/* The stream of a word, 0 when there is none. Context: any thread. */
uint32_t watch_stream_of(struct span word);

enum watch_kind {
    WATCH_ITEM_GET,   /* key status class fd size */
    WATCH_ITEM_STORE, /* key status command ttl class fd size */
    WATCH_EXPIRE,     /* an item was given a deadline: key command ttl class fd size */
    WATCH_PERSIST,    /* it lost its deadline: key command class fd size */
    WATCH_DELETED,    /* key command class size */
    WATCH_EVICTED,    /* key was_fetched ttl idle class size */
    WATCH_EXPIRED,    /* key late was_fetched size, how it was found as command */
    WATCH_CONN_NEW,   /* address as key, port transport fd */
    WATCH_CONN_CLOSE, /* the same, and the reason as status */
};

/*
 * An event; its key follows it in the ring of its worker. Fields that a kind does not have are
 * 0.
 */
struct watch_event {
    uint64_t gid;        /* number of the event */
    int64_t time_us;     /* unix time */
    const char *status;  /* [borrowed] constants */
    const char *command; /* likewise */
    int64_t ttl_ms;      /* stores: 0 none, -1 past; evictions: -1 none */
    int64_t late_ms;
    uint32_t size; /* bytes of value */
    uint32_t idle_s;
    int32_t fd; /* -1: not of a connection */
    uint16_t port;
    uint8_t kind; /* enum watch_kind */
    uint8_t class_id;
    uint8_t key_len;
    bool was_fetched;
};

/* The stream that a kind belongs to. Context: any thread. */
uint32_t watch_kind_stream(enum watch_kind kind);

/* Longest line, line end included: an encoded key, and numbers and words around it. */
#define WATCH_LINE_MAX (3 * ITEM_KEY_MAX + 320)

/*
 * Write the line of an event with this key, in memcached's form; returns its length. Context:
 * any thread.
 */
size_t watch_line(char out[WATCH_LINE_MAX], const struct watch_event *e, struct span key);

/* ---- watch.c ----------------------------------------------------------------------------- */

/* Maximum number of clients that watch at a time, as in memcached. */
#define WATCHERS_MAX 20

/* Additional places for unix sockets, so that the operator can always watch. */
#define WATCHERS_LOCAL_MORE 2

#define WATCHER_SLOTS (WATCHERS_MAX + WATCHERS_LOCAL_MORE)

/* A client that watches. */
struct watcher {
    /* [const] */
    struct watch *watch; /* [borrowed] */
    uint32_t streams;    /* mask */
    uint32_t slot;
    uint64_t gid_first; /* it gets no earlier events */
    /*
     * [borrowed] [atomic] the worker of its connection; may have ended when main releases the
     * watcher
     */
    _Atomic(struct worker *) worker;
    /* [worker] */
    struct client *client; /* [borrowed] */
    struct watcher *next;  /* list of its worker */
    /* [main] */
    uint64_t skipped;            /* lines left out since the last one it got */
    bool has_fresh;              /* it got lines in this pass */
    struct byte_ring text;       /* main puts, the worker takes */
    struct message gone_message; /* its connection closed: main releases it */
};

/* Part of the crew. */
struct watch {
    /* [atomic] */
    alignas(64) _Atomic uint32_t streams;           /* those that any client watches */
    alignas(64) _Atomic uint64_t gid;               /* of the last event */
    _Atomic uint32_t count;                         /* of watchers */
    _Atomic(struct watcher *) slots[WATCHER_SLOTS]; /* set under lock, cleared by main */
    /* [const] */
    struct crew *crew;  /* [borrowed] */
    struct notice wake; /* of main, for events */
    /* a leaf: protects slots, and what is derived from them */
    pthread_mutex_t lock;
};

/* Context: main, before start. */
void watch_init(struct watch *watch, struct crew *crew);

/* Release watchers and rings. Context: main, after the workers have ended. */
void watch_fini(struct watch *watch);

enum watch_added { WATCH_ADDED, WATCH_TOO_MANY, WATCH_NO_MEMORY };

/*
 * A connection watches from now on: every event that happens later, on any worker, reaches it
 * or is counted as skipped. is_local: it uses a unix socket. watch_remove() releases the
 * watcher. Context: worker.
 */
enum watch_added watch_add(struct worker *w, struct client *c, uint32_t streams, bool is_local,
                           struct watcher **out);

/*
 * There are new workers: send their events to the present watchers too. False: no memory.
 * Context: main.
 */
bool watch_add_workers(struct crew *crew);

/* Its connection closes; takes the address and nulls it; accepts NULL. Context: worker. */
void watch_remove(struct watcher **x);

/*
 * Its connection moves from one worker to another. Lines that arrive meanwhile are in its ring,
 * which the caller checks after watch_join(). Context: the worker that it leaves, or joins.
 */
void watch_leave(struct watcher *x);
void watch_join(struct watcher *x, struct worker *w);

/* Wake main if there are events it was not woken for yet. Context: worker. */
void watch_wake_main(struct worker *w);

/* ---- watch_log.c: logging events --------------------------------------------------------- */

/* Declare the calling thread that of w (NULL: of no worker). Context: worker. */
void watch_this_thread(struct worker *w);

/*
 * Log an event: number and time are filled in. Dropped and counted when the ring is full.
 * Context: worker w.
 */
void watch_log(struct worker *w, struct watch_event *e, struct span key);

/* Observer of the engine for evictions and expirations; arg is not used. */
void watch_on_engine_event(void *arg, const struct shard_event *ev);

#endif
