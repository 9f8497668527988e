/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/link/password.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool password_read_line(int fd, char out[LINK_NAME_BYTES], bool (*is_interrupted)(void))
{
    size_t n = 0;

    for (;;) {
        char ch;
        ssize_t got = read(fd, &ch, 1);

        if (got < 0 && errno == EINTR && !(is_interrupted != NULL && is_interrupted())) {
            continue;
        }
        if (got < 0 || n == LINK_NAME_BYTES - 1) {
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

bool password_read_file(const char *path, char out[LINK_NAME_BYTES], bool *is_exposed,
                        bool (*is_interrupted)(void), char *why, size_t why_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    *is_exposed = false;
    if (fd < 0) {
        snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
        return false;
    }
    *is_exposed = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077) != 0;
    bool is_read = password_read_line(fd, out, is_interrupted);
    if (!is_read) {
        explicit_bzero(out, LINK_NAME_BYTES);
        snprintf(why, why_bytes, "%s: its first line is not a password", path);
    }
    (void)close(fd);
    return is_read;
}
