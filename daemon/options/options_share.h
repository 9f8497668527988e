/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options that were set to a share of the machine (OPT_SHARE, OPT_AUTO), such as
 * memory_limit=80% and threads=auto: computes their numbers. machine_look() tells the machine's
 * size.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_SHARE_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/options/settings.h"

/* Largest memory that the process may use beside memory_limit, bytes. Context: any thread. */
uint64_t options_beside_bytes(const struct settings *s);

/* May the largest item be stored in that much memory? Context: any thread. */
bool options_fit_items(const struct settings *s, uint64_t memory_bytes);

/*
 * Store the number of each option that was set to a share. Returns false if that is impossible
 * for one: *id and why (OPTION_TEXT_BYTES) name it and the reason, and its number is unchanged.
 * Context: before start, later any thread.
 */
bool options_settle_shares(struct settings *s, enum option_id *id, char *why);

/*
 * Fill text (OPTION_TEXT_BYTES) with what the number of such an option was made of: "80% of the
 * 512 megabytes of the control group, less 48 for connections and the process". Context: any
 * thread.
 */
const char *option_share_reason(const struct settings *s, enum option_id id, char *text);

/* Fill ids with the options that are set to a share. Returns how many. Context: any thread. */
#define OPTION_SHARES_MAX 2u
unsigned options_with_share(const struct settings *s, enum option_id ids[OPTION_SHARES_MAX]);

#endif
