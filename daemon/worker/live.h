/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of options of the running server, by `config` or by reloading the file. Several
 * options are changed together, all or none, one such change at a time. Options that need more
 * than a store are handled here: the engine must accept the memory limit, descriptors must
 * suffice, and threads that computed their sleep from an old value are woken.
 */
#ifndef MAYFLY_DAEMON_WORKER_LIVE_H
#define MAYFLY_DAEMON_WORKER_LIVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/options/options_live.h"
#include "daemon/options/settings.h"

struct buf;
struct crew;

/* Options that one change may name. */
#define LIVE_CHANGES_MAX 128u

struct live {
    pthread_mutex_t lock;  /* serializes changes of options; main makes shards while it holds
                              it */
    struct settings given; /* [lock] live options as files and command line gave them last */
};

/* An option and its new value as a user types it. */
struct live_change {
    enum option_id id;
    const char *value; /* [borrowed] */
};

/* Why nothing was changed. */
struct live_refusal {
    enum option_id id;
    char why[OPTION_TEXT_BYTES];
};

/*
 * Take the present settings as those given by files and command line. Call it once, before the
 * workers run. Context: main.
 */
void live_init(struct crew *crew);

/*
 * May only main change one of these? That is so if workers or shards are made or notified, or
 * threads pinned.
 */
bool live_is_for_main(const enum option_id *ids, unsigned count);

/*
 * Change options, all or none of them. On failure returns false and describes the option that
 * cannot be changed in *refusal. Context: worker or main, as live_is_for_main() says, outside a
 * section.
 */
bool live_set(struct crew *crew, const struct live_change *changes, unsigned count,
              struct live_refusal *refusal);

/*
 * Reset these options to the values that files and command line gave at the start, or when they
 * were last read. Returns as live_set(). Context: as above.
 */
bool live_reset(struct crew *crew, const enum option_id *ids, unsigned count,
                struct live_refusal *refusal);

/*
 * The machine has changed (machine_look()): give an option that is set to a share of it the
 * number that follows from that. *is_new: it has another one now. Returns as live_set().
 * Context: main.
 */
bool live_follow(struct crew *crew, enum option_id id, bool *is_new,
                 struct live_refusal *refusal);

/*
 * Files were reread: apply what is new in them. An option whose value in the files has not
 * changed stays as it is, even if config set has changed it. Fills ids (OPTION_COUNT) and
 * *count with those that were taken. Returns as live_set(). Context: main.
 */
bool live_take(struct crew *crew, const struct settings *fresh, enum option_id *ids,
               unsigned *count, struct live_refusal *refusal);

/*
 * The files were rewritten, and give these values now. Changes only the values to which
 * live_reset() resets. Context: main.
 */
void live_note_given(struct crew *crew, const struct settings *given);

/* Copy the values of all live options as they are between two changes. Context: as above. */
void live_copy(struct crew *crew, struct settings *out);

/*
 * Append the live options that another process needs (options_passed.h). Returns false without
 * memory. Context: main.
 */
bool live_pass(struct crew *crew, struct buf *out);

/*
 * A cancelled move of items has ended: set the option shards to the number of shards that have
 * items. So the option shows what is wanted, also if it is written (config rewrite, an
 * upgrade). Context: main.
 */
void live_note_cancel(struct crew *crew);

/*
 * Change only the memory limit (cache_memlimit). False: it is not possible. Context: as above.
 */
bool live_set_limit(struct crew *crew, uint64_t bytes);

#endif
