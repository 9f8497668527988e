/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/base: basic services for all other folders. Nothing here knows about items.
 *
 *     check, context, err      assertions, the contexts they check, results of functions
 *     span, buf, num           bytes, growing buffers, decimal numbers
 *     clock, counters, mem     time, statistics, allocation and the memory budget
 *     hash, siphash            the hash of keys, and a keyed hash for digests
 *     lock, rcu, grace         the lock of a shard, read-side sections, grace periods
 *     mpsc, reclaim            a queue of many producers, the reclaimer's thread
 *
 * The folder includes no other folder of the project. The tables (*.def) are here because lib/,
 * proto/ and daemon/ share counters, errors and outcomes.
 *
 * This header has the assertions and the attributes of functions. must() stays in release
 * builds. It is for cheap checks of invariants whose failure would corrupt data. debug_must()
 * is for hot paths and expensive walks, and is compiled in only by --enable-debug. Neither may
 * check what a client sent or what the system returned. A copy size, an index or a length that
 * depends on input is checked by a branch that rejects the input, never by a debug_must().
 * Where an earlier branch has rejected bad input already, a must() may repeat the check.
 */
#ifndef MAYFLY_LIB_BASE_CHECK_H
#define MAYFLY_LIB_BASE_CHECK_H

#include <stddef.h>

#define MF_LIKELY(x)   __builtin_expect(!!(x), 1)
#define MF_UNLIKELY(x) __builtin_expect(!!(x), 0)

/*
 * For a function that runs with every request, and that the compiler would not inline itself.
 */
#define MF_INLINE inline __attribute__((always_inline))

/* For a rare branch of such a function: kept out of line, so that the code stays dense. */
#define MF_NOINLINE __attribute__((noinline))

/* The same for code that hardly ever runs: it is also moved away from the rest. */
#define MF_COLD __attribute__((noinline, cold))

/*
 * p + n, where p may be NULL if n is 0, a sum that C does not define. Compilers turn this into
 * a plain addition. Evaluates its arguments twice.
 */
#define MF_AT(p, n) ((n) == 0 ? (p) : (p) + (n))

/* The structure of this type whose member `field` p points to. */
#define MF_OUTER(p, type, field) ((type *)(void *)((char *)(p)-offsetof(type, field)))

/*
 * The compiler checks the arguments as for printf(): the position of the format, and of the
 * first value (0: a va_list).
 */
#define MF_PRINTF(format_arg, first_arg) __attribute__((format(printf, format_arg, first_arg)))

/*
 * In a function with variable arguments: print those that follow `format` to `out`, of `bytes`
 * bytes; what does not fit is cut off. Needs <stdarg.h> and <stdio.h>.
 */
#define MF_FORMAT(out, bytes, format)                                                          \
    do {                                                                                       \
        va_list mf_args;                                                                       \
                                                                                               \
        va_start(mf_args, format);                                                             \
        (void)vsnprintf((out), (bytes), (format), mf_args);                                    \
        va_end(mf_args);                                                                       \
    } while (0)

/* A member or type that begins on a cache line of its own. */
#define MF_LINE_BYTES   64
#define MF_LINE_ALIGNED __attribute__((aligned(MF_LINE_BYTES)))

/* A function that runs before main(). Only for tests, which register themselves by it. */
#define MF_CONSTRUCTOR __attribute__((constructor))

/*
 * Print the expression, the place, the thread and its note, then abort. Context: any thread.
 */
_Noreturn void check_failed(const char *expr, const char *file, int line);

/*
 * Set a short text that a failed check of this thread prints: what the thread is, or what it
 * is doing. The text is borrowed until the next call. Context: any thread.
 */
void check_note(const char *text);

#define must(x)                                                                                \
    do {                                                                                       \
        if (MF_UNLIKELY(!(x))) {                                                               \
            check_failed(#x, __FILE__, __LINE__);                                              \
        }                                                                                      \
    } while (0)

#ifdef MAYFLY_DEBUG
#define debug_must(x) must(x)
#else
#define debug_must(x)                                                                          \
    do {                                                                                       \
        (void)sizeof(!(x));                                                                    \
    } while (0)
#endif

#define unreachable() check_failed("unreachable", __FILE__, __LINE__)

#endif
