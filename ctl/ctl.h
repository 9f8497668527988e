/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ctl/ is mayflyctl, the operator's client: one process, one thread, one connection. It shares
 * with the daemon the parsing of the text protocol (proto/), numbers, buffers and the table of
 * counters (lib/base/), the snapshot format (lib/format/), and client connections
 * (lib/link/). It knows nothing else of the daemon: everything that it shows comes from the
 * server's answers.
 *
 *     main             the command line, the exit status
 *     commands, options the tables commands.def and options.def, used by all other files
 *     ask              requests and answers, logins, statistics
 *     answer           parsing of answers; pure functions of bytes
 *     show, bar, json  text for people and for programs
 *     progress         progress of long operations
 *     cmd_*            one file for each family of commands
 *     examine, report  the content of a snapshot and its logs, for check
 *     host, advice     figures of this host from the kernel; doctor's findings
 *     sample           the figures of the server at one moment, for memory and top
 *     top, top_*, sheet the live view
 *     prompt, line_*   the interactive prompt
 *
 * Servers are not trusted. The size of everything received is bounded, and it reaches a
 * terminal only through show.h. Only the main thread runs, so headers here name no context.
 */
#ifndef MAYFLY_CTL_CTL_H
#define MAYFLY_CTL_CTL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ctl/json.h"
#include "ctl/options.h"
#include "lib/base/check.h"

/* How a command ended; the exit status of the program. */
enum ctl_status {
    CTL_OK = 0,
    CTL_NO = 1,      /* the answer is no: no such key, not stored, something to be done */
    CTL_USAGE = 2,   /* the command line is wrong */
    CTL_LINK = 3,    /* no connection, or it broke, or the server was silent for too long */
    CTL_REFUSED = 4, /* the server refused: an error answer, a login that failed */
    CTL_GARBLED = 5, /* the answer is not one of the protocol, or too large */
    CTL_SYSTEM = 6   /* this machine: no memory, output that cannot be written */
};

#define CTL_WHY_BYTES 600

struct link;

struct ctl {
    struct options options;  /* of the command that runs */
    struct link *link;       /* owned; NULL: not connected */
    FILE *out;               /* [borrowed] */
    bool is_terminal;        /* out is one */
    bool is_utf8;            /* out takes UTF-8 */
    bool is_prompt;          /* there are further commands after this one */
    char why[CTL_WHY_BYTES]; /* message of the last failure; empty: none */
};

/*
 * Record why a command fails; returns the status. The text may have bytes from a server: they
 * are escaped where it is printed.
 */
enum ctl_status ctl_fail(struct ctl *c, enum ctl_status status, const char *fmt, ...)
    MF_PRINTF(3, 4);

/* The JSON writer of a command; without --json it writes nothing. */
struct json ctl_json(const struct ctl *c);

/* Print text for people; with --json nothing is printed. */
void ctl_say(const struct ctl *c, const char *fmt, ...) MF_PRINTF(2, 3);

/* Print bytes of a server on a line of their own, escaped. */
void ctl_put_line(struct ctl *c, struct span line);

/* The same; with --json, as an element of a JSON array. */
void ctl_put_answer(struct ctl *c, struct json *j, struct span line);

/* Report the success of a command: {"name": true} with --json, else a line of text. */
void ctl_done(struct ctl *c, const char *name, const char *text);

/* Print the recorded reason of the last failure on standard error, and clear it. */
void ctl_report(struct ctl *c);

/*
 * Ask on the terminal for confirmation of `what`, such as "Drop all items". Returns true if the
 * answer is yes, if --yes was given, or if standard input is no terminal, so that scripts are
 * not interrupted. Returns false after a call of ctl_fail().
 */
bool confirm(struct ctl *c, const char *what);

/* Has a SIGINT or SIGTERM arrived since ctl_catch_signals() or ctl_forget_signals()? */
bool ctl_is_interrupted(void);

/* From now on SIGINT and SIGTERM do not end the process, but only set a flag, now clear. */
void ctl_catch_signals(void);

/* Clear the flag; the handlers stay installed. */
void ctl_forget_signals(void);

/* The wall clock. */
int64_t ctl_unix_ms(void);

/* Seconds of a clock that is never set. */
double ctl_now_s(void);

/* Sleep; false when a signal ended it early. */
bool ctl_sleep(double seconds);

#endif
