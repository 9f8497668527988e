/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: creates and destroys everything; the root of ownership.
 *
 * daemon/service/ is the top folder below main.c: start and stop (server.[ch]), accepting
 * (listener.[ch]), reloading and rewriting files while it runs (reconfigure.[ch]), reloading
 * certificates (renewal.[ch]), the process and its privileges (privs*.[ch], filter*.[ch],
 * landlock.[ch]), the file that has the items (memory_file.[ch]), upgrades to another program
 * (upgrade.[ch]) and the connections inherited by it (welcome.[ch]), the machine (host.[ch]),
 * the service manager (notify.[ch], vigil.[ch]), the load of the workers (balancer.[ch]). It
 * passes callbacks to the folders below: conn_duties to the workers, stats_sources to
 * statistics. It may include every folder of daemon/, and lib.
 */
#ifndef MAYFLY_DAEMON_SERVICE_SERVER_H
#define MAYFLY_DAEMON_SERVICE_SERVER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "daemon/net/passed_on.h"
#include "daemon/options/settings.h"
#include "daemon/service/balancer.h"
#include "daemon/service/host.h"
#include "daemon/service/upgrade.h"
#include "daemon/service/vigil.h"
#include "daemon/service/welcome.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/crew.h"

struct listeners;
struct metrics;
struct reconfigure;
struct renewal;

#define SERVER_SIGNALS 5

struct server {
    struct crew crew; /* what the workers share */
    struct stats_shared stats;

    struct listeners *listeners; /* owned; what it listens on is const, the rest is [main] */

    struct reconfigure *reconfigure; /* owned */
    struct renewal *renewal;         /* owned; NULL: TLS is off */
    struct metrics *metrics;         /* owned; NULL: none are asked for */

    /* [main] */
    uv_loop_t loop;
    uv_signal_t signals[SERVER_SIGNALS];
    unsigned signal_count;
    sigset_t signal_mask; /* the caller's, while signals are blocked during start */
    int step;             /* how far the start came, see server.c */
    enum crew_stop stopping;
    struct vigil vigil;
    struct balancer balancer;
    struct host_watch host_watch;
    struct welcome welcome;
    struct passed_on passed_on; /* settings point to it */
    struct upgrade upgrade;
    bool is_tls_abandoned;    /* a thread still uses the certificates: they stay */
    bool is_started;          /* it has served: a stop may save */
    enum crew_stop stop_next; /* how it stops when the failover at the stop has ended */
    struct repl_ask handover; /* that failover */
    bool has_handed_over;     /* it was asked for, once */
    bool is_for_upgrade;      /* it stops so that another program takes over */
    bool is_draining;         /* the loop runs until the workers have drained */
};

/* The server a crew is part of. Context: any thread. */
static inline const struct server *server_of_crew(const struct crew *crew)
{
    return (const struct server *)(const void *)((const char *)crew -
                                                 offsetof(struct server, crew));
}

/*
 * Start everything in the order of "Start and stop" in DESIGN.md, serve until told to stop, and
 * take everything down. Returns the process's exit status. Context: main.
 */
int server_run(struct settings *settings);

/*
 * The same in parts, for a test program that does something in between. server_start() returns
 * 0, or the exit status when it failed; then everything was taken down again and a message
 * written. No client is served before server_serve(), which returns when the server
 * was told to stop; server_stop() then drains and releases everything.
 * Context: main.
 */
int server_start(struct server *s, struct settings *settings);
void server_serve(struct server *s);
void server_stop(struct server *s);

/* Begin to stop, so that another program takes over (upgrade.h). Context: main. */
void server_stop_for_upgrade(struct server *s);

#endif
