/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A replica for stress tests: see role.h.
 */
#include "tests/stress/follower.h"

#include <time.h>

#include "tests/lib/replica/replica.h"
#include "tests/stress/world.h"

#define TO_UNIX 5000000

struct follower {
    struct world *world;
    struct backlog *backlog;
    struct shipper *shipper;
    pthread_t thread;
    pthread_mutex_t mutex; /* the replica is under it */
    struct replica replica;
    bool is_lost; /* under the mutex: it was dropped */
    _Atomic bool is_stopping;
    uint64_t audits, losses;
};

static void rest(void)
{
    const struct timespec pause = {0, 500000};

    (void)nanosleep(&pause, NULL);
}

static void *follow(void *arg)
{
    struct follower *f = arg;

    while (!atomic_load(&f->is_stopping)) {
        pthread_mutex_lock(&f->mutex);
        f->is_lost = f->is_lost || !replica_pull(&f->replica);
        pthread_mutex_unlock(&f->mutex);
        rest();
    }
    return NULL;
}

static void attach(struct follower *f, uint64_t offset)
{
    struct backlog_name name;

    backlog_get_name(f->backlog, &name);
    f->replica.id = name.id;
    f->replica.offset = offset;
    must(replica_attach(&f->replica, f->shipper) == BACKLOG_CONTINUES);
    f->is_lost = false;
}

static void copy_item(void *arg, const struct shard *s, const struct item *it)
{
    msec_t deadline = item_deadline(it);
    char *value = mem_alloc(item_len(it) + 1);
    struct snap_item item = {
        .marks =
            (uint8_t)((item_is_stale(it) ? SNAP_STALE : 0) | (item_is_won(it) ? SNAP_WON : 0)),
        .client_flags = item_flags(it),
        .cas = item_cas(it),
        .deadline = deadline == MSEC_NEVER ? SNAP_DEADLINE_NEVER : deadline + TO_UNIX,
        .key = span_of(item_key(it), it->key_len),
        .value_len = item_len(it),
    };

    value_copy(s, it, value);
    item.value = span_of(value, item_len(it));
    replica_take(arg, &item);
    mem_free(value);
}

/* Give it what there is, while nobody works. Under the mutex. */
static void set_up(struct follower *f)
{
    struct engine *e = &f->world->engine;
    msec_t now = clock_now(&e->clock);
    struct position p = {0};
    uint64_t mark;

    f->replica.open = NULL;
    replica_clear(&f->replica);
    shipper_detach(&f->replica.reader);
    must(shipper_mark(f->shipper, &mark));
    while (p.shard < e->shard_count) {
        rcu_begin();
        position_step(&p, e->shards[p.shard], now, copy_item, &f->replica);
        rcu_end();
    }
    attach(f, mark);
}

struct follower *follower_start(struct world *world)
{
    struct follower *f = mem_zalloc(sizeof(*f));
    struct shipper_config cfg = {.engine = &world->engine};
    const struct shipper_role role = {.to_unix_ms = TO_UNIX, .continues = true};

    f->world = world;
    pthread_mutex_init(&f->mutex, NULL);
    f->backlog = backlog_create(&world->engine.budget);
    must(f->backlog != NULL && backlog_reserve(f->backlog, SHIPPER_BACKLOG_MIN));
    cfg.backlog = f->backlog;
    must(shipper_start(&f->shipper, &cfg) == MF_OK);
    must(shipper_begin(f->shipper, &role) == MF_OK);
    replica_init(&f->replica);
    f->replica.acks = true;
    set_up(f);
    must(pthread_create(&f->thread, NULL, follow, f) == 0);
    return f;
}

void follower_stop(struct follower **fp)
{
    struct follower *f = *fp;
    struct shipper_info info;

    if (f == NULL) {
        return;
    }
    atomic_store(&f->is_stopping, true);
    must(pthread_join(f->thread, NULL) == 0);
    shipper_info(f->shipper, &info);
    printf("# followed: %" PRIu64 " records, %" PRIu64 " shipped, %" PRIu64 " bytes, %" PRIu64
           " flushes, %" PRIu64 " of prefixes, %" PRIu64 " cut, %" PRIu64
           " waits; lost %" PRIu64 " times, equal %" PRIu64 " times\n",
           info.read, info.shipped, info.bytes, f->replica.flushes, f->replica.prefixes,
           f->replica.cuts, info.waits, f->losses, f->audits);
    replica_fini(&f->replica);
    shipper_stop(&f->shipper);
    backlog_destroy(&f->backlog);
    pthread_mutex_destroy(&f->mutex);
    mem_free(f);
    *fp = NULL;
}

void follower_audit(struct follower *f)
{
    uint64_t ticket = shipper_ask(f->shipper);
    struct shipper_level level;
    uint64_t mark = 0;
    bool is_over = false;

    while (!is_over) {
        bool is_done = shipper_is_done(f->shipper, ticket, &mark);

        pthread_mutex_lock(&f->mutex);
        if (f->is_lost) {
            f->losses++;
            set_up(f);
            is_over = true;
        } else if (is_done && f->replica.offset >= mark) {
            replica_check(&f->replica, &f->world->engine, TO_UNIX);
            if (shipper_level(f->shipper, &level) && level.offset <= f->replica.offset) {
                replica_expire(&f->replica, &level);
                replica_check(&f->replica, &f->world->engine, TO_UNIX);
            }
            f->audits++;
            is_over = true;
        }
        pthread_mutex_unlock(&f->mutex);
        if (!is_over) {
            rest();
        }
    }
}
