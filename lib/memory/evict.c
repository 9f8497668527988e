/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all eviction policies share: the past is made and enlarged here.
 */
#include "lib/memory/evict.h"

#include <stddef.h>

#include "lib/base/context.h"
#include "lib/memory/state.h"

/*
 * The past remembers as many keys as there are items, as in S3-FIFO, and PAST_LEAST more. A
 * longer past takes too many keys for popular ones: with three times as many keys the hit
 * ratio of a cache of 500 items was a percentage point lower.
 */
#define PAST_LEAST 16

const struct evict_policy *const evict_policies[EVICT_CHOICES] = {
    [CHOICE_DENSITY] = &evict_density,
    [CHOICE_NOEVICTION] = &evict_none,
    [CHOICE_ALLKEYS_LRU] = &evict_allkeys_lru,
    [CHOICE_ALLKEYS_LFU] = &evict_allkeys_lfu,
    [CHOICE_ALLKEYS_RANDOM] = &evict_allkeys_random,
    [CHOICE_VOLATILE_LRU] = &evict_volatile_lru,
    [CHOICE_VOLATILE_LFU] = &evict_volatile_lfu,
    [CHOICE_VOLATILE_RANDOM] = &evict_volatile_random,
    [CHOICE_VOLATILE_TTL] = &evict_volatile_ttl,
};

void evict_init(struct evict *ev, const struct engine_options *options, const struct lock *lock)
{
    *ev = (struct evict){.policies = evict_policies, .options = options, .lock = lock};
    for (unsigned i = 0; i < EVICT_CHOICES; i++) {
        if (evict_sorts(evict_policies[i])) {
            ev->sorting |= 1u << i;
        }
    }
}

void evict_fini(struct evict *ev, struct budget *budget)
{
    if (ev->past != NULL) {
        ev->past_policy->past_destroy(ev->past, budget);
    }
    if (ev->next != NULL) {
        ev->next_policy->past_destroy(ev->next, budget);
    }
    ev->past = NULL;
    ev->next = NULL;
    ev->past_capacity = 0;
}

uint64_t evict_past_bytes(const struct evict *ev)
{
    evict_must_be_entered(ev);
    return ev->past != NULL ? ev->past_policy->past_bytes(ev->past) : 0;
}

/* Use another past, or none (NULL), and destroy the one in use. Context: outside the shard. */
static void exchange(struct memory *m, const struct evict_policy *policy, void *past)
{
    struct evict *ev = &m->evict;

    lock_take(m->lock);
    void *old = ev->past;
    const struct evict_policy *old_policy = ev->past_policy;
    ev->past = past;
    ev->past_policy = policy;
    ev->past_capacity = past != NULL ? policy->past_capacity(past) : 0;
    ev->past_is_wanted = false;
    if (ev->next == past) {
        ev->next = NULL;
    }
    lock_give(m->lock);
    if (old != NULL) {
        old_policy->past_destroy(old, m->arena.budget);
    }
}

void evict_forget(struct memory *m)
{
    exchange(m, evict_policy(&m->evict), NULL);
}

void evict_make_past(struct memory *m, uint64_t items)
{
    const struct evict_policy *policy = evict_policy(&m->evict);
    struct evict *ev = &m->evict;
    size_t touched = 0;

    if (policy->past_create == NULL) {
        evict_forget(m); /* that of another policy; evict_wants_past() would stay true */
        return;
    }
    void *past = policy->past_create(items + PAST_LEAST, m->arena.budget);
    if (past == NULL) {
        return;
    }
    if (policy->past_touch(past, &touched)) {
        exchange(m, policy, past);
        return;
    }
    lock_take(m->lock);
    bool is_first = ev->next == NULL;
    if (is_first) {
        ev->next_policy = policy;
        ev->next = past;
        ev->next_touched = touched;
        grace_ask(m->arena.grace, GRACE_SOON);
    }
    lock_give(m->lock);
    if (!is_first) {
        policy->past_destroy(past, m->arena.budget);
    }
}

bool evict_touch_burst(struct memory *m)
{
    must_be_reclaimer();
    lock_take(m->lock);
    void *past = m->evict.next;
    const struct evict_policy *policy = m->evict.next_policy;
    lock_give(m->lock);
    if (past == NULL) {
        return false;
    }
    if (!policy->past_touch(past, &m->evict.next_touched)) {
        return true;
    }
    exchange(m, policy, past);
    return false;
}
