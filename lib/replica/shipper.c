/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shipper: see shipper.h.
 *
 * The thread must not wait within a section. So before anything is shipped (on_rest()) it makes
 * sure that everything up to the next rest may be appended: `granted` is the end of that room.
 * A reader is attached only where this room does not overwrite what it reads first.
 */
#include "lib/replica/shipper.h"

#include <pthread.h>

#include "lib/base/check.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"
#include "lib/base/thread.h"
#include "lib/engine/engine.h"
#include "lib/format/shipping.h"
#include "lib/replica/readers.h"
#include "lib/ship/stream.h"

/*
 * While changes come, they are shipped once a millisecond. After POLLS looks that found none,
 * the thread sleeps until a writer wakes it.
 */
#define POLL_US  ((usec_t)1000)
#define POLLS    16u
#define SLEEP_US ((usec_t)10000000)

/* The interval at which the rings are polled while it waits for a reader, milliseconds. */
#define LOOK_MS 1

/*
 * A ring with more unread than that does not wait for a slow reader. After one was dropped, the
 * next one is dropped only when NEXT_FULL more is unread: it has had no time to catch up.
 */
#define NEARLY_FULL (STREAM_FULL / 4 * 3)
#define NEXT_FULL   (STREAM_FULL / 16)
#define LAST_FULL   (STREAM_FULL / 32 * 31)

#define STALL_US ((usec_t)SHIPPER_STALL_MS * 1000)

/* The same while it waits for the last reader to return. */
#define LINGER_LOOK_MS 100

/*
 * What is appended between two rests: at most the rest of the block that was begun and
 * SHIP_BYTES, in three blocks.
 */
#define GRANT_BYTES (3 * (uint64_t)SNAP_ROOM_BYTES)

struct shipper {
    /* [const] */
    struct shipper_config cfg;
    struct thread thread;
    /* the thread's */
    struct shipper_role role;
    struct stream stream;
    struct ship ship;
    struct shipping shipping;
    struct snap_encoder filler;
    char *block;
    int64_t due_gone;       /* before the present pass: see struct shipper_level */
    uint64_t blocks, bytes; /* appended */
    uint64_t bytes_before;  /* of them: before it began to record */
    uint64_t drop_above;    /* parts of a ring: see NEXT_FULL */
    uint64_t told;          /* the end when on_more() was called last */
    unsigned polls;         /* without finding a change */
    bool is_pressed;        /* since it waited, a reader lags by half of the backlog */
    /* [atomic] */
    _Atomic uint64_t asked; /* tickets handed out */
    _Atomic bool is_dozing; /* it sleeps by the bell, or is about to */
    _Atomic uint64_t kicks; /* something was asked of it */
    /* under the mutex, a leaf but for that of the backlog */
    pthread_mutex_t mutex;
    pthread_cond_t wake;    /* the thread waits: for work, or for a reader */
    pthread_cond_t changed; /* others wait for the thread */
    bool is_stopping;
    bool wants_records, records, is_refused;
    bool has_stream;
    struct shipper_role next_role;
    struct readers readers;
    uint64_t granted;           /* up to there the thread may append */
    bool is_overrun;            /* when the thread looked last */
    uint64_t looks, looked;     /* asked: are the rings overrun? */
    uint64_t done, done_offset; /* tickets, and by which offset */
    uint64_t hurried;           /* tickets up to this one are in a hurry */
    struct shipper_level level;
    struct shipper_info info;
};

/* ---- waiting for readers ----------------------------------------------------------------- */

/*
 * Bytes of changes since the stream began. Under the mutex, while there is one; or the thread.
 */
static uint64_t changes_now(const struct shipper *s)
{
    return stream_lag(&s->stream) + atomic_load_explicit(&s->stream.read, memory_order_relaxed);
}

/* The present pace. Only the shipper may call it: it writes the number of bytes. */
static struct readers_pace pace_now(const struct shipper *s)
{
    uint64_t read = atomic_load_explicit(&s->stream.read, memory_order_relaxed);

    return (struct readers_pace){
        .changes = changes_now(s),
        .expansion = read > 0 ? (double)(s->bytes - s->bytes_before) / (double)read : 1,
    };
}

