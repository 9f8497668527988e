/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a turn knows of times and cas values, and answers that come later than their turn. No
 * worker runs and no section is open: these functions need neither.
 */
#include <sys/socket.h>

#include "daemon/command/client.h"
#include "daemon/command/turn.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/worker.h"
#include "tests/common/unit.h"

#define NOW   5000
#define MONTH (INT64_C(60) * 60 * 24 * 30)

static struct engine engine;
static struct turn turn;

static void setup(void)
{
    clock_init(&engine.clock);
    clock_freeze(&engine.clock);
    clock_advance(&engine.clock, NOW - clock_now(&engine.clock));
    memset(&turn, 0, sizeof(turn));
    turn.e = &engine;
    turn.now = NOW;
}

TEST_FIXTURE(setup, NULL)

TEST(exptimes_are_read_as_memcached_does)
{
    int64_t unix_ms = clock_unix_ms(&engine.clock);
    int64_t unix_s = unix_ms / 1000;

    ck_assert_int_eq(turn_deadline(&turn, 0), MSEC_NEVER);
    ck_assert_int_le(turn_deadline(&turn, -1), NOW);
    ck_assert_int_le(turn_deadline(&turn, INT64_MIN), NOW);
    ck_assert_int_eq(turn_deadline(&turn, 1), NOW + 1001);
    ck_assert_int_eq(turn_deadline(&turn, MONTH), NOW + 1 + MONTH * 1000);
    /* One second more is a date that is long past. */
    ck_assert_int_le(turn_deadline(&turn, MONTH + 1), NOW);
    ck_assert_int_eq(turn_deadline(&turn, unix_s + 100), NOW + (unix_s + 100) * 1000 - unix_ms);
    /* Dates after 2038, and absurdly late ones. */
    ck_assert_int_gt(turn_deadline(&turn, INT64_C(1) << 32), NOW + INT64_C(1000) * 86400);
    ck_assert_int_lt(turn_deadline(&turn, INT64_C(1) << 32), MSEC_NEVER);
    ck_assert_int_eq(turn_deadline(&turn, INT64_MAX), MSEC_NEVER);
    /* a flush is not rounded up */
    ck_assert_int_eq(turn_flush_at(&turn, 0), NOW);
    ck_assert_int_eq(turn_flush_at(&turn, -1), NOW);
    ck_assert_int_eq(turn_flush_at(&turn, 1), NOW + 1000);
    ck_assert_int_eq(turn_flush_at(&turn, MONTH), NOW + MONTH * 1000);
    ck_assert_int_eq(turn_flush_at(&turn, unix_s + 100), turn_deadline(&turn, unix_s + 100));
    ck_assert_int_eq(turn_flush_at(&turn, INT64_MAX), MSEC_NEVER);
}

TEST(exptimes_in_milliseconds_follow_the_same_rules)
{
    int64_t unix_ms = clock_unix_ms(&engine.clock);

    ck_assert_int_eq(turn_deadline_ms(&turn, 0), MSEC_NEVER);
    ck_assert_int_eq(turn_deadline_ms(&turn, -1), NOW);
    ck_assert_int_eq(turn_deadline_ms(&turn, INT64_MIN), NOW);
    ck_assert_int_eq(turn_deadline_ms(&turn, 1), NOW + 2);
    ck_assert_int_eq(turn_deadline_ms(&turn, 1500), NOW + 1501);
    ck_assert_int_eq(turn_deadline_ms(&turn, MONTH * 1000), NOW + 1 + MONTH * 1000);
    ck_assert_int_eq(turn_deadline_ms(&turn, MONTH * 1000 + 1), NOW);
    ck_assert_int_eq(turn_deadline_ms(&turn, unix_ms + 7), NOW + 7);
    ck_assert_int_eq(turn_deadline_ms(&turn, unix_ms), NOW);
    ck_assert_int_gt(turn_deadline_ms(&turn, INT64_MAX), NOW + (INT64_C(1) << 60));
}

