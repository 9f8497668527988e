/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bodies: see body.h.
 */
#include "lib/store/body.h"

#include <string.h>

#include "lib/base/budgets.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/engine/router.h"
#include "lib/memory/room_make.h"
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"
#include "lib/store/loose.h"
#include "lib/store/store.h"

struct body {
    struct engine *engine;
    struct shard *shard; /* whose segments are taken */
    struct cut cut;
    size_t len;
    size_t filled;
    segment_t first, last;
    uint32_t taken;
    segment_t at;      /* the segment that was asked for last; 0: none yet */
    uint32_t at_index; /* its place among those that are taken */
    char *tail;        /* buffer for the pieces' bytes, made when they begin */
    bool is_placed;
    bool wants_all;        /* it waits for all its segments at once */
    struct waiter *waiter; /* [borrowed] its place in the line; NULL: none */
    struct loose loose;    /* when it is placed: the pieces that take the bytes instead */
    struct body *copy;     /* owned; where its slot is now, being filled: see body_rehome() */
};

static size_t whole_bytes(const struct body *b)
{
    size_t n = (size_t)b->cut.segments << b->shard->memory.arena.shift;

    return n < b->len ? n : b->len;
}

struct body *body_begin(struct engine *e, uint64_t hash, size_t len)
{
    struct body *b = mem_zalloc(sizeof(*b));

    must_be_reading();
    if (b != NULL) {
        const struct route *rt = router_read(&e->router);

        b->engine = e;
        b->shard = rt->shards[route_slot(rt, hash)->put];
        b->len = len;
        chunks_cut(&b->shard->memory, len, &b->cut);
    }
    return b;
}

void body_wait_in_line(struct body *b, struct waiter *w, bool all)
{
    b->waiter = w;
    b->wants_all = all;
}

static void append_segment(struct body *b, segment_t n)
{
    struct segment *segs = b->shard->memory.arena.segments;
    uint32_t seg = segment_bytes(&b->shard->memory.arena);
    size_t rest = whole_bytes(b) - (size_t)b->taken * seg;

    segs[n].fill = rest < seg ? (uint32_t)rest : seg;
    if (b->last != 0) {
        segs[b->last].next = n;
    } else {
        b->first = n;
    }
    b->last = n;
    b->taken++;
}

/* ---- whole segments ---------------------------------------------------------------------- */

/* How often the cursor is asked for one segment before the caller has to come again. */
#define TAKE_TRIES 16

/* What take_segment() does when the shard has none: OUT_MISS: try again. */
static enum outcome take_from_others(struct body *b, enum outcome out)
{
    struct shard *s = b->shard;

    const enum steal stolen = engine_steal(b->engine, s);

    if (stolen == STEAL_DONE) {
        return OUT_MISS;
    }
    if (b->engine->shard_count == 1 || !memory_evicts(&s->memory)) {
        return out;
    }
    /* Soon another shard may have clearly more than this one. */
    return stolen == STEAL_NOTHING && engine_is_barren(b->engine) ? OUT_NO_MEMORY : OUT_WAIT;
}

static enum outcome take_segment(struct body *b, bool may_wait)
{
    struct shard *s = b->shard;
    struct waiter *w = b->waiter;
    msec_t now = clock_now(&b->engine->clock);
    enum outcome out = OUT_MISS;
    segment_t n = 0;
    bool has_section = rcu_is_reading();
    bool has_settled = false;

    if (w != NULL && w->memory != NULL && w->memory != &s->memory) {
        line_leave(w); /* the slot has moved */
    }
    if (w != NULL && w->memory == NULL && !may_wait) {
        w = NULL;
    }
    /* Each try is one bounded slice; the shard is free for others between them. */
    for (int i = 0; i < TAKE_TRIES && out == OUT_MISS; i++) {
        if (!has_section) {
            room_defer();
        }
        shard_enter(s);
        out = room_take_whole(&s->memory, w, b->wants_all ? b->cut.segments - b->taken : 1, now,
                              &n);
        if (out == OUT_OK) {
            append_segment(b, n);
        }
        bool is_behind = w != NULL && w->memory != NULL && line_is_behind(&s->memory, w);
        /*
         * What waits for a period in its own shard will do, unless this is the last try. A
         * segment of another shard would be returned to the system there, and its pages faulted
         * in again here.
         */
        bool is_coming = out == OUT_WAIT && (may_wait || w == NULL) &&
                         arena_waiting(&s->memory.arena) > ROOM_RESERVE;
        shard_leave(s);
        shard_after_leave(s);
        if (!has_section && room_settle() && out == OUT_WAIT && !has_settled) {
            has_settled = true;
            out = OUT_MISS; /* what it would wait for may have been released */
            continue;
        }
        if (!is_behind && !is_coming && (out == OUT_NO_MEMORY || out == OUT_WAIT)) {
            out = take_from_others(b, out);
        }
    }
    if (out == OUT_MISS && w != NULL) {
        w->wake(w); /* it has been called, and goes on when others had their turn */
    }
    return out != OUT_MISS ? out : OUT_WAIT;
}

