/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See file.h.
 */
#include "daemon/base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "lib/base/mem.h"

char *path_absolute(const char *path)
{
    char folder[PATH_MAX] = "";

    if (path[0] != '/' && getcwd(folder, sizeof(folder)) == NULL) {
        log_warn("path, cannot determine the working directory for %s (%s)", path,
                 strerror(errno));
        folder[0] = '\0';
    }
    size_t size = strlen(folder) + 1 + strlen(path) + 1;
    char *whole = mem_alloc(size);
    if (whole != NULL) {
        snprintf(whole, size, "%s%s%s", folder, folder[0] != '\0' ? "/" : "", path);
    }
    return whole;
}
