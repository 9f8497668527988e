/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log of changes: see keylog.h. Reader and writer share the buffers of logfill.h.
 */
#include "lib/log/keylog_parts.h"

#include <errno.h>
#include <pthread.h>

#include "lib/base/check.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"
#include "lib/engine/engine.h"

/*
 * While changes arrive, the reader polls the rings each REST_US. It polls each POLL_US with
 * KEYLOG_SYNC_ALWAYS, or if more than FAST of a ring is unread after a pass.
 * After POLLS polls without a change it sleeps until a writer wakes it.
 */
#define POLL_US  ((usec_t)1000)
#define REST_US  ((usec_t)5000)
#define FAST     (STREAM_FULL / 16)
#define POLLS    16u
#define SLEEP_US ((usec_t)10000000)

/*
 * The reader is behind when more than BEHIND of a ring is unread, until less than CAUGHT_UP is.
 * While it is behind, changes wait for the disk. If the writer takes no block for PATIENCE_MS,
 * changes no longer wait, and there may be a gap.
 */
#define BEHIND      (STREAM_FULL / 4)
#define CAUGHT_UP   (STREAM_FULL / 8)
#define PATIENCE_MS 2000

/*
 * Unless a client waits, a block is passed to the writer when it is full, and the writer takes
 * LOGFILL_GATHER blocks at a time. After GATHER_MS neither waits for more.
 */
#define GATHER_MS 20

void keylog_wait_ms(struct keylog *l, int64_t ms)
{
    const struct timespec until = cond_after(ms);

    pthread_cond_timedwait(&l->changed, &l->mutex, &until);
}

void keylog_tell(struct keylog *l)
{
    pthread_mutex_lock(&l->mutex);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
}

void keylog_finish(struct keylog *l, uint64_t ticket)
{
    uint64_t before = keylog_get(&l->done);

    /* On both threads, and on that of keylog_forget(): it never goes back. */
    while (before < ticket && !atomic_compare_exchange_weak(&l->done, &before, ticket)) {
    }
    if (before < ticket) {
        if (atomic_load(&l->urgent) != 0) {
            keylog_tell(l);
        }
        l->cfg.on_done(l->cfg.arg);
    }
}

void keylog_on_gap(struct keylog *l, int error)
{
    pthread_mutex_lock(&l->mutex);
    bool was_on = keylog_is_open(l);
    if (!was_on && error > 0) {
        /* It was closed meanwhile, and its file may be removed: no base needs it. */
        pthread_mutex_unlock(&l->mutex);
        return;
    }
    if (error <= 0) {
        l->is_attached = false; /* the reader is here, and leaves the rings */
    }
    if (was_on) {
        keylog_set_state(l, KEYLOG_STATE_VOID);
    }
    keylog_set_flag(&l->is_read, false);
    l->info.gaps += was_on;
    l->info.was_good = l->info.was_good && error <= 0;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    if (was_on) {
        l->cfg.on_gap(l->cfg.arg, error);
    }
    if (keylog_may_finish(l)) {
        keylog_finish(l, atomic_load(&l->asked));
    }
}

/* ---- reading ----------------------------------------------------------------------------- */

/* There are bytes to write, or an fsync has ended. Context: any thread. */
static void wake_writer(void *arg)
{
    keylog_tell(arg);
}

/* Start or stop making changes wait. Context: the reader. */
static void set_behind(struct keylog *l, bool is_behind)
{
    if (is_behind != keylog_flag(&l->is_behind)) {
        keylog_set_flag(&l->is_behind, is_behind);
        pthread_mutex_lock(&l->mutex);
        l->info.behind += is_behind;
        pthread_mutex_unlock(&l->mutex);
        l->cfg.on_behind(l->cfg.arg, is_behind);
    }
}

/* Check whether the reader keeps up with the changes. Context: the reader, attached. */
static void note_fullness(struct keylog *l)
{
    uint64_t parts = stream_fullness(&l->fill.stream);
    bool is_stuck = l->waits_ms != 0 && clock_mono_ms() - l->waits_ms > PATIENCE_MS;

    l->is_fast = atomic_load(&l->sync) == KEYLOG_SYNC_ALWAYS || parts > FAST;
    set_behind(l, atomic_load(&l->mode) == KEYLOG_FULL && !is_stuck &&
                      parts > (keylog_flag(&l->is_behind) ? CAUGHT_UP : BEHIND));
    if (parts > STREAM_FULL) {
        keylog_on_gap(l, 0);
    }
}

