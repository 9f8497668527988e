/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks of `doctor`: pure functions of the figures of the server and the host. */
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

/* All that is known. */
struct facts {
    struct stats general, settings, expire, replication, moves;
    struct host host;
    bool is_here;  /* the server is on this host */
    double unix_s; /* by the clock of this host */
};

#define ADVICE_FACT_BYTES 320

/* Make one check. fact: what was found, for people; empty if nothing is known. */
enum advice_state advice_see(enum advice_id id, const struct facts *f,
                             char fact[ADVICE_FACT_BYTES]);

const char *advice_name(enum advice_id id);
const char *advice_title(enum advice_id id);
const char *advice_remedy(enum advice_id id);

#endif
