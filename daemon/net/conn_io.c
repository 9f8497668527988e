/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Begin and end of a connection; see conn_io.h for what is in between.
 */
#include "daemon/net/conn_io.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/net/tls.h"
#include "lib/base/check.h"
#include "lib/base/context.h"

bool io_begin_tls(struct io *io, struct tls *tls, const struct tls_worker *w,
                  enum tls_verify verify)
{
    must_be_a_worker();
    must(io->tls == NULL);
    io->tls = tls_session_create(tls_take_context(tls), w, io->fd, verify);
    return io->tls != NULL;
}

bool io_send_end(struct io *io)
{
    must_be_a_worker();
    if (io->tls != NULL && !tls_send_end(io->tls)) {
        return false;
    }
    shutdown(io->fd, SHUT_WR);
    return true;
}

bool io_discard(struct io *io, char *to, size_t n, unsigned times)
{
    ssize_t got = 1;

    must_be_a_worker();
    /* The raw bytes of the socket: they are never decrypted. */
    while (times-- > 0 && got > 0) {
        got = TEMP_FAILURE_RETRY(read(io->fd, to, n));
    }
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

size_t io_unread(const struct io *io)
{
    int bytes = 0;

    must_be_a_worker();
    if (ioctl(io->fd, FIONREAD, &bytes) != 0) {
        bytes = 0;
    }
    return (size_t)bytes + (io_has_more(io) ? TLS_RECORD_BYTES : 0);
}

size_t io_unsent(const struct io *io)
{
    int bytes = 0;

    must_be_a_worker();
    return ioctl(io->fd, SIOCOUTQ, &bytes) == 0 ? (size_t)bytes : 0;
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