/* Under the mutex. */
static void drop_all(struct shipper *s, enum shipper_drop_reason reason)
{
    readers_drop_all(&s->readers, reason, backlog_end(s->cfg.backlog));
}

/* Outside sections and the mutex, by the thread. */
static void tell_more(struct shipper *s)
{
    s->told = backlog_end(s->cfg.backlog);
    if (s->cfg.on_more != NULL) {
        s->cfg.on_more(s->cfg.arg);
    }
}

/*
 * The first offset that must not be overwritten; UINT64_MAX: none. A caller that asks for a
 * mark does not wait for a reader that may never return. Under the mutex.
 */
static uint64_t first_kept(struct shipper *s, struct shipper_reader **r)
{
    uint64_t kept = readers_kept(&s->readers, r);

    return *r == NULL && s->done != atomic_load(&s->asked) ? UINT64_MAX : kept;
}

/* A ring is nearly full: stop waiting for this reader. Under the mutex, by the thread. */
static void give_up(struct shipper *s, struct shipper_reader *r)
{
    uint64_t next = stream_fullness(&s->stream) + NEXT_FULL;
    struct readers_pace pace = pace_now(s);

    if (r != NULL) {
        readers_drop_slow(&s->readers, r, backlog_end(s->cfg.backlog), &pace);
        s->drop_above = next < LAST_FULL ? next : LAST_FULL;
    } else {
        s->readers.linger_until = 0;
    }
}

/*
 * Has the thread waited too long while a caller is in a hurry? Under the mutex, by the thread.
 */
static bool is_stalled(const struct shipper *s, usec_t since_us)
{
    return s->done < s->hurried && clock_mono_us() - since_us >= STALL_US;
}

