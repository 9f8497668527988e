/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The readers of the backlog: see readers.h.
 */
#include "lib/replica/readers.h"

#include "lib/base/check.h"

#define US_PER_SEC 1e6

struct shipper_reader *readers_add(struct readers *rs, struct shipper *s, uint64_t offset,
                                   uint64_t changes)
{
    for (unsigned i = 0; i < SHIPPER_READERS_MAX; i++) {
        struct shipper_reader *r = &rs->table[i];

        if (r->shipper == NULL) {
            *r = (struct shipper_reader){
                .shipper = s,
                .offset = offset,
                .kept = offset,
                .kept_before = offset,
                .changes_before = changes,
                .since_us = clock_mono_us(),
            };
            rs->online++;
            return r;
        }
    }
    return NULL;
}

void readers_remove(struct readers *rs, struct shipper_reader *r)
{
    if (reader_is_online(r) && --rs->online == 0) {
        rs->linger_kept = r->kept;
        rs->linger_until = clock_mono_us() + READERS_LINGER_US;
    }
    r->shipper = NULL;
}

struct shipper_reader *readers_slowest(struct readers *rs)
{
    struct shipper_reader *found = NULL;

    for (unsigned i = 0; i < SHIPPER_READERS_MAX; i++) {
        struct shipper_reader *r = &rs->table[i];

        if (reader_is_online(r) && (found == NULL || r->kept < found->kept)) {
            found = r;
        }
    }
    return found;
}

uint64_t readers_kept(struct readers *rs, struct shipper_reader **r)
{
    *r = readers_slowest(rs);
    if (*r != NULL) {
        return (*r)->kept;
    }
    return clock_mono_us() < rs->linger_until ? rs->linger_kept : UINT64_MAX;
}

void readers_begin_pressure(struct readers *rs, uint64_t changes)
{
    usec_t now = clock_mono_us();

    for (unsigned i = 0; i < SHIPPER_READERS_MAX; i++) {
        struct shipper_reader *r = &rs->table[i];

        r->kept_before = r->kept;
        r->changes_before = changes;
        r->since_us = now;
    }
}

void readers_drop(struct readers *rs, struct shipper_reader *r, enum shipper_drop_reason reason,
                  uint64_t end)
{
    must(reader_is_online(r));
    r->drop.reason = reason;
    r->drop.offset = r->offset;
    r->drop.end = end;
    atomic_store(&r->is_dropped, true);
    rs->online--;
    rs->too_slow += reason == SHIPPER_TOO_SLOW;
}

static uint64_t per_second(double bytes, usec_t us)
{
    return (uint64_t)(bytes * US_PER_SEC / (double)(us > 0 ? us : 1));
}

void readers_drop_slow(struct readers *rs, struct shipper_reader *r, uint64_t end,
                       const struct readers_pace *pace)
{
    usec_t us = clock_mono_us() - r->since_us;

    r->drop.reader_rate = per_second((double)(r->kept - r->kept_before), us);
    /* Estimate: records in the rings become as many bytes each as those shipped did. */
    r->drop.change_rate =
        per_second((double)(pace->changes - r->changes_before) * pace->expansion, us);
    readers_drop(rs, r, SHIPPER_TOO_SLOW, end);
}

void readers_drop_all(struct readers *rs, enum shipper_drop_reason reason, uint64_t end)
{
    for (unsigned i = 0; i < SHIPPER_READERS_MAX; i++) {
        if (reader_is_online(&rs->table[i])) {
            readers_drop(rs, &rs->table[i], reason, end);
        }
    }
    rs->linger_until = 0;
}
