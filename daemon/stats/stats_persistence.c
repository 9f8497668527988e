/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats persistence`: the snapshot, saved and loaded, and items in a file.
 */
#include "daemon/stats/stats_general.h"

#include "daemon/worker/crew.h"
#include "lib/base/context.h"

#define PUT_U64  stats_put_u64
#define PUT_I64  stats_put_i64
#define PUT_TEXT stats_put_text

void stats_persistence(struct worker *w, struct stats_out *o)
{
    struct snapshots_info info;
    const struct snapshots_info *i = &info;
    struct exports_info exports;
    const struct exports_info *x = &exports;
    const struct attach *a = &w->crew->attach;
    char why[HANDOVER_WHY_BYTES];
    const enum handover_state h = crew_look_upgrade(w->crew, why);

    must_be_worker(w);
    snapshots_look(&w->crew->snapshots, &info);
    exports_look(&w->crew->exports, &exports);
#define PERSISTENCE(name, unit, form, shown, kind, sample, help) PUT_##form(o, name, shown);
#include "daemon/base/persistence.def"
}
