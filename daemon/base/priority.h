/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that others go before.
 */
#ifndef MAYFLY_DAEMON_BASE_PRIORITY_H
#define MAYFLY_DAEMON_BASE_PRIORITY_H

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

/*
 * Raise the nice value of the calling thread by so much; Linux has one for each thread. False:
 * it may not, with errno. Context: any thread.
 */
static inline bool priority_lower(int by)
{
    errno = 0;
    return nice(by) != -1 || errno == 0;
}

#endif
