/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that items are in: see memory_file.h.
 */
#include "daemon/service/memory_file.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/service/server.h"
#include "lib/base/context.h"

/*
 * memcached writes FILE.meta when it is stopped well, and removes it at the start. If there is
 * one, FILE has the items of a memcached, which would be overwritten.
 */
static bool is_of_memcached(const char *file)
{
    char meta[PATH_MAX];

    return snprintf(meta, sizeof(meta), "%s.meta", file) < (int)sizeof(meta) &&
           access(meta, F_OK) == 0;
}

int memory_file_open(struct server *s)
{
    struct attach *a = &s->crew.attach;
    const char *file = s->crew.settings->memory_file;

    must_be_main();
    a->fd = -1;
    if (file == NULL) {
        return 0;
    }
    if (is_of_memcached(file)) {
        log_error("memory, %s.meta is there: memcached has left its items in %s, which cannot "
                  "be read; remove both",
                  file, file);
        return EX_DATAERR;
    }
    if (!attach_open(a, file)) {
        log_error("memory, cannot use %s (%s)", file, a->why);
        return EX_CANTCREAT;
    }
    if (!a->is_in_memory) {
        log_warn("memory, %s is not in memory (tmpfs): unless it is persistent memory, the "
                 "system writes it to a disk all the time",
                 file);
    }
    a->max_age_s = s->crew.settings->restart_max_age;
    a->marks_stale = s->crew.settings->restart_stale;
    return 0;
}

void memory_file_tell(struct server *s)
{
    const struct attach *a = &s->crew.attach;

    must_be_main();
    if (a->fd < 0) {
        return;
    }
    if (a->state == ATTACH_COLD) {
        log_notice("memory, starts empty with %s (%s)", s->crew.settings->memory_file, a->why);
    } else {
        log_notice("memory, took over %s: %" PRIu64 " items in %" PRIu64 " ms, %" PRIu64
                   " had expired, %" PRIu64 " were flushed, left %" PRIu64 ".%03u s ago",
                   s->crew.settings->memory_file, a->items, a->us / 1000, a->expired,
                   a->flushed, a->away_ms / 1000, (unsigned)(a->away_ms % 1000));
    }
}

void memory_file_close(struct server *s)
{
    struct attach *a = &s->crew.attach;

    must_be_main();
    if (a->fd >= 0 && s->is_started) {
        if (a->why[0] != '\0') {
            log_error("memory, %s is left in no state to be used again (%s)",
                      s->crew.settings->memory_file, a->why);
        } else {
            log_notice("memory, %s has what there is for the next start",
                       s->crew.settings->memory_file);
        }
    }
    if (a->fd >= 0) {
        attach_close(a);
    }
}
