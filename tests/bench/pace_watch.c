/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An internal part of bench_pace: what the server holds and takes. Items and bytes are asked
 * for on a connection of their own, "stats" or DBSIZE and INFO; the resident set is read in
 * /proc and the CPU time from the clock of the process when the answer is there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/basics.h"
#include "tests/bench/pace.h"
#include "tests/bench/wire.h"

struct pace_sample *pace_sample;
uint64_t pace_sample_count;
static uint64_t sample_cap;
static struct pace_sample coming;

double pace_server_cpu(void)
{
    return pace.pid != 0 ? seconds_of(cpu_clock_of(pace.pid)) : 0;
}

static int64_t resident_bytes(void)
{
    char path[64];
    long long total, resident = 0;

    if (pace.pid == 0) {
        return 0;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pace.pid);
    FILE *f = fopen(path, "r");
    if (f == NULL || fscanf(f, "%lld %lld", &total, &resident) != 2) {
        die("no such server process");
    }
    (void)fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

void pace_ask(struct wire *w)
{
    static const char text[] = "stats\r\n";
    static const char resp[] = "*1\r\n$6\r\nDBSIZE\r\n*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n";
    const char *question = pace.is_resp ? resp : text;
    size_t n = strlen(question);

    coming.asked = pace_now();
    wire_clear(w);
    memcpy(wire_room(w, n), question, n);
    w->out_len += n;
    wire_send(w);
}

static void keep_sample(void)
{
    if (pace_sample_count == sample_cap) {
        sample_cap = sample_cap * 2 + 1024;
        pace_sample = must_alloc(realloc(pace_sample, sample_cap * sizeof(*pace_sample)));
    }
    coming.time = pace_now();
    coming.rss = resident_bytes();
    coming.cpu = pace_server_cpu();
    pace_sample[pace_sample_count++] = coming;
}

/* The number after a name that the line begins with, or what was there. */
static int64_t number_after(const char *name, const char *line, size_t len, int64_t otherwise)
{
    size_t n = strlen(name);

    return len > n && memcmp(line, name, n) == 0 ? strtoll(line + n, NULL, 10) : otherwise;
}

bool pace_answer(const char *line, size_t len)
{
    bool is_last;

    if (pace.is_resp) {
        /* INFO's text ends with a line end of its own, so the reply ends with an empty line. */
        coming.items = number_after(":", line, len, coming.items);
        coming.bytes = number_after("used_memory:", line, len, coming.bytes);
        is_last = len == 0;
    } else {
        coming.items = number_after("STAT curr_items ", line, len, coming.items);
        coming.bytes = number_after("STAT bytes ", line, len, coming.bytes);
        is_last = len == 3 && memcmp(line, "END", 3) == 0;
    }
    if (is_last) {
        keep_sample();
    }
    return is_last;
}
