/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checks of `doctor`: pure functions of figures of the server and the host. All texts that
 * are returned are constant.
 */
#ifndef MAYFLY_CTL_ADVICE_H
#define MAYFLY_CTL_ADVICE_H

#include "ctl/ask.h"
#include "ctl/host.h"

enum advice_id {
#define ADVICE(id, needs, title, remedy) ADVICE_##id,
#include "ctl/advice.def"
#undef ADVICE
    ADVICE_COUNT
};

enum advice_state {
    ADVICE_WELL,
    ADVICE_GIVEN,
    ADVICE_UNKNOWN /* the server does not report it, or is not on this host */
};

/* The figures that the checks read: answers to `stats`, and the host. */
struct facts {
    struct stats general, settings, expire, replication, moves;
    struct host host;
    bool is_here;  /* the server is on this host */
    double unix_s; /* by the clock of this host */
};

#define ADVICE_FACT_BYTES 320

/* Run one check. fact: a text that describes the finding; empty if nothing is known. */
enum advice_state advice_see(enum advice_id id, const struct facts *f,
                             char fact[ADVICE_FACT_BYTES]);

/* The texts of advice.def. */
struct advice_text {
    const char *name, *title, *remedy;
};
extern const struct advice_text advice_texts[ADVICE_COUNT];

#endif
