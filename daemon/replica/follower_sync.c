/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A full sync of a replica: see follower_parts.h. The bytes come in portions, each after a
 * line, and are given to the applier as they come.
 */

#include "daemon/replica/follower_parts.h"

#include "daemon/worker/crew.h"
#include "lib/base/num.h"
#include "lib/engine/engine.h"

/* The bytes of a full sync, as they come in portions. */
struct sync_input {
    struct follower *f;
    size_t left; /* of the portion */
    bool is_over;
    bool is_whole;
    struct backlog_name name;
    uint64_t serve_from;
    uint32_t has_lost; /* 1: it comes from a replica that has lost items itself */
};

/* END: items, id, epoch, offset, from where on it is of one moment, are items missing. */
static void read_end(struct sync_input *in, struct span line)
{
    struct follower_words words;
    const struct follower_words *w = &words;

    in->is_whole = answer_unseal(line, &words) && w->count == 7 && span_is(w->word[0], "END") &&
                   replid_parse(w->word[2], &in->name.id) && !replid_is_none(&in->name.id) &&
                   answer_epoch(w->word[3], &in->name.epoch) &&
                   answer_offset(w->word[4], &in->name.offset) &&
                   answer_offset(w->word[5], &in->serve_from) &&
                   num_u32(w->word[6], &in->has_lost) == MF_OK;
}

/* The line before a portion, or after the last. */
static ssize_t begin_portion(struct sync_input *in, struct span line)
{
    struct follower *f = in->f;
    struct follower_words w;
    uint32_t n;

    answer_split(line, &w);
    if (w.count == 2 && span_is(w.word[0], "PART") && num_u32(w.word[1], &n) == MF_OK &&
        n > 0) {
        f->heard_ms = clock_mono_ms();
        in->left = n;
        return 1;
    }
    read_end(in, line);
    in->is_over = true;
    if (!in->is_whole) {
        (void)follower_end(f, SESSION_CUT, "it was not sent everything", line);
        return -EIO;
    }
    return 0;
}

static ssize_t next_portion(struct sync_input *in)
{
    struct span line;

    if (link_line(in->f->link, &line) != LINK_OK) {
        (void)follower_end_cut(in->f, SESSION_CUT);
        return -EIO;
    }
    return begin_portion(in, line);
}

/* snap_read_fn */
static ssize_t read_incoming(void *arg, void *out, size_t n, uint64_t offset)
{
    struct sync_input *in = arg;
    size_t got;

    (void)offset; /* strictly consecutive: applier_run_full() */
    if (in->is_over) {
        return in->is_whole ? 0 : -EIO;
    }
    if (in->left == 0) {
        ssize_t more = next_portion(in);

        if (more <= 0) {
            return more;
        }
    }
    n = n < in->left ? n : in->left;
    if (link_some(in->f->link, out, n, &got) != LINK_OK) {
        (void)follower_end_cut(in->f, SESSION_CUT);
        return -EIO;
    }
    in->left -= got;
    return (ssize_t)got;
}

enum session follower_take_everything(struct follower *f, struct span first)
{
    struct replication *r = f->r;
    struct sync_input in = {.f = f};
    char text[SNAP_FAULT_TEXT_MAX];
    struct snap_fault fault = {.kind = SNAP_FINE};
    const ssize_t more = begin_portion(&in, first);

    if (more == 0) {
        (void)follower_end(f, SESSION_SYNC_FAILED, "it was sent nothing", span_str(""));
    }
    if (more <= 0) {
        return SESSION_SYNC_FAILED;
    }
    replication_enter(r, REPL_SYNCING, "a full sync is running");
    atomic_fetch_add(&r->crew->full_syncs, 1); /* dumps under way end */
    replication_drop_readers(r);
    engine_follow_due(follower_engine(f), DUE_NOTHING);
    atomic_store(&r->is_whole, false);
    pthread_mutex_lock(&r->mutex);
    r->level =
        (struct shipper_level){.due_gone = DUE_NOTHING}; /* by another history's offsets */
    pthread_mutex_unlock(&r->mutex);
    follower_begin_whole(f);
    snapshots_note_full_sync(&r->crew->snapshots);
    if (applier_begin_full(f->applier) != APPLIER_OK) {
        return follower_end(f, SESSION_SYNC_FAILED, "no memory for the flush", span_str(""));
    }
    enum applier_result result = applier_run_full(f->applier, read_incoming, &in, &fault);
    if (replication_is_changed(r)) {
        return SESSION_ENDED;
    }
    if (result == APPLIER_CUT && f->why[0] != '\0') {
        return SESSION_SYNC_FAILED;
    }
    if (result != APPLIER_OK) {
        return follower_end(
            f, SESSION_SYNC_FAILED, applier_result_text(result),
            span_str(fault.kind != SNAP_FINE ? snap_fault_text(&fault, text) : ""));
    }
    f->heard_ms = clock_mono_ms();
    snapshots_note_followed_flush(&r->crew->snapshots); /* it may have missed some */
    applier_end_full(f->applier, &in.name);
    follower_note_history(f, &in.name.id, in.name.epoch);
    f->serve_from = in.serve_from;
    f->needs_all = false;
    if (in.has_lost != 0) {
        follower_note_lost(f);
    }
    pthread_mutex_lock(&r->mutex);
    r->counts.full++;
    pthread_mutex_unlock(&r->mutex);
    replication_enter(r, REPL_CATCHING_UP, "the full sync is complete");
    return SESSION_GOES_ON;
}