/*
 * Wait until there is room for a block. note_fullness() reports in time if changes are being
 * lost.
 */
static void wait_for_room(void *arg)
{
    struct keylog *l = arg;
    uint64_t taken = logfill_taken(&l->fill);
    unsigned waiting = (unsigned)(logfill_put(&l->fill) - taken);

    l->waits_ms = l->waits_ms != 0 ? l->waits_ms : clock_mono_ms();
    note_fullness(l);
    (void)handoff_wait(&l->fill.full, waiting - 1, 1);
    l->waits_ms = taken == logfill_taken(&l->fill) ? l->waits_ms : 0;
}

/*
 * Sleep a moment, or until a ticket is drawn. If no change has come for long, sleep until one
 * comes.
 */
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
    if (atomic_load(&l->asked) == asked && keylog_flag(&l->is_read) &&
        !keylog_flag(&l->is_stopping) &&
        (!is_long || (stream_lag(&l->fill.stream) == 0 && !logfill_owes_due(&l->fill)))) {
        bell_sleep(bell, rings, is_long ? SLEEP_US : l->is_fast ? POLL_US : REST_US);
    }
    atomic_store(&l->is_dozing, false);
    l->polls = is_long ? 0 : l->polls + 1;
}

/* Pass all blocks put until now, with their tickets, to the writer. */
static void hand_over(struct keylog *l, uint64_t asked, bool is_all, bool ends)
{
    logfill_send(&l->fill);
    pthread_mutex_lock(&l->mutex);
    l->hurry_put = logfill_put(&l->fill);
    if (is_all) {
        l->mark_put = logfill_put(&l->fill);
        l->mark_ticket = asked;
        l->is_all_read = ends;
    }
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
}

/* Read until the rings are no longer wanted. False: a gap. Context: the reader, attached. */
static bool read_rings(struct keylog *l)
{
    uint64_t handed = 0;  /* up to this ticket */
    uint64_t hurried = 0; /* blocks that the writer was told to write at once */
    int64_t began_ms = 0; /* since when there is anything else to be written; 0: there is not */

    while (keylog_flag(&l->is_read) && l->is_attached) {
        bool ends = keylog_flag(&l->is_stopping);
        uint64_t asked = atomic_load(&l->asked);
        uint64_t records = stream_records(&l->fill.stream);
        bool is_full = atomic_load(&l->mode) == KEYLOG_FULL;
        enum stream_state state = is_full ? logfill_states(&l->fill) : logfill_keys(&l->fill);

        note_fullness(l);
        if (state == STREAM_FLUSHED && handed == 0 && !keylog_is_open(l)) {
            stream_skip(&l->fill.stream); /* no log has any of it */
            continue;
        }
        if (state == STREAM_OVERRUN || state == STREAM_FLUSHED) {
            keylog_on_gap(l, state == STREAM_OVERRUN ? 0 : KEYLOG_GAP_FLUSH);
            return false;
        }
        if (state == STREAM_IDLE) {
            logfill_put_due(&l->fill, ends || atomic_load(&l->urgent) != 0);
        }
        bool is_new = stream_records(&l->fill.stream) != records;
        if (!logfill_has_begun(&l->fill) && logfill_put(&l->fill) == hurried) {
            began_ms = 0;
        } else if (began_ms == 0) {
            began_ms = clock_mono_ms();
        }
        if (handed != asked || ends ||
            (began_ms != 0 && (!is_new || clock_mono_ms() - began_ms >= GATHER_MS))) {
            hand_over(l, asked, state == STREAM_IDLE, ends);
            handed = state == STREAM_IDLE ? asked : handed;
            hurried = logfill_put(&l->fill);
            began_ms = 0;
        }
        l->polls = is_new || logfill_owes_due(&l->fill) ? 0 : l->polls;
        if (ends && state == STREAM_IDLE) {
            return true;
        }
        if (state == STREAM_IDLE || !is_new) {
            doze(l, asked);
        }
    }
    return l->is_attached;
}

