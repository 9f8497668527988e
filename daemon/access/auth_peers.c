/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failed logins by peer; see access.h.
 */
#include "daemon/access/access.h"

#include <string.h>
#include <sys/socket.h>

#include "lib/base/context.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

bool auth_peers_init(struct auth_peers *a)
{
    must_be_main();
    memset(a, 0, sizeof(*a));
    pthread_mutex_init(&a->lock, NULL);
    a->seed = hash_random_seed();
    a->peers = mem_zalloc((size_t)AUTH_PEERS_ROWS * AUTH_PEERS_WAYS * sizeof(a->peers[0]));
    return a->peers != NULL;
}

void auth_peers_fini(struct auth_peers *a)
{
    must_be_main();
    mem_free(a->peers);
    a->peers = NULL;
    pthread_mutex_destroy(&a->lock);
}

uint64_t auth_peers_id(uint16_t family, const uint8_t address[16])
{
    /* No client has an address of multicast, so what is no IPv6 begins like one. */
    uint8_t bytes[8] = {0xff, (uint8_t)family};
    uint64_t id;

    if (family == AF_INET) {
        memcpy(bytes + 4, address, 4);
    } else if (family == AF_INET6) {
        memcpy(bytes, address, 8);
    }
    memcpy(&id, bytes, sizeof(id));
    return id;
}

static bool is_forgotten(const struct auth_peer *p, msec_t now)
{
    return p->failures == 0 || now - p->last >= AUTH_PEERS_FORGET_MS;
}

/* Is p the one of the two that is needed less? */
static bool is_less(const struct auth_peer *p, const struct auth_peer *other, msec_t now)
{
    if (is_forgotten(p, now) != is_forgotten(other, now)) {
        return is_forgotten(p, now);
    }
    return p->failures != other->failures ? p->failures < other->failures
                                          : p->last < other->last;
}

/* The entry of a peer that is not forgotten; if there is none, the one that it would take. */
static struct auth_peer *entry_of(const struct auth_peers *a, uint64_t id, msec_t now)
{
    const size_t number = hash_key(a->seed, &id, sizeof(id)) % AUTH_PEERS_ROWS;
    struct auth_peer *row = &a->peers[number * AUTH_PEERS_WAYS];
    struct auth_peer *least = row;

    for (unsigned i = 0; i < AUTH_PEERS_WAYS; i++) {
        if (row[i].id == id && !is_forgotten(&row[i], now)) {
            return &row[i];
        }
        if (is_less(&row[i], least, now)) {
            least = &row[i];
        }
    }
    return least;
}

static bool is_time_to_warn(uint64_t failures)
{
    uint64_t times = failures / AUTH_PEERS_FIRST;

    return failures % AUTH_PEERS_FIRST == 0 && times > 0 && (times & (times - 1)) == 0;
}

/*
 * Add a failure to those of a peer. Were there as many as are kept, all within the time? None
 * of them is older than 100 minutes, or the peer would be forgotten: so 32 bits tell their age.
 */
static bool add_failure(struct auth_peer *p, msec_t now)
{
    uint32_t *oldest = &p->times[p->failures % AUTH_PEERS_QUICK];
    bool is_quick = p->failures >= AUTH_PEERS_QUICK &&
                    (uint32_t)now - *oldest < (uint32_t)AUTH_PEERS_QUICK_MS;

    *oldest = (uint32_t)now;
    p->failures++;
    p->last = now;
    return is_quick;
}

struct auth_failure auth_peers_note(struct auth_peers *a, uint64_t id, msec_t now)
{
    struct auth_failure f = {0};

    pthread_mutex_lock(&a->lock);
    struct auth_peer *p = entry_of(a, id, now);
    f.is_crowded = p->id != id && !is_forgotten(p, now);
    if (p->id != id || is_forgotten(p, now)) {
        *p = (struct auth_peer){.id = id};
    }
    f.is_quick = add_failure(p, now);
    f.is_quick_first = f.is_quick && !p->is_quick;
    p->is_quick = f.is_quick;
    f.warn = is_time_to_warn(p->failures) ? p->failures : 0;
    pthread_mutex_unlock(&a->lock);
    return f;
}

uint64_t auth_peers_count(struct auth_peers *a, uint64_t id, msec_t now)
{
    pthread_mutex_lock(&a->lock);
    const struct auth_peer *p = entry_of(a, id, now);
    uint64_t failures = p->id == id && !is_forgotten(p, now) ? p->failures : 0;
    pthread_mutex_unlock(&a->lock);
    return failures;
}
