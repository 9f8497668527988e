/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the cursor does with a live item of a segment it evicts. The default policy is S3-FIFO
 * (J. Yang et al., SOSP 2023) over two chains: small, where new keys begin, and main, where
 * keys go that were fetched while they were in small, or that came back while the ghost
 * remembered them.
 */
#ifndef MAYFLY_LIB_MEMORY_EVICT_H
#define MAYFLY_LIB_MEMORY_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/arena.h"
#include "lib/memory/item.h"

enum verdict {
    VERDICT_PROMOTE, /* small: fetched since it came; goes to main */
    VERDICT_KEEP,    /* main: fetched since the last round; goes on with less heat */
    /* stored into a hole after the segment was sealed: has not had its time yet */
    VERDICT_YOUNG,
    VERDICT_EVICT,
};

struct evict_pass {
    enum chain_id chain;
    uint32_t sealed_s;
    uint64_t kept;    /* bytes that stay in this pass */
    uint64_t scanned; /* bytes looked at */
};

/* Context: in shard. */
enum verdict evict_judge(const struct evict_pass *pass, const struct item *it);

#endif
