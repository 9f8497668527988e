/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An internal part of bench_pace: its connections. Requests of a stream are sent at their due
 * times, over its connections in turn, whatever became of those before; a reply is counted from
 * the due time of its request. So a server that hangs is charged with all waiting requests.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/basics.h"
#include "tests/bench/pace.h"
#include "tests/bench/wire.h"
#include "tests/common/rng.h"

#define SET_CONNS    4
#define BATCH_KEYS   256u
#define BATCH_BYTES  (1024u * 1024)
#define AT_ONCE      256 /* requests of a stream between two looks at replies */
#define TEXT_SPREAD  64u
#define LIVING_STEPS 1000.0 /* a second, of the table of deadlines */

enum kind { FOR_GETS, FOR_SETS, FOR_BULK, FOR_WATCH };

struct conn {
    struct wire wire; /* must be the first member */
    enum kind kind;
    bool is_composed;        /* not handed to the socket yet */
    bool has_value;          /* gets of the text protocol: the reply began with a value */
    uint64_t *asked;         /* owned; a ring of the numbers of requests not answered */
    size_t first, next, cap; /* counted from 0 without end; cap is a power of two */
};

struct pace_stream pace_gets, pace_sets;
uint64_t pace_hits, pace_misses;

static struct conn *conns, *bulk, *watcher; /* bulk and watcher are the last two of conns */
static int conn_count;
static char *text;
static struct rng rng;
static bool is_watching; /* a question is not answered */
static double next_sample;
static uint64_t bulk_waiting;
static uint32_t *ends; /* keys of the set stream by deadline, from the stream's begin */
static uint64_t ends_count;

static struct conn *conn_of(struct wire *w)
{
    return (struct conn *)(void *)w;
}

double pace_now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

static uint64_t random_from(uint64_t low, uint64_t high)
{
    return low + rng_below(&rng, high - low + 1);
}

/* ---- connections ------------------------------------------------------------------------- */

void pace_connect(void)
{
    uint64_t longest = pace.size > pace.dying_size ? pace.size : pace.dying_size;

    rng_init(&rng, pace.seed);
    text = make_text(longest + TEXT_SPREAD);
    conn_count = pace.conns + SET_CONNS + 2;
    conns = must_alloc(calloc((size_t)conn_count, sizeof(*conns)));
    bulk = &conns[conn_count - 2];
    watcher = &conns[conn_count - 1];
    for (int i = 0; i < conn_count; i++) {
        wire_open(&conns[i].wire, pace.port);
        conns[i].kind = i < pace.conns ? FOR_GETS : FOR_SETS;
    }
    bulk->kind = FOR_BULK;
    watcher->kind = FOR_WATCH;
}

void pace_disconnect(void)
{
    for (int i = 0; i < conn_count; i++) {
        wire_close(&conns[i].wire);
        free(conns[i].asked);
    }
    free(conns);
    free(text);
    free(ends);
    free(pace_gets.record);
    free(pace_sets.record);
}

static void note_asked(struct conn *c, uint64_t number)
{
    if (c->next - c->first == c->cap) {
        size_t cap = c->cap != 0 ? c->cap * 2 : 256;
        uint64_t *ring = must_alloc(malloc(cap * sizeof(*ring)));

        for (size_t i = c->first; i != c->next; i++) {
            ring[i & (cap - 1)] = c->asked[i & (c->cap - 1)];
        }
        free(c->asked);
        c->asked = ring;
        c->cap = cap;
    }
    c->asked[c->next++ & (c->cap - 1)] = number;
}

/* ---- requests ---------------------------------------------------------------------------- */

/* Room at the end of what is composed; what was sent before is forgotten. */
static char *room_of(struct conn *c, size_t n)
{
    if (c->wire.out_at == c->wire.out_len) {
        wire_clear(&c->wire);
    }
    c->is_composed = true;
    return wire_room(&c->wire, n);
}

static void send_composed(struct conn *c)
{
    if (c->is_composed) {
        c->is_composed = false;
        wire_send(&c->wire);
    }
}

static void put_get(struct conn *c, uint64_t id)
{
    char *p = room_of(c, 128);

    c->wire.out_len +=
        (size_t)sprintf(p,
                        pace.is_resp ? "*2\r\n$3\r\nGET\r\n$20\r\np%019" PRIu64 "\r\n"
                                     : "get p%019" PRIu64 "\r\n",
                        id);
}

