/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Begin and end of a connection; see conn_io.h for what is in between.
 */
#include "daemon/net/conn_io.h"

#include "daemon/net/tls.h"
#include "lib/base/check.h"
#include "lib/base/context.h"

bool io_begin_tls(struct io *io, struct tls *tls, const struct tls_worker *w)
{
    must_be_a_worker();
    must(io->tls == NULL);
    io->tls = tls_session_create(tls_take_context(tls), w, io->fd);
    return io->tls != NULL;
}

void io_send_end(struct io *io)
{
    must_be_a_worker();
    if (io->tls != NULL) {
        tls_send_end(io->tls);
    }
    shutdown(io->fd, SHUT_WR);
}

void io_discard(struct io *io, char *to, size_t n, unsigned times)
{
    must_be_a_worker();
    /* The raw bytes of the socket: they are never decrypted. */
    while (times-- > 0 && read(io->fd, to, n) > 0) {
    }
}

void io_close(struct io *io)
{
    must_be_a_worker();
    if (io->tls != NULL) {
        tls_session_destroy(io->tls);
        io->tls = NULL;
    }
    close(io->fd);
}
