/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assertions. must() stays in release builds: cheap checks on structure whose
 * failure would corrupt data. debug_must() is for hot paths and expensive walks
 * and is compiled in by --enable-debug only. Neither ever tests what a client
 * sent or what the system may return.
 */
#ifndef MAYFLY_LIB_BASE_CHECK_H
#define MAYFLY_LIB_BASE_CHECK_H

#define MF_LIKELY(x)   __builtin_expect(!!(x), 1)
#define MF_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* For what runs with every request and is too long for the compiler to inline by itself. */
#define MF_INLINE inline __attribute__((always_inline))

/* For the rare branch of such a function: kept out of it, so that its code stays dense. */
#define MF_NOINLINE __attribute__((noinline))

/* The same for what hardly ever runs: also moved away from the other code. */
#define MF_COLD __attribute__((noinline, cold))

/* Arguments checked as printf's: the number of the format, of the first value (0: va_list). */
#define MF_PRINTF(format_arg, first_arg) __attribute__((format(printf, format_arg, first_arg)))

/* A member or type that begins a cache line of its own. */
#define MF_LINE_ALIGNED __attribute__((aligned(64)))

/* A function that runs before main(). Only for tests, which register themselves so. */
#define MF_CONSTRUCTOR __attribute__((constructor))

/*
 * Prints expression, place, thread and the note of this thread, then aborts.
 * Context: any thread.
 */
_Noreturn void check_failed(const char *expr, const char *file, int line);

/*
 * A short text that a failed check of this thread prints: what the thread is
 * and what it is doing. Borrows the text until the next call.
 * Context: any thread.
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