/* The deadline is a time to live in seconds, or a second of the calendar; 0 for neither. */
static void put_set(struct conn *c, char prefix, uint64_t id, uint64_t size, uint64_t ttl_s,
                    int64_t unix_s)
{
    char *p = room_of(c, size + 256), *start = p;
    bool has_deadline = ttl_s != 0 || unix_s != 0;

    if (pace.is_resp) {
        p += sprintf(p, "*%d\r\n$3\r\nSET\r\n$20\r\n%c%019" PRIu64 "\r\n$%" PRIu64 "\r\n",
                     has_deadline ? 5 : 3, prefix, id, size);
    } else {
        p += sprintf(p, "set %c%019" PRIu64 " 0 %" PRId64 " %" PRIu64 "\r\n", prefix, id,
                     unix_s != 0 ? unix_s : (int64_t)ttl_s, size);
    }
    memcpy(p, text + id % TEXT_SPREAD, size);
    p += size;
    p += sprintf(p, "\r\n");
    if (pace.is_resp && has_deadline) {
        char number[24];
        int n = sprintf(number, "%" PRId64, unix_s != 0 ? unix_s : (int64_t)ttl_s);

        p += sprintf(p, "%s\r\n$%d\r\n%s\r\n", unix_s != 0 ? "$4\r\nEXAT" : "$2\r\nEX", n,
                     number);
    }
    c->wire.out_len += (size_t)(p - start);
}

static void put_delete(struct conn *c, char prefix, uint64_t id)
{
    char *p = room_of(c, 128);

    c->wire.out_len +=
        (size_t)sprintf(p,
                        pace.is_resp ? "*2\r\n$3\r\nDEL\r\n$20\r\n%c%019" PRIu64 "\r\n"
                                     : "delete %c%019" PRIu64 "\r\n",
                        prefix, id);
}

static void put_flush(struct conn *c)
{
    c->wire.out_len += (size_t)sprintf(room_of(c, 64), pace.is_resp ? "*1\r\n$8\r\nFLUSHALL\r\n"
                                                                    : "flush_all\r\n");
}

/* ---- replies ----------------------------------------------------------------------------- */

/* The time to live of a key of the set stream, in seconds; spread over its numbers. */
static uint64_t ttl_of(uint64_t number)
{
    uint64_t x = (number + 1) * 0x9e3779b97f4a7c15ULL;

    return pace.ttl_high == 0 ? 0
                              : pace.ttl_low + (x >> 32) % (pace.ttl_high - pace.ttl_low + 1);
}

static void note_end(uint64_t number, double now)
{
    uint64_t end = (uint64_t)((now - pace_sets.from + (double)ttl_of(number)) * LIVING_STEPS);

    if (pace.ttl_high != 0 && end < ends_count) {
        ends[end]++;
    }
}

static void answered(struct conn *c, struct pace_stream *stream)
{
    double now = pace_now();

    if (c->first == c->next) {
        errno = EPROTO;
        fail("an answer to nothing");
    }
    uint64_t number = c->asked[c->first++ & (c->cap - 1)];
    struct pace_record *r = &stream->record[number];
    r->took_s = (float)(now - r->due);
    stream->answered++;
    if (stream == &pace_sets) {
        note_end(number, now);
    }
}

static void value_begins(struct wire *w, const char *line, size_t len, uint64_t n)
{
    w->skip = n + 2;
    pace_hits++;
    if (n != pace.size) {
        wire_is_wrong(line, len);
    }
}

static void on_get_line(struct conn *c, const char *line, size_t len)
{
    if (pace.is_resp && *line == '$') {
        int64_t n = strtoll(line + 1, NULL, 10);

        if (n >= 0) {
            value_begins(&c->wire, line, len, (uint64_t)n);
        } else {
            pace_misses++;
        }
    } else if (!pace.is_resp && len > 6 + PACE_KEY_BYTES && memcmp(line, "VALUE ", 6) == 0) {
        value_begins(&c->wire, line, len, strtoull(line + 6 + PACE_KEY_BYTES + 3, NULL, 10));
        c->has_value = true;
        return;
    } else if (!pace.is_resp && len == 3 && memcmp(line, "END", 3) == 0) {
        pace_misses += !c->has_value;
        c->has_value = false;
    } else {
        wire_is_wrong(line, len);
    }
    answered(c, &pace_gets);
}

static bool is_good(const char *line, size_t len)
{
    static const char *const good[] = {"STORED", "DELETED", "OK", "+OK", ":1"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (len == strlen(good[i]) && memcmp(line, good[i], len) == 0) {
            return true;
        }
    }
    return false;
}

static void on_line(struct wire *w, const char *line, size_t len)
{
    struct conn *c = conn_of(w);

    if (c->kind == FOR_WATCH) {
        is_watching = !pace_answer(line, len) && is_watching;
        return;
    }
    if (c->kind == FOR_GETS) {
        on_get_line(c, line, len);
        return;
    }
    if (!is_good(line, len)) {
        wire_is_wrong(line, len);
    }
    if (c->kind == FOR_SETS) {
        answered(c, &pace_sets);
    } else {
        bulk_waiting--;
    }
}

static void on_taken(struct wire *w)
{
    (void)w;
}

static const struct wire_client client = {on_line, NULL, on_taken};

/* ---- in bulk ----------------------------------------------------------------------------- */

static bool is_bulk_answered(void)
{
    return bulk_waiting == 0;
}

