/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See cpu_list.h.
 */
#include "daemon/options/cpu_list.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "daemon/options/settings.h"
#include "lib/base/context.h"

_Static_assert(CPU_LIST_MAX == CPU_SETSIZE, "each of them is in a set");

#define refuse_list(why, why_bytes, ...) (snprintf(why, why_bytes, __VA_ARGS__), false)

/* A number at *p, which is moved past it. False: there is none, or it is too large. */
static bool take_number(const char **p, uint32_t *number)
{
    const char *begin = *p;

    for (*number = 0; **p >= '0' && **p <= '9'; ++*p) {
        *number = *number * 10 + (uint32_t)(**p - '0');
        if (*number >= CPU_LIST_MAX) {
            return false;
        }
    }
    return *p > begin;
}

static bool add_range(struct cpu_list *list, uint32_t first, uint32_t last, cpu_set_t *seen)
{
    for (uint32_t cpu = first; cpu <= last; cpu++) {
        if (CPU_ISSET(cpu, seen)) {
            return false;
        }
        CPU_SET(cpu, seen);
        list->cpu[list->count++] = (uint16_t)cpu;
    }
    return true;
}

bool cpu_list_parse(const char *text, struct cpu_list *list, char *why, size_t why_bytes)
{
    const char *p = text;
    cpu_set_t seen;

    list->count = 0;
    CPU_ZERO(&seen);
    if (*p == '\0') {
        return true;
    }
    do {
        uint32_t first, last;

        p += p > text; /* the comma */
        if (!take_number(&p, &first)) {
            goto wrong;
        }
        last = first;
        if (*p == '-') {
            p++;
            if (!take_number(&p, &last) || last < first) {
                goto wrong;
            }
        }
        if (!add_range(list, first, last, &seen)) {
            return refuse_list(why, why_bytes, "\"%.40s\" has a CPU twice", text);
        }
    } while (*p == ',');
    if (*p == '\0') {
        return true;
    }
wrong:
    return refuse_list(why, why_bytes,
                       "\"%.40s\" is not a list of CPUs from 0 to %u, such as 0-3,8", text,
                       CPU_LIST_MAX - 1);
}

/* The set as such a list, cut off where there is no room. */
static void put_set(const cpu_set_t *set, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (uint32_t cpu = 0; cpu < CPU_LIST_MAX && len + 16 < size; cpu++) {
        uint32_t last = cpu;

        if (!CPU_ISSET(cpu, set)) {
            continue;
        }
        while (last + 1 < CPU_LIST_MAX && CPU_ISSET(last + 1, set)) {
            last++;
        }
        len += (size_t)snprintf(out + len, size - len, last > cpu ? "%s%u-%u" : "%s%u",
                                len > 0 ? "," : "", cpu, last);
        cpu = last;
    }
}

bool cpu_list_check(const struct cpu_list *list, char *why, size_t why_bytes)
{
    cpu_set_t usable;
    char text[64];

    must_be_main();
    if (list->count == 0) {
        return true;
    }
    /* Where pinning is not let through, setting what is there already is not either. */
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0 ||
        sched_setaffinity(0, sizeof(usable), &usable) != 0) {
        return refuse_list(why, why_bytes, "threads cannot be pinned here (%s)",
                           strerror(errno));
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (!CPU_ISSET(list->cpu[i], &usable)) {
            put_set(&usable, text, sizeof(text));
            return refuse_list(
                why, why_bytes,
                "CPU %u does not exist, or this process may not use it (it may use %s)",
                (unsigned)list->cpu[i], text);
        }
    }
    return true;
}

bool cpu_list_read(const struct settings *s, struct cpu_list *list, char *why, size_t why_bytes)
{
    char text[LIVE_TEXT_BYTES];

    setting_copy_text(s, worker_cpus, text, sizeof(text));
    return cpu_list_parse(text, list, why, why_bytes);
}

bool cpu_list_is_usable(const struct settings *s, char *why, size_t why_bytes)
{
    struct cpu_list list;

    return cpu_list_read(s, &list, why, why_bytes) && cpu_list_check(&list, why, why_bytes);
}
