/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: the stream that a replica gets. The first byte says whether the headers of
 * blocks are made right first, so that what stands behind their sums is reached as well; the
 * second is the length of the pieces in which the bytes come. What must hold for any input:
 *   - what was applied is what the replica's backlog has, and is whole blocks;
 *   - the link may be cut where it stands, and go on there;
 *   - the engine is in order, and can be used and flushed.
 */
#include "tests/fuzz/fuzz.h"

#include "lib/base/load.h"
#include "lib/base/rcu.h"
#include "lib/engine/engine.h"
#include "lib/replica/applier.h"
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"
#include "tests/common/verify.h"

#define FROM 1000

static const struct replid id = {.bytes = "a replica's fuzz"};
static struct engine engine;
static struct engine_options options;
static struct backlog *backlog;
static struct applier *applier;
static uint64_t names;

static bool is_stopped(void *arg)
{
    (void)arg;
    return false;
}

static void renamed(void *arg, const struct backlog_name *name)
{
    (void)arg;
    require(!replid_is_none(&name->id) && name->previous_end < name->offset);
    names++;
}

static void start(void)
{
    struct engine_config cfg;
    struct applier_config with = {
        .engine = &engine, .is_stopped = is_stopped, .renamed = renamed};

    engine_config_init(&cfg);
    memcpy(&options, &engine_options_default, sizeof(options));
    cfg.options = &options;
    cfg.limit_bytes = (size_t)16 << 20;
    require(engine_start(&engine, &cfg) == MF_OK);
    rcu_register();
    backlog = backlog_create(&engine.budget);
    require(backlog != NULL && backlog_reserve(backlog, (uint64_t)2 << 20));
    with.backlog = backlog;
    applier = applier_create(&with);
    require(applier != NULL);
}

static void begin(void)
{
    const struct backlog_name name = {.id = id, .epoch = 1, .offset = FROM};

    require(applier_begin_full(applier) == APPLIER_OK);
    applier_end_full(applier, &name);
}

/* Make the header of the block right that stands there. Returns its length; 0: none does. */
static size_t seal(char *block, size_t left, struct replid *of, uint64_t offset)
{
    struct snap_block b = {0};
    struct replid next;
    uint64_t epoch;

    if (left < SNAP_BLOCK_BYTES) {
        return 0;
    }
    uint32_t room = left - SNAP_BLOCK_BYTES < SNAP_RAW_MAX ? (uint32_t)(left - SNAP_BLOCK_BYTES)
                                                           : SNAP_RAW_MAX;
    b.kind = (uint8_t)block[4];
    b.flags = (uint8_t)block[5] & SNAP_OPTIONAL;
    b.items = load_le32(block + 16);
    b.stored = load_le32(block + 12);
    b.stored = b.stored < room ? b.stored : room;
    b.raw = b.stored;
    (void)frame_seal(block, &b, of, offset);
    if (b.kind == FRAME_ID &&
        frame_id_of(span_of(block + SNAP_BLOCK_BYTES, b.stored), &next, &epoch)) {
        *of = next;
    }
    return SNAP_BLOCK_BYTES + b.stored;
}

static void seal_all(char *bytes, size_t n)
{
    struct replid of = id;
    size_t at = 0;
    size_t length;

    while ((length = seal(bytes + at, n - at, &of, FROM + at)) != 0) {
        at += length;
    }
}

/* As home workers do: prefixes that are flushed must not become too many. */
static void keep_up(void)
{
    for (uint32_t i = 0; i < engine.shard_count; i++) {
        (void)shard_maintain(engine.shards[i], clock_now(&engine.clock), 0);
    }
}

static void check(size_t given)
{
    uint64_t offset = applier_offset(applier);

    require(offset == backlog_end(backlog));
    require(offset >= FROM && offset - FROM <= given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum applier_result result = APPLIER_OK;
    size_t at = 0;
    char why[256];

    if (size < 2) {
        return 0;
    }
    if (backlog == NULL) {
        start();
    }
    size_t piece = data[1] + 1u;
    size -= 2;
    char *bytes = exact_copy(data + 2, size);
    if (data[0] % 2 == 1) {
        seal_all(bytes, size);
    }
    begin();
    while (at < size && result == APPLIER_OK) {
        size_t n = piece < size - at ? piece : size - at;

        result = applier_take(applier, bytes + at, n);
        require(result == APPLIER_OK || result == APPLIER_BAD);
        keep_up();
        at += n;
        check(at);
    }
    applier_cut(applier);
    check(at);
    at = applier_offset(applier) - FROM;
    result = applier_take(applier, bytes + at, size - at);
    check(size);
    for (uint32_t i = 0; i < engine.shard_count; i++) {
        require(shard_verify(engine.shards[i], why, sizeof(why)));
    }
    applier_leave(applier);
    free(bytes);
    return 0;
}
