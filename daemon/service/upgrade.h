/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGUSR2, or the command upgrade: another program, or another version of this one, takes over
 * in place. The process stays the same, with its number. Listening sockets, items and
 * connections are kept (conn/conn_pass.h says which connections; others are closed as by a
 * stop). First the new program is *asked* whether it would start: it is run with --check-config
 * in a child process, inherits the open sockets, and reports whether it can read the format of
 * item blocks.
 */
#ifndef MAYFLY_DAEMON_SERVICE_UPGRADE_H
#define MAYFLY_DAEMON_SERVICE_UPGRADE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/net/passed_conns.h"

struct passed_on;
struct server;
struct settings;

/* Of the server. [main] */
struct upgrade {
    char path[PATH_MAX];   /* of this program, even if it was replaced by another file */
    char next[PATH_MAX];   /* of the program that is asked, and takes over */
    uv_process_t question; /* the program that is asked */
    uv_timer_t patience;   /* time limit of its answer */
    bool is_asked;
    uv_timer_t lull; /* wait for uploads to end, after the program agreed */
    uint64_t lull_until;
    struct passed_keys keys; /* of the users, if another program takes over */
    uint32_t conns_before;   /* connections when the server began to stop for the upgrade */
};

/*
 * Note how this program was started, and whether it has taken over from another, or continues
 * because the next program could not be executed.
 * Context: main, at the start.
 */
void upgrade_init(struct server *s);

/*
 * Ask the program with this path (empty: this program's), and if it agrees stop the server for
 * it. A refusal is logged, and nothing changes. Context: main.
 */
void upgrade_begin(struct server *s, const char *program);

/* Stop waiting for an answer. Context: main, before the last run of the loop. */
void upgrade_end(struct server *s);

/*
 * Take the live options that the previous program has passed on (options_passed.h). tells: log
 * the result for each. Context: main, before anything is derived from the settings.
 */
void upgrade_take_live(struct settings *s, bool tells);

/*
 * The time until which the previous program keeps expired items (engine_config.hold_boot_ns);
 * 0: it does not. Context: main, before start.
 */
int64_t upgrade_hold_ns(const struct passed_on *passed);

/* The server stops: if it stops for an upgrade, note what is passed on. Context: main. */
void upgrade_note(struct server *s);

/* The server stops for good after all: connections are closed from now on. Context: main. */
void upgrade_give_up(struct server *s);

/* The workers have ended: log how many connections are passed on. Context: main. */
void upgrade_tell(const struct server *s);

/* The workers have ended, the engine still exists: note changed live options. Context: main. */
void upgrade_note_live(struct server *s);

/* Does the server stop for an upgrade? Context: main. */
bool upgrade_is_wanted(const struct server *s);

/*
 * Everything was released: execute the new program. Returns only on failure, an exit status.
 * Context: main.
 */
int upgrade_become(struct server *s);

/*
 * upgrade_is_asked(): is this program being asked by a running server? upgrade_knows_blocks():
 * can it read that server's blocks? If it agrees to take over it exits with UPGRADE_AGREES, a
 * status that other programs do not use. Context: main.
 */
#define UPGRADE_AGREES 42
bool upgrade_is_asked(void);
bool upgrade_knows_blocks(void);

/* Is this file of items (memory_file_name()) that of the asking program? True if none asks. */
bool upgrade_has_items(const char *memory);

#endif
