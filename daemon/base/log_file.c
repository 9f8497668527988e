/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See log_form.h. The descriptor keeps its number while the file is open: dup3() puts another
 * file in its place, so the thread that writes needs no lock.
 */
#include "daemon/base/log_form.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/context.h"

/* Less the umask. */
#define MODE 0640

/* [const] while the thread of the log runs */
static int log_fd = -1;

/* Open without waiting: a fifo that nobody reads is refused. Returns -1 and *why. */
static int open_regular(const char *path, int flags, const char **why)
{
    const int fd =
        open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, MODE);
    struct stat st;

    if (fd < 0) {
        *why = strerror(errno);
        return -1;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        *why = "not a regular file";
        close(fd);
        return -1;
    }
    return fd;
}

bool log_file_open(const char *path, const char **why)
{
    const int fd = open_regular(path, O_CREAT, why);

    must_be_main();
    if (fd < 0) {
        return false;
    }
    if (log_fd < 0) {
        log_fd = fd;
        return true;
    }
    if (dup3(fd, log_fd, O_CLOEXEC) < 0) {
        *why = strerror(errno);
        close(fd);
        return false;
    }
    close(fd);
    return true;
}

void log_file_close(void)
{
    must_be_main();
    if (log_fd >= 0) {
        close(log_fd);
        log_fd = -1;
    }
}

int log_file_fd(void)
{
    return log_fd;
}

bool log_file_check(const char *path, const char **why)
{
    const char *slash = strrchr(path, '/');
    char folder[4096];

    must_be_main();
    errno = 0;
    int fd = open_regular(path, 0, why);
    if (fd >= 0) {
        close(fd);
        return true;
    }
    if (errno != ENOENT) {
        return false;
    }
    snprintf(folder, sizeof(folder), "%.*s/", slash != NULL ? (int)(slash - path) : 0, path);
    if (access(folder, W_OK | X_OK) != 0) {
        *why = strerror(errno);
        return false;
    }
    return true;
}
