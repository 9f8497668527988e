/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storing: see store.h.
 */
#include "lib/store/store.h"

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/store/find.h"
#include "lib/store/store_common.h"

/*
 * A cas that takes older values: what is stored depends on the item that is there, so that is
 * read first, and again if it changed meanwhile.
 */
static enum outcome store_older(struct engine *e, struct store *st, msec_t now)
{
    struct store_over over;
    struct store s;
    enum outcome out;

    do {
        const struct item *old =
            engine_find(router_read(&e->router), st->hash, st->key.ptr, st->key.len, now).item;

        s = *st;
        s.takes_older = false;
        if (old != NULL && st->cas_expected != 0 && st->cas_expected <= item_cas(old)) {
            bool is_older = st->cas_expected < item_cas(old);

            over = (struct store_over){.item = old,
                                       .deadline = item_deadline(old),
                                       .clears = is_older ? 0 : SHAPE_TOP,
                                       .sets = is_older ? SHAPE_STALE : 0};
            s.over = &over;
            s.deadline = is_older ? over.deadline : st->deadline;
        }
        out = engine_store(e, &s, now);
    } while (out == OUT_EXISTS && s.over != NULL);
    st->cas = s.cas;
    st->value_len = s.value_len;
    return out;
}

/* All other stores than that of a plain value that fits one block. */
static MF_NOINLINE enum outcome store_otherwise(struct engine *e, struct store *st, msec_t now)
{
    if (st->key.len > ITEM_KEY_MAX || st->key.len + st->value.len > e->item_bytes_max) {
        return OUT_TOO_LARGE;
    }
    if (st->mode > STORE_CAS) {
        return store_concat(e, st, now);
    }
    if (st->mode == STORE_CAS && st->takes_older) {
        return store_older(e, st, now);
    }
    return store_value(e, st, now);
}

enum outcome engine_store(struct engine *e, struct store *st, msec_t now)
{
    must_be_reading();
    if (MF_LIKELY(st->key.len + st->value.len <= e->plain_bytes_max) &&
        MF_LIKELY(st->mode < STORE_CAS) && MF_LIKELY(st->key.len <= ITEM_KEY_MAX) &&
        MF_LIKELY(!store_has_body(st))) {
        return store_value_in_block(e, st, now);
    }
    return store_otherwise(e, st, now);
}
