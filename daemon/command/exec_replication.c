/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See exec.h.
 */
#include "daemon/command/exec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/options/replica_address.h"
#include "daemon/replica/replication.h"
#include "daemon/worker/crew.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "lib/replica/sealed_line.h"
#include "lib/shard/expire.h"
#include "proto/text_parse.h"

/* An answer without bytes comes after this time, or after that if nothing happens here. */
#define PING_MS      100
#define PING_IDLE_MS 1000

/* The longest time that a failover may take. */
#define FAILOVER_MAX_MS 60000u

/* The line in front of the bytes. */
#define HEAD_MAX 160u

/* The longest line. */
#define LINE_MAX_BYTES (256u + REPL_PATH_BYTES)

/* A client that follows this server. */
struct following {
    struct client_service service; /* the first member */
    struct late_answer late;
    struct replica replica;
    struct client *client;   /* [borrowed] NULL: closed */
    uv_timer_t *timer;       /* owned; of the loop of its worker */
    uv_timer_t *spare;       /* owned; for the next one, while it is on its way; else NULL */
    uint64_t left_ms;        /* of the timer, while it is on its way; 0: it does not run */
    bool is_asked;           /* it waits for the next part */
    bool is_syncing;         /* a full sync is running */
    bool is_closed;          /* the timer is */
    const char *lost;        /* why it lost its place in the stream; NULL: it did not */
    uint64_t expired_before; /* when it was answered last: items that had expired */
    char *buffer;            /* HEAD_MAX and REPL_PORTION_MAX bytes; NULL until it is online */
};

static void end(struct client_service *service);

static struct replication *replication_of(const struct following *f)
{
    return f->replica.worker->crew->replication;
}

/* ---- life -------------------------------------------------------------------------------- */

/* The replication session of the client; NULL: none. */
static struct following *following_of(const struct client *c)
{
    return c->service != NULL && c->service->end == end ? (struct following *)(void *)c->service
                                                        : NULL;
}

