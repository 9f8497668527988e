/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection to the server: a unix socket or TCP, TLS on top if asked for. Every wait has
 * the time limit of the target, and every answer that is kept a limit of bytes, so that neither
 * a silent server nor one that never ends holds us, or fills memory.
 *
 * What is read stays in one buffer: a span that was returned is good until the next call.
 */
#ifndef MAYFLY_CTL_LINK_H
#define MAYFLY_CTL_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/span.h"

/* A line that is longer is none. */
#define LINK_LINE_MAX (64u * 1024)

struct link_target {
    const char *path; /* of a unix socket; NULL: TCP */
    const char *host, *port;
    bool uses_tls;
    const char *ca, *cert, *key; /* files; NULL: the system's; none; in the file of cert */
    const char *tls_name;        /* the certificate's; NULL: host */
    double timeout_s;
};

struct link;

enum link_result {
    LINK_OK,
    LINK_CLOSED,      /* by the server */
    LINK_BROKEN,      /* an error of the system or of TLS */
    LINK_SILENT,      /* the time limit */
    LINK_TOO_LONG,    /* a line over LINK_LINE_MAX, a value over the limit of the caller */
    LINK_INTERRUPTED, /* by a signal */
    LINK_NO_MEMORY
};

/* Connect. NULL: no connection, and why says so. */
struct link *link_open(const struct link_target *target, char *why, size_t why_bytes);

/* Close and release; accepts NULL, and sets it to NULL. */
void link_close(struct link **l);

/* Is the server on this host: a unix socket, or a loopback address? */
bool link_is_local(const struct link *l);

enum link_result link_send(struct link *l, struct span bytes);

/* The next line, without its end, which is "\r\n" or "\n". */
enum link_result link_line(struct link *l, struct span *line);

/* The same without a time limit: for who waits for events. */
enum link_result link_line_patiently(struct link *l, struct span *line);

/* The next n bytes. */
enum link_result link_bytes(struct link *l, size_t n, struct span *bytes);

/* What the last result that was not LINK_OK means, for people. */
const char *link_why(const struct link *l);

#endif
