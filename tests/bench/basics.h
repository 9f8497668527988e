/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the programs of the bench need first: an end with a reason, options, clocks, a CPU of
 * one's own, bytes for values, medians, and picks by Zipf's law.
 */
#ifndef MAYFLY_TESTS_BENCH_BASICS_H
#define MAYFLY_TESTS_BENCH_BASICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* End with status 2 and a message: the program and what. */
_Noreturn void fail(const char *what);

/* As fail(), with the reason in errno. */
_Noreturn void die(const char *what);

/* p, unless it is NULL. */
void *must_alloc(void *p);

double seconds_of(clockid_t id);

/* The CPU time of a process; for pid 0 the time of day, which nobody should look at. */
clockid_t cpu_clock_of(pid_t pid);

/* Keep the calling thread to one CPU; threads are numbered from 0. */
void pin_thread(unsigned number);

/* An option of a program: its value goes where one of the pointers points, or to read(). */
struct bench_option {
    const char *name; /* with its dashes; NULL ends a table */
    int *number;
    unsigned *count;
    uint64_t *wide;
    double *real;
    bool *flag; /* set, without a value */
    const char **text;
    void (*read)(const char *value);
};

/* Ends the program if there is a word that is no option, or a value is missing. */
void read_options(int argc, char **argv, const struct bench_option *options);

/* n letters, the same each time; to be freed. */
char *make_text(size_t n);

/* The median of n numbers, of which there is at least one; they are sorted then. */
double median(double *v, unsigned n);

/*
 * Picks of 0 .. count-1, where the one of rank r has the weight (r + 1)^-theta; theta 0 is
 * uniform. x: a random number from 0 to below 1.
 */
struct zipf {
    double *sum; /* owned; of the weights up to each rank */
    uint64_t count;
};

void zipf_init(struct zipf *z, uint64_t count, double theta);
void zipf_fini(struct zipf *z);
uint64_t zipf_pick(const struct zipf *z, double x);

/* The same of 64 random bits. */
static inline double unit_of(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

#endif
