/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The number of shards: see crew.h.
 */
#include "daemon/worker/crew.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/engine/share.h"
#include "lib/reshard/reshard.h"

/* ---- numbers ----------------------------------------------------------------------------- */

uint32_t shards_at_start(const struct settings *set)
{
    const uint32_t shards = setting_get(set, shards);

    return shards != 0 ? shards
                       : share_shards_for(setting_get(set, threads),
                                          setting_get(set, memory_limit_bytes));
}

uint32_t shards_wanted(const struct crew *crew, uint32_t shards, uint32_t threads,
                       uint64_t limit_bytes)
{
    uint32_t least;
    uint32_t most;

    if (shards != 0) {
        return shards;
    }
    shards = share_shards_for(threads, limit_bytes);
    /* Sizes of segments and ranges were chosen at the start, perhaps for another limit. */
    engine_shard_bounds(&crew->engine, limit_bytes, &least, &most);
    return shards < least ? least : shards > most && most >= least ? most : shards;
}

bool shards_may_be(const struct crew *crew, uint32_t shards, uint64_t limit_bytes, char *why)
{
    uint32_t least;
    uint32_t most;

    if (engine_bears(&crew->engine, shards, limit_bytes)) {
        return true;
    }
    engine_shard_bounds(&crew->engine, limit_bytes, &least, &most);
    snprintf(why, OPTION_TEXT_BYTES, "a limit of %" PRIu64 " megabytes allows %u to %u shards",
             limit_bytes >> 20, (unsigned)least, (unsigned)most);
    return false;
}

/* ---- homes ------------------------------------------------------------------------------- */

/* Make homes for shards to come; NULL: there is no memory. */
static struct home **make_homes(uint32_t count)
{
    struct home **homes = mem_zalloc((count + 1) * sizeof(struct home *));
    uint32_t n = 0;

    while (homes != NULL && n < count && (homes[n] = mem_zalloc(sizeof(struct home))) != NULL) {
        n++;
    }
    if (homes == NULL || n == count) {
        return homes;
    }
    while (n > 0) {
        mem_free(homes[--n]);
    }
    mem_free(homes);
    return NULL;
}

/* Send the home of a shard to the worker that it belongs to. */
static void send_home(struct crew *crew, struct home *h, uint32_t shard)
{
    const uint32_t to = roster_wanted(&crew->roster, shard);

    home_init(h, &crew->workers[to], crew->engine.shards[shard]);
    h->message.fn = cron_on_home;
    must(roster_may_go(&crew->roster, to)); /* only main forbids moves */
    mailbox_post(&crew->workers[to].mailbox, &h->message);
}

/* Send the homes of the shards that were added. Homes of shards that were not are released. */
static void send_homes(struct crew *crew, struct home **homes, uint32_t count)
{
    const uint32_t first = crew->homes;

    for (uint32_t i = 0; i < count; i++) {
        if (first + i < crew->engine.shard_count) {
            send_home(crew, homes[i], first + i);
            crew->homes++;
        } else {
            mem_free(homes[i]);
        }
    }
    mem_free(homes);
}

/* ---- changes ----------------------------------------------------------------------------- */

static const char *reason(const struct crew *crew, enum mf_err err)
{
    switch (err) {
    case MF_ESYS:
        return crew->attach.why; /* the file of memory_file cannot become longer */
    case MF_EINVAL:
        return "the limit on memory does not suit that number";
    case MF_EBUSY:
        return "items are moved for another reason";
    default:
        return mf_strerror(err);
    }
}

bool shards_set(struct crew *crew, uint32_t count, char *why)
{
    const uint32_t more = count > crew->homes ? count - crew->homes : 0;

    must_be_main();
    if (crew->is_draining) {
        snprintf(why, OPTION_TEXT_BYTES, "the server is stopping");
        return false;
    }
    struct home **homes = make_homes(more);
    if (homes == NULL) {
        snprintf(why, OPTION_TEXT_BYTES, "out of memory");
        return false;
    }
    enum mf_err err =
        engine_set_shards(&crew->engine, count, setting_get(crew->settings, move_cpu_pct));
    send_homes(crew, homes, more);
    if (err != MF_OK) {
        snprintf(why, OPTION_TEXT_BYTES, "%s", reason(crew, err));
    }
    return err == MF_OK;
}

void shards_begin(struct crew *crew)
{
    const struct settings *set = crew->settings;
    const uint32_t there = crew->engine.shard_count;
    const uint64_t limit = setting_get(set, memory_limit_bytes);
    const uint32_t wanted =
        shards_wanted(crew, setting_get(set, shards), setting_get(set, threads), limit);
    char why[OPTION_TEXT_BYTES];

    must_be_main();
    if (crew->attach.state != ATTACH_WARM) {
        return;
    }
    if (crew->attach.moving != 0) {
        log_notice("memory, %u slots were moving to other shards; their move continues",
                   (unsigned)crew->attach.moving);
    }
    if (shards_may_be(crew, wanted, limit, why) && shards_set(crew, wanted, why)) {
        if (wanted != there) {
            log_notice("memory, has %u shards, items are moved to %u", (unsigned)there,
                       (unsigned)wanted);
        }
        return;
    }
    log_warn("memory, keeps its %u shards instead of %u: %s", (unsigned)there, (unsigned)wanted,
             why);
    if (!shards_set(crew, there, why)) {
        log_warn("memory, does not move items: %s", why);
    }
}
