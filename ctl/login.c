/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/login.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "ctl/ask.h"

#define PASSWORD_MAX 512

/* What was typed once; the prompt connects again with it. Wiped by exit of the process only. */
static char typed[PASSWORD_MAX];

/* Read up to the end of a line. False: it is too long, or there is none. */
static bool read_line(int fd, char out[PASSWORD_MAX])
{
    size_t n = 0;

    for (;;) {
        char ch;
        ssize_t got = read(fd, &ch, 1);

        if (got < 0 && errno == EINTR && !ctl_is_interrupted()) {
            continue;
        }
        if (got < 0 || n == PASSWORD_MAX - 1) {
            return false;
        }
        if (got == 0 || ch == '\n') {
            out[n] = '\0';
            return got > 0 || n > 0;
        }
        if (ch == '\0' || ch == '\r') {
            return false;
        }
        out[n++] = ch;
    }
}

static enum ctl_status read_file(struct ctl *c, const char *path, char out[PASSWORD_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    enum ctl_status status = CTL_OK;

    if (fd < 0) {
        return ctl_fail(c, CTL_USAGE, "%s: %s", path, strerror(errno));
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077) != 0) {
        fprintf(stderr, "mayflyctl: others may read or change %s: chmod 600\n", path);
    }
    if (!read_line(fd, out)) {
        status = ctl_fail(c, CTL_USAGE, "%s: its first line is not a password", path);
    }
    (void)close(fd);
    return status;
}

/* On the terminal, without echo. */
static enum ctl_status ask_terminal(struct ctl *c, char out[PASSWORD_MAX])
{
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    struct termios before, silent;
    bool is_read;

    if (fd < 0 || tcgetattr(fd, &before) != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return ctl_fail(c, CTL_USAGE, "no terminal to ask for the password: --password-file");
    }
    silent = before;
    silent.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
    (void)tcsetattr(fd, TCSAFLUSH, &silent); /* what was typed before this is forgotten */
    dprintf(fd, "Password of %s: ", c->options.user);
    is_read = read_line(fd, out);
    (void)tcsetattr(fd, TCSAFLUSH, &before);
    dprintf(fd, "\n");
    (void)close(fd);
    return is_read ? CTL_OK : ctl_fail(c, CTL_USAGE, "no password");
}

enum ctl_status login(struct ctl *c)
{
    const char *user = c->options.user;
    const char *file = c->options.password_file;
    char body[2 * PASSWORD_MAX];
    char line[2 * PASSWORD_MAX + 64];
    struct span answer = {0};
    enum ctl_status status = CTL_OK;
    int len;

    if (strlen(user) >= PASSWORD_MAX || strpbrk(user, " \r\n") != NULL || user[0] == '\0') {
        return ctl_fail(c, CTL_USAGE, "the user's name is too long, or has a space");
    }
    if (typed[0] == '\0') {
        status = file != NULL ? read_file(c, file, typed) : ask_terminal(c, typed);
    }
    if (status != CTL_OK) {
        return status;
    }
    len = snprintf(body, sizeof(body), "%s %s", user, typed);
    len = snprintf(line, sizeof(line), "set login 0 0 %d\r\n%s\r\n", len, body);
    status = ask_bytes(c, span_of(line, (size_t)len));
    explicit_bzero(body, sizeof(body));
    explicit_bzero(line, sizeof(line));
    if (status == CTL_OK) {
        status = ask_answer(c, &answer);
    }
    if (status == CTL_OK && !span_is(answer, "STORED")) {
        return ask_garbled(c, answer);
    }
    if (status == CTL_REFUSED) {
        explicit_bzero(typed, sizeof(typed)); /* perhaps mistyped */
    }
    return status;
}
