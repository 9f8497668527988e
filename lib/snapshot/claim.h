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
 * Claim a name. Returns a descriptor. The name is claimed as long as it is open, by this
 * process and those that it forks but does not exec. Or returns a negative errno, -EBUSY if
 * another process has the name. If the file system has no such locks, the claim succeeds
 * without one. Context: any thread.
 */
int claim_take(const char *dir, const char *name);

#endif