/* Wait a little for a reader. Under the mutex, by the thread. */
static void wait_for_reader(struct shipper *s, const struct shipper_reader *r)
{
    const struct timespec until = cond_after(r != NULL ? LOOK_MS : LINGER_LOOK_MS);

    if (s->looked != s->looks) {
        /* shipper_attach() need not wait for the end of this pass. */
        s->is_overrun = stream_fullness(&s->stream) > STREAM_FULL;
        s->looked = s->looks;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_cond_timedwait(&s->wake, &s->mutex, &until);
}

/* Wait until all that may come before the next rest can be appended. */
static void wait_for_room(struct shipper *s)
{
    struct backlog *b = s->cfg.backlog;
    uint64_t needed = backlog_end(b) + GRANT_BYTES;
    struct shipper_reader *r;
    bool has_waited = false;
    bool has_dropped = false;
    usec_t since_us = clock_mono_us();
    uint64_t kept;

    must_not_be_reading();
    if (backlog_end(b) != s->told) {
        tell_more(s); /* otherwise it may wait for readers that were not told of new bytes */
    }
    pthread_mutex_lock(&s->mutex);
    while ((kept = first_kept(s, &r)) != UINT64_MAX && needed - kept > backlog_bytes(b) &&
           !s->is_stopping && s->wants_records) {
        uint64_t parts = stream_fullness(&s->stream);

        if (!s->is_pressed) {
            readers_begin_pressure(&s->readers, changes_now(s));
            s->is_pressed = true;
        }
        if (parts <= NEARLY_FULL) {
            s->drop_above = NEARLY_FULL;
        }
        if (parts > s->drop_above || (r != NULL && is_stalled(s, since_us))) {
            give_up(s, r);
            has_dropped = true;
            continue;
        }
        s->info.waits += !has_waited;
        has_waited = true;
        wait_for_reader(s, r);
    }
    if (kept == UINT64_MAX || needed - kept < backlog_bytes(b) / 2) {
        s->is_pressed = false;
    }
    s->granted = needed;
    pthread_mutex_unlock(&s->mutex);
    if (has_dropped) {
        tell_more(s);
    }
}

/* ---- from changes to blocks -------------------------------------------------------------- */

static int64_t stream_now(const struct shipper *s)
{
    return clock_add_ms(clock_now(&s->cfg.engine->clock), s->role.to_unix_ms);
}

/* snap_take_fn. The block is free again at once. */
static char *on_block(void *arg, const struct snap_block *b, bool is_more)
{
    struct shipper *s = arg;
    struct snap_block head = *b;

    (void)is_more;
    head.unix_ms = stream_now(s);
    backlog_append(s->cfg.backlog, &head, s->block);
    debug_must(backlog_end(s->cfg.backlog) <= s->granted);
    s->blocks++;
    s->bytes += SNAP_BLOCK_BYTES + b->stored;
    return s->block;
}

static bool on_rest(void *arg)
{
    wait_for_room(arg);
    return true;
}

static void begin_block(struct shipper *s)
{
    snap_filler_begin(&s->filler, on_block, s, s->block);
    s->shipping = (struct shipping){.encoder = &s->filler,
                                    .engine = s->cfg.engine,
                                    .to_unix_ms = s->role.to_unix_ms,
                                    .ship = &s->ship,
                                    .rest = on_rest,
                                    .arg = s};
    ship_init(&s->ship, &shipping_ops, &s->shipping);
}

/* ---- the thread -------------------------------------------------------------------------- */

/* Changes were lost. */
static void on_overrun(struct shipper *s)
{
    uint64_t left_out = s->ship.left_out;

    begin_block(s);
    s->ship.left_out = left_out;
    stream_skip(&s->stream);
    pthread_mutex_lock(&s->mutex);
    backlog_gap(s->cfg.backlog);
    drop_all(s, SHIPPER_GAP);
    s->granted = 0;
    s->readers.linger_until = 0;
    s->info.gaps++;
    pthread_mutex_unlock(&s->mutex);
    tell_more(s);
}

static void note_counts(struct shipper *s)
{
    s->info.blocks = s->blocks;
    s->info.bytes = s->bytes;
    s->info.read = stream_records(&s->stream);
    s->info.shipped = atomic_load_explicit(&s->stream.shipped, memory_order_relaxed);
    s->info.left_out = s->ship.left_out;
}

/* Ship what was changed before the call. */
static enum stream_state ship_changes(struct shipper *s)
{
    msec_t now = clock_now(&s->cfg.engine->clock);

    s->shipping.now_s = (uint32_t)(now / 1000);
    s->due_gone = clock_add_ms(stream_due_gone(&s->stream, now), s->role.to_unix_ms);
    ship_rest(&s->ship);
    enum stream_state state = stream_pass(&s->stream, &s->ship);
    if (state < STREAM_OVERRUN) {
        snap_encoder_send(&s->filler, 0);
    }
    return state;
}

/* Sleep for a moment; after a time without changes, until a change or a request comes. */
static void doze(struct shipper *s, uint64_t kicks)
{
    struct changes_bell *bell = &s->cfg.engine->bell;
    bool is_long = s->polls >= POLLS;
    uint32_t rings;

    if (is_long) {
        rings = bell_listen(bell);
    } else {
        rings = atomic_load_explicit(&bell->rings, memory_order_acquire);
    }
    atomic_store(&s->is_dozing, true);
    if (atomic_load(&s->kicks) == kicks && (!is_long || stream_lag(&s->stream) == 0)) {
        bell_sleep(bell, rings, is_long ? SLEEP_US : POLL_US);
    }
    atomic_store(&s->is_dozing, false);
    s->polls = is_long ? 0 : s->polls + 1;
}

/* One round: poll the rings, ship, and sleep. */
static void serve(struct shipper *s)
{
    uint64_t kicks = atomic_load(&s->kicks);
    uint64_t asked = atomic_load(&s->asked);
    uint64_t records = stream_records(&s->stream);
    enum stream_state state = ship_changes(s);
    bool is_new = stream_records(&s->stream) != records;

    if (state >= STREAM_OVERRUN) {
        on_overrun(s);
        state = STREAM_IDLE;
    }
    pthread_mutex_lock(&s->mutex);
    note_counts(s);
    if (state == STREAM_IDLE) {
        s->level = (struct shipper_level){backlog_end(s->cfg.backlog), s->due_gone};
    }
    bool was_asked = state == STREAM_IDLE && s->done < asked;
    if (was_asked) {
        s->done = asked;
        s->done_offset = backlog_end(s->cfg.backlog);
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->mutex);
    if (was_asked || backlog_end(s->cfg.backlog) != s->told) {
        tell_more(s);
    }
    s->polls = is_new || stream_is_held(&s->stream) ? 0 : s->polls;
    if (state == STREAM_IDLE || !is_new) {
        doze(s, kicks);
    }
}

/* Start or stop recording, as requested. Under the mutex, which is released meanwhile. */
static void change_role(struct shipper *s)
{
    bool wants = s->wants_records;
    bool is_good = true;
    bool continues = s->next_role.continues;

    s->role = s->next_role;
    s->has_stream = false;
    pthread_mutex_unlock(&s->mutex);
    if (wants) {
        s->block = mem_alloc(SNAP_ROOM_BYTES);
        is_good = s->block != NULL && stream_begin(&s->stream, s->cfg.engine) == MF_OK;
    } else {
        stream_end(&s->stream);
    }
    if (is_good && wants) {
        budget_add(&s->cfg.engine->budget, SNAP_ROOM_BYTES);
        stream_record_expiries(&s->stream, false);
        begin_block(s);
        s->is_pressed = false;
        s->drop_above = NEARLY_FULL;
        s->bytes_before = s->bytes;
    } else {
        budget_add(&s->cfg.engine->budget, is_good ? -(int64_t)SNAP_ROOM_BYTES : 0);
        mem_free(s->block);
        s->block = NULL;
    }
    pthread_mutex_lock(&s->mutex);
    if (is_good && wants && !continues) {
        backlog_gap(s->cfg.backlog);
        drop_all(s, SHIPPER_GAP);
    }
    s->granted = 0;
    s->readers.linger_until = 0;
    s->is_refused = !is_good;
    s->records = wants && is_good;
    s->level = (struct shipper_level){backlog_end(s->cfg.backlog), INT64_MIN};
    s->has_stream = s->records;
    s->wants_records = s->wants_records && is_good;
    pthread_cond_broadcast(&s->changed);
}

/* Note whether the rings have been overrun since the last check. Under the mutex. */
static void look(struct shipper *s)
{
    uint64_t looks = s->looks;

    pthread_mutex_unlock(&s->mutex);
    bool is_overrun = stream_fullness(&s->stream) > STREAM_FULL;
    if (is_overrun) {
        on_overrun(s);
    }
    pthread_mutex_lock(&s->mutex);
    s->looked = looks;
    s->is_overrun = false; /* it is a gap */
    pthread_cond_broadcast(&s->changed);
}

static void run_shipper(void *arg)
{
    struct shipper *s = arg;

    pthread_mutex_lock(&s->mutex);
    while (!s->is_stopping || s->records) {
        if (s->is_stopping) {
            s->wants_records = false;
        }
        if (s->wants_records != s->records) {
            change_role(s);
        } else if (s->records && s->looked != s->looks) {
            look(s);
        } else if (s->records && (s->readers.online != 0 || s->done < atomic_load(&s->asked))) {
            s->info.wakeups++;
            pthread_mutex_unlock(&s->mutex);
            serve(s);
            pthread_mutex_lock(&s->mutex);
        } else {
            pthread_cond_wait(&s->wake, &s->mutex);
            s->info.wakeups++;
        }
    }
    pthread_mutex_unlock(&s->mutex);
}

static const struct thread_kind shipper_kind = {
    .name = "shipper", .run = run_shipper, .reads = true};

/* Make the thread check for requests. Under the mutex. */
static void kick(struct shipper *s)
{
    atomic_fetch_add(&s->kicks, 1);
    pthread_cond_signal(&s->wake);
    if (atomic_load(&s->is_dozing)) {
        bell_ring(&s->cfg.engine->bell);
    }
}

/* ---- start and stop ---------------------------------------------------------------------- */

static void shipper_release(struct shipper *s)
{
    pthread_cond_destroy(&s->changed);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->mutex);
    mem_free(s);
}

