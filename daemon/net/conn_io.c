/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Beginning and end of what conn_io.h does in between.
 */
#include "daemon/net/conn_io.h"

#include "daemon/net/tls.h"

bool io_begin_tls(struct io *io, struct tls *tls, const struct tls_worker *w)
{
    io->tls = tls_session_create(tls_take_context(tls), w, io->fd);
    return io->tls != NULL;
}

void io_send_end(struct io *io)
{
    if (io->tls != NULL) {
        tls_send_end(io->tls);
    }
    shutdown(io->fd, SHUT_WR);
}

void io_discard(struct io *io, char *to, size_t n, unsigned times)
{
    /* The socket's bytes, whatever they mean: nobody is going to decrypt them. */
    while (times-- > 0 && read(io->fd, to, n) > 0) {
    }
}

void io_close(struct io *io)
{
    if (io->tls != NULL) {
        tls_session_destroy(io->tls);
        io->tls = NULL;
    }
    close(io->fd);
}
