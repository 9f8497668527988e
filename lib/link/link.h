/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client connection to a server: a unix socket or TCP, with TLS if requested. Every wait has
 * a time limit, and every answer that is kept has a size limit, so neither a silent server nor
 * an endless answer can block the caller or fill memory. Another thread or a signal handler can
 * also interrupt a wait.
 *
 * Used by mayflyctl to send commands, and by a replica to follow its primary. It is a library
 * of its own (libmayflylink.a), because it is linked with OpenSSL.
 *
 * A line or the result of link_bytes() stays in one buffer: a returned span is valid until the
 * next call that reads. Context: any thread, one at a time for each link, outside read-side
 * sections and shards, because all functions but the getters wait.
 */
#ifndef MAYFLY_LIB_LINK_LINK_H
#define MAYFLY_LIB_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/clock.h"
#include "lib/base/span.h"

/* A line that is longer is none. */
#define LINK_LINE_MAX (64u * 1024)

/* Where to, and how. What is not set (all zero) is as said. */
struct link_target {
    const char *path;        /* of a unix socket; NULL: TCP */
    const char *host, *port; /* a numeric address is never looked up */
    bool uses_tls;
    const char *ca, *cert, *key; /* files; NULL: the system's; none; in the file of cert */
    const char *tls_name;        /* the certificate's; NULL: host */
    bool has_terminal;           /* a password of the key may be asked for there */

    /* What sets ca, cert and tls_name, named where a handshake fails; NULL: nothing. */
    const char *ca_option, *cert_option, *name_option;

    /* Of each wait, until link_set_timeout(); MSEC_NEVER: as long as it takes. */
    msec_t timeout_ms;
    const char *timeout_option; /* what sets it, named where it passes; NULL: nothing */

    /*
     * What ends waits from outside. *cancel: a descriptor, such as an eventfd, that others make
     * readable; it is not read, and stays open for as long as the link. is_interrupted: asked
     * at the begin of each wait, after each signal, and each second. NULL: nothing does.
     */
    const int *cancel;
    bool (*is_interrupted)(void);
};

struct link;

enum link_result {
    LINK_OK,
    LINK_CLOSED,      /* by the server */
    LINK_BROKEN,      /* an error of the system or of TLS */
    LINK_SILENT,      /* the time limit */
    LINK_TOO_LONG,    /* a line over LINK_LINE_MAX, a value over the limit of the caller */
    LINK_INTERRUPTED, /* from outside: see struct link_target */
    LINK_NO_MEMORY,
    LINK_REFUSED /* the answer is not what was hoped for: link_login() */
};

/*
 * For a process that gives up rights (-o drop_privileges), before it does: names will be looked
 * up in /etc/hosts and in the DNS only, by what is part of the C library. Other sources, which
 * /etc/nsswitch.conf may name, are plug-ins: they are loaded, as code, when a name is first
 * looked up. Context: before there are threads.
 */
void link_prepare_confined(void);

/*
 * Connect: all addresses of a name are tried in turn, within the time limit; then comes the
 * handshake of TLS, within the time limit. NULL: no connection, and why says so. Of the strings
 * of the target only those that name options are used afterwards.
 *
 * Neither limit nor interruption ends the look-up of a name: with a DNS that is silent, it
 * takes a second for each server and each domain to search that resolv.conf names. Give an
 * address where that matters.
 */
struct link *link_open(const struct link_target *target, char *why, size_t why_bytes);

/* Close and release; accepts NULL, and sets it to NULL. */
void link_close(struct link **l);

/* Is the server on this host: a unix socket, or a loopback address? */
bool link_is_local(const struct link *l);

/* The time limit of each wait from now on. */
void link_set_timeout(struct link *l, msec_t timeout_ms);

/*
 * After LINK_SILENT and LINK_INTERRUPTED a link is as before for link_line(), link_bytes() and
 * link_some(): what came is kept, and the call may be repeated. Any other failure, and any of
 * link_send(), leaves it good for link_close() only. Interruptions end waits only: bytes that
 * are there are read even so.
 */
enum link_result link_send(struct link *l, struct span bytes);

/* The next line, without its end, which is "\r\n" or "\n". */
enum link_result link_line(struct link *l, struct span *line);

/* The same without a time limit: for who waits for events. */
enum link_result link_line_patiently(struct link *l, struct span *line);

/* The next n bytes, all of them in the buffer of the link. */
enum link_result link_bytes(struct link *l, size_t n, struct span *bytes);

/*
 * The next bytes, as they come: at least one and at most max, which is not 0; *got has how many
 * there are. They are read straight into out, but for those that the buffer of the link has.
 */
enum link_result link_some(struct link *l, void *out, size_t max, size_t *got);

/* What the last result that was not LINK_OK means, for people. */
const char *link_why(const struct link *l);

/* ---- logging in -------------------------------------------------------------------------- */

/* Of a user's name, and of a password, each with its NUL. */
#define LINK_NAME_BYTES 512

/* Can a user be named so in a login? Not empty, not too long, no space and no line end. */
bool link_user_is_valid(const char *user);

/*
 * Log in where the server asks for users (-Y), by the first command of the connection. The user
 * is valid, and the password shorter than LINK_NAME_BYTES, without line ends. LINK_REFUSED: the
 * server answers something else than that it worked. *answer: its answer, until the next call
 * that reads; NULL: not wanted.
 */
enum link_result link_login(struct link *l, const char *user, const char *password,
                            struct span *answer);

#endif
