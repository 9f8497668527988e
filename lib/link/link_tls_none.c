/* SPDX-License-Identifier: BSD-3-Clause */
/* See link_tls.h: of a build without OpenSSL. */
#include "lib/link/link_tls.h"

#include <stdio.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

void link_tls_prepare(void)
{
}

struct link_tls *link_tls_create(const struct link_target *target, int fd, char *why,
                                 size_t why_bytes)
{
    snprintf(why, why_bytes, "this program was built without OpenSSL: there is no TLS");
    return NULL;
}

void link_tls_destroy(struct link_tls **t)
{
    *t = NULL;
}

ssize_t link_tls_greet(struct link_tls *t)
{
    return LINK_TLS_FAILED;
}

ssize_t link_tls_read(struct link_tls *t, void *out, size_t n)
{
    return LINK_TLS_FAILED;
}

ssize_t link_tls_write(struct link_tls *t, const void *bytes, size_t n)
{
    return LINK_TLS_FAILED;
}

const char *link_tls_why(const struct link_tls *t)
{
    return "";
}
