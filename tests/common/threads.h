/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many threads a unit test's program has started: see THREADED_TESTS in tests/Makefile.inc.
 */
#ifndef MAYFLY_TESTS_COMMON_THREADS_H
#define MAYFLY_TESTS_COMMON_THREADS_H

#include <stdatomic.h>

/* Zero under sanitizers, which have a pthread_create() of their own. Context: any thread. */
extern atomic_uint threads_started;

#endif