enum outcome body_take(struct body *b, bool may_wait)
{
    enum outcome out = OUT_OK;

    while (out == OUT_OK && b->taken < b->cut.segments) {
        out = take_segment(b, may_wait);
    }
    return out == OUT_WAIT && !may_wait ? OUT_NO_MEMORY : out;
}

/* The segment with this index: quick if it is that of the last call or the next. */
static segment_t segment_at(struct body *b, uint32_t index)
{
    if (b->at == 0 || b->at_index > index) {
        b->at = b->first;
        b->at_index = 0;
    }
    for (; b->at_index < index; b->at_index++) {
        b->at = b->shard->memory.arena.segments[b->at].next;
    }
    return b->at;
}

/* Where the bytes of a segment go from this one of the value on. */
static struct span segment_room(struct body *b, size_t at)
{
    const struct arena *a = &b->shard->memory.arena;
    size_t offset = at % segment_bytes(a);
    size_t room = segment_bytes(a) - offset;
    size_t left = whole_bytes(b) - at;

    return span_of(segment_ptr(a, segment_at(b, (uint32_t)(at >> a->shift))) + offset,
                   room < left ? room : left);
}

void body_disown(struct body *b)
{
    b->first = 0;
    b->last = 0;
    b->taken = 0;
    b->at = 0;
    b->is_placed = false;
}

static void give_back(struct body *b)
{
    if (b->first != 0) {
        shard_enter(b->shard);
        arena_give_whole(&b->shard->memory.arena, b->first, b->last, b->taken);
        line_settle(&b->shard->memory);
        shard_leave(b->shard);
        body_disown(b);
    }
}

/* Give the segments back from the one with this index on. */
static void give_back_from(struct body *b, uint32_t index)
{
    struct arena *a = &b->shard->memory.arena;

    if (index >= b->taken) {
        return;
    }
    if (index == 0) {
        give_back(b);
        return;
    }
    segment_t last = segment_at(b, index - 1);
    shard_enter(b->shard);
    arena_give_whole(a, a->segments[last].next, b->last, b->taken - index);
    a->segments[last].next = 0;
    line_settle(&b->shard->memory);
    shard_leave(b->shard);
    b->last = last;
    b->taken = index;
}

/* A body holds what has come: give the segments back that nothing was received into. */
static void give_back_empty(struct body *b)
{
    const struct arena *a = &b->shard->memory.arena;

    give_back_from(b, (uint32_t)((b->filled + segment_bytes(a) - 1) >> a->shift));
}

/* ---- placed in blocks -------------------------------------------------------------------- */

_Static_assert(BODY_PLACES_MAX >= BODY_SEGMENTS_MAX + PIECES_MAX, "each is a place");

bool engine_may_place(const struct engine *e, size_t len)
{
    struct cut cut;

    chunks_cut(&e->shards[0]->memory, len,
               &cut); /* the size of segments is the same in all shards */
    return len > ENGINE_SMALL_MAX && len <= BODY_PLACE_MAX && cut.segments <= BODY_SEGMENTS_MAX;
}

bool body_is_at_pieces(const struct body *b)
{
    return b->filled == whole_bytes(b) && b->filled < b->len;
}

