/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats replication`: the role of this server, and a line for each replica.
 */
#include "daemon/stats/stats_general.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/options/replica_address.h"
#include "daemon/stats/stats_sum.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"

#define PUT_U64  stats_put_u64
#define PUT_I64  stats_put_i64
#define PUT_TEXT stats_put_text

#define NUMBER_BYTES 24

/* A number, or a dash for what is not known. */
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
    replication_look(&w->crew->replication, &info);
    stats_sum(w->crew, sum);
#define REPLICATION(name, unit, form, shown, kind, sample, help) PUT_##form(o, name, shown);
#include "daemon/base/replication.def"
    for (unsigned n = 0; n < info.count; n++) {
        put_replica(o, n, &info.replica[n]);
    }
}
