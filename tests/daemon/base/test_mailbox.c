/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mailbox: the order of one poster, no loss with many posters, posting from within a
 * message, and what is run when it is closed.
 */
#include "daemon/base/mailbox.h"

#include "tests/common/unit.h"

#define POSTERS 4u
#define EACH    20000u

static uv_loop_t loop;
static struct mailbox box;

/* What the receiver has seen. */
struct seen {
    uint32_t count;
    uint32_t last[POSTERS]; /* number of the last message of each poster */
    bool is_disordered;
};
static struct seen seen;

struct numbered {
    struct message message;
    uint32_t poster;
    uint32_t number; /* from 1 */
};

static void setup(void)
{
    seen = (struct seen){0};
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(mailbox_init(&box, &loop, &seen), 0);
}

static void teardown(void)
{
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

TEST_FIXTURE(setup, teardown)

static void take(struct message *m, void *receiver)
{
    struct numbered *n = (struct numbered *)(void *)m;
    struct seen *s = receiver;

    if (n->number != s->last[n->poster] + 1) {
        s->is_disordered = true;
    }
    s->last[n->poster] = n->number;
    s->count++;
    if (s->count == POSTERS * EACH) {
        mailbox_close(&box);
    }
}

static void *post_many(void *arg)
{
    struct numbered *all = arg;

    for (uint32_t i = 0; i < EACH; i++) {
        mailbox_post(&box, &all[i].message);
    }
    return NULL;
}

TEST(many_posters_lose_nothing_and_keep_their_order)
{
    struct numbered *all = calloc(POSTERS * EACH, sizeof(*all));
    pthread_t threads[POSTERS];

    ck_assert_ptr_nonnull(all);
    for (uint32_t p = 0; p < POSTERS; p++) {
        for (uint32_t i = 0; i < EACH; i++) {
            all[p * EACH + i] =
                (struct numbered){.message.fn = take, .poster = p, .number = i + 1};
        }
    }
    for (uint32_t p = 0; p < POSTERS; p++) {
        ck_assert_int_eq(pthread_create(&threads[p], NULL, post_many, &all[p * EACH]), 0);
    }
    /* Returns after the last message closed the mailbox. */
    uv_run(&loop, UV_RUN_DEFAULT);
    for (uint32_t p = 0; p < POSTERS; p++) {
        pthread_join(threads[p], NULL);
    }
    ck_assert_uint_eq(seen.count, POSTERS * EACH);
    ck_assert(!seen.is_disordered);
    free(all);
}

/*
 * A message that posts itself again: it runs once a turn, so that the loop can do other work in
 * between.
 */
struct repeated {
    struct message message;
    unsigned left;
    unsigned turns; /* turns of the loop, counted by a check handle */
    unsigned turns_at_last;
    bool is_twice_a_turn;
};

static struct repeated repeated;

static void on_turn(uv_check_t *check)
{
    repeated.turns++;
}

static void repeat(struct message *m, void *receiver)
{
    if (repeated.turns_at_last == repeated.turns && repeated.left != 10) {
        repeated.is_twice_a_turn = true;
    }
    repeated.turns_at_last = repeated.turns;
    if (--repeated.left > 0) {
        mailbox_post(&box, m);
    } else {
        mailbox_close(&box);
    }
}

TEST(message_that_posts_itself_waits_for_the_next_turn)
{
    uv_check_t check;

    repeated = (struct repeated){.message.fn = repeat, .left = 10};
    uv_check_init(&loop, &check);
    uv_check_start(&check, on_turn);
    uv_unref((uv_handle_t *)&check);
    mailbox_post(&box, &repeated.message);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_uint_eq(repeated.left, 0);
    ck_assert(!repeated.is_twice_a_turn);
    uv_close((uv_handle_t *)&check, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void count_one(struct message *m, void *receiver)
{
    struct seen *s = receiver;

    s->count++;
}

static struct message late = {.fn = count_one};

static void post_late(struct message *m, void *receiver)
{
    count_one(m, receiver);
    mailbox_post(&box, &late);
}

TEST(close_runs_what_waits_and_what_that_posts)
{
    struct message first = {.fn = post_late};

    mailbox_post(&box, &first);
    mailbox_close(&box);
    ck_assert_uint_eq(seen.count, 2);
}

TEST(message_may_be_posted_again_after_it_ran)
{
    struct message m = {.fn = count_one};

    for (unsigned i = 0; i < 3; i++) {
        mailbox_post(&box, &m);
        uv_run(&loop, UV_RUN_ONCE);
    }
    ck_assert_uint_eq(seen.count, 3);
    mailbox_close(&box);
}

/* ---- notices ----------------------------------------------------------------------------- */

static struct notice notice;
static _Atomic uint32_t wishes; /* left for the receiver */
static _Atomic uint32_t ended;  /* threads that post no more */
static uint32_t granted, came;

static void grant(struct message *m, void *receiver)
{
    notice_taken(&notice);
    came++;
    granted += atomic_exchange_explicit(&wishes, 0, memory_order_relaxed);
}

static void *wish(void *arg)
{
    for (uint32_t i = 0; i < EACH; i++) {
        atomic_fetch_add_explicit(&wishes, 1, memory_order_relaxed);
        notice_post(&notice, &box);
    }
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static void begin_notices(void)
{
    notice_init(&notice, grant);
    atomic_store(&wishes, 0);
    atomic_store(&ended, 0);
    granted = came = 0;
}

TEST(a_notice_that_is_on_its_way_comes_once)
{
    begin_notices();
    for (unsigned i = 0; i < 3; i++) {
        notice_post(&notice, &box);
    }
    ck_assert(!notice_claim(&notice));
    uv_run(&loop, UV_RUN_ONCE);
    ck_assert_uint_eq(came, 1);
    notice_post(&notice, &box); /* it has come: now it is another */
    mailbox_close(&box);
    ck_assert_uint_eq(came, 2);
}

/* Whatever was written before a notice is found, by that one or by an earlier one. */
TEST(what_is_left_before_a_notice_is_found)
{
    pthread_t threads[POSTERS];

    begin_notices();
    for (uint32_t p = 0; p < POSTERS; p++) {
        ck_assert_int_eq(pthread_create(&threads[p], NULL, wish, NULL), 0);
    }
    while (atomic_load(&ended) < POSTERS) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    for (uint32_t p = 0; p < POSTERS; p++) {
        pthread_join(threads[p], NULL);
    }
    mailbox_close(&box);
    ck_assert_uint_eq(granted, POSTERS * EACH);
}
