/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds and takes down everything: the root of ownership.
 */
#ifndef MAYFLY_DAEMON_SERVICE_SERVER_H
#define MAYFLY_DAEMON_SERVICE_SERVER_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/access/access.h"
#include "daemon/base/mailbox.h"
#include "daemon/options/settings.h"
#include "daemon/worker/watch.h"
#include "daemon/worker/worker.h"
#include "lib/engine/engine.h"

struct listeners;
struct tls;

/* Why the main thread was asked to stop; a sooner one overrides a later one. */
enum server_stop {
    SERVER_STOP_NONE,
    SERVER_STOP_GRACEFUL, /* stop accepting, wait for the clients to leave */
    SERVER_STOP_SOON,     /* finish what is in flight, within 2 s */
};

#define SERVER_SIGNALS 4

struct server {
    /* [const] */
    struct settings *settings;
    struct engine engine;
    struct worker *workers;
    uint32_t worker_count;
    int64_t started_unix_s;
    struct tls *tls;             /* owned; NULL: -Z was not given */
    struct listeners *listeners; /* what it listens on is const, the rest is [main] */
    struct access access;
    struct watch watch;

    /* [main] */
    uv_loop_t loop;
    uv_signal_t signals[SERVER_SIGNALS];
    unsigned signal_count;
    sigset_t signal_mask; /* the caller's, while signals are blocked during start */
    int step;             /* how far the start came, see server.c */
    enum server_stop stopping;

    /* any thread posts, main takes */
    struct mailbox mailbox;
    struct message stop_message;
    struct message room_message;

    /* [atomic] */
    struct counters counters;    /* set MAIN */
    _Atomic uint32_t conns_open; /* accepted and not yet closed, for -c */
    _Atomic bool wants_room;     /* main waits for a close (seq_cst, with conns_open) */
    _Atomic bool room_posted;    /* acq_rel: room_message is on its way */
    _Atomic bool is_accepting;
    _Atomic uint32_t stop_wanted;  /* enum server_stop */
    _Atomic bool stop_posted;      /* acq_rel: stop_message is on its way */
    _Atomic bool tracks_sizes;     /* stats sizes */
    _Atomic uint32_t detail_epoch; /* stats reset: older tables of stats detail are void */
    _Atomic uint64_t stats_base[CTR_COUNT]; /* sums at the last `stats reset` */
    _Atomic int64_t stats_reset_at;         /* msec_t */
};

/*
 * Start everything in the order of DESIGN.md, serve until told to stop, take everything
 * down. Returns the process's exit status. Context: main.
 */
int server_run(struct settings *settings);

/*
 * The same in parts, for a test variant that has something to do in between. server_start()
 * returns 0, or the exit status when it failed; then everything is taken down again and a
 * message was written. No client is served before server_serve(), which returns when the server
 * was told to stop; server_stop() then drains and releases everything.
 * Context: main.
 */
int server_start(struct server *s, struct settings *settings);
void server_serve(struct server *s);
void server_stop(struct server *s);

/*
 * Ask the main thread to stop: at once (finish what is in flight, within 2 s) or gracefully
 * (shutdown graceful: stop accepting, wait for the clients to leave). Context: any thread.
 */
void server_request_stop(struct server *s, enum server_stop how);

/*
 * Read again what can change while the server runs (SIGHUP): the certificates of TLS, the file
 * of users. What is broken stays as it was, and the log tells. Context: main.
 */
void server_reload(struct server *s);

/*
 * A connection is gone: there is room for another (wakes accepting when it was paused).
 * Context: worker.
 */
void server_conn_closed(struct server *s);

#endif
