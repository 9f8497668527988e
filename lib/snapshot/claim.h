/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One server for a snapshot: two would take each other's logs away, and name files that the
 * other's changes are missing from. A name in a folder is claimed by a lock on the folder, so
 * there is no file for it, and nothing is left behind however the process ends.
 */
#ifndef MAYFLY_LIB_SNAPSHOT_CLAIM_H
#define MAYFLY_LIB_SNAPSHOT_CLAIM_H

/*
 * Claim a name. Returns a descriptor that is to be kept open for as long as it is claimed, by
 * this process and those that it forks but does not exec; or a negative errno, -EBUSY if
 * somebody else has it. Where the file system has no such locks it is claimed all the same.
 * Context: any thread.
 */
int claim_take(const char *dir, const char *name);

#endif
