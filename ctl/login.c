/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/login.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "ctl/ask.h"
#include "lib/link/link.h"
#include "lib/link/password.h"

/* What was typed once; the prompt connects again with it. Wiped by exit of the process only. */
static char typed[LINK_NAME_BYTES];

static enum ctl_status read_file(struct ctl *c, const char *path, char out[LINK_NAME_BYTES])
{
    char why[400];
    bool is_exposed;
    bool is_read =
        password_read_file(path, out, &is_exposed, ctl_is_interrupted, why, sizeof(why));

    if (is_exposed) {
        fprintf(stderr, "mayflyctl: others may read or change %s: chmod 600\n", path);
    }
    return is_read ? CTL_OK : ctl_fail(c, CTL_USAGE, "%s", why);
}

/* On the terminal, without echo. */
static enum ctl_status ask_terminal(struct ctl *c, char out[LINK_NAME_BYTES])
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
    is_read = password_read_line(fd, out, ctl_is_interrupted);
    (void)tcsetattr(fd, TCSAFLUSH, &before);
    dprintf(fd, "\n");
    (void)close(fd);
    return is_read ? CTL_OK : ctl_fail(c, CTL_USAGE, "no password");
}

enum ctl_status login(struct ctl *c)
{
    const char *user = c->options.user;
    const char *file = c->options.password_file;
    struct span answer = {0};
    enum ctl_status status = CTL_OK;
    enum link_result result;

    if (!link_user_is_valid(user)) {
        return ctl_fail(c, CTL_USAGE, "the user's name is too long, or has a space");
    }
    if (typed[0] == '\0') {
        status = file != NULL ? read_file(c, file, typed) : ask_terminal(c, typed);
    }
    if (status != CTL_OK) {
        return status;
    }
    result = link_login(c->link, user, typed, &answer);
    if (result != LINK_REFUSED) {
        return ask_judge(c, result, answer);
    }
    status = ask_judge(c, LINK_OK, answer);
    if (status == CTL_OK) {
        return ask_garbled(c, answer);
    }
    explicit_bzero(typed, sizeof(typed)); /* perhaps mistyped */
    return status;
}
