/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS on a non-blocking socket. A build without OpenSSL has link_tls_none.c instead, where
 * starting a session fails. Internal to link.c.
 */
#ifndef MAYFLY_LIB_LINK_LINK_TLS_H
#define MAYFLY_LIB_LINK_LINK_TLS_H

#include <stddef.h>
#include <sys/types.h>

#include "lib/link/link.h"

struct link_tls;

/*
 * Part of link_prepare_confined(): the library reads the files that it needs at its first use.
 */
void link_tls_prepare(void);

/* A session on fd, before its handshake. NULL: failed, with the reason in why. */
struct link_tls *link_tls_create(const struct link_target *target, int fd, char *why,
                                 size_t why_bytes);
void link_tls_destroy(struct link_tls **t);

/*
 * Shake hands, read, write. Returns > 0: done, or a number of bytes; 0: the end of the stream;
 * LINK_TLS_WANTS_*: wait for the socket and call again; LINK_TLS_FAILED: see link_tls_why().
 */
enum { LINK_TLS_WANTS_READ = -1, LINK_TLS_WANTS_WRITE = -2, LINK_TLS_FAILED = -3 };
ssize_t link_tls_greet(struct link_tls *t);
ssize_t link_tls_read(struct link_tls *t, void *out, size_t n);
ssize_t link_tls_write(struct link_tls *t, const void *bytes, size_t n);
const char *link_tls_why(const struct link_tls *t);

#endif
