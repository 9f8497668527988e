/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the owner of a key knows about it, and whether an answer of the engine agrees.
 */
#include "tests/stress/client.h"

#include <inttypes.h>

struct before own_look_before(struct worker *w, uint32_t id, const struct own *o)
{
    uint64_t prefixes_done = atomic_load(&client_prefixes(w->world, id)->all_done);
    struct world *world = w->world;
    uint64_t done = atomic_load(&world->flush_done);
    msec_t sure_at = atomic_load(&world->delayed.sure_at);
    struct before b = {.now = clock_now(&world->engine.clock)};

    b.must_be_gone =
        !o->is_unsure && o->is_present &&
        (o->deadline <= b.now || done > o->flushes_begun_after ||
         prefixes_done > o->prefixes_begun_after || (o->ended < sure_at && sure_at <= b.now) ||
         o->ended < atomic_load(&world->delayed.past_at));
    return b;
}

/* May the engine have dropped it by now? To be called after the engine answered. */
static bool may_be_gone(struct worker *w, uint32_t id, const struct own *o)
{
    struct world *world = w->world;
    msec_t now = clock_now(&world->engine.clock);
    msec_t maybe_at = atomic_load(&world->delayed.maybe_at);

    return world->scenario->evicts || o->is_unsure || o->deadline <= now ||
           atomic_load(&world->flush_begun) > o->flushes_done_before ||
           atomic_load(&client_prefixes(world, id)->any_begun) > o->prefixes_done_before ||
           (o->began < maybe_at && maybe_at <= now) ||
           o->began < atomic_load(&world->delayed.past_at);
}

void own_judge(struct worker *w, uint32_t id, struct own *o, const struct before *b,
               bool is_there, const char *what)
{
    if (is_there && !o->is_present && !o->is_unsure) {
        stress_fail(w->world, id, "%s finds a key that was never stored or is deleted", what);
    }
    if (is_there && b->must_be_gone) {
        stress_fail(w->world, id,
                    "%s at %" PRId64 " finds a key of version %" PRIu64 ", deadline %" PRId64
                    ", stored until %" PRId64 " and %" PRIu64 " flushes; done are %" PRIu64
                    " and delayed ones at %" PRId64 " and %" PRId64,
                    what, b->now, o->held, o->deadline, o->ended, o->flushes_begun_after,
                    atomic_load(&w->world->flush_done), atomic_load(&w->world->delayed.past_at),
                    atomic_load(&w->world->delayed.sure_at));
    }
    if (!is_there && o->is_present && !may_be_gone(w, id, o)) {
        stress_fail(w->world, id,
                    "%s misses a key of version %" PRIu64 ", deadline %" PRId64 ", at %" PRId64
                    ", stored between %" PRId64 " and %" PRId64 ", flushes %" PRIu64
                    ", now %" PRIu64 ", delayed flush at %" PRId64,
                    what, o->held, o->deadline, b->now, o->began, o->ended,
                    o->flushes_done_before, atomic_load(&w->world->flush_begun),
                    atomic_load(&w->world->delayed.maybe_at));
    }
    o->is_present = is_there;
    o->is_unsure = false;
}

void own_judge_at_rest(struct worker *w, uint32_t id, const struct own *o, bool is_there)
{
    struct before b = own_look_before(w, id, o);
    struct own judged = *o;

    own_judge(w, id, &judged, &b, is_there, "audit");
}

void own_store_begins(struct worker *w, uint32_t id, struct own *o)
{
    o->flushes_done_before = atomic_load(&w->world->flush_done);
    o->prefixes_done_before = atomic_load(&client_prefixes(w->world, id)->any_done);
    o->began = clock_now(&w->world->engine.clock);
}

void own_store_ended(struct worker *w, uint32_t id, struct own *o, uint64_t cas, bool was_there)
{
    o->flushes_begun_after = atomic_load(&w->world->flush_begun);
    o->prefixes_begun_after = atomic_load(&client_prefixes(w->world, id)->all_begun);
    o->ended = clock_now(&w->world->engine.clock);
    o->is_present = true;
    o->is_unsure = false;
    o->is_stale = o->is_won = false;
    own_new_cas(w, id, o, cas, was_there);
}

void own_new_cas(struct worker *w, uint32_t id, struct own *o, uint64_t cas, bool was_there)
{
    if (cas == o->cas || (was_there && cas < o->cas)) {
        stress_fail(w->world, id, "cas %" PRIu64 " after %" PRIu64 " of the same key", cas,
                    o->cas);
    }
    o->cas = cas;
}
