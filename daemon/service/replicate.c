/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replication as a part of start and stop: see server.h.
 */
#include "daemon/service/server.h"

#include <string.h>

#include "lib/base/context.h"

/* A stop waits for replicas for at most this time. */
#define LEVEL_MAX_MS 1000

int replicate_start(struct server *s)
{
    const struct attach *a = &s->crew.attach;
    struct repl_record record;

    _Static_assert(sizeof(record) <= ATTACH_EXTRA_BYTES, "it is left in the file of items");
    memcpy(&record, a->extra, sizeof(record));
    bool goes_on = a->state == ATTACH_WARM && !a->marks_stale && a->flushed == 0 &&
                   record.bytes == sizeof(record);
    return replication_start(&s->replication, &s->crew, goes_on ? &record : NULL);
}

bool replicate_stop(struct server *s)
{
    struct attach *a = &s->crew.attach;
    struct repl_record record;

    must_be_main();
    bool is_whole = replication_stop(&s->replication, &record);
    memset(a->extra, 0, sizeof(a->extra));
    memcpy(a->extra, &record, sizeof(record));
    return is_whole;
}

void replicate_on_options(struct crew *crew)
{
    replication_options_changed(crew->replication);
}

bool replicate_hands_over(struct server *s, enum crew_stop how,
                          void (*when_over)(struct message *m, void *receiver))
{
    const struct settings *set = s->crew.settings;
    const int64_t limit_ms = setting_get(set, failover_timeout);
    struct replication *r = &s->replication;

    if (s->stopping != CREW_STOP_NONE || s->has_handed_over ||
        roster_created(&s->crew.roster) == 0 || replication_is_replica(r)) {
        return false;
    }
    s->has_handed_over = true;
    s->stop_next = how;
    s->handover.answer.fn = when_over;
    s->handover.to = &s->crew.main_mailbox;
    if (setting_get(set, failover_on_stop) && !s->is_for_upgrade) {
        replication_failover(r, span_str(""), limit_ms, &s->handover);
        return true;
    }
    return how == CREW_STOP_SOON && set->memory_file != NULL &&
           replication_level(r, limit_ms < LEVEL_MAX_MS ? limit_ms : LEVEL_MAX_MS,
                             &s->handover);
}
