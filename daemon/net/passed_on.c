/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is passed on: see passed_on.h.
 */
#include "daemon/net/passed_on.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "daemon/net/sockets.h"
#include "lib/base/context.h"
#include "lib/base/num.h"

#define SOCKETS_VARIABLE "MAYFLY_PASSED_SOCKETS" /* numbers, each followed by a comma */
#define MEMORY_VARIABLE  "MAYFLY_PASSED_MEMORY"
#define CONNS_VARIABLE   "MAYFLY_PASSED_CONNS"    /* a file */
#define SHOWN_VARIABLE   "MAYFLY_UPGRADE_SOCKETS" /* as those that are passed */

/* ---- taking ------------------------------------------------------------------------------ */

/*
 * A descriptor named by the environment is closed when the next program begins. It is never one
 * of the first three, which this process has for other things.
 */
static int adopt(struct span number)
{
    uint32_t fd;

    return num_u32(number, &fd) == MF_OK && fd > STDERR_FILENO && fd < INT32_MAX &&
                   fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0
               ? (int)fd
               : -1;
}

void passed_on_init(struct passed_on *p)
{
    const char *sockets = getenv(SOCKETS_VARIABLE);
    const char *shown = getenv(SHOWN_VARIABLE);
    const char *memory = getenv(MEMORY_VARIABLE);
    const char *conns = getenv(CONNS_VARIABLE);

    must_be_main();
    memset(p, 0, sizeof(*p));
    p->noted_memory = -1;
    p->noted_file = -1;
    p->is_passed = sockets != NULL;
    p->is_shown = !p->is_passed && shown != NULL;
    sockets = p->is_shown ? shown : sockets;
    while (sockets != NULL && *sockets != '\0' && p->passed_count < PASSED_ON_SOCKETS_MAX) {
        size_t len = strcspn(sockets, ",");

        p->passed[p->passed_count++] = adopt(span_of(sockets, len));
        sockets += len + (sockets[len] == ',');
    }
    p->passed_memory = memory != NULL ? adopt(span_str(memory)) : -1;
    p->passed_file = conns != NULL ? adopt(span_str(conns)) : -1;
    unsetenv(SOCKETS_VARIABLE);
    unsetenv(SHOWN_VARIABLE);
    unsetenv(MEMORY_VARIABLE);
    unsetenv(CONNS_VARIABLE);
}

bool passed_on_is(const struct passed_on *p)
{
    return p != NULL && p->is_passed;
}

bool passed_on_is_shown(const struct passed_on *p)
{
    return p != NULL && p->is_shown;
}

int passed_on_excuse(const struct passed_on *p, int status)
{
    return passed_on_is(p) ? 0 : status;
}

static bool is_at(int fd, const union socket_address *want, socklen_t want_len)
{
    union socket_address at;
    socklen_t len = sizeof(at);

    memset(&at, 0, sizeof(at));
    if (socket_option(fd, SO_ACCEPTCONN) != 1 || getsockname(fd, &at.sa, &len) != 0 ||
        at.sa.sa_family != want->sa.sa_family) {
        return false;
    }
    switch (at.sa.sa_family) {
    case AF_INET:
        return at.in.sin_addr.s_addr == want->in.sin_addr.s_addr &&
               (want->in.sin_port == 0 || at.in.sin_port == want->in.sin_port);
    case AF_INET6:
        return memcmp(&at.in6.sin6_addr, &want->in6.sin6_addr, sizeof(at.in6.sin6_addr)) == 0 &&
               at.in6.sin6_scope_id == want->in6.sin6_scope_id &&
               (want->in6.sin6_port == 0 || at.in6.sin6_port == want->in6.sin6_port);
    default:
        return len == want_len && memcmp(&at, want, len) == 0;
    }
}

int passed_on_take(struct passed_on *p, const struct sockaddr *addr, socklen_t len)
{
    union socket_address want;

    memset(&want, 0, sizeof(want));
    memcpy(&want, addr, len < sizeof(want) ? len : sizeof(want));
    for (unsigned i = 0; p != NULL && i < p->passed_count; i++) {
        int fd = p->passed[i];

        if (fd >= 0 && is_at(fd, &want, len)) {
            p->passed[i] = -1;
            return fd;
        }
    }
    return -1;
}

bool passed_on_makes_way(struct passed_on *p, const struct sockaddr *addr, int type)
{
    union socket_address want;
    bool has_any = false;

    memset(&want, 0, sizeof(want));
    memcpy(&want, addr, addr->sa_family == AF_INET6 ? sizeof(want.in6) : sizeof(want.in));
    for (unsigned i = 0; p != NULL && i < p->passed_count; i++) {
        int fd = p->passed[i];

        if (fd >= 0 && socket_option(fd, SO_DOMAIN) == addr->sa_family &&
            socket_option(fd, SO_TYPE) == type &&
            socket_port(fd) == socket_address_port(&want)) {
            has_any = true;
            if (!p->is_shown) {
                close(fd);
                p->passed[i] = -1;
            }
        }
    }
    return has_any;
}

int passed_on_take_memory(struct passed_on *p)
{
    const int fd = p != NULL ? p->passed_memory : -1;

    if (p != NULL) {
        p->passed_memory = -1;
    }
    return fd;
}

/*
 * Room for n bytes, or for a part of them where there is no memory for all: the numbers of the
 * descriptors come first, and without these nobody would close the connections.
 */
static bool reserve_some(struct buf *out, size_t n)
{
    while (n > 0 && !buf_reserve(out, n)) {
        errno = ENOMEM;
        n /= 2;
    }
    return n > 0;
}