/* Read the rings, which are attached, until they are no longer wanted. Under the mutex. */
static void read_attached(struct keylog *l)
{
    bool is_whole = true;

    l->is_attached = true;
    pthread_cond_broadcast(&l->changed);
    while (is_whole && keylog_flag(&l->is_read) && !l->is_all_read) {
        pthread_mutex_unlock(&l->mutex);
        is_whole = read_rings(l);
        pthread_mutex_lock(&l->mutex);
    }
    l->is_attached = false; /* keylog_rotate() sets is_read, and then waits until the rings are
                               attached again */
    l->hurry_put = logfill_put(&l->fill); /* no others come: a rotation waits for the rest of a
                                             value */
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    set_behind(l, false);
    pthread_mutex_lock(&l->mutex);
    while (keylog_state(l) == KEYLOG_STATE_VOID && !keylog_flag(&l->is_stopping)) {
        /* Without the rings, changes_made() could not tell which threads have to wait. */
        pthread_cond_wait(&l->changed, &l->mutex);
    }
    pthread_mutex_unlock(&l->mutex);
    logfill_end(&l->fill);
    pthread_mutex_lock(&l->mutex);
}

static void run_reader(void *arg)
{
    struct keylog *l = arg;

    pthread_mutex_lock(&l->mutex);
    while (!keylog_flag(&l->is_stopping)) {
        if (!keylog_flag(&l->is_read)) {
            pthread_cond_wait(&l->changed, &l->mutex);
            continue;
        }
        pthread_mutex_unlock(&l->mutex);
        bool is_there = logfill_begin(&l->fill) == MF_OK;

        pthread_mutex_lock(&l->mutex);
        if (is_there) {
            read_attached(l);
        } else {
            l->is_refused = true;
            keylog_set_flag(&l->is_read, false);
            pthread_cond_broadcast(&l->changed);
        }
    }
    l->is_all_read = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
}

/* ---- requests ---------------------------------------------------------------------------- */

/* A ticket for all changes made before the call. Wakes the reader. */
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
    must_not_be_reading();
    pthread_mutex_lock(&l->mutex);
    if (keylog_state(l) == KEYLOG_STATE_VOID) {
        pthread_mutex_unlock(&l->mutex);
        return EBUSY;
    }
    l->is_refused = false;
    atomic_store(&l->mode, (uint32_t)mode); /* the end of a log may be as the next one is */
    while (!l->is_attached && !l->is_refused) {
        /* Another thread that clears is_read sets the reason: the end of the log, or a gap. */
        keylog_set_flag(&l->is_read, true);
        pthread_cond_broadcast(&l->changed);
        pthread_cond_wait(&l->changed, &l->mutex);
    }
    keylog_set_flag(&l->is_read, true);
    if (l->is_refused) {
        pthread_mutex_unlock(&l->mutex);
        return ENOMEM;
    }
    /* Changes made before this ticket go to the log that is open. */
    uint64_t ticket = draw_ticket(l);
    while (l->is_attached && l->mark_ticket < ticket) {
        pthread_cond_wait(&l->changed, &l->mutex);
    }
    pthread_mutex_unlock(&l->mutex);
    l->next_chain = chain;
    l->next_number = number;
    l->next_epoch = epoch;
    must(handoff_give(&l->rotation));
    int error = handoff_wait(&l->rotation, 0, HANDOFF_EVER);
    pthread_mutex_lock(&l->mutex);
    if (error != 0 && !keylog_is_open(l)) {
        keylog_set_flag(&l->is_read, false);
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->mutex);
    return error;
}

void keylog_forget(struct keylog *l, uint64_t epoch)
{
    pthread_mutex_lock(&l->mutex);
    bool is_over = keylog_state(l) != KEYLOG_STATE_CLOSED && l->epoch < epoch;
    if (is_over) {
        keylog_set_state(l, KEYLOG_STATE_CLOSED);
        keylog_set_flag(&l->is_read, false);
    }
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    if (is_over) {
        keylog_finish(l, atomic_load(&l->asked));
        bell_ring(&l->cfg.engine->bell);
    }
}

