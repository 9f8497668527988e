/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log of what has changed: see keylog.h. What stands between the threads is in logfill.h.
 *
 * A value in parts stands in several blocks, which are to be in one file. So the writer begins
 * no log while it is within one.
 */
#include "lib/snapshot/keylog.h"

#include <errno.h>
#include <pthread.h>

#include "lib/base/check.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"
#include "lib/engine/engine.h"
#include "lib/snapshot/encode.h"
#include "lib/snapshot/logfile.h"
#include "lib/snapshot/logfill.h"
#include "lib/snapshot/syncer.h"

/*
 * While changes come, they are looked for each few milliseconds, or each one if somebody waits
 * for the disk or if so large a part of the rings was filled meanwhile; after so many times in
 * vain, the reader sleeps until a writer wakes it.
 */
#define POLL_US  ((usec_t)1000)
#define REST_US  ((usec_t)5000)
#define FAST     (STREAM_FULL / 16)
#define POLLS    16u
#define SLEEP_US ((usec_t)10000000)

/*
 * It is behind when so large a part of the rings is not read yet, until it is so small again.
 * But if the writer takes no block for so long, changes do not wait for the disk: there may be
 * a gap.
 */
#define BEHIND      (STREAM_FULL / 4)
#define CAUGHT_UP   (STREAM_FULL / 8)
#define PATIENCE_MS 2000

/* Unless somebody waits, a block goes to the writer when it is full, or this time is over. */
#define GATHER_MS 10

#define SYNC_MS 1000

struct keylog {
    struct keylog_config cfg; /* [const] */
    struct thread reader, writer;
    /* the reader's */
    unsigned polls;   /* in vain */
    bool is_fast;     /* rests are short */
    int64_t waits_ms; /* since when for room; 0: it does not */
    /* the writer's */
    struct logfile out;
    struct syncer *syncer;
    int64_t synced_ms; /* when an fsync began, or there was nothing left for one */
    bool is_in_value;  /* the next block must be in the same file */
    /* between the two */
    struct logfill fill;
    /* [atomic] */
    _Atomic uint32_t mode MF_LINE_ALIGNED; /* enum keylog_mode */
    _Atomic uint32_t sync;                 /* enum keylog_sync */
    _Atomic uint64_t asked;                /* tickets handed out */
    _Atomic uint32_t urgent;               /* those who wait for the disk in any case */
    _Atomic uint64_t done;
    _Atomic bool is_short;    /* the reader waits until a block is taken */
    _Atomic bool is_behind;   /* written by the reader */
    _Atomic bool is_on;       /* a log is open, and whole */
    _Atomic bool is_read;     /* the rings are to be read */
    _Atomic bool is_dozing;   /* the reader sleeps */
    _Atomic bool is_stopping; /* all that was changed is in the rings */
    pthread_mutex_t mutex;    /* a leaf; the rest is under it */
    pthread_cond_t changed;
    bool is_attached;    /* the rings are there */
    bool is_refused;     /* there was no memory for them */
    bool is_all_read;    /* and was put */
    bool wants_rotation; /* to these: */
    uint64_t next_chain, next_number, next_epoch;
    int rotation_error;
    uint64_t epoch;
    uint64_t mark_put, mark_ticket; /* once so many blocks are in it, so are these tickets */
    struct keylog_info info;
};

static int64_t mono_ms(void)
{
    return clock_mono_us() / 1000;
}

static bool get_flag(const _Atomic bool *flag)
{
    return atomic_load_explicit(flag, memory_order_acquire);
}

static void set_flag(_Atomic bool *flag, bool to)
{
    atomic_store_explicit(flag, to, memory_order_release);
}

static uint64_t get(const _Atomic uint64_t *n)
{
    return atomic_load_explicit(n, memory_order_acquire);
}

/* Wait for `changed`, a while at most. Under the mutex. */
static void wait_ms(struct keylog *l, int64_t ms)
{
    const struct timespec until = cond_after(ms);

    pthread_cond_timedwait(&l->changed, &l->mutex, &until);
}

static void tell(struct keylog *l)
{
    pthread_mutex_lock(&l->mutex);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
}