bool body_place(struct body *b, const struct store *st, msec_t now)
{
    uint32_t full = (uint32_t)(b->filled >> b->shard->memory.arena.shift);

    must_be_reading();
    must(!b->is_placed);
    /* What the item will be must be known already, for example its deadline. */
    if (st->mode > STORE_CAS || st->takes_older || b->filled > whole_bytes(b) ||
        b->cut.segments - full > BODY_SEGMENTS_MAX || body_take(b, false) != OUT_OK) {
        return false;
    }
    body_parts(b, &b->loose.parts);
    b->loose.parts.tail = NULL; /* its bytes are to come */
    b->is_placed = loose_begin(b->engine, st, &b->loose, now);
    return b->is_placed;
}

unsigned body_places(struct body *b, struct iovec places[BODY_PLACES_MAX])
{
    size_t whole = whole_bytes(b);
    size_t taken = (size_t)b->taken << b->shard->memory.arena.shift;
    size_t at = b->filled;
    unsigned n = 0;

    while (at < whole && at < taken && n < BODY_SEGMENTS_MAX) {
        struct span s = segment_room(b, at);

        places[n++] = (struct iovec){(char *)(uintptr_t)s.ptr, s.len};
        at += s.len;
    }
    at -= at < whole ? at : whole;
    for (uint32_t i = 0; b->is_placed && i < b->loose.pieces; i++) {
        struct span s = loose_piece(&b->loose, i);

        if (at < s.len) {
            places[n++] = (struct iovec){(char *)(uintptr_t)s.ptr + at, s.len - at};
        }
        at -= at < s.len ? at : s.len;
    }
    return n;
}

/* Where the next bytes go of a placed body whose segments are full. */
static void first_piece(const struct body *b, char **ptr, size_t *n)
{
    size_t skip = b->filled - whole_bytes(b);
    struct span s = loose_piece(&b->loose, 0);

    for (uint32_t i = 1; skip >= s.len; i++) {
        skip -= s.len;
        s = loose_piece(&b->loose, i);
    }
    *ptr = (char *)(uintptr_t)s.ptr + skip;
    *n = s.len - skip;
}

struct loose *body_loose(struct body *b)
{
    return b->is_placed ? &b->loose : NULL;
}

void body_lose_place(struct body *b)
{
    b->is_placed = false;
}

/* The buffer for the pieces' bytes. */
static bool make_tail(struct body *b)
{
    if (b->tail == NULL) {
        b->tail = mem_alloc(b->len - whole_bytes(b));
    }
    return b->tail != NULL;
}

bool body_keep_bytes(struct body *b)
{
    size_t whole = whole_bytes(b);
    size_t end = b->filled > whole ? b->filled - whole : 0;
    size_t done = 0;

    if (end > 0 && !make_tail(b)) {
        return false;
    }
    for (uint32_t i = 0; done < end; i++) {
        struct span s = loose_piece(&b->loose, i);
        size_t n = s.len < end - done ? s.len : end - done;

        memcpy(b->tail + done, s.ptr, n);
        done += n;
    }
    return true;
}

bool body_unplace(struct body *b)
{
    bool is_kept = true;

    if (b->is_placed) {
        is_kept = body_keep_bytes(b);
        loose_abort(&b->loose);
        body_lose_place(b);
        give_back_empty(b);
    }
    return is_kept;
}

void body_take_ahead(struct body *b)
{
    const struct arena *a = &b->shard->memory.arena;
    size_t most = b->filled + BODY_PLACE_MAX;

    while (b->taken < b->cut.segments && (size_t)(b->taken + 1) << a->shift <= most &&
           b->taken - (uint32_t)(b->filled >> a->shift) < BODY_SEGMENTS_MAX) {
        if (take_segment(b, false) != OUT_OK) {
            return;
        }
    }
}

void body_give_ahead(struct body *b)
{
    give_back_from(b, (uint32_t)(b->filled >> b->shard->memory.arena.shift) + 1);
}

/* ---- what it receives -------------------------------------------------------------------- */

enum outcome body_room(struct body *b, bool may_wait, char **ptr, size_t *n)
{
    size_t whole = whole_bytes(b);
    size_t taken = (size_t)b->taken << b->shard->memory.arena.shift;

