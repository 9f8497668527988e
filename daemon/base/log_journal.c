/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See log_form.h. The state is set before there are threads.
 *
 * The socket is not connected: a restarted journal listens under the same name, and with -o
 * drop_privileges connect() is no longer allowed.
 */
#include "daemon/base/log_form.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/version.h"
#include "lib/base/context.h"

/*
 * Interval at which a thread that waits for room checks whether it should stop; milliseconds.
 */
#define WAIT_MS 500

/* [const] after log_journal_open() */
static int journal = -1;
static struct sockaddr_un address;

bool log_journal_open(const char *path)
{
    const struct timeval wait = {.tv_usec = WAIT_MS * 1000};
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    must_be_main();
    if (strlen(path) >= sizeof(to.sun_path)) {
        return false;
    }
    memcpy(to.sun_path, path, strlen(path));
    int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool listens = probe >= 0 && connect(probe, (const struct sockaddr *)&to, sizeof(to)) == 0;
    if (probe >= 0) {
        close(probe);
    }
    int fd = listens ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0) {
        return false;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    log_journal_close();
    address = to;
    journal = fd;
    return true;
}

void log_journal_close(void)
{
    must_be_main();
    if (journal >= 0) {
        close(journal);
        journal = -1;
    }
}

bool log_journal_is_on(void)
{
    return journal >= 0;
}

/* ---- a message --------------------------------------------------------------------------- */

/* Append a field if there is room for it, and for a message after it. */
static size_t put_field(char *out, size_t at, const char *name, struct span value)
{
    const size_t need = strlen(name) + 1 + value.len + 1;

    if (value.len == 0 || at + need > LOG_LINE_BYTES / 2) {
        return at;
    }
    memcpy(out + at, name, strlen(name));
    at += strlen(name);
    out[at++] = '=';
    memcpy(out + at, value.ptr, value.len);
    log_line_blank(out + at, value.len);
    at += value.len;
    out[at++] = '\n';
    return at;
}

static size_t put_text(char *out, size_t at, const char *name, const char *value)
{
    return value != NULL ? put_field(out, at, name, span_str(value)) : at;
}

size_t log_journal_compose(char out[LOG_LINE_BYTES], enum log_level level, uint32_t left_out,
                           const struct log_about *about, const char *fmt, va_list args)
{
    char thread[16] = "";
    char priority[2] = {log_line_priority(level), '\0'};
    size_t n = 0;

    (void)prctl(PR_GET_NAME, thread, 0, 0, 0);
    n = put_text(out, n, "PRIORITY", priority);
    n = put_text(out, n, "SYSLOG_IDENTIFIER", MAYFLY_NAME);
    n = put_field(out, n, "MAYFLY_AREA", log_line_area(fmt, args));
    n = put_text(out, n, "MAYFLY_THREAD", thread);
    if (about != NULL) {
        n = put_text(out, n, "MAYFLY_PEER", about->peer);
        n = put_text(out, n, "MAYFLY_USER", about->user);
    }
    memcpy(out + n, "MESSAGE=", 8);
    n += 8;
    size_t len = log_line_text(out + n, LOG_LINE_BYTES - n, left_out, fmt, args);
    return len > 0 ? n + len : 0;
}

/* ---- sending ----------------------------------------------------------------------------- */

bool log_journal_send(struct span message, bool waits)
{
    ssize_t n;

    do {
        n = sendto(journal, message.ptr, message.len, MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT),
                   (const struct sockaddr *)&address, sizeof(address));
    } while (n < 0 && (errno == EINTR || (errno == EAGAIN && waits)));
    return n >= 0;
}

size_t log_journal_as_line(struct span message, char out[LOG_LINE_BYTES])
{
    static const char before[] = "\nMESSAGE=";
    const char *text = memmem(message.ptr, message.len, before, sizeof(before) - 1);
    const size_t head = text != NULL ? (size_t)(text - message.ptr) + sizeof(before) - 1 : 0;
    size_t n = 0;

    if (text == NULL || message.len < sizeof("PRIORITY=")) {
        return 0;
    }
    out[n++] = '<';
    out[n++] = message.ptr[sizeof("PRIORITY=") - 1];
    out[n++] = '>';
    memcpy(out + n, message.ptr + head, message.len - head);
    return n + message.len - head;
}
