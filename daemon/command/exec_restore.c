/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restore: see restore_store() in exec.h.
 */
#include "daemon/command/exec.h"

#include <inttypes.h>

#include "daemon/worker/crew.h"
#include "lib/base/num.h"
#include "lib/engine/guarding.h"
#include "proto/text_parse.h"

static enum turn_stop begin(struct turn *t, const struct request *r, uint64_t items)
{
    struct crew *crew = t->w->crew;

    if ((t->w->gate & GATE_STOPS) != 0) {
        enum reply why = guard_ask_gate(t);

        (void)guard_count(t, why);
        return turn_answer(t, r, why);
    }
    switch (guarding_begin(t->e, &crew->restored, items, t->may_wait)) {
    case GUARDING_ON:
        atomic_store_explicit(&crew->restorer, t->client, memory_order_relaxed);
        return turn_answer(t, r, REPLY_OK);
    case GUARDING_BUSY:
        return turn_answer(t, r, REPLY_RESTORE_BUSY);
    case GUARDING_WAIT:
        return TURN_WAITS;
    case GUARDING_NO_MEMORY:
        return turn_answer(t, r, REPLY_NO_MEMORY);
    }
    unreachable();
}

static enum turn_stop end(struct turn *t, const struct request *r)
{
    const struct guard *g = &t->w->crew->restored;

    if (!client_restores(t->client, t->w)) {
        return turn_answer(t, r, REPLY_NOT_FOUND);
    }
    bool is_void = atomic_load(&g->is_void);
    uint64_t turned = atomic_load(&g->turned);
    client_end_restore(t->client, t->w);
    return is_void ? turn_answer(t, r, REPLY_EXPORT_FLUSHED)
                   : turn_line(t, "RESTORED %" PRIu64 "\r\n", turned);
}

enum turn_stop exec_restore(struct turn *t, const struct request *r)
{
    struct span args = r->args;
    struct span word;
    struct span number;
    uint64_t items = 0;

    must(t->client != NULL); /* refused in datagrams */
    if (text_next_key(&args, &word) && span_is(word, "begin") &&
        (!text_next_key(&args, &number) || num_u64(number, &items) == MF_OK) && args.len == 0) {
        return begin(t, r, items);
    }
    return span_is(r->args, "end") ? end(t, r) : turn_answer(t, r, REPLY_RESTORE_USAGE);
}

enum outcome restore_store(struct turn *t, struct store *s)
{
    must_be_in_turn(t);
    guard_set_loader(true);
    enum outcome out = engine_store(t->e, s, t->now);
    guard_set_loader(false);
    return out;
}