    must(b->filled < b->len);
    if (b->filled >= whole && b->is_placed) {
        first_piece(b, ptr, n);
        return OUT_OK;
    }
    if (b->filled >= whole) {
        *ptr = make_tail(b) ? b->tail + (b->filled - whole) : NULL;
        *n = b->len - b->filled;
        return *ptr != NULL ? OUT_OK : OUT_NO_MEMORY;
    }
    if (b->filled == taken) {
        enum outcome out = take_segment(b, may_wait);

        if (out != OUT_OK) {
            return out == OUT_WAIT && !may_wait ? OUT_NO_MEMORY : out;
        }
    }
    struct span room = segment_room(b, b->filled);
    *ptr = (char *)(uintptr_t)room.ptr;
    *n = room.len;
    return OUT_OK;
}

void body_filled(struct body *b, size_t n)
{
    must(n <= b->len - b->filled);
    b->filled += n;
}

size_t body_missing(const struct body *b)
{
    return b->len - b->filled;
}

size_t body_held_bytes(const struct body *b)
{
    size_t whole = whole_bytes(b);
    size_t taken = (size_t)b->taken + (b->copy != NULL ? b->copy->taken : 0);
    size_t segments = taken << b->shard->memory.arena.shift;

    return segments + (b->filled > whole ? b->filled - whole : 0);
}

bool body_next_is_held(const struct body *b)
{
    size_t segments = (size_t)b->taken << b->shard->memory.arena.shift;

    return b->is_placed || (b->filled < whole_bytes(b) && b->filled < segments);
}

static void drop_copy(struct body *b)
{
    if (b->copy != NULL) {
        give_back(b->copy);
        mem_free(b->copy);
        b->copy = NULL;
    }
}

void body_abort(struct body **b)
{
    if (*b != NULL) {
        if ((*b)->is_placed) {
            loose_abort(&(*b)->loose);
        }
        give_back(*b);
        drop_copy(*b);
        if ((*b)->waiter != NULL && !(*b)->wants_all) {
            line_leave((*b)->waiter);
        }
        mem_free((*b)->tail);
        mem_free(*b);
        *b = NULL;
    }
}

void body_parts(const struct body *b, struct body_parts *out)
{
    size_t whole = whole_bytes(b);

    out->shard = b->shard;
    out->first = b->first;
    out->last = b->last;
    out->segments = b->taken;
    out->tail = b->tail;
    out->tail_len = b->len - whole;
    out->len = b->len;
}

enum outcome body_append(struct body *b, struct span part, bool may_wait)
{
    while (part.len > 0) {
        char *p;
        size_t n;
        enum outcome out = body_room(b, may_wait, &p, &n);

        if (out != OUT_OK) {
            return out;
        }
        n = n < part.len ? n : part.len;
        memcpy(p, part.ptr, n);
        body_filled(b, n);
        part = span_of(part.ptr + n, part.len - n);
    }
    return OUT_OK;
}

enum outcome body_fill_segments(struct body *b, struct span value, bool may_wait)
{
    return body_append(b, span_of(value.ptr, whole_bytes(b)), may_wait);
}

static bool begin_copy(struct body *b, struct shard *to)
{
    struct body *copy = mem_alloc(sizeof(*copy));

    if (copy != NULL) {
        *copy = *b;
        copy->shard = to;
        body_disown(copy);
    }
    b->copy = copy;
    return copy != NULL;
}

enum outcome body_rehome(struct body *b, struct shard *to, bool may_wait)
{
    const uint32_t most = BUDGET_copy_bytes >> to->memory.arena.shift;

    if (b->copy != NULL && b->copy->shard != to) {
        drop_copy(b); /* the slot has moved again */
    }
    if (b->copy == NULL && !begin_copy(b, to)) {
        return OUT_NO_MEMORY;
    }
    struct body *copy = b->copy;
    for (uint32_t i = 0; copy->taken < b->taken; i++) {
        if (i == most && may_wait) {
            return OUT_WAIT; /* so that other connections are served */
        }
        enum outcome out = take_segment(copy, may_wait);
        if (out != OUT_OK) {
            if (out != OUT_WAIT || !may_wait || b->wants_all) {
                drop_copy(b); /* an upload keeps what it has while it waits */
            }
            return out == OUT_WAIT && !may_wait ? OUT_NO_MEMORY : out;
        }
        memcpy(segment_ptr(&to->memory.arena, copy->last),
               segment_ptr(&b->shard->memory.arena, segment_at(b, copy->taken - 1)),
               segment_bytes(&to->memory.arena));
    }
    give_back(b);
    *b = *copy;
    b->copy = NULL;
    mem_free(copy);
    return OUT_OK;
}
