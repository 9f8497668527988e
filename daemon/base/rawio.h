/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system calls of a request, without the C library's wrappers: read(), readv(), send() and
 * sendmsg() are cancellation points, which costs each call two atomic exchanges in a process
 * with threads, together 1% of an unpipelined get. Threads of the server are never cancelled.
 */
#ifndef MAYFLY_DAEMON_BASE_RAWIO_H
#define MAYFLY_DAEMON_BASE_RAWIO_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* As read(2). Context: any thread. */
static inline ssize_t raw_read(int fd, void *to, size_t n)
{
    return (ssize_t)syscall(SYS_read, fd, to, n);
}

/* As readv(2). Context: any thread. */
static inline ssize_t raw_readv(int fd, const struct iovec *iov, unsigned count)
{
    return (ssize_t)syscall(SYS_readv, fd, iov, count);
}

/* As send(2) with MSG_NOSIGNAL. Context: any thread. */
static inline ssize_t raw_send(int fd, const void *p, size_t n)
{
    return (ssize_t)syscall(SYS_sendto, fd, p, n, MSG_NOSIGNAL, NULL, 0);
}

/* As sendmsg(2) of these parts with MSG_NOSIGNAL. Context: any thread. */
static inline ssize_t raw_sendv(int fd, struct iovec *iov, unsigned count)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};

    return (ssize_t)syscall(SYS_sendmsg, fd, &msg, MSG_NOSIGNAL);
}

#endif
