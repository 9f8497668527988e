/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the stress client gets bytes into and out of the engine.
 */
#include "tests/stress/client.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "lib/base/rcu.h"
#include "lib/memory/line.h"
#include "lib/memory/room_make.h"
#include "lib/store/body.h"

/* Waits of about 1 ms before a store may be refused. */
#define WAIT_TRIES 5000u

void name_of(const struct worker *w, uint32_t id, struct name *n)
{
    n->id = id;
    n->len = content_key(id, n->text);
    n->hash = engine_hash(&w->world->engine, n->text, n->len);
}

const char *client_value(struct worker *w, const struct found *f, size_t *len)
{
    struct value_walk walk;
    struct span part;
    size_t at = 0;

    *len = item_len(f->item);
    if (!item_is_large(f->item)) {
        return item_value(f->item);
    }
    if (*len > w->world->scratch_bytes) {
        stress_fail(w->world, 0, "a value of %zu bytes", *len);
    }
    if (rng_below(&w->rng, 2) != 0) {
        value_copy(f->shard, f->item, w->scratch2);
        return w->scratch2;
    }
    value_walk_begin(&walk, f->shard, f->item);
    while (value_walk_next(&walk, &part)) {
        if (part.len > *len - at) {
            stress_fail(w->world, 0, "a walk gives more than the %zu bytes of the value", *len);
        }
        memcpy(w->scratch2 + at, part.ptr, part.len);
        at += part.len;
    }
    if (at != *len) {
        stress_fail(w->world, 0, "a walk gives %zu of %zu bytes", at, *len);
    }
    return w->scratch2;
}

bool client_wait(struct worker *w, unsigned *tries)
{
    struct timespec ms = {0, 1000000};

    w->tally.waits++;
    worker_duties(w);
    (void)nanosleep(&ms, NULL);
    return ++*tries < WAIT_TRIES;
}

bool client_again(struct worker *w, enum outcome out, bool *may_wait, unsigned *tries)
{
    if (out != OUT_WAIT) {
        return false;
    }
    *may_wait = client_wait(w, tries);
    return true;
}

bool client_had_no_room(struct worker *w, uint32_t id, enum outcome out, enum outcome success,
                        const char *what)
{
    if (out == OUT_NO_MEMORY) {
        w->tally.no_memory++;
        return true;
    }
    if (out != success && out != OUT_NOT_FOUND) {
        stress_fail(w->world, id, "%s says %s", what, outcome_name(out));
    }
    return false;
}

/* Hand a value over piece by piece, as it would arrive. False: no room; the body is gone. */
static bool body_fill(struct worker *w, struct body **b, const char *value, size_t len)
{
    size_t at = len - body_missing(*b);
    unsigned tries = 0;
    bool may_wait = true;

    while (body_missing(*b) != 0) {
        char *ptr = NULL;
        size_t n = 0;
        enum outcome out = body_room(*b, may_wait, &ptr, &n);

        if (out == OUT_WAIT && may_wait) {
            may_wait = client_wait(w, &tries);
            continue;
        }
        if (out != OUT_OK) {
            body_abort(b);
            return false;
        }
        if (n == 0 || n > len - at) {
            stress_fail(w->world, 0, "body_room gives %zu bytes, %zu are missing", n, len - at);
        }
        if (rng_below(&w->rng, 4) == 0) {
            n = 1 + rng_below(&w->rng, n);
        }
        memcpy(ptr, value + at, n);
        body_filled(*b, n);
        at += n;
        if (rng_below(&w->rng, 400) == 0) {
            w->tally.aborts++;
            body_abort(b);
            return false;
        }
    }
    if (at != len) {
        stress_fail(w->world, 0, "a body of %zu bytes is full after %zu", len, at);
    }
    return true;
}

/*
 * Write as one read into the value's place would: all of it, or only its beginning. True: it is
 * complete, and has to be stored in this section. False: the rest comes later.
 */
static bool body_fill_placed(struct worker *w, const struct store *s, struct body *b,
                             const char *value, size_t len)
{
    struct iovec places[BODY_PLACES_MAX];
    struct engine *e = &w->world->engine;
    size_t at = 0, end = len;

    if (!engine_may_place(e, len) || rng_below(&w->rng, 3) == 0 ||
        !body_place(b, s, clock_now(&e->clock))) {
        return false;
    }
    if (rng_below(&w->rng, 4) == 0) {
        end = rng_below(&w->rng, len);
    }
    unsigned n = body_places(b, places);
    for (unsigned i = 0; i < n && at < end; i++) {
        size_t take = places[i].iov_len < end - at ? places[i].iov_len : end - at;

        memcpy(places[i].iov_base, value + at, take);
        at += take;
    }
    if (at != end) {
        stress_fail(w->world, 0, "a body of %zu bytes has places for %zu", len, at);
    }
    body_filled(b, at);
    if (end == len) {
        w->tally.placed++;
        return true;
    }
    if (!body_unplace(b)) {
        stress_fail(w->world, 0, "no memory for what came of a body");
    }
    return false;
}