enum mf_err shipper_start(struct shipper **out, const struct shipper_config *cfg)
{
    struct shipper *s = mem_zalloc(sizeof(*s));

    *out = NULL;
    if (s == NULL) {
        return MF_ENOMEM;
    }
    s->cfg = *cfg;
    pthread_mutex_init(&s->mutex, NULL);
    cond_init(&s->wake);
    cond_init(&s->changed);
    if (thread_start(&s->thread, &shipper_kind, s) != 0) {
        shipper_release(s);
        return MF_ESYS;
    }
    *out = s;
    return MF_OK;
}

void shipper_stop(struct shipper **sp)
{
    struct shipper *s = *sp;

    if (s == NULL) {
        return;
    }
    must_not_be_reading();
    pthread_mutex_lock(&s->mutex);
    must(s->readers.online == 0);
    s->is_stopping = true;
    kick(s);
    pthread_mutex_unlock(&s->mutex);
    thread_join(&s->thread);
    shipper_release(s);
    *sp = NULL;
}

enum mf_err shipper_begin(struct shipper *s, const struct shipper_role *role)
{
    must_not_be_reading();
    if (backlog_bytes(s->cfg.backlog) < SHIPPER_BACKLOG_MIN) {
        return MF_EINVAL;
    }
    pthread_mutex_lock(&s->mutex);
    must(!s->wants_records && !s->records);
    s->next_role = *role;
    s->is_refused = false;
    s->wants_records = true;
    kick(s);
    while (!s->records && !s->is_refused) {
        pthread_cond_wait(&s->changed, &s->mutex);
    }
    bool is_refused = s->is_refused;
    pthread_mutex_unlock(&s->mutex);
    return is_refused ? MF_ENOMEM : MF_OK;
}

