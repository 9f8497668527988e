/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network: sockets, reading and writing.
 *
 *   conn_io.h      reads and writes of one connection, plain or TLS
 *   outq.h         queue of replies for a socket
 *   tls.h          certificates and TLS options; tls_session.h: one session
 *   sockets.h      listening sockets
 *   origin.h       what a connection inherits from its listening socket
 *
 * The folder may include daemon/base, daemon/options, daemon/access and lib.
 *
 * This file: reads and writes of a connection, by plain system calls or by TLS over the same
 * socket. Both behave like the system calls: non-blocking, with a short count when the socket
 * is empty or full. A plain connection pays one well-predicted branch.
 */
#ifndef MAYFLY_DAEMON_NET_CONN_IO_H
#define MAYFLY_DAEMON_NET_CONN_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

#include "daemon/base/rawio.h"
#include "daemon/net/tls_session.h"
#include "lib/base/check.h"
#include "lib/base/context.h"

struct tls;

struct io {
    int fd;                  /* owned */
    struct tls_session *tls; /* owned; NULL: plain */
};

/* Take over a socket, for plain bytes. Context: worker. */
static inline void io_init(struct io *io, int fd)
{
    must_be_a_worker();
    io->fd = fd;
    io->tls = NULL;
}

/* Use TLS on it from now on. False: no memory; it stays plain. Context: worker. */
bool io_begin_tls(struct io *io, struct tls *tls, const struct tls_worker *w,
                  enum tls_verify verify);

/* Another worker has it from now on. Context: worker, that one. */
static inline void io_join(struct io *io, const struct tls_worker *w)
{
    must_be_a_worker();
    if (io->tls != NULL) {
        tls_session_join(io->tls, w);
    }
}

/* As read(2). Context: worker. */
static inline ssize_t io_read(struct io *io, char *to, size_t n)
{
    must_be_a_worker();
    if (MF_UNLIKELY(io->tls != NULL)) {
        return tls_readv(io->tls, &(struct iovec){to, n}, 1);
    }
    return raw_read(io->fd, to, n);
}

/* As readv(2). Context: worker. */
static inline ssize_t io_readv(struct io *io, const struct iovec *iov, unsigned count)
{
    must_be_a_worker();
    if (MF_UNLIKELY(io->tls != NULL)) {
        return tls_readv(io->tls, iov, count);
    }
    return raw_readv(io->fd, iov, count);
}

/*
 * As send(2) and sendmsg(2), without a signal. After a short count or EAGAIN the same bytes
 * must be sent next, see tls_sendv(). Context: worker.
 */
static inline ssize_t io_send(struct io *io, char *p, size_t n)
{
    must_be_a_worker();
    if (MF_UNLIKELY(io->tls != NULL)) {
        return tls_sendv(io->tls, &(struct iovec){p, n}, 1);
    }
    return raw_send(io->fd, p, n);
}

static inline ssize_t io_sendv(struct io *io, struct iovec *iov, unsigned count)
{
    must_be_a_worker();
    if (MF_UNLIKELY(io->tls != NULL)) {
        return tls_sendv(io->tls, iov, count);
    }
    return raw_sendv(io->fd, iov, count);
}

/* The events that reading and writing wait for. Context: worker. */
static inline int io_read_events(const struct io *io)
{
    must_be_a_worker();
    if (MF_UNLIKELY(io->tls != NULL) && tls_read_wants_write(io->tls)) {
        /* Not UV_READABLE as well: bytes that cannot be read yet would cause endless events. */
        return UV_WRITABLE;
    }
    return UV_READABLE;
}

static inline int io_write_events(const struct io *io)
{
    must_be_a_worker();
    if (MF_UNLIKELY(io->tls != NULL) && tls_write_wants_read(io->tls)) {
        return UV_READABLE;
    }
    return UV_WRITABLE;
}

/*
 * Are there bytes, or an end, that no event of the socket will report? Context: worker.
 */
static inline bool io_has_more(const struct io *io)
{
    must_be_a_worker();
    return MF_UNLIKELY(io->tls != NULL) && tls_has_more(io->tls);
}

/*
 * Shut down the sending side. Returns false if the socket takes no bytes: call it again when it
 * does. Context: worker.
 */
bool io_send_end(struct io *io);

/*
 * Discard received bytes, up to n at once, at most `times` times. Returns false when there are
 * no more, or the peer has closed or disconnected. Context: worker.
 */
bool io_discard(struct io *io, char *to, size_t n, unsigned times);

/*
 * Received bytes that were not read; with TLS the encrypted bytes, which are more. Context:
 * worker.
 */
size_t io_unread(const struct io *io);

/* Bytes that the peer has not acknowledged; its end counts as one. Context: worker. */
size_t io_unsent(const struct io *io);

/*
 * Call fn with each name of the certificate that the peer has shown and that was verified: none
 * without TLS. Context: worker, after the handshake.
 */
static inline void io_each_peer_name(const struct io *io, tls_name_fn fn, void *arg)
{
    must_be_a_worker();
    if (io->tls != NULL) {
        tls_each_peer_name(io->tls, fn, arg);
    }
}

/* Release the session and close the socket. Context: worker. */
void io_close(struct io *io);

#endif
