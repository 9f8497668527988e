/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is wrong with a file of users or rules: at the start a message about the option that
 * names it; when it was read again an error of the log, and the first of it kept for the
 * operator who asked for the reading.
 */
#ifndef MAYFLY_DAEMON_ACCESS_COMPLAINT_H
#define MAYFLY_DAEMON_ACCESS_COMPLAINT_H

#include <stdbool.h>

#include "daemon/base/log.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"

/* The longest is kept whole if paths are of usual length. */
#define COMPLAINT_BYTES 512

/*
 * Log an error, in the form of daemon/base/log.h, and keep it if it is the first. Context:
 * main.
 */
#define complaint(...)                                                                         \
    do {                                                                                       \
        if (complaint_keep(__VA_ARGS__)) {                                                     \
            log_error(__VA_ARGS__);                                                            \
        }                                                                                      \
    } while (0)

/* Keep or print it. True: it is to be logged. Context: main. */
bool complaint_keep(const char *fmt, ...) MF_PRINTF(1, 2);

/*
 * The server starts, and reads the file of this option next. settings NULL: from now on files
 * are read again. Context: main.
 */
void complaint_of(const struct settings *settings, enum option_id id);

/* Forget it. Context: main. */
void complaint_clear(void);

/* The first since complaint_clear(), without its subject; "": there was none. Context: main. */
const char *complaint_first(void);

#endif