void shipper_end(struct shipper *s)
{
    must_not_be_reading();
    pthread_mutex_lock(&s->mutex);
    s->wants_records = false;
    kick(s);
    while (s->records) {
        pthread_cond_wait(&s->changed, &s->mutex);
    }
    pthread_mutex_unlock(&s->mutex);
}

/* ---- readers ----------------------------------------------------------------------------- */

/*
 * Make the thread check whether changes were lost while no replica was online. Under the mutex.
 */
static void have_rings_looked_at(struct shipper *s)
{
    uint64_t ticket = ++s->looks;

    kick(s);
    while (s->records && s->looked < ticket) {
        pthread_cond_wait(&s->changed, &s->mutex);
    }
}

enum backlog_answer shipper_attach(struct shipper *s, const struct replid *id, uint64_t offset,
                                   struct shipper_reader **reader)
{
    must_not_be_reading();
    *reader = NULL;
    pthread_mutex_lock(&s->mutex);
    s->is_overrun = false;
    if (s->readers.online == 0) { /* else the thread finds out by itself */
        have_rings_looked_at(s);
    }
    enum backlog_answer answer = backlog_may_continue(s->cfg.backlog, id, offset);
    if (answer == BACKLOG_CONTINUES &&
        (s->is_overrun || s->granted > offset + backlog_bytes(s->cfg.backlog))) {
        answer = BACKLOG_TOO_OLD; /* there will be a gap; it may be overwritten at any moment */
    }
    if (answer == BACKLOG_CONTINUES) {
        *reader = readers_add(&s->readers, s, offset, s->has_stream ? changes_now(s) : 0);
        answer = *reader != NULL ? answer : BACKLOG_BUSY;
        kick(s);
    }
    pthread_mutex_unlock(&s->mutex);
    return answer;
}

void shipper_detach(struct shipper_reader **rp)
{
    struct shipper_reader *r = *rp;

    if (r != NULL) {
        struct shipper *s = r->shipper;

        pthread_mutex_lock(&s->mutex);
        readers_remove(&s->readers, r);
        kick(s);
        pthread_mutex_unlock(&s->mutex);
        *rp = NULL;
    }
}

