/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small generator of random numbers for tests (xorshift64*, S. Vigna, "An experimental
 * exploration of Marsaglia's xorshift generators, scrambled", 2016). One per thread.
 */
#ifndef MAYFLY_TESTS_COMMON_RNG_H
#define MAYFLY_TESTS_COMMON_RNG_H

#include <stdint.h>
#include <stdlib.h>

struct rng {
    uint64_t state;
};

/* The seed of this run: MAYFLY_SEED, or a fixed one. */
static inline uint64_t rng_seed(void)
{
    const char *s = getenv("MAYFLY_SEED");

    return s != NULL ? strtoull(s, NULL, 0) : 20240229;
}

static inline void rng_init(struct rng *r, uint64_t seed)
{
    r->state = seed * 0x9e3779b97f4a7c15ULL | 1;
}

static inline uint64_t rng_next(struct rng *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1dULL;
}

/* A number below n, uniformly distributed; n is at least 1. */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)rng_next(r) * n) >> 64);
}

#endif
