/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules for automatic saves of snapshots, in Redis's format SECONDS:CHANGES. A rule is met when
 * that number of changes was made, and that time has passed, since the last save.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_SAVE_RULES_H
#define MAYFLY_DAEMON_OPTIONS_SAVE_RULES_H

#include <stdbool.h>
#include <stdint.h>

#define SAVE_RULES_MAX 8u

struct save_rules {
    unsigned count;
    struct {
        uint32_t seconds; /* at least 1 */
        uint64_t changes; /* at least 1 */
    } rule[SAVE_RULES_MAX];
};

/*
 * Read "SECONDS:CHANGES,...". NULL and "" are no rules. False: it is something else.
 * Context: any thread.
 */
bool save_rules_parse(const char *text, struct save_rules *out);

/* Is one of them met? Context: any thread. */
bool save_rules_met(const struct save_rules *r, uint64_t seconds, uint64_t changes);

#endif