ptrdiff_t shipper_read(struct shipper_reader *r, void *out, size_t n)
{
    struct shipper *s = r->shipper;
    ptrdiff_t got = 0;

    /* Only the thread that reads moves the offset. */
    if (!atomic_load(&r->is_dropped)) {
        got = backlog_copy(s->cfg.backlog, r->offset, out, n);
    }
    pthread_mutex_lock(&s->mutex);
    if (got < 0 && reader_is_online(r)) {
        readers_drop(&s->readers, r, SHIPPER_OVERRUN, backlog_end(s->cfg.backlog));
    }
    if (!reader_is_online(r)) {
        got = -1;
    } else if (got > 0) {
        r->offset += (uint64_t)got;
        r->kept = r->acks ? r->kept : r->offset;
        pthread_cond_signal(&s->wake); /* it may be waiting for room */
    }
    pthread_mutex_unlock(&s->mutex);
    return got;
}

void shipper_ack(struct shipper_reader *r, uint64_t offset)
{
    struct shipper *s = r->shipper;

    pthread_mutex_lock(&s->mutex);
    r->acks = true;
    if (offset > r->kept && offset <= r->offset) {
        r->kept = offset;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->mutex);
}

uint64_t shipper_offset(struct shipper_reader *r)
{
    return r->offset;
}

bool shipper_is_dropped(struct shipper_reader *r, struct shipper_drop *why)
{
    pthread_mutex_lock(&r->shipper->mutex);
    bool is = !reader_is_online(r);
    if (why != NULL) {
        *why = r->drop;
    }
    pthread_mutex_unlock(&r->shipper->mutex);
    return is;
}

void shipper_drop_all(struct shipper *s)
{
    pthread_mutex_lock(&s->mutex);
    drop_all(s, SHIPPER_TOLD);
    kick(s);
    pthread_mutex_unlock(&s->mutex);
}

struct backlog *shipper_backlog(const struct shipper *s)
{
    return s->cfg.backlog;
}

/* ---- marks ------------------------------------------------------------------------------- */

uint64_t shipper_ask(struct shipper *s)
{
    pthread_mutex_lock(&s->mutex);
    uint64_t ticket = atomic_fetch_add(&s->asked, 1) + 1;
    kick(s);
    pthread_mutex_unlock(&s->mutex);
    return ticket;
}

void shipper_hurry(struct shipper *s, uint64_t ticket)
{
    pthread_mutex_lock(&s->mutex);
    s->hurried = ticket > s->hurried ? ticket : s->hurried;
    pthread_mutex_unlock(&s->mutex);
}

/* Under the mutex. */
static bool is_done(const struct shipper *s, uint64_t ticket, uint64_t *offset)
{
    *offset = s->done_offset;
    return s->records && s->done >= ticket;
}

bool shipper_is_done(struct shipper *s, uint64_t ticket, uint64_t *offset)
{
    pthread_mutex_lock(&s->mutex);
    bool is = is_done(s, ticket, offset);
    pthread_mutex_unlock(&s->mutex);
    return is;
}

bool shipper_mark(struct shipper *s, uint64_t *offset)
{
    uint64_t ticket = shipper_ask(s);
    bool is;

    must_not_be_reading();
    pthread_mutex_lock(&s->mutex);
    while (!(is = is_done(s, ticket, offset)) && s->records) {
        pthread_cond_wait(&s->changed, &s->mutex);
    }
    pthread_mutex_unlock(&s->mutex);
    return is;
}

bool shipper_level(struct shipper *s, struct shipper_level *level)
{
    pthread_mutex_lock(&s->mutex);
    bool records = s->records;
    *level = s->level;
    pthread_mutex_unlock(&s->mutex);
    return records;
}

/* ---- observers --------------------------------------------------------------------------- */

void shipper_info(struct shipper *s, struct shipper_info *info)
{
    pthread_mutex_lock(&s->mutex);
    *info = s->info;
    info->records = s->records;
    info->readers = s->readers.online;
    info->dropped = s->readers.too_slow;
    info->lag_bytes = s->has_stream ? stream_lag(&s->stream) : 0;
    const struct shipper_reader *r = readers_slowest(&s->readers);
    info->slowest = r != NULL ? r->kept : backlog_end(s->cfg.backlog);
    pthread_mutex_unlock(&s->mutex);
}
