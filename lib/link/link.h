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

/* Largest line in bytes; a longer one is LINK_TOO_LONG. */
#define LINK_LINE_MAX (64u * 1024)

/* Where and how to connect. Each comment says what NULL or zero means. */
struct link_target {
    const char *path;        /* of a unix socket; NULL: TCP */
    const char *host, *port; /* a numeric address is never looked up */
    bool uses_tls;
    const char *ca, *cert, *key; /* files; NULL: system's CAs; no cert; key is in cert's file */
    const char *tls_name;        /* name in the server's certificate; NULL: host */
    bool has_terminal;           /* the key's password may be asked for on the terminal */

    /* Names of the options that set ca, cert and tls_name, for messages; NULL: not named. */
    const char *ca_option, *cert_option, *name_option;

    /* Time limit of each wait until link_set_timeout(); MSEC_NEVER: none. */
    msec_t timeout_ms;
    const char *timeout_option; /* name of the option that sets it, for messages; or NULL */

    /*
     * Ways to interrupt waits; NULL: none. *cancel is a descriptor, such as an eventfd, which
     * interrupts when it is readable. It is not read, and must stay open as long as the link.
     * is_interrupted() is called at the beginning of each wait, after each signal, and once a
     * second.
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
    LINK_REFUSED /* the server has refused the login: link_login() */
};

/*
 * Call before a process gives up privileges (-o drop_privileges). From then on names are looked
 * up only in /etc/hosts and the DNS, by code that is part of the C library. Other sources that
 * /etc/nsswitch.conf may name are plug-ins, which would be loaded at the first look-up.
 * Context: before there are threads.
 */
void link_prepare_confined(void);

/*
 * Connect: try all addresses of a name in turn, within the time limit; then shake hands for
 * TLS, within another time limit. Returns NULL, with the reason in why, if that fails. Of the
 * strings of the target, only the names of options must stay valid afterwards.
 *
 * Neither limit nor interruption ends the look-up of a name: with a DNS that is silent, it
 * takes a second for each server and each domain to search that resolv.conf names. Give an
 * address where that matters.
 */
struct link *link_open(const struct link_target *target, char *why, size_t why_bytes);

/* Close, release and null the pointer; accepts NULL. */
void link_close(struct link **l);

/* Is the server on this host: a unix socket, or a loopback address? */
bool link_is_local(const struct link *l);

/* The time limit of each wait from now on. */
void link_set_timeout(struct link *l, msec_t timeout_ms);

/*
 * After LINK_SILENT and LINK_INTERRUPTED, link_line(), link_bytes() and link_some() may be
 * called again: received bytes are kept. After any other failure, and after any failure of
 * link_send(), only link_close() is allowed. An interruption ends waits only: bytes that have
 * arrived are still returned.
 */
enum link_result link_send(struct link *l, struct span bytes);

/* The next line, without its end, which is "\r\n" or "\n". */
enum link_result link_line(struct link *l, struct span *line);

/* The same without a time limit, for callers that wait for events. */
enum link_result link_line_patiently(struct link *l, struct span *line);

/* The next n bytes, all of them in the buffer of the link. */
enum link_result link_bytes(struct link *l, size_t n, struct span *bytes);

/*
 * The next bytes as they arrive: at least one and at most max, which is not 0. *got is their
 * number. They are read directly into out, except those already in the link's buffer.
 */
enum link_result link_some(struct link *l, void *out, size_t max, size_t *got);

/* A message about the last result that was not LINK_OK. */
const char *link_why(const struct link *l);

/* ---- logging in -------------------------------------------------------------------------- */

/* Size of a buffer for a user's name or a password, with the NUL. */
#define LINK_NAME_BYTES 512

/* Is this a possible name of a user: not empty, not too long, without space and line end? */
bool link_user_is_valid(const char *user);

/*
 * Log in to a server that requires it (-Y), as the first command of the connection. The user
 * must be valid, and the password shorter than LINK_NAME_BYTES and without line ends.
 * LINK_REFUSED: the server's answer is not a success. *answer is that answer, valid until the
 * next call that reads; answer may be NULL.
 */
enum link_result link_login(struct link *l, const char *user, const char *password,
                            struct span *answer);

#endif
