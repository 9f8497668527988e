/* SPDX-License-Identifier: BSD-3-Clause */
/* See access.h. */
#include "daemon/access/access.h"

#include "lib/base/context.h"

void addresses_init(struct addresses *a)
{
    must_be_main();
    pthread_mutex_init(&a->lock, NULL);
    counts_init(&a->counts);
}

void addresses_fini(struct addresses *a)
{
    must_be_main();
    counts_fini(&a->counts);
    pthread_mutex_destroy(&a->lock);
}

static enum address_answer enter(struct addresses *a, uint64_t id, uint32_t limit)
{
    struct count *conns = counts_of(&a->counts, id);

    if (conns == NULL) {
        return ADDRESS_NO_MEMORY;
    }
    if (limit > 0 && conns->n >= limit) {
        return ADDRESS_FULL;
    }
    conns->n++;
    return ADDRESS_IN;
}

enum address_answer addresses_enter(struct addresses *a, uint64_t id, uint32_t limit)
{
    pthread_mutex_lock(&a->lock);
    enum address_answer answer = enter(a, id, limit);
    pthread_mutex_unlock(&a->lock);
    return answer;
}

void addresses_leave(struct addresses *a, uint64_t id)
{
    pthread_mutex_lock(&a->lock);
    counts_drop(&a->counts, id);
    pthread_mutex_unlock(&a->lock);
}

bool addresses_are_none(struct addresses *a)
{
    pthread_mutex_lock(&a->lock);
    bool is = a->counts.used == 0;
    pthread_mutex_unlock(&a->lock);
    return is;
}
