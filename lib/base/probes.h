/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static probes for tracers; probes.def lists them. Each is a nop in the code, and an ELF note
 * that says where it is and where its arguments are. Context of all: any thread.
 */
#ifndef MAYFLY_LIB_BASE_PROBES_H
#define MAYFLY_LIB_BASE_PROBES_H

enum probe_args {
#define PROBE(name, args, what, when) PROBE_ARGS_##name = (args),
#include "lib/base/probes.def"
};

#define MF_PROBE_HAS(name, n) _Static_assert(PROBE_ARGS_##name == (n), "as in probes.def")

#ifdef HAVE_USDT

#include <sys/sdt.h>

#define MF_PROBE3(name, a, b, c)                                                               \
    do {                                                                                       \
        MF_PROBE_HAS(name, 3);                                                                 \
        DTRACE_PROBE3(mayfly, name, a, b, c);                                                  \
    } while (0)
#define MF_PROBE4(name, a, b, c, d)                                                            \
    do {                                                                                       \
        MF_PROBE_HAS(name, 4);                                                                 \
        DTRACE_PROBE4(mayfly, name, a, b, c, d);                                               \
    } while (0)

#else

#define MF_PROBE3(name, a, b, c)                                                               \
    do {                                                                                       \
        MF_PROBE_HAS(name, 3);                                                                 \
    } while (0)
#define MF_PROBE4(name, a, b, c, d)                                                            \
    do {                                                                                       \
        MF_PROBE_HAS(name, 4);                                                                 \
    } while (0)

#endif

#endif
