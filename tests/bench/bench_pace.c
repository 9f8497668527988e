/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load with a timetable: gets and sets at a given rate, whatever the server does.
 * The time of a request counts from when it was due, so that a hanging server is charged with
 * all waiting requests. Meanwhile the program reads items and bytes of the server, its resident
 * set and its CPU time. It also reports its own delay: if that is large, the machine was busy
 * and the latencies are not the server's.
 *
 *     bench_pace --port N [--pid N] [--proto text|resp] [--conns N] [--size BYTES]
 *                [--live N [--live-ttl S-S]] [--dying N [--dying-size BYTES]]
 *                [--event none|deadline|delete|overwrite|flush]
 *                [--get-rate R] [--set-rate R [--ttl S-S]]
 *                [--before S] [--after S-S] [--sample S] [--window S] [--seed N]
 *
 * The live keys are stored first, then the dying ones. The streams begin. The event follows
 * after --before seconds and removes the dying keys: all have one deadline, or are deleted,
 * overwritten by values of --size, or everything is flushed. The run ends when 99.9 % of them
 * are gone and the first time of --after is over, or at its second time. Sets of the stream are
 * of keys of their own, with times to live of --ttl.
 *
 * Prints one line of JSON: latencies in microseconds for the phases before the event, from then
 * until the keys are gone (at least a second), and after, and for each window: [seconds since
 * the event, gets, p50, p99, max]; samples: [seconds, items, bytes, resident bytes, CPU
 * seconds, keys of the set stream that should be alive]. Exit status 1 when a reply was wrong,
 * 2 when it could not work.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "tests/bench/basics.h"
#include "tests/bench/pace.h"
#include "tests/bench/wire.h"

struct pace_options pace = {.conns = 16,
                            .size = 100,
                            .dying_size = 100,
                            .seed = 1,
                            .before_s = 2,
                            .after_low_s = 2,
                            .after_high_s = 30,
                            .sample_s = .1,
                            .window_s = .1};

static double event_time;
static struct pace_sample base, full; /* with the live keys, and with the dying ones as well */

/* ---- the course of a run ----------------------------------------------------------------- */

static bool is_gone(const struct pace_sample *s)
{
    double left = (double)(s->items - base.items), of = (double)(full.items - base.items);

    if (pace.event == EVENT_FLUSH) {
        left = (double)s->items;
        of = (double)full.items;
    } else if (pace.event == EVENT_OVERWRITE) {
        /* The keys stay, with small values; 200 bytes bear what an item costs. */
        left = (double)(s->bytes - base.bytes) - (double)(pace.dying * (pace.size + 200));
        of = (double)(full.bytes - base.bytes);
    }
    return s->time > event_time && left <= of / 1000;
}

static bool is_run_over(void)
{
    return pace_now() >= event_time + pace.after_low_s &&
           (pace.event == EVENT_NONE || is_gone(&pace_sample[pace_sample_count - 1]));
}

/* Seconds from the event until the keys were gone, by the samples; below 0: not yet. */
static double gone_after(void)
{
    for (uint64_t i = 0; i < pace_sample_count; i++) {
        if (is_gone(&pace_sample[i])) {
            return pace_sample[i].time - event_time;
        }
    }
    return -1;
}

/*
 * The deadline of the dying keys: a full second, late enough to store them at twice the time
 * that the live keys, or sets in general, let expect.
 */
static int64_t choose_deadline(double seconds_a_key)
{
    double a_key = seconds_a_key + 4e-6 + (double)pace.dying_size / 400e6;
    double at = seconds_of(CLOCK_REALTIME) + 2 * a_key * (double)pace.dying + pace.before_s + 1;
    int64_t second = (int64_t)at + 1;

    event_time = pace_now() + (double)second - seconds_of(CLOCK_REALTIME);
    return second;
}

