/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bgsave, save, lastsave, bgrewriteaof. The work is that of a thread
 * (daemon/persist/snapshots.h).
 */
#include "daemon/command/exec.h"

#include <inttypes.h>

#include "daemon/worker/crew.h"
#include "lib/base/mem.h"

static void on_saved(struct message *m, void *receiver)
{
    struct client_wait *wait = MF_OUTER(m, struct client_wait, ask.answer);

    must_be_worker(receiver);
    (void)client_answer(&wait->late,
                        reply_text(wait->ask.is_done ? REPLY_OK : REPLY_SAVE_FAILED), true);
    mem_free(wait);
}

static enum reply reply_to(enum snapshots_asked asked)
{
    switch (asked) {
    case SNAPSHOTS_OFF:
        return REPLY_SAVE_OFF;
    case SNAPSHOTS_REFUSED:
        return REPLY_SAVE_FAILED;
    case SNAPSHOTS_STARTED:
        return REPLY_OK;
    case SNAPSHOTS_BUSY:
        return REPLY_SAVE_BUSY;
    case SNAPSHOTS_SCHEDULED:
        return REPLY_SAVE_SCHEDULED;
    }
    unreachable();
}

enum turn_stop exec_bgsave(struct turn *t, const struct request *r)
{
    struct snapshots *s = &t->w->crew->snapshots;

    if (span_is(r->args, "cancel")) {
        return turn_answer(t, r, snapshots_cancel(s) ? REPLY_OK : REPLY_NOT_FOUND);
    }
    if (r->args.len != 0 && !span_is(r->args, "schedule")) {
        return turn_answer(t, r, REPLY_BGSAVE_USAGE);
    }
    if ((t->w->gate & GATE_MISSES) != 0) {
        return turn_answer(t, r, REPLY_NOT_IN_STEP);
    }
    return turn_answer(t, r, reply_to(snapshots_begin(s, r->args.len != 0, NULL)));
}

enum turn_stop exec_save(struct turn *t, const struct request *r)
{
    struct client_wait *wait;

    must(t->client != NULL); /* refused in datagrams */
    if (span_is(r->args, "-")) {
        return exec_export(t, r);
    }
    if (r->args.len != 0) {
        return turn_answer(t, r, REPLY_SAVE_USAGE);
    }
    if ((t->w->gate & GATE_MISSES) != 0) {
        return turn_answer(t, r, REPLY_NOT_IN_STEP);
    }
    wait = client_wait_begin(t->client, t->w, sizeof(*wait), on_saved);
    if (wait == NULL) {
        return turn_answer(t, r, REPLY_NO_MEMORY);
    }
    enum snapshots_asked asked = snapshots_begin(&t->w->crew->snapshots, true, &wait->ask);
    if (asked == SNAPSHOTS_OFF || asked == SNAPSHOTS_REFUSED) {
        client_wait_cancel(t->client, wait);
        return turn_answer(t, r, reply_to(asked));
    }
    return TURN_ASKED;
}

enum turn_stop exec_lastsave(struct turn *t, const struct request *r)
{
    struct snapshots_info info;

    if (r->args.len != 0) {
        return turn_answer(t, r, REPLY_ERROR);
    }
    snapshots_look(&t->w->crew->snapshots, &info);
    return turn_line(t, "LASTSAVE %" PRId64 "\r\n", info.saved_unix_s);
}

enum turn_stop exec_bgrewriteaof(struct turn *t, const struct request *r)
{
    struct snapshots *s = &t->w->crew->snapshots;

    if (r->args.len != 0) {
        return turn_answer(t, r, REPLY_ERROR);
    }
    if (setting_get(t->w->settings, appendonly) == 0) {
        return turn_answer(t, r, REPLY_REWRITE_OFF);
    }
    return turn_answer(t, r, reply_to(snapshots_begin(s, true, NULL)));
}
