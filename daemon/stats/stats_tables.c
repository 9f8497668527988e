/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sections of `stats` with separate tables: `stats budgets`, `stats moves`, `stats
 * persistence` and `stats replication`, which also has a line for each replica.
 */
#include "daemon/stats/stats_parts.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/options/replica_address.h"
#include "daemon/replica/replication.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/crew.h"
#include "lib/base/budgets.h"
#include "lib/base/context.h"

#define PUT_U64  stats_put_u64
#define PUT_I64  stats_put_i64
#define PUT_TEXT stats_put_text

#define PUT_ROW(name, unit, form, shown, kind, sample, help) PUT_##form(o, name, shown);

void stats_budgets(struct worker *w, struct stats_out *o)
{
    must_be_worker(w);
#define BUDGET(name, value, unit, text) stats_put_u64(o, #name, BUDGET_##name);
#include "lib/base/budgets.def"
}

void stats_moves(struct worker *w, struct stats_out *o)
{
    struct moving_info info;
    const struct moving_info *i = &info;

    must_be_worker(w);
    moving_look(w->crew, &info);
#define MOVES_AS PUT_ROW
#include "daemon/stats/moves.def"
}

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
#define PERSISTENCE_AS PUT_ROW
#include "daemon/stats/persistence.def"
}

#define NUMBER_BYTES 24

/* A number, or a dash if it is unknown. */
static const char *number_or_dash(char out[NUMBER_BYTES], bool is_known, uint64_t n)
{
    snprintf(out, NUMBER_BYTES, "%" PRIu64, n);
    return is_known ? out : "-";
}

static void put_replica(struct stats_out *o, unsigned n, const struct replica_info *x)
{
    char name[32];
    char address[REPLICA_ADDRESS_BYTES];
    char offset[NUMBER_BYTES], lag[NUMBER_BYTES], ack[NUMBER_BYTES];

    snprintf(name, sizeof(name), "replica%u", n);
    replica_address_join(x->address, address);
    stats_putf(o, name, "peer=%s,address=%s,state=%s,offset=%s,lag_bytes=%s,ack_ms=%s", x->peer,
               address[0] != '\0' ? address : "-", x->is_online ? "online" : "syncing",
               number_or_dash(offset, x->is_online, x->acked),
               number_or_dash(lag, x->is_online, x->lag_bytes),
               number_or_dash(ack, x->is_online, (uint64_t)x->since_ms));
}

void stats_replication(struct worker *w, struct stats_out *o)
{
    struct repl_info info;
    const struct repl_info *i = &info;
    uint64_t sum[CTR_COUNT];

    must_be_worker(w);
    replication_look(w->crew->replication, &info);
    stats_sum(w->crew, sum);
#define REPLICATION_AS PUT_ROW
#include "daemon/stats/replication.def"
    for (unsigned n = 0; n < info.count; n++) {
        put_replica(o, n, &info.replica[n]);
    }
}
