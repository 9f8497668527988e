/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See crew.h.
 */
#include "daemon/worker/crew.h"

#include <sched.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/options/cpu_list.h"
#include "lib/base/context.h"

/* Few systems have CPUs that come and go, but those of a control group may be changed. */
static void pin(const struct worker *w, const struct cpu_list *list)
{
    cpu_set_t set;

    if (list->count > 0) {
        CPU_ZERO(&set);
        CPU_SET(list->cpu[w->id % list->count], &set);
    } else if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return;
    }
    int error = pthread_setaffinity_np(w->thread.id, sizeof(set), &set);
    if (error != 0 && list->count > 0) {
        log_warn("server, cannot pin worker %u to its CPU (%s)", (unsigned)w->id,
                 strerror(error));
    }
}

/* False: they are not to be pinned. */
static bool read_list(const struct settings *settings, struct cpu_list *list)
{
    char why[OPTION_TEXT_BYTES];

    return cpu_list_read(settings, list, why, sizeof(why)) && list->count > 0;
}

void pin_worker(struct worker *w)
{
    struct cpu_list list;

    must_be_main();
    if (read_list(w->settings, &list)) {
        pin(w, &list);
    }
}

void pin_workers(struct crew *crew)
{
    struct cpu_list list;

    must_be_main();
    if (!read_list(crew->settings, &list)) {
        list.count = 0;
    }
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        pin(&crew->workers[i], &list);
    }
}
