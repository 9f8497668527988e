/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two versions: our own, and the level of memcached's protocol that is spoken. Clients parse
 * the latter and act on it, so it is what the version command answers.
 */
#ifndef MAYFLY_DAEMON_BASE_VERSION_H
#define MAYFLY_DAEMON_BASE_VERSION_H

#define MAYFLY_NAME     "mayflyd"
#define MAYFLY_VERSION  PACKAGE_VERSION
#define MEMCACHED_LEVEL "1.6.45"

#endif
