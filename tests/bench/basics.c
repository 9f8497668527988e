/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See basics.h.
 */
#include "tests/bench/basics.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    exit(2);
}

void die(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(2);
}

void *must_alloc(void *p)
{
    if (p == NULL) {
        die("memory");
    }
    return p;
}

static void read_value(const struct bench_option *o, const char *value)
{
    if (o->number != NULL) {
        *o->number = atoi(value);
    } else if (o->count != NULL) {
        *o->count = (unsigned)strtoul(value, NULL, 10);
    } else if (o->wide != NULL) {
        *o->wide = strtoull(value, NULL, 10);
    } else if (o->real != NULL) {
        *o->real = strtod(value, NULL);
    } else if (o->text != NULL) {
        *o->text = value;
    } else {
        o->read(value);
    }
}

void read_options(int argc, char **argv, const struct bench_option *options)
{
    for (int i = 1; i < argc; i++) {
        const struct bench_option *o = options;

        while (o->name != NULL && strcmp(o->name, argv[i]) != 0) {
            o++;
        }
        if (o->name == NULL) {
            fail("no such option");
        }
        if (o->flag != NULL) {
            *o->flag = true;
        } else if (++i == argc) {
            fail("an option lacks its value");
        } else {
            read_value(o, argv[i]);
        }
    }
}

double seconds_of(clockid_t id)
{
    struct timespec t;

    if (clock_gettime(id, &t) != 0) {
        die("clock");
    }
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

clockid_t cpu_clock_of(pid_t pid)
{
    clockid_t id = CLOCK_MONOTONIC;

    if (pid != 0 && (errno = clock_getcpuclockid(pid, &id)) != 0) {
        die("no such server process");
    }
    return id;
}

char *make_text(size_t n)
{
    char *text = must_alloc(malloc(n + 1));

    for (size_t i = 0; i < n; i++) {
        text[i] = (char)('a' + (i * 7919 + i / 26) % 26);
    }
    return text;
}

void pin_thread(unsigned number)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(number % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

double median(double *v, unsigned n)
{
    qsort(v, n, sizeof(*v), by_size);
    return v[n / 2];
}

void zipf_init(struct zipf *z, uint64_t count, double theta)
{
    double total = 0;

    z->sum = must_alloc(malloc(count * sizeof(*z->sum)));
    z->count = count;
    for (uint64_t i = 0; i < count; i++) {
        total += pow((double)(i + 1), -theta);
        z->sum[i] = total;
    }
}

void zipf_fini(struct zipf *z)
{
    free(z->sum);
}

uint64_t zipf_pick(const struct zipf *z, double x)
{
    uint64_t low = 0, high = z->count - 1;

    x *= z->sum[high];
    while (low < high) {
        uint64_t mid = (low + high) / 2;

        if (z->sum[mid] < x) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}