TEST(deadlines_after_a_while_and_at_a_date)
{
    int64_t unix_ms = clock_unix_ms(&engine.clock);

    ck_assert_int_eq(turn_deadline_after(&turn, 0), NOW);
    ck_assert_int_eq(turn_deadline_after(&turn, INT64_MIN), NOW);
    ck_assert_int_eq(turn_deadline_after(&turn, MONTH * 2000), NOW + 1 + MONTH * 2000);
    ck_assert_int_eq(turn_deadline_after(&turn, INT64_MAX), MSEC_NEVER);
    ck_assert_int_eq(turn_deadline_at(&turn, INT64_MIN), NOW);
    ck_assert_int_eq(turn_deadline_at(&turn, 0), NOW);
    ck_assert_int_eq(turn_deadline_at(&turn, unix_ms + 1), NOW + 1);
    ck_assert_int_eq(turn_unix_ms(&turn, turn_deadline_at(&turn, unix_ms + 1)), unix_ms + 1);
    /* The end of the millisecond that has begun, so that no time to live is cut. */
    ck_assert_int_eq(turn_unix_ms(&turn, turn_deadline_after(&turn, 250)), unix_ms + 251);
    ck_assert_int_eq(turn_deadline_at(&turn, unix_ms), NOW);
    ck_assert_int_eq(turn_deadline_at(&turn, INT64_MAX / 4), INT64_MAX / 4 - unix_ms + NOW);
}

TEST(milliseconds_left_are_those_that_were_asked_for)
{
    ck_assert_int_eq(turn_ms_left(&turn, MSEC_NEVER), -1);
    ck_assert_int_eq(turn_ms_left(&turn, NOW), 0);
    ck_assert_int_eq(turn_ms_left(&turn, NOW - 7), 0);
    ck_assert_int_eq(turn_ms_left(&turn, NOW + 1), 1);
    ck_assert_int_eq(turn_ms_left(&turn, turn_deadline_ms(&turn, 1)), 1);
    ck_assert_int_eq(turn_ms_left(&turn, turn_deadline_ms(&turn, 12345)), 12345);
    /* To a date it is a part of the millisecond less. */
    int64_t unix_ms = clock_unix_ms(&engine.clock);
    ck_assert_int_eq(turn_ms_left(&turn, turn_deadline_at(&turn, unix_ms + 1000)), 999);
    ck_assert_int_eq(turn_ms_left(&turn, turn_deadline_at(&turn, unix_ms + 1)), 1);
}

/* Hashes from 1 up: they are not even random. */
#define SAMPLES 100000
#define BINS    50

/* Twice the sum of squared deviations from a uniform distribution, in units of its mean. */
static double chi_square(msec_t ttl, uint32_t pct, uint64_t *whole)
{
    const msec_t spread = ttl * pct / 100 + 1;
    unsigned bins[BINS] = {0};
    double sum = 0;

    for (uint64_t hash = 1; hash <= SAMPLES; hash++) {
        msec_t got = turn_jitter(&turn, hash, NOW + 1 + ttl, pct);
        msec_t taken = NOW + 1 + ttl - got;

        ck_assert_int_ge(taken, 0);
        ck_assert_int_lt(taken, spread);
        bins[taken * BINS / spread]++;
        *whole += (uint64_t)taken;
    }
    for (unsigned i = 0; i < BINS; i++) {
        double off = bins[i] - (double)SAMPLES / BINS;

        sum += off * off / ((double)SAMPLES / BINS);
    }
    return sum;
}

TEST(jitter_is_uniform_and_never_later)
{
    static const struct {
        msec_t ttl;
        uint32_t pct;
    } rows[] = {{100000, 20}, {3600 * 1000, 1}, {MONTH * 1000, 50}, {99999, 99}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t sum = 0;
        double spread = (double)rows[i].ttl * rows[i].pct / 100;
        double chi = chi_square(rows[i].ttl, rows[i].pct, &sum);

        /* With 49 degrees of freedom 99.9 % of uniform samples are below; so is each here. */
        ck_assert_msg(chi < 85.4, "%g", chi);
        ck_assert_double_eq_tol((double)sum / SAMPLES, spread / 2, spread / 100);
    }
    /* The same key at another time is another sample. */
    msec_t one = turn_jitter(&turn, 7, NOW + 1000001, 50);
    turn.now++;
    ck_assert_int_ne(turn_jitter(&turn, 7, NOW + 1000002, 50), one + 1);
}