/* When neither timer nor message are on their way. */
static void release_if_idle(struct following *f)
{
    if (f->client == NULL && f->is_closed && !atomic_load(&f->replica.more.is_posted)) {
        if (f->buffer != NULL) {
            budget_add(&f->replica.worker->engine->budget,
                       -(int64_t)(HEAD_MAX + REPL_PORTION_MAX));
        }
        relay_fini(&f->replica.relay);
        mem_free(f->buffer);
        mem_free(f);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct following *f = handle->data;

    mem_free(handle);
    f->is_closed = true;
    release_if_idle(f);
}

/* Its client was closed, or sends psync again. */
static void end(struct client_service *service)
{
    struct following *f = (struct following *)(void *)service;

    must_be_a_worker();
    f->client->follows = false;
    f->client = NULL;
    f->is_asked = false;
    replication_leave(replication_of(f), &f->replica);
    uv_close((uv_handle_t *)f->timer, on_closed);
}

static void on_timer(uv_timer_t *timer);

/* The timer is one of this worker's loop. */
static void begin_timer(struct following *f, uv_timer_t *timer)
{
    f->timer = timer;
    uv_timer_init(&f->replica.worker->loop, timer);
    timer->data = f;
}

static void on_timer_left(uv_handle_t *handle)
{
    mem_free(handle);
}

/* struct client_service */
static bool leave(struct client_service *service)
{
    struct following *f = (struct following *)(void *)service;

    must_be_worker(f->replica.worker);
    f->spare = mem_alloc(sizeof(*f->spare)); /* the loop may have the old one for a while yet */
    if (f->spare == NULL) {
        return false;
    }
    relay_leave(&f->replica.relay);
    f->left_ms = uv_is_active((uv_handle_t *)f->timer) ? uv_timer_get_due_in(f->timer) + 1 : 0;
    uv_close((uv_handle_t *)f->timer, on_timer_left);
    f->timer = NULL;
    return true;
}

/* struct client_service */
static void join(struct client_service *service, struct worker *w)
{
    struct following *f = (struct following *)(void *)service;

    must_be_worker(w);
    f->replica.worker = w;
    begin_timer(f, f->spare);
    f->spare = NULL;
    if (f->left_ms != 0) {
        uv_timer_start(f->timer, on_timer, f->left_ms, 0);
    }
    relay_join(&f->replica.relay, &w->mailbox);
}

/* ---- the stream -------------------------------------------------------------------------- */

/* Start the timeout for the client's next message. */
static void await_client(struct following *f)
{
    const struct settings *s = f->replica.worker->settings;

    uv_timer_start(f->timer, on_timer, (uint64_t)setting_get(s, repl_timeout) * 1000, 0);
}

static uint64_t items_expired(const struct engine *e)
{
    return engine_counter(e, CTR_expired_lazy) + engine_counter(e, CTR_expired_active) +
           engine_counter(e, CTR_expired_reclaim);
}

/* When it is answered without anything to send. */
static void await_ping(struct following *f)
{
    struct worker *w = f->replica.worker;
    uint64_t expired = items_expired(w->engine);
    /* A replica closes a link on which it receives nothing for that time. */
    const int64_t third_ms = (int64_t)setting_get(w->settings, repl_timeout) * 1000 / 3;
    const int64_t idle_ms = third_ms < PING_IDLE_MS ? third_ms : PING_IDLE_MS;
    msec_t soon = worker_now(w) + idle_ms;
    bool is_idle = expired == f->expired_before;

    for (uint32_t i = 0; i < w->engine->shard_count && is_idle; i++) {
        is_idle = shard_next_due(w->engine->shards[i]) > soon;
    }
    f->expired_before = expired;
    uv_timer_start(f->timer, on_timer, is_idle ? (uint64_t)idle_ms : PING_MS, 0);
}

/* Errors for a replica that must send psync again. */
static const char *const drop_texts[] = {
    [SHIPPER_STAYS] = "not in sync: psync first",
    [SHIPPER_TOO_SLOW] = "this replica was slower than the changes",
    [SHIPPER_GAP] = "changes came faster than they could be put in the stream",
    [SHIPPER_OVERRUN] = "the stream was overwritten before this replica had read it",
    [SHIPPER_TOLD] = "the role or the primary of this server has changed",
};

/* Its reader was dropped. */
static void release_reader(struct following *f)
{
    struct shipper_drop drop;

    (void)shipper_is_dropped(f->replica.reader, &drop);
    f->lost = drop_texts[drop.reason];
    if (drop.reason != SHIPPER_TOLD) {
        log_warn("replication, disconnected the replica at %s, which lags by %" PRIu64
                 " bytes: %s (it read %" PRIu64 " bytes/s, changes were %" PRIu64 " bytes/s)",
                 f->replica.peer, drop.end - drop.offset, f->lost, drop.reader_rate,
                 drop.change_rate);
    }
    replication_detach(replication_of(f), &f->replica);
}

static void answer_lost(struct following *f)
{
    char line[TEXT_REPLY_MAX];

    release_reader(f);
    f->is_asked = false;
    await_client(f);
    (void)client_answer(&f->late, span_of(line, text_compose_failure(line, span_str(f->lost))),
                        true);
}

/* Answer, if there is something; is_due: in any case. */
static void answer_part(struct following *f, bool is_due)
{
    struct repl_ping p;
    char head[HEAD_MAX];

    if (replication_hands_over(replication_of(f), &f->replica)) {
        f->is_asked = false;
        await_client(f);
        (void)client_answer(&f->late, reply_text(REPLY_HANDOVER), true);
        return;
    }
    ptrdiff_t n = shipper_read(f->replica.reader, f->buffer + HEAD_MAX, REPL_PORTION_MAX);
    if (n < 0) {
        answer_lost(f);
        return;
    }
    if (n == 0 && !is_due) {
        return;
    }
    replication_ping(replication_of(f), &p, n == 0);
    int len = snprintf(head, sizeof(head),
                       "PART %zu %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64,
                       (size_t)n, p.now_ms, p.end, p.due_offset, p.due_ms, p.wall_ms);
    must(len > 0 && (size_t)len < sizeof(head) - SEAL_BYTES);
    size_t head_len = line_seal(head, (size_t)len);
    memcpy(f->buffer + HEAD_MAX - head_len, head, head_len);
    f->is_asked = false;
    await_client(f);
    (void)client_answer(&f->late,
                        span_of(f->buffer + HEAD_MAX - head_len, head_len + (size_t)n), true);
}

static void on_timer(uv_timer_t *timer)
{
    struct following *f = timer->data;

    if (f->client == NULL) {
        return;
    }
    if (f->is_asked) {
        answer_part(f, true);
    } else {
        shutdown(f->client->io.fd, SHUT_RDWR); /* it is closed, and that ends this */
    }
}

/* struct replica.more */
static void on_more(struct message *m, void *receiver)
{
    struct following *f = MF_OUTER(m, struct following, replica.more.message);

    must_be_worker(receiver);
    notice_taken(&f->replica.more);
    if (f->client == NULL) {
        release_if_idle(f);
    } else if (replication_dismisses(replication_of(f), &f->replica)) {
        shutdown(f->client->io.fd, SHUT_RDWR); /* it is closed, and that ends this */
    } else if (f->is_asked) {
        answer_part(f, f->replica.worker->is_stopping ||
                           replication_awaits(replication_of(f), &f->replica));
    } else if (f->replica.reader != NULL && shipper_is_dropped(f->replica.reader, NULL)) {
        release_reader(f);
    }
}

/* ---- what a replica says ----------------------------------------------------------------- */

static enum turn_stop refuse(struct turn *t, const char *why)
{
    t->out.len += text_compose_failure(turn_room(t, TEXT_REPLY_MAX), span_str(why));
    return TURN_GOES_ON;
}

static enum turn_stop refuse_usage(struct turn *t, const char *usage)
{
    t->out.len += text_compose_refusal(turn_room(t, TEXT_REPLY_MAX), span_str(usage));
    return TURN_GOES_ON;
}

/* May this client use operator commands? */
static bool may_order(const struct turn *t)
{
    must(t->client != NULL);
    return (t->client->rights & RIGHT_CONFIG) != 0;
}

/* A client that does not follow has no place beyond -c. */
static enum turn_stop after_refusal(const struct turn *t)
{
    return t->client->origin->is_beyond ? TURN_CLOSES : TURN_GOES_ON;
}

static enum turn_stop refuse_replica(struct turn *t, const char *why)
{
    (void)refuse(t, why);
    return after_refusal(t);
}

/*
 * Where the replica serves, as it says: HOST:PORT, or the port alone at the host that it comes
 * from; 0: nowhere. False: that is no address.
 */
static bool set_address(struct replica *x, struct span where)
{
    const char *end = strrchr(x->peer, ':');
    const size_t len = end != NULL ? (size_t)(end - x->peer) : 0;
    const bool has_brackets = len > 2 && x->peer[0] == '[' && x->peer[len - 1] == ']';
    char text[REPLICA_ADDRESS_BYTES];
    char host[REPLICA_HOST_BYTES];
    char port[REPLICA_PORT_BYTES];
    const char *wrong;
    uint32_t number;
    int n = 0;

    if (num_u32(where, &number) == MF_OK) {
        if (len != 0 && number != 0) {
            n = snprintf(x->address, sizeof(x->address), "%.*s %u",
                         (int)(has_brackets ? len - 2 : len), x->peer + has_brackets, number);
        }
        return number <= UINT16_MAX && n < (int)sizeof(x->address);
    }
    if (where.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, where.ptr, where.len);
    text[where.len] = '\0';
    if (!replica_address_parse(text, host, port, &wrong) || host[0] == '\0') {
        return false;
    }
    n = snprintf(x->address, sizeof(x->address), "%s %s", host, port);
    return n < (int)sizeof(x->address);
}

/* Parse the arguments of psync; false: invalid. */
static bool parse_psync(struct span args, struct repl_versions *versions,
                        struct backlog_name *has, struct replid *run, struct span *where)
{
    struct span word[6];

    const unsigned count = span_words(args, word, 6);

    if (count < 6) {
        return false;
    }
    *where = word[5];
    *has = (struct backlog_name){.epoch = 0};
    return repl_versions_parse(word[0], versions) &&
           (count == 6 || versions->most > REPL_VERSION) && /* which may say more */
           num_u64(word[1], &has->epoch) == MF_OK &&
           (span_is(word[2], "-") || replid_parse(word[2], &has->id)) &&
           num_u64(word[3], &has->offset) == MF_OK && replid_parse(word[4], run);
}

static struct following *begin(struct turn *t)
{
    struct following *f = mem_zalloc(sizeof(*f));
    uv_timer_t *timer = mem_alloc(sizeof(*timer));

    if (f == NULL || timer == NULL) {
        mem_free(timer);
        mem_free(f);
        return NULL;
    }
    f->service = (struct client_service){.end = end, .leave = leave, .join = join};
    f->client = t->client;
    f->replica.worker = t->w;
    relay_init(&f->replica.relay, &t->w->mailbox);
    notice_init(&f->replica.more, on_more);
    t->client->duties->put_peer(t->client, f->replica.peer);
    begin_timer(f, timer);
    return f;
}

/* Allocate the buffer for parts of the stream. */
static bool make_buffer(struct following *f)
{
    if (f->buffer == NULL) {
        f->buffer = mem_alloc(HEAD_MAX + REPL_PORTION_MAX);
        if (f->buffer != NULL) {
            budget_add(&f->replica.worker->engine->budget,
                       (int64_t)(HEAD_MAX + REPL_PORTION_MAX));
        }
    }
    return f->buffer != NULL;
}

static void greet(struct turn *t, const struct repl_greeting *g, uint32_t version,
                  uint64_t offset)
{
    char id[REPLID_CHARS + 1];
    char line[LINE_MAX_BYTES];

    replid_format(&g->name.id, id);
    int n = snprintf(line, sizeof(line),
                     "%s %u %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %s%s%s",
                     g->answer == REPL_CONTINUES ? "CONTINUE" : "FULLSYNC", version, id,
                     g->name.epoch, offset, g->end, g->now_ms, g->path,
                     g->answer == REPL_FULL ? " " : "", g->answer == REPL_FULL ? g->why : "");
    must(n > 0 && (size_t)n < sizeof(line) - SEAL_BYTES);
    turn_emit(t, line, line_seal(line, (size_t)n));
}

static enum turn_stop refuse_versions(struct turn *t, const struct repl_versions *theirs)
{
    const struct repl_versions ours = repl_versions_of(REPL_VERSION);
    char of_replica[REPL_VERSIONS_BYTES];
    char of_primary[REPL_VERSIONS_BYTES];
    char why[REPL_WHY_MAX];

    repl_versions_format(theirs, of_replica);
    repl_versions_format(&ours, of_primary);
    snprintf(why, sizeof(why),
             "no version in common (replica %s, primary %s): upgrade the older one first",
             of_replica, of_primary);
    return refuse_replica(t, why);
}

enum turn_stop exec_psync(struct turn *t, const struct request *r)
{
    const struct repl_versions ours = repl_versions_of(REPL_VERSION);
    struct replication *repl = t->w->crew->replication;
    struct repl_versions theirs;
    struct backlog_name has;
    struct repl_greeting g;
    struct replid run;
    struct span where;

    must(t->client != NULL); /* refused in datagrams */
    if (!parse_psync(r->args, &theirs, &has, &run, &where)) {
        (void)refuse_usage(t, "usage: psync VERSIONS EPOCH ID OFFSET RUN PORT|HOST:PORT");
        return after_refusal(t);
    }
    uint32_t version = repl_versions_common(&ours, &theirs);
    if (version == 0) {
        return refuse_versions(t, &theirs);
    }
    if (replid_equal(&run, &repl->run)) {
        return refuse_replica(t, "a server cannot replicate itself");
    }
    client_end_service(t->client);
    struct following *f = begin(t);
    if (f == NULL) {
        return refuse_replica(t, "out of memory");
    }
    f->replica.run = run;
    if (!set_address(&f->replica, where)) {
        end(&f->service);
        return refuse_replica(t, "the last word is neither a port nor HOST:PORT");
    }
    replication_greet(repl, &f->replica, &has, &g);
    if (g.answer == REPL_REFUSED || !make_buffer(f)) {
        end(&f->service);
        return refuse_replica(t, g.answer == REPL_REFUSED ? g.why : "out of memory");
    }
    t->client->service = &f->service;
    client_follow(t->client, t->w);
    await_client(f);
    greet(t, &g, version, has.offset);
    return TURN_GOES_ON;
}

struct following *following_may_sync(const struct client *c)
{
    struct following *f = following_of(c);

    must_be_a_worker();
    return f != NULL && f->replica.reader == NULL && !f->is_syncing ? f : NULL;
}

void following_begin_sync(struct following *f)
{
    must_be_worker(f->replica.worker);
    f->is_syncing = true;
    f->lost = NULL;
    uv_timer_stop(f->timer); /* exports.h has a separate time limit */
}

void following_end_sync(struct client *c, struct following *f, struct shipper_reader *reader)
{
    must_be_a_worker();
    if (c == NULL || following_of(c) != f) {
        shipper_detach(&reader);
        return;
    }
    f->is_syncing = false;
    if (reader != NULL) {
        replication_attach(replication_of(f), &f->replica, reader);
    }
    await_client(f);
}

enum turn_stop exec_replconf(struct turn *t, const struct request *r)
{
    struct following *f = following_of(t->client);
    struct span args = r->args;
    struct span word;
    struct span number;
    uint64_t offset;
    uint32_t limit_ms = 0;
    const char *why = NULL;
    bool is_good = text_next_key(&args, &word) && text_next_key(&args, &number) &&
                   num_u64(number, &offset) == MF_OK;

    if (is_good && span_is(word, "failover")) {
        is_good = text_next_key(&args, &number) && num_u32(number, &limit_ms) == MF_OK &&
                  limit_ms > 0 && limit_ms <= FAILOVER_MAX_MS;
    } else {
        is_good = is_good && span_is(word, "ack");
    }
    if (!is_good || args.len != 0) {
        return refuse_usage(t, "usage: replconf ack OFFSET, or replconf failover OFFSET MS");
    }
    if (f == NULL || f->replica.reader == NULL || offset > shipper_offset(f->replica.reader)) {
        return refuse(t, f != NULL && f->lost != NULL ? f->lost : drop_texts[SHIPPER_STAYS]);
    }
    replication_ack(replication_of(f), &f->replica, offset);
    if (limit_ms > 0) {
        why = replication_ask_failover(replication_of(f), &f->replica, limit_ms);
    }
    if (why != NULL) {
        return refuse(t, why);
    }
    client_expect_by(t->client, &f->late, &f->replica.relay);
    f->is_asked = true;
    await_ping(f);
    replication_tell_one(&f->replica); /* there may be more already */
    return TURN_ASKED;
}

/* ---- what an operator says --------------------------------------------------------------- */

static void on_decided(struct message *m, void *receiver)
{
    struct client_wait *wait = MF_OUTER(m, struct client_wait, ask.answer);
    char line[TEXT_REPLY_MAX];
    const size_t n = text_compose_failure(line, span_str(wait->ask.why));

    must_be_worker(receiver);
    (void)client_answer(&wait->late,
                        wait->ask.is_done ? reply_text(REPLY_OK) : span_of(line, n), true);
    mem_free(wait);
}

enum turn_stop exec_replicaof(struct turn *t, const struct request *r)
{
    struct live_change change = {.id = OPTION_replicaof};
    struct live_refusal refusal;
    char value[REPL_TARGET_MAX];

    if (!may_order(t)) {
        return turn_answer(t, r, REPLY_NO_CONTROL);
    }
    if (r->args.len == 0 || r->args.len >= sizeof(value)) {
        return refuse_usage(t, "usage: replicaof HOST PORT, or replicaof no one");
    }
    snprintf(value, sizeof(value), "%.*s", (int)r->args.len, r->args.ptr);
    /* First: without memory nothing is changed. */
    struct client_wait *wait = client_wait_begin(t->client, t->w, sizeof(*wait), on_decided);
    if (wait == NULL) {
        return turn_answer(t, r, REPLY_NO_MEMORY);
    }
    change.value = value;
    if (!live_set(t->w->crew, &change, 1, &refusal)) {
        client_wait_cancel(t->client, wait);
        return refuse_usage(t, refusal.why);
    }
    replication_force(t->w->crew->replication);
    replication_ask(t->w->crew->replication, &wait->ask);
    return TURN_ASKED;
}

/* ---- failover ---------------------------------------------------------------------------- */

static enum turn_stop await_failover(struct turn *t, const struct request *r,
                                     struct span address, int64_t limit_ms)
{
    struct client_wait *wait = client_wait_begin(t->client, t->w, sizeof(*wait), on_decided);

    if (wait == NULL) {
        return turn_answer(t, r, REPLY_NO_MEMORY);
    }
    replication_failover(t->w->crew->replication, address, limit_ms, &wait->ask);
    return TURN_ASKED;
}

enum turn_stop exec_promote(struct turn *t, const struct request *r)
{
    uint32_t limit_ms = setting_get(t->w->settings, failover_timeout);

    if (!may_order(t)) {
        return turn_answer(t, r, REPLY_NO_CONTROL);
    }
    if (r->args.len != 0 &&
        (num_u32(r->args, &limit_ms) != MF_OK || limit_ms == 0 || limit_ms > FAILOVER_MAX_MS)) {
        return refuse_usage(t, "usage: promote [MILLISECONDS], up to 60000");
    }
    if (!replication_is_replica(t->w->crew->replication)) {
        return refuse(t, "this is a primary");
    }
    return await_failover(t, r, span_str(""), limit_ms);
}

enum turn_stop exec_failover(struct turn *t, const struct request *r)
{
    char host[REPLICA_HOST_BYTES] = "";
    char port[REPLICA_PORT_BYTES];
    char text[REPL_TARGET_MAX];
    const char *why;

    if (!may_order(t)) {
        return turn_answer(t, r, REPLY_NO_CONTROL);
    }
    if (replication_is_replica(t->w->crew->replication)) {
        return refuse(t, "this is a replica; use promote");
    }
    text[0] = '\0';
    if (r->args.len != 0) {
        if (r->args.len >= sizeof(text)) {
            return refuse_usage(t, "usage: failover [HOST PORT]");
        }
        snprintf(text, sizeof(text), "%.*s", (int)r->args.len, r->args.ptr);
        if (!replica_address_parse(text, host, port, &why) || host[0] == '\0') {
            return refuse_usage(t, "usage: failover [HOST PORT]");
        }
        snprintf(text, sizeof(text), "%s %s", host, port);
    }
    return await_failover(t, r, span_str(text),
                          (int64_t)setting_get(t->w->settings, failover_timeout));
}

/* ---- role -------------------------------------------------------------------------------- */

enum turn_stop exec_role(struct turn *t, const struct request *r)
{
    struct repl_info info;
    char id[REPLID_CHARS + 1];

    if (r->args.len != 0) {
        return turn_answer(t, r, REPLY_ERROR);
    }
    replication_look(t->w->crew->replication, &info);
    replid_format(&info.name.id, id);
    return turn_line(t, "ROLE %s %s %s %" PRIu64 " %" PRIu64 "\r\n",
                     info.state == REPL_PRIMARY ? "primary" : "replica",
                     repl_state_text(info.state), id, info.name.epoch, info.name.offset);
}
