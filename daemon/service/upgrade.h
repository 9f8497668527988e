/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGUSR2, or the command upgrade: another program, or another version of this one, takes over
 * in place. The process stays the same, with its number. Listening sockets, items and
 * connections are kept (conn/conn_pass.h says which connections; others are closed as by a
 * stop). First the program is asked whether it would start: it is run with --check-config in a
 * child process, gets the sockets that this one has open, and reports whether it knows this
 * one's format of blocks.
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
    char path[PATH_MAX];   /* of the program, also when another file has its name by now */
    char next[PATH_MAX];   /* of the one that is asked, and takes over */
    uv_process_t question; /* the program that is asked */
    uv_timer_t patience;   /* with that */
    bool is_asked;
    uv_timer_t lull; /* the one that agreed waits for uploads to end */
    uint64_t lull_until;
    struct passed_keys keys; /* of the users, if another takes over */
    uint32_t conns_before;   /* when the server began to stop for that */
};

/*
 * Note how this program was started, and whether it has taken over, or has to go on instead.
 * Context: main, at the start.
 */
void upgrade_init(struct server *s);

/*
 * Ask the program of this name (empty: of the one that runs), and if it agrees have the server
 * stop for it. A refusal is logged, and nothing has changed. Context: main.
 */
void upgrade_begin(struct server *s, const char *program);

/* An answer is no longer waited for. Context: main, before the last run of the loop. */
void upgrade_end(struct server *s);

/*
 * Take the live options that the program before has handed over, where files and command line
 * say the same as to that one. tells: log what became of them. Context: main, before anything
 * follows from the settings.
 */
void upgrade_take_live(struct settings *s, bool tells);

/*
 * Until when the program before has kept what expires (engine_config); 0: it did not. Context:
 * main, before start.
 */
int64_t upgrade_hold_ns(const struct passed_on *passed);

/* The server stops: note what is passed on, if it is for that. Context: main. */
void upgrade_note(struct server *s);

/* It stops for good: connections are ended from now on. Context: main. */
void upgrade_give_up(struct server *s);

/* The workers have ended: log what has become of connections. Context: main. */
void upgrade_tell(const struct server *s);

/* They have ended, and the engine is there: note what was changed live. Context: main. */
void upgrade_note_live(struct server *s);

/* Is it for that? Context: main. */
bool upgrade_is_wanted(const struct server *s);

/*
 * Everything was taken down: become the program. Returns only if that fails, an exit status.
 * Context: main.
 */
int upgrade_become(struct server *s);

/*
 * Is this program asked beside another process, and does it know its blocks? If it agrees it
 * ends with this status, which programs that understand no word of it have not. Context: main.
 */
#define UPGRADE_AGREES 42
bool upgrade_is_asked(void);
bool upgrade_knows_blocks(void);

/* Is this file of items (memory_file_name()) that of the asking program? True if none asks. */
bool upgrade_has_items(const char *memory);

#endif
