/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats persistence`: the snapshot, saved and loaded. Names are those of Redis where it
 * has them.
 */
#include "daemon/stats/stats_general.h"

#include "daemon/worker/crew.h"
#include "lib/base/context.h"

static const char *load_text(const struct snapshots_info *i)
{
    if (i->is_loading) {
        return "loading";
    }
    switch (i->load) {
    case SNAPSHOTS_NOT_LOADED:
        return "none";
    case SNAPSHOTS_NO_FILE:
        return "no-file";
    case SNAPSHOTS_LOADED:
        return "ok";
    case SNAPSHOTS_SALVAGED:
        return "salvaged";
    case SNAPSHOTS_BAD:
        return "bad";
    case SNAPSHOTS_TOO_OLD:
        return "too-old";
    }
    unreachable();
}

void stats_persistence(struct worker *w, struct stats_out *o)
{
    struct snapshots_info i;

    must_be_worker(w);
    snapshots_look(&w->crew->snapshots, &i);
    stats_put_text(o, "rdb_enabled", i.is_on ? "yes" : "no");
    stats_put_u64(o, "rdb_bgsave_in_progress", i.is_saving);
    stats_put_u64(o, "rdb_bgsave_scheduled", i.is_scheduled);
    stats_put_u64(o, "rdb_current_keys_processed", i.items);
    stats_put_u64(o, "rdb_current_keys_total", i.items_total);
    stats_put_u64(o, "rdb_changes_since_last_save", i.changes);
    stats_put_i64(o, "rdb_last_save_time", i.saved_unix_s);
    stats_put_text(o, "rdb_last_bgsave_status", i.was_good ? "ok" : "err");
    stats_put_u64(o, "rdb_last_bgsave_time_ms", i.saved_ms);
    stats_put_u64(o, "rdb_last_save_keys", i.saved_items);
    stats_put_u64(o, "rdb_last_save_bytes", i.saved_bytes);
    stats_put_u64(o, "rdb_last_save_keys_expired", i.saved_expired);
    stats_put_u64(o, "rdb_last_save_keys_left_out", i.saved_left_out);
    stats_put_u64(o, "rdb_saves", i.saves);
    stats_put_u64(o, "rdb_save_failures", i.failures);
    stats_put_u64(o, "rdb_saves_flushed", i.flushed);
    stats_put_text(o, "rdb_last_load_status", load_text(&i));
    stats_put_u64(o, "rdb_last_load_keys_loaded", i.load_items);
    stats_put_u64(o, "rdb_last_load_keys_expired", i.load_expired);
    stats_put_u64(o, "rdb_last_load_keys_refused", i.load_refused);
    stats_put_u64(o, "rdb_last_load_time_ms", i.load_ms);
}
