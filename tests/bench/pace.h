/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of bench_pace, the load of the bench that keeps to a timetable:
 *
 *     bench_pace.c     options, the course of a run, what it prints
 *     pace_stream.c    connections: requests at their due times, replies, bulk loading
 *     pace_watch.c     what the server holds, and what it takes, over time
 *
 * Times are seconds of CLOCK_MONOTONIC. There is one thread.
 */
#ifndef MAYFLY_TESTS_BENCH_PACE_H
#define MAYFLY_TESTS_BENCH_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PACE_KEY_BYTES 20u

enum pace_event { EVENT_NONE, EVENT_DEADLINE, EVENT_DELETE, EVENT_OVERWRITE, EVENT_FLUSH };

/* The options; set once by main(). */
struct pace_options {
    int port, conns;
    pid_t pid;
    bool is_resp;
    enum pace_event event;
    uint64_t live, dying, size, dying_size, seed;
    uint64_t ttl_low, ttl_high;   /* s, of what the set stream stores */
    uint64_t live_low, live_high; /* s, of the live keys; 0: without deadline */
    double get_rate, set_rate;    /* 1/s */
    double before_s, after_low_s, after_high_s;
    double sample_s, window_s;
};
extern struct pace_options pace;

double pace_now(void);

/* ---- pace_stream.c ----------------------------------------------------------------------- */

/* One request of a stream: when it was due, how late it left and was answered after that. */
struct pace_record {
    double due;
    float late_s;
    float took_s; /* below 0: not answered */
};

struct pace_stream {
    double rate, from; /* requests a second, the due time of the first */
    bool is_on;
    struct pace_record *record; /* owned */
    uint64_t count, cap, answered;
};
extern struct pace_stream pace_gets, pace_sets;
extern uint64_t pace_hits, pace_misses;

void pace_connect(void);
void pace_disconnect(void);

/* Store keys prefix+0 .. prefix+count-1, as fast as the server takes them. */
struct pace_batch {
    char prefix;
    uint64_t count, size;
    uint64_t ttl_low, ttl_high; /* s; 0: no deadline */
    int64_t unix_s;             /* if not 0, all end at this second */
};
void pace_load(const struct pace_batch *batch);

/* Delete, overwrite or flush the dying keys, by one batch of requests that is sent at once. */
void pace_strike(void);

/* Begin a stream now. */
void pace_begin(struct pace_stream *stream, double rate);

/* Send what is due and take what comes until that time, or until has_enough(), if given. */
void pace_until(double time, bool (*has_enough)(void));

/* Stop the streams and wait for what was not answered. */
void pace_finish(void);

/*
 * How many keys of the set stream may be alive in an answer: all that were sent before it came,
 * but for those that had ended when it was asked for. A key ends its time to live after its own
 * answer came, at the latest.
 */
uint64_t pace_living(double asked, double came);

/* ---- pace_watch.c ------------------------------------------------------------------------ */

struct pace_sample {
    double asked, time;   /* when the question left, when the answer was there */
    int64_t items, bytes; /* as the server says */
    int64_t rss;          /* bytes, of /proc; 0 without --pid */
    double cpu;           /* s, of the process */
};
extern struct pace_sample *pace_sample;
extern uint64_t pace_sample_count;

/* Compose the question; the answer becomes a sample when it is there. */
struct wire;
void pace_ask(struct wire *w);
/* A line of the answer; returns true with the last one. */
bool pace_answer(const char *line, size_t len);
/* The sample of now, by a question of its own. */
struct pace_sample pace_look(void);
double pace_server_cpu(void);

#endif