/* A waiting client polls as well. */
static void wake_nobody(struct waiter *w)
{
    (void)w;
}

enum outcome client_store(struct worker *w, const struct name *n, enum store_mode mode,
                          const char *value, size_t len, uint32_t flags, msec_t deadline,
                          uint64_t cas_expected, uint64_t *cas)
{
    struct engine *e = &w->world->engine;
    struct body *body = NULL;
    struct waiter place = {.wake = wake_nobody};
    struct store s = {.mode = mode,
                      .waiter = rng_below(&w->rng, 4) != 0 ? &place : NULL,
                      .hash = n->hash,
                      .key = span_of(n->text, n->len),
                      .flags = flags,
                      .deadline = deadline,
                      .cas_expected = cas_expected,
                      .may_wait = true};
    enum outcome out;
    unsigned tries = 0;
    bool is_inside = false; /* of a section that is already open */

    w->tally.stores++;
    if (len > ENGINE_SMALL_MAX && mode <= STORE_CAS && rng_below(&w->rng, 4) != 0) {
        room_defer();
        rcu_begin();
        body = body_begin(e, n->hash, len);
        if (body != NULL) {
            body_wait_in_line(body, s.waiter, false);
        }
        is_inside = body != NULL && body_fill_placed(w, &s, body, value, len);
        if (!is_inside) {
            rcu_end();
            (void)room_settle();
        }
        if (body == NULL || (!is_inside && !body_fill(w, &body, value, len))) {
            w->tally.no_memory++;
            if (place.memory != NULL) {
                stress_fail(w->world, n->id, "a body that is gone still waits");
            }
            return OUT_NO_MEMORY;
        }
        w->tally.bodies++;
        s.body = &body;
    } else {
        s.value = span_of(value, len);
    }
    for (;;) {
        msec_t now = clock_now(&e->clock);

        if (!is_inside) {
            room_defer();
            rcu_begin();
        }
        is_inside = false;
        out = engine_store(e, &s, now);
        rcu_end();
        (void)room_settle();
        if (out != OUT_WAIT) {
            break;
        }
        if (!s.may_wait) {
            stress_fail(w->world, n->id, "told to wait though it may not");
        }
        if (s.body != NULL && body == NULL) {
            stress_fail(w->world, n->id, "told to wait, but the body was taken");
        }
        s.may_wait = client_wait(w, &tries);
    }
    if (body != NULL) {
        stress_fail(w->world, n->id, "the body was not taken with %s", outcome_name(out));
    }
    if (place.memory != NULL) {
        stress_fail(w->world, n->id, "a store that is done still waits");
    }
    if (out == OUT_NO_MEMORY) {
        w->tally.no_memory++;
    } else if (out == OUT_STORED) {
        *cas = s.cas;
    }
    return out;
}

void client_pin(struct worker *w, const struct found *f, uint32_t id)
{
    struct held_pin *p = &w->pins[rng_below(&w->rng, PINS_HELD)];
    struct span part;

    if (p->is_held || item_len(f->item) > w->world->scenario->large_bytes_max) {
        return;
    }
    p->id = id;
    p->len = item_len(f->item);
    p->done = 0;
    value_walk_begin(&p->walk, f->shard, f->item);
    if (rng_below(&w->rng, 2) != 0 && value_walk_has_segments(&p->walk) &&
        value_walk_next(&p->walk, &part)) {
        memcpy(p->copy, part.ptr, part.len);
        p->done = part.len;
    }
    if (!value_walk_has_segments(&p->walk)) {
        return;
    }
    size_t tail = value_walk_tail(&p->walk);
    if (tail > p->len - p->done) {
        stress_fail(w->world, id, "a tail of %zu bytes behind %zu of %zu", tail, p->done,
                    p->len);
    }
    value_walk_copy_tail(&p->walk, p->copy + p->len - tail);
    p->whole = p->len;
    p->len -= tail; /* the part to be read from segments ends here */
    p->pin = value_pin(&p->walk);
    p->is_held = true;
    w->tally.pins++;
}

void client_unpin(struct worker *w, struct held_pin *p)
{
    struct span part;
    struct stamp stamp;
    char why[128];

    if (!p->is_held) {
        return;
    }
    p->is_held = false;
    if (value_pin_is_dead(&p->pin) && value_pinned_excess(p->pin.shard) > 0) {
        value_unpin(&p->pin);
        return;
    }
    while (p->done < p->len) {
        if (!value_walk_next(&p->walk, &part) || part.len > p->len - p->done) {
            stress_fail(w->world, p->id, "a pinned walk ends after %zu of %zu bytes", p->done,
                        p->len);
        }
        memcpy(p->copy + p->done, part.ptr, part.len);
        p->done += part.len;
    }
    value_unpin(&p->pin);
    if (!content_check_stamp(p->copy, p->whole, p->id, &stamp, why, sizeof(why))) {
        stress_fail(w->world, p->id, "a pinned value changed: %s", why);
    }
}

void client_rest(struct worker *w)
{
    for (uint32_t i = 0; i < PINS_HELD; i++) {
        client_unpin(w, &w->pins[i]);
    }
}
