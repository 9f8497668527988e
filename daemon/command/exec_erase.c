/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * delete, unlink, md, and delete of the binary protocol. Runs on the worker of the client,
 * inside the read-side section of the turn.
 */
#include "daemon/command/exec.h"

#include "daemon/command/observe.h"
#include "daemon/worker/worker.h"
#include "lib/base/counters.h"
#include "lib/store/erase.h"
#include "proto/meta_parse.h"
#include "proto/text_parse.h"

/*
 * Delete an item, or change it as described by d (NULL: delete), count and observe that. cas:
 * the required one; 0: any. An item that is only marked stale does not count as a hit.
 */
static MF_INLINE enum outcome erase(struct turn *t, uint64_t hash, struct span key,
                                    uint64_t cas, const struct erase *d, const char *command)
{
    const bool stays = d != NULL && (d->marks_stale || d->drops_value);
    struct counters *c = &t->w->counters;
    struct before before;
    enum outcome outcome;

    if (MF_UNLIKELY(t->observed != 0)) {
        observe_before(t, hash, key, &before);
    }
    outcome =
        d != NULL ? engine_erase(t->e, d, t->now) : engine_delete(t->e, hash, key, cas, t->now);
    MF_PROBE3(delete_done, key.ptr, key.len, outcome);
    if (d != NULL && outcome == OUT_WAIT) {
        return outcome;
    }
    if (outcome == OUT_DELETED) {
        ctr_add(c, CTR_delete_hits, d == NULL || !d->marks_stale);
    } else if (d != NULL && outcome == OUT_NO_MEMORY) {
        ctr_add(c, CTR_store_no_memory, 1);
    } else if (d != NULL || outcome == OUT_NOT_FOUND) {
        ctr_add(c, CTR_delete_misses, 1); /* md counts a cas that differs too */
    }
    if (MF_UNLIKELY(t->observed != 0)) {
        observe_delete(t, &before, key, command, outcome == OUT_DELETED && !stays);
        if (d != NULL && outcome == OUT_DELETED && (d->touches || d->drops_value)) {
            observe_deadline(t, &before, key, command, d->touches ? d->deadline : MSEC_NEVER);
        }
    }
    return outcome;
}

enum turn_stop exec_delete(struct turn *t, const struct request *r)
{
    return exec_answer(t, r, erase(t, r->hash, r->key, 0, NULL, "delete"));
}

enum turn_stop exec_bin_delete(struct turn *t, const struct request *r)
{
    uint64_t cas = r->cas != 0 ? turn_cas_expected(t, r->cas) : 0;

    return exec_answer(t, r, erase(t, r->hash, r->key, cas, NULL, "delete"));
}

enum turn_stop exec_md(struct turn *t, const struct request *r)
{
    struct erase d = {.hash = r->hash, .key = r->key, .may_wait = t->may_wait};
    struct meta_flags flags;

    (void)meta_read_flags(r->args, true, &flags);
    /* Under -C memcached compares with the 0 that items show. */
    d.compares_cas = meta_has(flags.letters, 'C') && !(t->hides_cas && flags.cas == 0);
    d.cas_expected = turn_cas_expected(t, flags.cas);
    d.marks_stale = meta_has(flags.letters, 'I');
    d.drops_value = meta_has(flags.letters, 'x');
    d.touches = (d.marks_stale || d.drops_value) && meta_has(flags.letters, 'T');
    d.deadline = exec_meta_deadline(t, &flags);
    d.flags = flags.client;
    d.cas_new = flags.cas_new;
    return exec_answer(t, r, erase(t, r->hash, r->key, 0, &d, "md"));
}

static unsigned unlink_key(struct turn *t, struct span key, uint64_t hash)
{
    return erase(t, hash, key, 0, NULL, "unlink") == OUT_DELETED;
}

static size_t count_keys(struct span keys)
{
    struct span key;
    size_t n = 0;

    while (text_next_key(&keys, &key)) {
        n++;
    }
    return n;
}

enum turn_stop exec_unlink(struct turn *t, const struct request *r)
{
    size_t more = count_keys(r->more);
    struct span keys = r->more;
    struct span key = r->key;

    if (t->client == NULL && t->units + more > t->unit_limit) {
        return TURN_YIELDS; /* too much for a datagram */
    }
    t->units += more;
    uint64_t deleted = unlink_key(t, key, r->hash);
    while (text_next_key(&keys, &key)) {
        deleted += unlink_key(t, key, engine_hash(t->e, key.ptr, key.len));
    }
    t->out.len += text_compose(turn_room(t, TEXT_REPLY_MAX), r, OUT_NUMBER, deleted);
    return TURN_GOES_ON;
}