/* Tickets up to this one are done. */
static void finish(struct keylog *l, uint64_t ticket)
{
    uint64_t before = get(&l->done);

    /* On both threads, and on that of keylog_forget(): it never goes back. */
    while (before < ticket && !atomic_compare_exchange_weak(&l->done, &before, ticket)) {
    }
    if (before < ticket) {
        if (atomic_load(&l->urgent) != 0) {
            tell(l);
        }
        l->cfg.on_done(l->cfg.arg);
    }
}

/*
 * Keys are missing from here on; error 0: because the rings were overrun, which end then.
 * Context: one of the threads.
 */
static void on_gap(struct keylog *l, int error)
{
    bool was_on;

    pthread_mutex_lock(&l->mutex);
    was_on = get_flag(&l->is_on);
    l->is_attached = l->is_attached && error != 0;
    set_flag(&l->is_on, false);
    set_flag(&l->is_read, false);
    l->info.gaps += was_on;
    l->info.was_good = l->info.was_good && error == 0;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    if (was_on) {
        l->cfg.on_gap(l->cfg.arg, error);
    }
    finish(l, atomic_load(&l->asked));
}

/* ---- reading ----------------------------------------------------------------------------- */

/* A block is there to be written, or an fsync over. Context: the reader; the syncer. */
static void wake_writer(void *arg)
{
    tell(arg);
}

/* Those who change something are to wait, or not any more. Context: the reader. */
static void set_behind(struct keylog *l, bool is_behind)
{
    if (is_behind != get_flag(&l->is_behind)) {
        set_flag(&l->is_behind, is_behind);
        pthread_mutex_lock(&l->mutex);
        l->info.behind += is_behind;
        pthread_mutex_unlock(&l->mutex);
        l->cfg.on_behind(l->cfg.arg, is_behind);
    }
}

/* Look how it keeps up. Context: the reader, attached. */
static void note_fullness(struct keylog *l)
{
    uint64_t parts = stream_fullness(&l->fill.stream);
    bool is_stuck = l->waits_ms != 0 && mono_ms() - l->waits_ms > PATIENCE_MS;

    l->is_fast = atomic_load(&l->sync) == KEYLOG_SYNC_ALWAYS || parts > FAST;
    set_behind(l, atomic_load(&l->mode) == KEYLOG_FULL && !is_stuck &&
                      parts > (get_flag(&l->is_behind) ? CAUGHT_UP : BEHIND));
    if (parts > STREAM_FULL) {
        on_gap(l, 0);
    }
}

/* There is no room for a block. If it lasts, changes are lost: that is not told too late. */
static void wait_for_room(void *arg)
{
    struct keylog *l = arg;
    uint64_t taken = logfill_taken(&l->fill);

    must_not_be_reading();
    l->waits_ms = l->waits_ms != 0 ? l->waits_ms : mono_ms();
    note_fullness(l);
    pthread_mutex_lock(&l->mutex);
    atomic_store(&l->is_short, true);
    wait_ms(l, 1);
    pthread_mutex_unlock(&l->mutex);
    l->waits_ms = taken == logfill_taken(&l->fill) ? l->waits_ms : 0;
}

/* Sleep a moment, or until somebody asks; or, if nothing has come for long, until it does. */
static void doze(struct keylog *l, uint64_t asked)
{
    struct changes_bell *bell = &l->cfg.engine->bell;
    bool is_long = l->polls >= POLLS;
    uint32_t rings;

    if (is_long) {
        rings = bell_listen(bell);
    } else {
        rings = atomic_load_explicit(&bell->rings, memory_order_acquire);
    }
    atomic_store(&l->is_dozing, true);
    if (atomic_load(&l->asked) == asked && get_flag(&l->is_read) &&
        !get_flag(&l->is_stopping) && (!is_long || stream_lag(&l->fill.stream) == 0)) {
        bell_sleep(bell, rings, is_long ? SLEEP_US : l->is_fast ? POLL_US : REST_US);
    }
    atomic_store(&l->is_dozing, false);
    l->polls = is_long ? 0 : l->polls + 1;
}

/* What was put up to now has these tickets: the writer's matter. */
static void hand_over(struct keylog *l, uint64_t asked, bool is_all, bool ends)
{
    logfill_send(&l->fill);
    pthread_mutex_lock(&l->mutex);
    if (is_all) {
        l->mark_put = logfill_put(&l->fill);
        l->mark_ticket = asked;
        l->is_all_read = ends;
    }
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
}