TEST(jitter_leaves_what_it_must)
{
    unsigned least = 0;
    unsigned most = 0;

    ck_assert_int_eq(turn_jitter(&turn, 7, MSEC_NEVER, 50), MSEC_NEVER);
    ck_assert_int_eq(turn_jitter(&turn, 7, NOW, 50), NOW);
    ck_assert_int_eq(turn_jitter(&turn, 7, NOW - 9, 50), NOW - 9);
    ck_assert_int_eq(turn_jitter(&turn, 7, NOW + 2, 100), NOW + 2);
    ck_assert_int_eq(turn_jitter(&turn, 7, NOW + 100001, 0), NOW + 100001);
    for (uint64_t hash = 1; hash <= 1000; hash++) {
        msec_t got = turn_jitter(&turn, hash, NOW + 1 + 5, 100);

        ck_assert(got >= NOW + 2 && got <= NOW + 6);
        least += got == NOW + 2;
        most += got == NOW + 6;
    }
    ck_assert(least > 100 && most > 100);
    ck_assert_int_gt(turn_jitter(&turn, 7, MSEC_NEVER - 1, 100), NOW + 1);
}

TEST(seconds_left_are_those_that_were_asked_for)
{
    ck_assert_int_eq(turn_seconds_left(&turn, MSEC_NEVER), -1);
    ck_assert_int_eq(turn_seconds_left(&turn, NOW), 0);
    ck_assert_int_eq(turn_seconds_left(&turn, NOW - 1), 0);
    ck_assert_int_eq(turn_seconds_left(&turn, NOW + 1), 1);
    for (int64_t s = 1; s < 100; s++) {
        ck_assert_int_eq(turn_seconds_left(&turn, turn_deadline(&turn, s)), s);
    }
    /* A second that has begun counts, one that is over does not. */
    ck_assert_int_eq(turn_seconds_left(&turn, NOW + 2001), 2);
    ck_assert_int_eq(turn_seconds_left(&turn, NOW + 2002), 3);
}

TEST(without_cas_none_is_shown_and_none_matches)
{
    ck_assert_uint_eq(turn_cas_shown(&turn, 7), 7);
    ck_assert_uint_eq(turn_cas_expected(&turn, 7), 7);
    turn.hides_cas = true;
    ck_assert_uint_eq(turn_cas_shown(&turn, 7), 0);
    ck_assert_uint_eq(turn_cas_expected(&turn, 7), TURN_CAS_NEVER);
}

/* ---- late answers ------------------------------------------------------------------------ */

static struct span answered;
static bool answered_composed;

static void on_answer(struct client *c, struct span reply, bool is_composed)
{
    ck_assert(!client_is_waiting(c));
    answered = reply;
    answered_composed = is_composed;
}

static int open_client(struct client *c)
{
    static const struct client_duties duties = {.answered = on_answer};
    int fds[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    memset(c, 0, sizeof(*c));
    client_init(c, fds[0], &duties);
    return fds[1];
}

static struct worker *make_worker(void)
{
    static struct crew crew;
    struct worker *w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);

    ck_assert_ptr_nonnull(w);
    memset(w, 0, sizeof(*w));
    w->magic = WORKER_MAGIC;
    w->crew = &crew;
    return w;
}

TEST(a_late_answer_reaches_its_client)
{
    struct worker *w = make_worker();
    struct late_answer late;
    struct client c;
    int peer = open_client(&c);

    ck_assert(!client_is_waiting(&c));
    client_expect(&c, &late);
    ck_assert(client_is_waiting(&c));
    ck_assert(client_answer(&late, span_of("OK", 2), true));
    ck_assert_uint_eq(answered.len, 2);
    ck_assert(answered_composed);
    client_expect(&c, &late);
    ck_assert(client_answer(&late, span_of(NULL, 0), false));
    ck_assert(!answered_composed);
    client_fini(&c, w);
    close(peer);
    free(w);
}

TEST(a_late_answer_finds_that_its_client_closed)
{
    struct worker *w = make_worker();
    struct late_answer late;
    struct client c;
    int peer = open_client(&c);
    char byte;

    answered.len = 99;
    client_expect(&c, &late);
    client_fini(&c, w);
    ck_assert_ptr_null(late.client);
    ck_assert(!client_answer(&late, span_of("OK", 2), true));
    ck_assert_uint_eq(answered.len, 99);
    ck_assert_int_eq(read(peer, &byte, 1), 0);
    close(peer);
    free(w);
}