void pace_load(const struct pace_batch *batch)
{
    for (uint64_t id = 0; id < batch->count;) {
        for (uint64_t n = 0; n < BATCH_KEYS && id < batch->count; n++, id++) {
            uint64_t ttl_s =
                batch->ttl_high != 0 ? random_from(batch->ttl_low, batch->ttl_high) : 0;

            put_set(bulk, batch->prefix, id, batch->size, ttl_s, batch->unix_s);
            bulk_waiting++;
            if (bulk->wire.out_len >= BATCH_BYTES) {
                n = BATCH_KEYS;
            }
        }
        send_composed(bulk);
        wire_run(&client, is_bulk_answered);
    }
}

void pace_strike(void)
{
    if (pace.event == EVENT_FLUSH) {
        put_flush(bulk);
        bulk_waiting++;
    } else if (pace.event == EVENT_DELETE || pace.event == EVENT_OVERWRITE) {
        for (uint64_t id = 0; id < pace.dying; id++) {
            if (pace.event == EVENT_DELETE) {
                put_delete(bulk, 'v', id);
            } else {
                put_set(bulk, 'v', id, pace.size, 0, 0);
            }
            bulk_waiting++;
        }
    }
    send_composed(bulk);
}

static bool is_seen(void)
{
    return !is_watching;
}

struct pace_sample pace_look(void)
{
    wire_run(&client, is_seen); /* an answer that is still under way */
    is_watching = true;
    pace_ask(&watcher->wire);
    wire_run(&client, is_seen);
    return pace_sample[pace_sample_count - 1];
}

/* ---- streams ----------------------------------------------------------------------------- */

void pace_begin(struct pace_stream *stream, double rate)
{
    stream->rate = rate;
    stream->from = pace_now();
    stream->is_on = rate > 0;
    if (stream == &pace_sets && stream->is_on) {
        double span_s = pace.before_s + pace.after_high_s + (double)pace.ttl_high + 1;

        ends_count = (uint64_t)(span_s * LIVING_STEPS);
        ends = must_alloc(calloc(ends_count, sizeof(*ends)));
    }
    next_sample = stream->from;
}

static double due_of(const struct pace_stream *stream)
{
    return stream->from + (double)stream->count / stream->rate;
}

static void note_sent(struct pace_stream *stream, struct conn *c, double due, double now)
{
    if (stream->count == stream->cap) {
        stream->cap = stream->cap * 2 + 65536;
        stream->record =
            must_alloc(realloc(stream->record, stream->cap * sizeof(*stream->record)));
    }
    stream->record[stream->count] =
        (struct pace_record){.due = due, .late_s = (float)(now - due), .took_s = -1};
    note_asked(c, stream->count++);
}

static void send_next_get(double due, double now)
{
    struct conn *c = &conns[pace_gets.count % (uint64_t)pace.conns];

    put_get(c, rng_below(&rng, pace.live));
    note_sent(&pace_gets, c, due, now);
}

static void send_next_set(double due, double now)
{
    struct conn *c = &conns[(uint64_t)pace.conns + pace_sets.count % SET_CONNS];

    put_set(c, 's', pace_sets.count, pace.size, ttl_of(pace_sets.count), 0);
    note_sent(&pace_sets, c, due, now);
}

static void send_due(struct pace_stream *stream, double now,
                     void (*send_next)(double due, double now))
{
    for (int i = 0; i < AT_ONCE && stream->is_on && due_of(stream) <= now; i++) {
        send_next(due_of(stream), now);
    }
}

uint64_t pace_living(double asked, double came)
{
    double since = came - pace_sets.from, ended = asked - pace_sets.from;
    uint64_t living = since > 0 ? (uint64_t)(since * pace_sets.rate) : 0;

    living = living < pace_sets.count ? living : pace_sets.count;
    for (uint64_t i = 0; (double)i + 1 <= ended * LIVING_STEPS && i < ends_count; i++) {
        living -= ends[i];
    }
    return living;
}

static double earlier(double a, double b)
{
    return a < b ? a : b;
}

void pace_until(double time, bool (*has_enough)(void))
{
    double now = pace_now();

    while (now < time && (has_enough == NULL || !has_enough())) {
        double next = time;

        send_due(&pace_gets, now, send_next_get);
        send_due(&pace_sets, now, send_next_set);
        for (int i = 0; i < conn_count; i++) {
            send_composed(&conns[i]);
        }
        if (now >= next_sample && !is_watching) {
            is_watching = true;
            pace_ask(&watcher->wire);
            next_sample +=
                pace.sample_s * (double)(1 + (int)((now - next_sample) / pace.sample_s));
        }
        next = is_watching ? next : earlier(next, next_sample);
        next = pace_gets.is_on ? earlier(next, due_of(&pace_gets)) : next;
        next = pace_sets.is_on ? earlier(next, due_of(&pace_sets)) : next;
        wire_poll(&client, next - pace_now());
        now = pace_now();
    }
}

static bool is_all_answered(void)
{
    return pace_gets.answered == pace_gets.count && pace_sets.answered == pace_sets.count &&
           bulk_waiting == 0;
}

void pace_finish(void)
{
    pace_gets.is_on = pace_sets.is_on = false;
    wire_run(&client, is_all_answered);
}
