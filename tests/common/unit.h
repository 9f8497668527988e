/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a unit test's program. A test registers itself where it is defined, so that no
 * test is forgotten; main() is in unit.c.
 *
 *     TEST(a_short_copy_copies_exactly)
 *     {
 *         ck_assert(...);
 *     }
 *
 *     TEST_LOOP(every_length_comes_back, LENGTHS)   runs once for each _i below LENGTHS
 *     {
 *         size_t len = lengths[_i];
 *
 *     TEST_ALONE(a_name), TEST_LOOP_ALONE(...)      no other thread runs within it: under the
 *                                                   thread sanitizer, which would find
 *                                                   nothing, it is left out
 *
 *     TEST_FIXTURE(make_folder, remove_folder)      around each test from here to the next
 *                                                   TEST_FIXTURE, or to the end of the file
 *
 *     unit_at_end(stop)                             what the test, or its fixture, has started
 *                                                   ends after it if it passes
 *
 * Tests run in the order of the file, all in one process unless CK_FORK=yes is set. A property
 * test draws its numbers from rng_seed(), which is printed when a test fails.
 */
#ifndef MAYFLY_TESTS_COMMON_UNIT_H
#define MAYFLY_TESTS_COMMON_UNIT_H

/* Of the C library what most tests use. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/check.h"

/* A callback of a test need not use all of its arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/*
 * A test runs once, which takes less time than to optimise it: without, all of them are
 * compiled in 37 s of CPU instead of 66. Code under the thread sanitizer would become too slow.
 */
#if !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#pragma GCC optimize("O0")
#endif

/*
 * libcheck writes to a pipe for each assertion that holds, so that it can tell where a test
 * crashed in a process of its own. Without these writes an assertion costs one comparison.
 */
#define _mark_point(file, line) ((void)0)

/* A test, or (without a function) the beginning of a fixture's range. */
struct unit_entry {
    TTest test;
    int count;
    SFun setup;
    SFun teardown;
    struct unit_entry *next;
};

/* Adds an entry to the program's list. Context: before main(). */
void unit_add(struct unit_entry *e);

/*
 * Call `fn` when the running test has passed, in the reverse order of these calls, and once
 * even if it is added again. Functions that a fixture adds are called after its teardown.
 */
void unit_at_end(void (*fn)(void));

/* Run a test, then the functions that it has added with unit_at_end(). */
void unit_run(TFun test, int i);

/* The same; the test fails if it has started a thread. */
void unit_run_alone(TFun test, int i);

#define UNIT_REGISTER(id, ...)                                                                 \
    static MF_CONSTRUCTOR void id(void)                                                        \
    {                                                                                          \
        static struct unit_entry e = {__VA_ARGS__};                                            \
                                                                                               \
        unit_add(&e);                                                                          \
    }

#define UNIT_TEST(name, times, run)                                                            \
    static void name(int _i CK_ATTRIBUTE_UNUSED);                                              \
    static void name##_run(int i)                                                              \
    {                                                                                          \
        run(name, i);                                                                          \
    }                                                                                          \
    UNIT_REGISTER(name##_register, .test = {#name, name##_run, __FILE__, __LINE__},            \
                  .count = (times))                                                            \
    static void name(int _i CK_ATTRIBUTE_UNUSED)

#define TEST_LOOP(name, times) UNIT_TEST(name, times, unit_run)
#define TEST(name)             TEST_LOOP(name, 1)

#ifdef __SANITIZE_THREAD__
#define TEST_LOOP_ALONE(name, times)                                                           \
    static CK_ATTRIBUTE_UNUSED void name(int _i CK_ATTRIBUTE_UNUSED)
#else
#define TEST_LOOP_ALONE(name, times) UNIT_TEST(name, times, unit_run_alone)
#endif
#define TEST_ALONE(name) TEST_LOOP_ALONE(name, 1)

#define TEST_FIXTURE(before, after)                                                            \
    UNIT_REGISTER(before##_register, .test = {.file = __FILE__, .line = __LINE__},             \
                  .setup = (before), .teardown = (after))

/* Looks that WAIT_UNTIL() takes, at least 0.1 ms apart, before it gives up. */
#define WAIT_LOOKS 1000000u

/* Sleep a moment, so that other threads can do what `condition` waits for. */
void unit_nap(unsigned looks, const char *condition);

/* Wait until another thread makes the condition true. The test fails if that takes too long. */
#define WAIT_UNTIL(condition)                                                                  \
    do {                                                                                       \
        for (unsigned looks_ = 0; !(condition); looks_++) {                                    \
            unit_nap(looks_, #condition);                                                      \
        }                                                                                      \
    } while (0)

#endif