/* Until there is nothing to be read any more. False: overrun. Context: the reader, attached. */
static bool read_rings(struct keylog *l)
{
    uint64_t handed = 0;  /* up to this ticket */
    int64_t began_ms = 0; /* when the block was begun that is not on its way; 0: none */

    while (get_flag(&l->is_read)) {
        bool ends = get_flag(&l->is_stopping);
        uint64_t asked = atomic_load(&l->asked);
        uint64_t records = stream_records(&l->fill.stream);
        bool is_full = atomic_load(&l->mode) == KEYLOG_FULL;
        enum stream_state state = is_full ? logfill_states(&l->fill) : logfill_keys(&l->fill);
        bool is_new;

        note_fullness(l);
        if (state == STREAM_OVERRUN) {
            on_gap(l, 0);
            return false;
        }
        is_new = stream_records(&l->fill.stream) != records;
        if (!logfill_has_begun(&l->fill)) {
            began_ms = 0;
        } else if (began_ms == 0) {
            began_ms = mono_ms();
        }
        if (handed != asked || ends ||
            (began_ms != 0 && (!is_new || mono_ms() - began_ms >= GATHER_MS))) {
            hand_over(l, asked, state == STREAM_IDLE, ends);
            handed = state == STREAM_IDLE ? asked : handed;
            began_ms = 0;
        }
        l->polls = is_new ? 0 : l->polls;
        if (ends && state == STREAM_IDLE) {
            return true;
        }
        if (state == STREAM_IDLE || !is_new) {
            doze(l, asked);
        }
    }
    return true;
}

/* The rings are there: read them, until they are not wanted any more. Under the mutex. */
static void read_attached(struct keylog *l)
{
    bool is_whole = true;

    l->is_attached = true;
    pthread_cond_broadcast(&l->changed);
    while (is_whole && get_flag(&l->is_read) && !l->is_all_read) {
        pthread_mutex_unlock(&l->mutex);
        is_whole = read_rings(l);
        pthread_mutex_lock(&l->mutex);
    }
    l->is_attached = false; /* who sets is_read from now on waits until they are there again */
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    set_behind(l, false);
    logfill_end(&l->fill);
    pthread_mutex_lock(&l->mutex);
}

