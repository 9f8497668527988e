/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ensures that only one server uses a snapshot name. Two servers would delete each other's
 * logs, and each would write snapshots that lack the other's changes. A name is claimed by a
 * lock on its folder: no lock file is needed, and the kernel drops the claim when the process
 * ends.
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
