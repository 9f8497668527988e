/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the logs beside a snapshot (lib/snapshot/keychain.h): are all logs present that the
 * server would load with it, and are they complete? Nothing is changed, not even a torn end.
 */
#ifndef MAYFLY_CTL_EXAMINE_LOGS_H
#define MAYFLY_CTL_EXAMINE_LOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/snapshot/fault.h"
#include "lib/snapshot/format.h"
#include "lib/snapshot/keychain.h"

struct examined_logs {
    uint64_t count;          /* whole ones, up to the first fault */
    uint64_t number;         /* of the last log, or of the one at fault; 0: there are none */
    bool is_torn;            /* the last one has a torn end, which a start cuts off */
    enum keychain_end end;   /* KEYCHAIN_DONE: no fault; never KEYCHAIN_NO_MEMORY */
    struct snap_fault fault; /* if KEYCHAIN_BAD */
};

/*
 * Read the logs of the snapshot at this path that has this header. False: no memory. Context:
 * any thread.
 */
bool examine_logs(struct examined_logs *l, const char *path, const struct snap_header *h);

#endif
