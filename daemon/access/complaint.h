/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports errors in a file of users or rules. At the start an error is a message about the
 * option that names the file. On a reload it is logged, and the first one is kept for the
 * operator who asked for the reload.
 */
#ifndef MAYFLY_DAEMON_ACCESS_COMPLAINT_H
#define MAYFLY_DAEMON_ACCESS_COMPLAINT_H

#include <stdbool.h>

#include "daemon/base/log.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"

/* The longest is kept whole if paths are of usual length. */
#define COMPLAINT_BYTES 512

/* What is wrong with one file; zeros: nothing so far, and the server runs. [main] */
struct complaint {
    const struct settings *starting; /* [borrowed] NULL: the server has started */
    enum option_id option;           /* the one that names the file, while it starts */
    char first[COMPLAINT_BYTES];
};

/*
 * Log an error, in the form of daemon/base/log.h, and keep it if it is the first. Context:
 * main.
 */
#define complaint(c, ...)                                                                      \
    do {                                                                                       \
        if (complaint_keep(c, __VA_ARGS__)) {                                                  \
            log_error(__VA_ARGS__);                                                            \
        }                                                                                      \
    } while (0)

/* Keep or print it. True: it is to be logged. Context: main. */
bool complaint_keep(struct complaint *c, const char *fmt, ...) MF_PRINTF(2, 3);

/* The first, without its subject; "": there was none. Context: main. */
const char *complaint_first(const struct complaint *c);

#endif
