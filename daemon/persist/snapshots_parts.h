/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to the files of snapshots.h: loading the file at the start, replacing it and removing
 * it.
 */
#ifndef MAYFLY_DAEMON_PERSIST_SNAPSHOTS_PARTS_H
#define MAYFLY_DAEMON_PERSIST_SNAPSHOTS_PARTS_H

#include "daemon/options/settings.h"
#include "daemon/persist/snapshots.h"

static inline enum keeper_state keeper_state(const struct snapshots *s)
{
    return (enum keeper_state)atomic_load(&s->state);
}

/*
 * Do reads miss? Then the items are incomplete or too old, and less than the file that a save
 * would replace. The last save is main's decision. Context: any thread.
 */
static inline bool snapshots_are_less(const struct snapshots *s)
{
    return keeper_state(s) != KEEPER_ENDING && (gate_read(s->append.gate) & GATE_MISSES) != 0;
}

/* Set the maximum rate of a save from the options. Context: any thread. */
static inline void snapshots_set_rate(struct snapshots *s)
{
    atomic_store(&s->save.rate_max, (uint64_t)setting_get(s->settings, save_rate) << 20);
}

/* ---- snapshots_load.c -------------------------------------------------------------------- */

/* Prepare the load, and decide whether it runs while requests are served. Context: main. */
void snapshots_prepare_load(struct snapshots *s);

/* Load the file that is open, with its logs. Context: the thread. */
void snapshots_load_now(struct snapshots *s);

/*
 * Rename a file that cannot be used, with its logs, to NAME.bad, or to NAME.2.bad and so on if
 * that exists. False: it was not renamed, which was logged.
 * Context: the thread, or main before it.
 */
bool snapshots_keep_as_bad(const struct snapshots *s);

/* ---- snapshots_flush.c ------------------------------------------------------------------- */

/* The thread that removes files; it ends with the state ENDED or OFF. */
extern const struct thread_kind snapshots_flusher;

/* Callbacks of a save around the rename: see struct save. arg: the snapshots. */
bool snapshots_is_outdated(void *arg);
bool snapshots_before_naming(void *arg);
void snapshots_after_naming(void *arg, bool is_named);

/*
 * With a log: request a save, so that there is a file again, within a second. Context: any
 * thread.
 */
void snapshots_want_anew(struct snapshots *s);

/*
 * The log no longer belongs to the file: remove the file. Context: a thread of the log, or the
 * thread.
 */
void snapshots_on_gap(void *arg);

/*
 * Before a log is begun: remove a void file, or one whose log has a gap. Otherwise does
 * nothing. May wait for the disk. Returns an errno. Context: the thread.
 */
int snapshots_clear(struct snapshots *s);

/* The existing file was not loaded to its end: no save may replace it. Context: the thread. */
void snapshots_keep(struct snapshots *s);

/* Try again to remove a void file. Context: the flusher, or main when that has ended. */
void snapshots_retry_removal(struct snapshots *s);

#endif
