/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stress client as the owner of keys that it marks as stale, and wins back.
 */
#include "tests/stress/client.h"

#include "lib/base/rcu.h"
#include "lib/store/erase.h"
#include "lib/store/fetch.h"

void own_check_marks(struct worker *w, uint32_t id, const struct own *o, const struct item *it)
{
    uint16_t shape = item_shape(it);
    uint16_t want = (uint16_t)((o->is_stale ? SHAPE_STALE : 0) | (o->is_won ? SHAPE_WON : 0));

    /* An item that was unlinked or moved since it was found has no cas any more. */
    if (shape_is_live(shape) && shape_marks(shape) != want) {
        stress_fail(w->world, id, "marks %#x, should be %#x", shape_marks(shape), want);
    }
}

/* The answer to the request does not contain the new cas. */
static void learn_cas(struct worker *w, const struct name *n, struct own *o)
{
    struct engine *e = &w->world->engine;
    struct before b = own_look_before(w, n->id, o);

    rcu_begin();
    struct found f = engine_find(router_read(&e->router), n->hash, n->text, n->len, b.now);
    if (f.item != NULL) {
        client_check_item(w, n, &f, b.now);
        own_new_cas(w, n->id, o, item_cas(f.item), true);
        own_check_marks(w, n->id, o, f.item);
    }
    rcu_end();
    own_judge(w, n->id, o, &b, f.item != NULL, "get of a stale item");
}

static void mark_stale(struct worker *w, const struct name *n, struct own *o)
{
    struct engine *e = &w->world->engine;
    struct erase d = {.hash = n->hash,
                      .key = span_of(n->text, n->len),
                      .marks_stale = true,
                      .may_wait = true};
    struct before b;
    unsigned tries = 0;
    enum outcome out;

    do {
        b = own_look_before(w, n->id, o);
        rcu_begin();
        out = engine_erase(e, &d, b.now);
        rcu_end();
    } while (client_again(w, out, &d.may_wait, &tries));
    w->tally.erases++;
    if (client_had_no_room(w, n->id, out, OUT_DELETED, "erase")) {
        return;
    }
    own_judge(w, n->id, o, &b, out == OUT_DELETED, "erase");
    if (out == OUT_DELETED) {
        o->is_stale = true;
        o->is_won = false;
        learn_cas(w, n, o);
    }
}

static void win(struct worker *w, const struct name *n, struct own *o)
{
    struct engine *e = &w->world->engine;
    struct before b = own_look_before(w, n->id, o);
    struct fetch get = {.hash = n->hash,
                        .key = span_of(n->text, n->len),
                        .recaches = rng_below(&w->rng, 2) != 0,
                        .recache_before = b.now + (msec_t)rng_below(&w->rng, 3000)};
    bool wins = !o->is_won && (o->is_stale || (get.recaches && o->deadline != MSEC_NEVER &&
                                               o->deadline < get.recache_before));

    rcu_begin();
    enum outcome out = engine_fetch(e, &get, b.now);
    if (out == OUT_HIT) {
        client_check_item(w, n, &get.found, b.now);
        if (get.is_won != wins || get.was_won != o->is_won || get.is_stale != o->is_stale ||
            item_cas(get.found.item) != o->cas || get.deadline_before != o->deadline) {
            stress_fail(w->world, n->id, "won %d stale %d before %d, should be %d %d %d",
                        get.is_won, get.is_stale, get.was_won, wins, o->is_stale, o->is_won);
        }
    }
    rcu_end();
    if (out != OUT_HIT && out != OUT_MISS) {
        stress_fail(w->world, n->id, "fetch says %s", outcome_name(out));
    }
    own_judge(w, n->id, o, &b, out == OUT_HIT, "fetch");
    o->is_won = o->is_won || wins;
}

void client_mark_turn(struct worker *w, const struct name *n, struct own *o)
{
    if (rng_below(&w->rng, 2) != 0) {
        mark_stale(w, n, o);
    } else {
        win(w, n, o);
    }
}