static void store_all(void)
{
    struct pace_batch live = {.prefix = 'p',
                              .count = pace.live,
                              .size = pace.size,
                              .ttl_low = pace.live_low,
                              .ttl_high = pace.live_high};
    struct pace_batch dying = {.prefix = 'v', .count = pace.dying, .size = pace.dying_size};
    double began = pace_now();

    pace_load(&live);
    base = pace_look();
    if (pace.event == EVENT_DEADLINE) {
        dying.unix_s =
            choose_deadline(pace.live >= 10000 ? (pace_now() - began) / (double)pace.live : 0);
    }
    pace_load(&dying);
    full = pace_look();
    if (pace.event != EVENT_DEADLINE) {
        event_time = pace_now() + pace.before_s;
    } else if (pace_now() > event_time - pace.before_s) {
        errno = ETIMEDOUT;
        die("storing the keys that will expire");
    }
}

static void run(void)
{
    store_all();
    pace_until(event_time - pace.before_s, NULL);
    pace_begin(&pace_gets, pace.get_rate);
    pace_begin(&pace_sets, pace.set_rate);
    pace_until(event_time, NULL);
    pace_strike();
    pace_until(event_time + pace.after_high_s, is_run_over);
    pace_finish();
    (void)pace_look();
}

/* ---- figures ----------------------------------------------------------------------------- */

struct range {
    uint64_t count;
    double p50, p99, p999, max; /* us */
};

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return x < y ? -1 : x > y;
}

static double quantile_us(const float *sorted, uint64_t n, double q)
{
    uint64_t at = (uint64_t)(q * (double)n);

    return n == 0 ? 0 : (double)sorted[at < n ? at : n - 1] * 1e6;
}

/* Of the requests that were due from a to before b: what they took, or how late they left. */
static struct range range_of(const struct pace_stream *stream, double a, double b,
                             bool lateness)
{
    float *values = must_alloc(malloc((stream->count + 1) * sizeof(*values)));
    struct range r = {0};

    for (uint64_t i = 0; i < stream->count; i++) {
        const struct pace_record *record = &stream->record[i];

        if (record->due >= a && record->due < b) {
            values[r.count++] = lateness ? record->late_s : record->took_s;
        }
    }
    qsort(values, r.count, sizeof(*values), compare_floats);
    r.p50 = quantile_us(values, r.count, .5);
    r.p99 = quantile_us(values, r.count, .99);
    r.p999 = quantile_us(values, r.count, .999);
    r.max = quantile_us(values, r.count, 1);
    free(values);
    return r;
}

static void print_range(const char *name, const struct pace_stream *stream, double a, double b,
                        bool lateness)
{
    struct range r = range_of(stream, a, b, lateness);

    printf("\"%s\": {\"n\": %" PRIu64 ", \"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, "
           "\"max\": %.1f}",
           name, r.count, r.p50, r.p99, r.p999, r.max);
}

static void print_stream(const char *name, const struct pace_stream *stream, double gone,
                         double end)
{
    double settled = event_time + (gone > 1 ? gone : gone < 0 ? end : 1);

    printf("\"%s\": {", name);
    print_range("before", stream, 0, event_time, false);
    printf(", ");
    print_range("during", stream, event_time, settled, false);
    printf(", ");
    print_range("after", stream, settled, end, false);
    printf(", ");
    print_range("late", stream, 0, end, true);
    printf("}, ");
}

static void print_windows(double from, double end)
{
    printf("\"windows\": [");
    for (double t = from; t + pace.window_s <= end && pace.get_rate > 0; t += pace.window_s) {
        struct range r = range_of(&pace_gets, t, t + pace.window_s, false);

        printf("%s[%.2f, %" PRIu64 ", %.0f, %.0f, %.0f]", t > from ? ", " : "", t - event_time,
               r.count, r.p50, r.p99, r.max);
    }
    printf("], ");
}

static void print_sample(const struct pace_sample *s)
{
    printf("[%.3f, %" PRId64 ", %" PRId64 ", %" PRId64 ", %.4f, %" PRIu64 "]",
           s->time - event_time, s->items, s->bytes, s->rss, s->cpu,
           pace_sets.rate > 0 ? pace_living(s->asked, s->time) : 0);
}

