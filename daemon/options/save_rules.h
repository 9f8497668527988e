/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a snapshot is saved by itself: rules as Redis has them, SECONDS:CHANGES. One is met when
 * so many changes were made and so long has passed since the last save.
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