bool passed_on_take_conns(struct passed_on *p, struct buf *out)
{
    struct stat st;
    ssize_t n = -1;
    const int fd = p->passed_file;

    p->passed_file = -1;
    if (fd < 0) {
        return false;
    }
    if (fstat(fd, &st) == 0 && st.st_size >= 0 && reserve_some(out, (size_t)st.st_size + 1)) {
        do {
            n = pread(fd, buf_end(out), buf_room(out), (off_t)buf_len(out));
            out->end += n > 0 ? (size_t)n : 0;
        } while (n > 0 && buf_room(out) > 0);
    }
    if (n != 0) {
        log_error("upgrade, cannot read the state of connections (%s)", strerror(errno));
    }
    close(fd);
    return true;
}

void passed_on_close_rest(struct passed_on *p)
{
    for (unsigned i = 0; i < p->passed_count; i++) {
        if (p->passed[i] >= 0) {
            close(p->passed[i]);
        }
    }
    p->passed_count = 0;
    if (p->passed_memory >= 0) {
        close(passed_on_take_memory(p));
    }
}

/* ---- passing on -------------------------------------------------------------------------- */

/* Another descriptor of the same, which stays when that is closed. */
static int keep(const struct passed_on *p, int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, SOCKETS_INHERIT_FIRST + (int)sockets_inherited_count(p));
}

void passed_on_note_sockets(struct passed_on *p, struct socket_list *l)
{
    must_be_main();
    while (p->inherited_count < sockets_inherited_count(p) &&
           p->inherited_count < PASSED_ON_SOCKETS_MAX) {
        p->inherited[p->inherited_count] =
            keep(p, SOCKETS_INHERIT_FIRST + (int)p->inherited_count);
        p->inherited_count++;
    }
    for (uint32_t i = 0; i < l->count && p->noted_count < PASSED_ON_SOCKETS_MAX; i++) {
        int fd = keep(p, l->items[i].fd);

        if (fd < 0) {
            log_warn("upgrade, cannot pass on %s (%s)", l->items[i].name, strerror(errno));
            continue;
        }
        p->noted[p->noted_count] = l->items[i];
        p->noted[p->noted_count++].fd = fd;
        l->items[i].path = NULL; /* it stays when that one is closed */
    }
}

void passed_on_show(const char *numbers)
{
    must_be_main();
    if (numbers != NULL) {
        setenv(SHOWN_VARIABLE, numbers, 1);
    } else {
        unsetenv(SHOWN_VARIABLE);
    }
}

bool passed_on_note_memory(struct passed_on *p, int fd)
{
    must_be_main();
    p->noted_memory = keep(p, fd);
    return p->noted_memory >= 0;
}

/* A file in memory with these bytes, or -1 with errno. */
static int file_of(const struct passed_on *p, struct span bytes)
{
    int fd = memfd_create("mayfly.conns", MFD_CLOEXEC);
    int kept = fd >= 0 ? keep(p, fd) : -1;

    if (fd >= 0) {
        close(fd);
    }
    if (kept >= 0 && !file_write(kept, bytes)) {
        close(kept);
        return -1;
    }
    return kept;
}

bool passed_on_note_conns(struct passed_on *p, const struct passed_conns *conns,
                          const struct passed_keys *keys)
{
    struct buf bytes = {0};

    must_be_main();
    if (passed_conns_count(conns) == 0) {
        return true;
    }
    errno = ENOMEM;
    if (passed_conns_encode(conns, keys, &bytes)) {
        p->noted_file = file_of(p, buf_span(&bytes));
        explicit_bzero(bytes.base, bytes.cap);
    }
    buf_fini(&bytes);
    if (p->noted_file < 0) {
        log_error("upgrade, cannot save the state of connections (%s)", strerror(errno));
        return false;
    }
    for (uint32_t i = 0; i < passed_conns_count(conns); i++) {
        (void)fcntl(passed_conns_fd(conns, i), F_SETFD, 0);
    }
    return true;
}

void passed_on_end_conns(const struct passed_conns *conns)
{
    must_be_main();
    for (uint32_t i = 0; i < passed_conns_count(conns); i++) {
        socket_end(passed_conns_fd(conns, i));
    }
}

void passed_on_give_up(struct passed_on *p)
{
    must_be_main();
    while (p->noted_count > 0) {
        socket_close(&p->noted[--p->noted_count]);
    }
    while (p->inherited_count > 0) {
        p->inherited_count--;
        if (p->inherited[p->inherited_count] >= 0) {
            close(p->inherited[p->inherited_count]);
        }
    }
    if (p->noted_memory >= 0) {
        close(p->noted_memory);
        p->noted_memory = -1;
    }
}

/* Have it open in the next program, and a variable name it. */
static void pass(int fd, const char *variable)
{
    char number[16];

    if (fd >= 0) {
        (void)fcntl(fd, F_SETFD, 0);
        snprintf(number, sizeof(number), "%d", fd);
        setenv(variable, number, 1);
    }
}

int passed_on_become(const struct passed_on *p, const char *path, char *const argv[])
{
    char numbers[PASSED_ON_SOCKETS_MAX * 12] = "";
    size_t len = 0;

    must_be_main();
    for (unsigned i = 0; i < p->inherited_count; i++) {
        if (p->inherited[i] >= 0) {
            (void)dup2(p->inherited[i], SOCKETS_INHERIT_FIRST + (int)i);
        }
    }
    for (unsigned i = 0; i < p->noted_count; i++) {
        (void)fcntl(p->noted[i].fd, F_SETFD, 0);
        len += (size_t)snprintf(numbers + len, sizeof(numbers) - len, "%d,", p->noted[i].fd);
    }
    setenv(SOCKETS_VARIABLE, numbers, 1);
    pass(p->noted_memory, MEMORY_VARIABLE);
    pass(p->noted_file, CONNS_VARIABLE);
    execv(path, argv);
    return errno;
}
