/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the log for other threads, and texts for the result of the load: see
 * snapshots.h. Any thread.
 */
#include "daemon/persist/snapshots.h"

#include "daemon/persist/snapshots_parts.h"

void snapshots_tell_logged(struct snapshots *s, void (*fn)(void *arg), void *arg)
{
    if (snapshots_is_on(s)) {
        append_tell(&s->append, fn, arg);
    }
}

bool snapshots_may_log(const struct snapshots *s)
{
    return s->append.log != NULL;
}

void snapshots_options_changed(struct snapshots *s)
{
    if (snapshots_is_on(s)) {
        snapshots_set_rate(s);
        append_set_sync(&s->append);
        pthread_mutex_lock(&s->mutex);
        s->wants |= KEEPER_WANTS_OPTIONS;
        pthread_cond_signal(&s->wake);
        pthread_mutex_unlock(&s->mutex);
    }
}

const char *snapshots_load_text(const struct snapshots_info *info)
{
    static const char *const texts[] = {
        [SNAPSHOTS_NOT_LOADED] = "none",   [SNAPSHOTS_PASSED_OVER] = "none",
        [SNAPSHOTS_NO_FILE] = "no-file",   [SNAPSHOTS_LOADED] = "ok",
        [SNAPSHOTS_SALVAGED] = "salvaged", [SNAPSHOTS_BAD] = "bad",
        [SNAPSHOTS_TOO_OLD] = "too-old",   [SNAPSHOTS_FLUSHED] = "flushed"};

    return info->is_loading ? "loading" : texts[info->load];
}