void keylog_base(struct keylog *l, int64_t offset_ms)
{
    logfill_base(&l->fill, offset_ms);
}

void keylog_void(struct keylog *l)
{
    pthread_mutex_lock(&l->mutex);
    if (keylog_state(l) == KEYLOG_STATE_CLOSED) {
        keylog_set_state(l, KEYLOG_STATE_VOID);
    }
    pthread_mutex_unlock(&l->mutex);
}

bool keylog_is_on(struct keylog *l)
{
    return keylog_is_open(l);
}

bool keylog_is_void(struct keylog *l)
{
    return keylog_state(l) == KEYLOG_STATE_VOID;
}

void keylog_set_sync(struct keylog *l, enum keylog_sync sync)
{
    atomic_store(&l->sync, (uint32_t)sync);
    if (keylog_state(l) == KEYLOG_STATE_VOID && keylog_may_finish(l)) {
        keylog_finish(l, atomic_load(&l->asked)); /* no base needs these changes any longer */
    }
    keylog_tell(l);
}

uint64_t keylog_ask(struct keylog *l)
{
    if (keylog_state(l) == KEYLOG_STATE_CLOSED ||
        (atomic_load(&l->sync) != KEYLOG_SYNC_ALWAYS && !keylog_flag(&l->is_behind))) {
        return 0;
    }
    uint64_t ticket = draw_ticket(l);
    if (!keylog_is_open(l) && keylog_may_finish(l)) {
        return 0; /* the thread that closed it may not have seen the ticket */
    }
    return ticket;
}

bool keylog_make_durable(struct keylog *l)
{
    uint64_t ticket;
    bool is_on;

    must_not_be_reading();
    /*
     * Must come before the ticket: without a waiting caller a ticket is done before its
     * changes are on the disk.
     */
    atomic_fetch_add(&l->urgent, 1);
    ticket = draw_ticket(l);
    pthread_mutex_lock(&l->mutex);
    pthread_cond_broadcast(&l->changed);
    while ((is_on = keylog_is_open(l)) && keylog_get(&l->done) < ticket) {
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
    info->is_on = keylog_is_open(l);
    if (info->is_on) {
        /* In this order, bytes that leave the rings meanwhile are counted twice, not missed. */
        info->waiting_bytes = l->is_attached ? stream_lag(&l->fill.stream) : 0;
        if (l->is_attached && logfill_owes_due(&l->fill)) {
            info->waiting_bytes += SNAP_BLOCK_BYTES + SNAP_DUE_BYTES;
        }
        info->waiting_bytes += logfill_waiting(&l->fill);
    }
    pthread_mutex_unlock(&l->mutex);
}

/* ---- start and stop ---------------------------------------------------------------------- */

static void keylog_release(struct keylog *l)
{
    handoff_fini(&l->syncing);
    handoff_fini(&l->rotation);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    logfill_fini(&l->fill);
    mem_free(l);
}

static const struct thread_kind reader_kind = {
    .name = "log reader", .run = run_reader, .reads = true};

static void init_locks(struct keylog *l)
{
    pthread_mutex_init(&l->mutex, NULL);
    cond_init(&l->changed);
    handoff_init(&l->syncing, 1, wake_writer, l);
    handoff_init(&l->rotation, 1, wake_writer, l);
}

/* Tell the threads that were made to end, and wait for them. */
static void end_threads(struct keylog *l)
{
    pthread_mutex_lock(&l->mutex);
    keylog_set_flag(&l->is_stopping, true);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    bell_ring(&l->cfg.engine->bell);
    thread_join(&l->reader);
    thread_join(&l->writer);
    handoff_close(&l->syncing, 0);
    thread_join(&l->syncer);
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
        keylog_release(l);
        return MF_ENOMEM;
    }
    logfill_base(&l->fill, cfg->base_offset_ms);
    if (thread_start(&l->reader, &reader_kind, l) != 0 ||
        thread_start(&l->writer, &keylog_writer, l) != 0 ||
        thread_start(&l->syncer, &keylog_syncer, l) != 0) {
        end_threads(l);
        keylog_release(l);
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
        keylog_release(l);
        *lp = NULL;
    }
}
