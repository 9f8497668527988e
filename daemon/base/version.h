/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The version of this build, the version of memcached's protocol that it speaks, and its build
 * options. Clients parse the protocol version and act on it, so the version command returns
 * that.
 */
#ifndef MAYFLY_DAEMON_BASE_VERSION_H
#define MAYFLY_DAEMON_BASE_VERSION_H

#define MAYFLY_NAME     "mayflyd"
#define MAYFLY_VERSION  PACKAGE_VERSION
#define MEMCACHED_LEVEL "1.6.45"

#ifdef HAVE_OPENSSL
#define BUILT_WITH_TLS 1
#else
#define BUILT_WITH_TLS 0
#endif
#ifdef HAVE_SASL
#define BUILT_WITH_SASL 1
#else
#define BUILT_WITH_SASL 0
#endif
#ifdef HAVE_MICROHTTPD
#define BUILT_WITH_METRICS 1
#else
#define BUILT_WITH_METRICS 0
#endif
#ifdef HAVE_SECCOMP
#define BUILT_WITH_SECCOMP 1
#else
#define BUILT_WITH_SECCOMP 0
#endif

#endif