static void run_reader(void *arg)
{
    struct keylog *l = arg;

    pthread_mutex_lock(&l->mutex);
    while (!get_flag(&l->is_stopping)) {
        if (!get_flag(&l->is_read)) {
            pthread_cond_wait(&l->changed, &l->mutex);
            continue;
        }
        pthread_mutex_unlock(&l->mutex);
        bool is_there = logfill_begin(&l->fill, l->cfg.ring_bytes) == MF_OK;

        pthread_mutex_lock(&l->mutex);
        if (is_there) {
            read_attached(l);
        } else {
            l->is_refused = true;
            set_flag(&l->is_read, false);
            pthread_cond_broadcast(&l->changed);
        }
    }
    l->is_all_read = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Count what took long. */
static void note_time(struct keylog *l, int64_t began_ms)
{
    int64_t ms = mono_ms() - began_ms;

    if (ms > KEYLOG_SLOW_MS) {
        pthread_mutex_lock(&l->mutex);
        l->info.slow++;
        pthread_mutex_unlock(&l->mutex);
        l->cfg.on_slow(l->cfg.arg, (uint64_t)ms);
    }
}

static void note_file(struct keylog *l, uint64_t keys)
{
    pthread_mutex_lock(&l->mutex);
    l->info.was_good = l->out.file.error == 0;
    l->info.keys += keys;
    l->info.all_bytes += l->out.file.bytes - l->out.counted;
    l->out.counted = l->out.file.bytes;
    l->info.bytes = l->out.file.bytes;
    l->info.unsynced = l->out.file.bytes - l->out.synced;
    pthread_mutex_unlock(&l->mutex);
}

/* Write the blocks that are there. False: there was a gap. */
static bool write_pending(struct keylog *l)
{
    int64_t began = mono_ms();
    bool is_good = true;
    bool has_written = false;
    struct logfill_block *block;

    while (is_good && (block = logfill_next(&l->fill)) != NULL) {
        if (get_flag(&l->is_on)) {
            is_good = logfile_put(&l->out, &block->b, block->bytes, logfill_is_full(&l->fill));
            note_file(l, block->b.items); /* before nothing waits any more */
            has_written = true;
        }
        l->is_in_value = block->is_more;
        logfill_took(&l->fill);
        if (atomic_load(&l->is_short)) {
            atomic_store(&l->is_short, false);
            tell(l);
        }
    }
    if (has_written) {
        note_time(l, began);
    }
    return is_good;
}

/* Have what was written made durable while the writer goes on. */
static void begin_sync(struct keylog *l)
{
    l->synced_ms = mono_ms();
    if (l->out.is_open && l->out.synced != l->out.file.bytes) {
        logfile_sync_begin(&l->out, l->syncer);
    }
}

/* Wait for the end of it, if it was begun. False: there was a gap. */
static bool end_sync(struct keylog *l)
{
    bool is_good = true;

    if (l->out.syncer != NULL) {
        is_good = logfile_sync_end(&l->out);
        note_file(l, 0);
        note_time(l, l->synced_ms);
    }
    return is_good;
}

/* Make durable what was written, and wait for it. False: there was a gap. */
static bool sync_file(struct keylog *l)
{
    bool is_good = end_sync(l);
    int64_t began = mono_ms();

    if (is_good && l->out.is_open && l->out.synced != l->out.file.bytes) {
        is_good = logfile_sync(&l->out);
        note_file(l, 0);
        note_time(l, began);
    }
    l->synced_ms = mono_ms();
    return is_good;
}

/* The file that was open, whole; then the new one in its place. Returns 0 or an errno. */
static int rotate(struct keylog *l, uint64_t chain, uint64_t number, uint64_t epoch)
{
    struct logfile next;
    int error;

    if (!get_flag(&l->is_on)) {
        logfile_close(&l->out); /* whatever failed there is told */
    }
    if (!write_pending(l) || (!l->is_in_value && !sync_file(l))) {
        error = l->out.file.error;
        on_gap(l, error);
        return error;
    }
    if (l->is_in_value) {
        return EAGAIN;
    }
    error = logfile_open(&next, l->cfg.io, l->cfg.dir, l->cfg.base,
                         clock_unix_ms(&l->cfg.engine->clock), chain, number);
    if (error != 0) {
        return error;
    }
    logfile_close(&l->out);
    logfile_move(&l->out, &next);
    pthread_mutex_lock(&l->mutex);
    if (!l->is_attached) {
        error = ENOBUFS; /* there was a gap meanwhile */
    } else {
        l->epoch = epoch;
        l->info.number = number;
        set_flag(&l->is_on, true);
    }
    pthread_mutex_unlock(&l->mutex);
    logfill_rotate(&l->fill, chain);
    note_file(l, 0);
    return error;
}

/* How long may it sleep? Under the mutex. -1: there is something to do. */
static int64_t idle_ms(struct keylog *l)
{
    int64_t left = SYNC_MS;

    if ((l->wants_rotation && !l->is_in_value) || logfill_next(&l->fill) != NULL ||
        l->is_all_read || l->mark_ticket > get(&l->done) ||
        (l->out.is_open && !get_flag(&l->is_on))) {
        return -1;
    }
    if (l->out.syncer != NULL) {
        return syncer_is_over(l->syncer) ? -1 : SYNC_MS;
    }
    if (l->out.is_open && l->out.synced != l->out.file.bytes &&
        atomic_load(&l->sync) != KEYLOG_SYNC_NO) {
        left = l->synced_ms + SYNC_MS - mono_ms();
    } else if (l->out.is_open && l->out.synced == l->out.file.bytes) {
        left = INT64_MAX;
    }
    return left > 0 ? left : -1;
}

/* Rotate, as somebody waits for it. Under the mutex, which is given up meanwhile. */
static void answer_rotation(struct keylog *l)
{
    uint64_t chain = l->next_chain;
    uint64_t number = l->next_number;
    uint64_t epoch = l->next_epoch;
    int error;

    pthread_mutex_unlock(&l->mutex);
    error = rotate(l, chain, number, epoch);
    pthread_mutex_lock(&l->mutex);
    l->wants_rotation = error == EAGAIN;
    l->rotation_error = error;
    pthread_cond_broadcast(&l->changed);
}

/* Does somebody wait for the disk? */
static bool is_awaited(const struct keylog *l, uint32_t sync, uint64_t mark_ticket)
{
    uint64_t done = get(&l->done);

    return mark_ticket > done && (sync == KEYLOG_SYNC_ALWAYS || atomic_load(&l->urgent) != 0);
}

/* One round of what there is to do. Context: the writer. */
static void write_some(struct keylog *l, uint64_t mark_put, uint64_t mark_ticket, bool is_last)
{
    uint32_t sync = atomic_load(&l->sync);
    bool is_good;

    if (l->out.is_open && !get_flag(&l->is_on)) {
        logfile_close(&l->out);
    }
    is_good = write_pending(l);
    if (is_good && (is_last || is_awaited(l, sync, mark_ticket))) {
        is_good = sync_file(l);
    } else if (is_good && (l->out.syncer == NULL || syncer_is_over(l->syncer))) {
        is_good = end_sync(l);
        if (is_good && sync != KEYLOG_SYNC_NO && mono_ms() - l->synced_ms >= SYNC_MS) {
            begin_sync(l);
        }
    }
    if (!is_good) {
        on_gap(l, l->out.file.error);
    } else if (mark_put <= logfill_taken(&l->fill)) {
        finish(l, mark_ticket);
    }
}

static void run_writer(void *arg)
{
    struct keylog *l = arg;
    bool is_over = false;

    pthread_mutex_lock(&l->mutex);
    while (!is_over) {
        int64_t ms = idle_ms(l);

        if (ms >= 0) {
            if (ms == INT64_MAX) {
                l->synced_ms = mono_ms();
                pthread_cond_wait(&l->changed, &l->mutex);
            } else {
                wait_ms(l, ms);
            }
            continue;
        }
        if (l->wants_rotation && !l->is_in_value) {
            answer_rotation(l);
            continue;
        }
        uint64_t mark_put = l->mark_put;
        uint64_t mark_ticket = l->mark_ticket;

        is_over = l->is_all_read;
        pthread_mutex_unlock(&l->mutex);
        write_some(l, mark_put, mark_ticket, is_over);
        pthread_mutex_lock(&l->mutex);
    }
    pthread_mutex_unlock(&l->mutex);
    if (l->out.is_open && get_flag(&l->is_on) && !l->is_in_value) {
        logfile_seal(&l->out, clock_unix_ms(&l->cfg.engine->clock));
    }
    logfile_close(&l->out);
}

/* ---- what is asked ----------------------------------------------------------------------- */

/* A ticket for all that was changed before the call. Wakes the reader. */
static uint64_t draw_ticket(struct keylog *l)
{
    uint64_t ticket = atomic_fetch_add(&l->asked, 1) + 1;

    if (atomic_load(&l->is_dozing)) {
        bell_ring(&l->cfg.engine->bell);
    }
    return ticket;
}

int keylog_rotate(struct keylog *l, enum keylog_mode mode, uint64_t chain, uint64_t number,
                  uint64_t epoch)
{
    uint64_t ticket;
    int error;

    must_not_be_reading();
    pthread_mutex_lock(&l->mutex);
    l->is_refused = false;
    atomic_store(&l->mode, (uint32_t)mode); /* the end of a log may be as the next one is */
    set_flag(&l->is_read, true);
    pthread_cond_broadcast(&l->changed);
    while (!l->is_attached && !l->is_refused) {
        set_flag(&l->is_read, true); /* perhaps it was about to end */
        wait_ms(l, 1);
    }
    if (l->is_refused) {
        pthread_mutex_unlock(&l->mutex);
        return ENOMEM;
    }
    /* What was changed before is for the log that is open. */
    ticket = draw_ticket(l);
    while (l->is_attached && l->mark_ticket < ticket) {
        pthread_cond_wait(&l->changed, &l->mutex);
    }
    l->next_chain = chain;
    l->next_number = number;
    l->next_epoch = epoch;
    l->wants_rotation = true;
    pthread_cond_broadcast(&l->changed);
    while (l->wants_rotation) {
        pthread_cond_wait(&l->changed, &l->mutex);
    }
    error = l->rotation_error;
    if (error != 0 && !get_flag(&l->is_on)) {
        set_flag(&l->is_read, false);
    }
    pthread_mutex_unlock(&l->mutex);
    return error;
}

void keylog_forget(struct keylog *l, uint64_t epoch)
{
    bool is_over;

    pthread_mutex_lock(&l->mutex);
    is_over = get_flag(&l->is_on) && l->epoch < epoch;
    if (is_over) {
        set_flag(&l->is_on, false);
        set_flag(&l->is_read, false);
    }
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    if (is_over) {
        finish(l, atomic_load(&l->asked));
        bell_ring(&l->cfg.engine->bell);
    }
}

bool keylog_is_on(struct keylog *l)
{
    return get_flag(&l->is_on);
}

void keylog_set_sync(struct keylog *l, enum keylog_sync sync)
{
    atomic_store(&l->sync, (uint32_t)sync);
    tell(l);
}

uint64_t keylog_ask(struct keylog *l)
{
    uint64_t ticket;

    if (!get_flag(&l->is_on) ||
        (atomic_load(&l->sync) != KEYLOG_SYNC_ALWAYS && !get_flag(&l->is_behind))) {
        return 0;
    }
    ticket = draw_ticket(l);
    if (!get_flag(&l->is_on)) {
        return 0; /* whoever closed it may not have seen the ticket */
    }
    return ticket;
}

bool keylog_make_durable(struct keylog *l)
{
    uint64_t ticket;
    bool is_on;

    must_not_be_reading();
    /* First: a ticket is done without the disk, if nobody wants more when its turn comes. */
    atomic_fetch_add(&l->urgent, 1);
    ticket = draw_ticket(l);
    pthread_mutex_lock(&l->mutex);
    pthread_cond_broadcast(&l->changed);
    while ((is_on = get_flag(&l->is_on)) && get(&l->done) < ticket) {
        pthread_cond_wait(&l->changed, &l->mutex);
    }
    pthread_mutex_unlock(&l->mutex);
    atomic_fetch_sub(&l->urgent, 1);
    return is_on;
}

bool keylog_is_done(const struct keylog *l, uint64_t ticket)
{
    return atomic_load(&l->done) >= ticket;
}

void keylog_look(struct keylog *l, struct keylog_info *info)
{
    pthread_mutex_lock(&l->mutex);
    *info = l->info;
    info->is_on = get_flag(&l->is_on);
    if (info->is_on) {
        /* What goes from the rings to the buffer meanwhile is counted in both, not in none. */
        info->waiting_bytes = l->is_attached ? stream_lag(&l->fill.stream) : 0;
        info->waiting_bytes += logfill_waiting(&l->fill);
    }
    pthread_mutex_unlock(&l->mutex);
}

/* ---- start and stop ---------------------------------------------------------------------- */

static void release(struct keylog *l)
{
    syncer_destroy(&l->syncer); /* it may be waking the writer yet */
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    logfill_fini(&l->fill);
    mem_free(l);
}

static const struct thread_kind reader_kind = {
    .name = "log reader", .run = run_reader, .reads = true};
static const struct thread_kind writer_kind = {.name = "log writer", .run = run_writer};

static void init_locks(struct keylog *l)
{
    pthread_mutex_init(&l->mutex, NULL);
    cond_init(&l->changed);
}

/* Tell those of the threads that were made to end, and wait for it. */
static void end_threads(struct keylog *l)
{
    pthread_mutex_lock(&l->mutex);
    set_flag(&l->is_stopping, true);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    bell_ring(&l->cfg.engine->bell);
    thread_join(&l->reader);
    thread_join(&l->writer);
}

enum mf_err keylog_start(struct keylog **out, const struct keylog_config *cfg,
                         enum keylog_sync sync)
{
    struct keylog *l = mem_alloc_aligned(sizeof(*l), MF_LINE_BYTES);

    *out = NULL;
    if (l == NULL) {
        return MF_ENOMEM;
    }
    *l = (struct keylog){.cfg = *cfg, .info = {.was_good = true}};
    atomic_store(&l->sync, (uint32_t)sync);
    init_locks(l);
    if (!logfill_init(&l->fill, cfg->engine, wake_writer, wait_for_room, l)) {
        release(l);
        return MF_ENOMEM;
    }
    l->syncer = syncer_create(cfg->io, wake_writer, l);
    if (l->syncer == NULL || thread_start(&l->reader, &reader_kind, l) != 0 ||
        thread_start(&l->writer, &writer_kind, l) != 0) {
        end_threads(l);
        release(l);
        return MF_ESYS;
    }
    *out = l;
    return MF_OK;
}

void keylog_stop(struct keylog **lp)
{
    struct keylog *l = *lp;

    if (l != NULL) {
        must_not_be_reading();
        end_threads(l);
        release(l);
        *lp = NULL;
    }
}