static void print_samples(double from)
{
    const char *comma = "";

    printf("\"samples\": [");
    for (uint64_t i = 0; i < pace_sample_count; i++) {
        if (pace_sample[i].time >= from) {
            printf("%s", comma);
            print_sample(&pace_sample[i]);
            comma = ", ";
        }
    }
    printf("], \"base\": ");
    print_sample(&base);
    printf(", \"full\": ");
    print_sample(&full);
}

static void print_all(void)
{
    double gone = pace.event != EVENT_NONE ? gone_after() : 0, end = pace_now();
    double from = event_time - pace.before_s;

    printf("{\"gone_s\": %.3f, \"hits\": %" PRIu64 ", \"misses\": %" PRIu64
           ", \"sets\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"first_wrong\": \"%s\", ",
           gone, pace_hits, pace_misses, pace_sets.answered, wire_wrong, wire_first_wrong);
    print_stream("get", &pace_gets, gone, end);
    print_stream("set", &pace_sets, gone, end);
    print_windows(from, end);
    print_samples(from);
    printf("}\n");
}

/* ---- options ----------------------------------------------------------------------------- */

static void read_event(const char *s)
{
    static const char *const names[] = {"none", "deadline", "delete", "overwrite", "flush"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(s, names[i]) == 0) {
            pace.event = (enum pace_event)i;
            return;
        }
    }
    fprintf(stderr, "bench_pace: no such event: %s\n", s);
    exit(2);
}

/* LOW-HIGH, or one number for both. */
static void parse_span(const char *s, double *low, double *high)
{
    char *end;

    *low = *high = strtod(s, &end);
    if (*end == '-') {
        *high = strtod(end + 1, NULL);
    }
}

static void parse_seconds(const char *s, uint64_t *low, uint64_t *high)
{
    double a, b;

    parse_span(s, &a, &b);
    *low = (uint64_t)a;
    *high = (uint64_t)b;
}

static void read_proto(const char *s)
{
    pace.is_resp = strcmp(s, "resp") == 0;
}

static void read_live_ttl(const char *s)
{
    parse_seconds(s, &pace.live_low, &pace.live_high);
}

static void read_ttl(const char *s)
{
    parse_seconds(s, &pace.ttl_low, &pace.ttl_high);
}

static void read_after(const char *s)
{
    parse_span(s, &pace.after_low_s, &pace.after_high_s);
}

static void parse_options(int argc, char **argv)
{
    static const struct bench_option options[] = {
        {"--port", .number = &pace.port},
        {"--pid", .number = &pace.pid},
        {"--proto", .read = read_proto},
        {"--conns", .number = &pace.conns},
        {"--size", .wide = &pace.size},
        {"--live", .wide = &pace.live},
        {"--live-ttl", .read = read_live_ttl},
        {"--dying", .wide = &pace.dying},
        {"--dying-size", .wide = &pace.dying_size},
        {"--event", .read = read_event},
        {"--get-rate", .real = &pace.get_rate},
        {"--set-rate", .real = &pace.set_rate},
        {"--ttl", .read = read_ttl},
        {"--before", .real = &pace.before_s},
        {"--after", .read = read_after},
        {"--sample", .real = &pace.sample_s},
        {"--window", .real = &pace.window_s},
        {"--seed", .wide = &pace.seed},
        {.name = NULL},
    };

    read_options(argc, argv, options);
    if (pace.port <= 0 || pace.conns <= 0 || pace.sample_s <= 0 || pace.window_s <= 0 ||
        (pace.get_rate > 0 && pace.live == 0) ||
        (pace.event != EVENT_NONE && pace.dying == 0) || pace.after_high_s < pace.after_low_s) {
        fprintf(stderr,
                "bench_pace: --port; gets need --live, an event --dying; see the source\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    (void)prctl(PR_SET_TIMERSLACK, 1UL); /* requests leave when they are due */
    pace_connect();
    run();
    print_all();
    pace_disconnect();
    free(pace_sample);
    return wire_wrong != 0;
}
