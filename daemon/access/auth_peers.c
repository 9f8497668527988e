/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failed logins by peer; see auth_peers.h.
 */
#include "daemon/access/auth_peers.h"

#include <string.h>
#include <sys/socket.h>

#include "lib/base/context.h"

void auth_peers_init(struct auth_peers *a)
{
    must_be_main();
    memset(a, 0, sizeof(*a));
    pthread_mutex_init(&a->lock, NULL);
}

void auth_peers_fini(struct auth_peers *a)
{
    must_be_main();
    pthread_mutex_destroy(&a->lock);
}

uint64_t auth_peers_id(uint16_t family, const uint8_t address[16])
{
    uint64_t id = 0;

    if (family == AF_INET) {
        memcpy(&id, address, 4);
    } else if (family == AF_INET6) {
        memcpy(&id, address, 8);
    }
    return id ^ (uint64_t)family << 48;
}

static struct auth_peer *row_of(struct auth_peers *a, uint64_t id)
{
    /* Fibonacci hashing: the top bits depend on all bits of the id. */
    return a->peers[(id * UINT64_C(0x9e3779b97f4a7c15)) >> 58 & (AUTH_PEERS_ROWS - 1)];
}

/* The entry of a peer; if it has none, that of the row which is needed least. */
static struct auth_peer *entry_of(struct auth_peers *a, uint64_t id)
{
    struct auth_peer *row = row_of(a, id);
    struct auth_peer *oldest = row;

    for (unsigned i = 0; i < AUTH_PEERS_WAYS; i++) {
        struct auth_peer *p = &row[i];

        if (p->failures > 0 && p->id == id) {
            return p;
        }
        if (p->failures == 0 || (oldest->failures > 0 && p->last < oldest->last)) {
            oldest = p;
        }
    }
    return oldest;
}

static bool is_time_to_warn(uint64_t failures)
{
    uint64_t times = failures / AUTH_PEERS_FIRST;

    return failures % AUTH_PEERS_FIRST == 0 && times > 0 && (times & (times - 1)) == 0;
}

uint64_t auth_peers_note(struct auth_peers *a, uint64_t id, msec_t now)
{
    struct auth_peer *p;
    uint64_t failures;

    pthread_mutex_lock(&a->lock);
    p = entry_of(a, id);
    if (p->id != id || now - p->last >= AUTH_PEERS_FORGET_MS) {
        p->id = id;
        p->failures = 0;
    }
    failures = ++p->failures;
    p->last = now;
    pthread_mutex_unlock(&a->lock);
    return is_time_to_warn(failures) ? failures : 0;
}

uint64_t auth_peers_count(struct auth_peers *a, uint64_t id, msec_t now)
{
    const struct auth_peer *p;
    uint64_t failures;

    pthread_mutex_lock(&a->lock);
    p = entry_of(a, id);
    failures = p->id == id && now - p->last < AUTH_PEERS_FORGET_MS ? p->failures : 0;
    pthread_mutex_unlock(&a->lock);
    return failures;
}
