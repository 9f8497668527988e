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

/* link_prepare_confined(): what the library reads at its first use is read. */
void link_tls_prepare(void);

/* A session on fd, not begun yet. NULL: told in why. */
struct link_tls *link_tls_create(const struct link_target *target, int fd, char *why,
                                 size_t why_bytes);
void link_tls_destroy(struct link_tls **t);

/*
 * Shake hands, read, write: > 0 done or bytes; 0 the end; LINK_TLS_WANTS_*: wait for the socket
 * and call again; LINK_TLS_FAILED: link_tls_why().
 */
enum { LINK_TLS_WANTS_READ = -1, LINK_TLS_WANTS_WRITE = -2, LINK_TLS_FAILED = -3 };
ssize_t link_tls_greet(struct link_tls *t);
ssize_t link_tls_read(struct link_tls *t, void *out, size_t n);
ssize_t link_tls_write(struct link_tls *t, const void *bytes, size_t n);
const char *link_tls_why(const struct link_tls *t);

#endif
