/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The seed for the hash of keys, drawn from the kernel.
 */
#include "lib/base/hash.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/*
 * For kernels or filters that refuse getrandom(): hard to guess from outside, which is the best
 * that is left, and better than a seed that is known to all.
 */
static uint64_t weak_seed(void)
{
    struct timespec ts = {0};
    uint64_t words[4];

    clock_gettime(CLOCK_REALTIME, &ts);
    words[0] = (uint64_t)ts.tv_sec;
    words[1] = (uint64_t)ts.tv_nsec;
    words[2] = (uint64_t)getpid();
    words[3] = (uint64_t)(uintptr_t)&ts; /* where the system put the stack */
    return XXH3_64bits(words, sizeof(words));
}

bool hash_draw_random(void *out, size_t bytes)
{
    return TEMP_FAILURE_RETRY(getrandom(out, bytes, 0)) == (ssize_t)bytes;
}

uint64_t hash_random_seed(void)
{
    uint64_t seed;

    return hash_draw_random(&seed, sizeof(seed)) ? seed : weak_seed();
}
