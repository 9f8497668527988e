/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is wrong with a file of users or rules that was read again: logged, and the first of it
 * kept for the operator who asked for the reading.
 */
#ifndef MAYFLY_DAEMON_ACCESS_COMPLAINT_H
#define MAYFLY_DAEMON_ACCESS_COMPLAINT_H

#include "daemon/base/log.h"
#include "lib/base/check.h"

/* The longest is kept whole if paths are of usual length. */
#define COMPLAINT_BYTES 512

/*
 * Log an error, in the form of daemon/base/log.h, and keep it if it is the first. Context:
 * main.
 */
#define complaint(...)                                                                         \
    do {                                                                                       \
        complaint_keep(__VA_ARGS__);                                                           \
        log_error(__VA_ARGS__);                                                                \
    } while (0)

void complaint_keep(const char *fmt, ...) MF_PRINTF(1, 2);

/* Forget it. Context: main. */
void complaint_clear(void);

/* The first since complaint_clear(), without its subject; "": there was none. Context: main. */
const char *complaint_first(void);

#endif
