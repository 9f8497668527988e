/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leaving item memory to the next process, and taking it over: see attach.h.
 */
#include "lib/engine/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/procfs.h"
#include "lib/base/rcu.h"
#include "lib/base/thread.h"
#include "lib/engine/engine.h"
#include "lib/engine/flush.h"
#include "lib/engine/share.h"
#include "lib/memory/chunks.h"
#include "lib/shard/attach.h"
#include "lib/shard/position.h"
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"

#define HEAD_BYTES (64u << 10)
#define MAGIC      "MAYFLYM1"

/* 'O': a process uses the file, or it crashed. 'C': the last process stopped cleanly. */
#define STATE_OPEN  0x4f50454eu
#define STATE_CLEAN 0x434c4541u

/* Sums and products of numbers of the head up to these do not overflow. */
#define SANE_MS    (INT64_C(1) << 42)
#define SANE_NS    (INT64_C(1) << 62)
#define SANE_COUNT (UINT64_C(1) << 48)

#define BOOT_ID_BYTES 40
#define NS_PER_MS     1000000

struct attach_head {
    char magic[8];
    uint32_t state;
    uint32_t shards;
    uint64_t abi; /* of what the numbers in the file mean */
    uint64_t sum; /* XXH3-64 of the head, with 0 in its place */
    uint64_t range_bytes;
    uint64_t blocks; /* of 512 bytes that were allocated for the file */
    uint32_t shift;
    uint32_t capacity;  /* most shards that the file has room for */
    uint32_t companion; /* identifies data that was left elsewhere with it; 0: none */
    uint32_t zero;
    uint64_t seed; /* of the hash of keys */
    uint64_t cas_next;
    char boot_id[BOOT_ID_BYTES];
    int64_t zero_ns;                   /* CLOCK_BOOTTIME where the engine's clock read 0 */
    int64_t boot_ns;                   /* CLOCK_BOOTTIME, */
    int64_t unix_ms;                   /* wall clock */
    msec_t now;                        /* and the engine's clock, when it was left */
    uint8_t extra[ATTACH_EXTRA_BYTES]; /* of the caller's */
    uint8_t reserved[128]; /* zero: fields to come go here, and the size stays as it is */
    uint16_t owner[ROUTE_SLOTS]
                  [2]; /* the shard of each slot, and the one that its items go to */
    struct {
        struct attach_shard left;
        uint64_t list_sum; /* XXH3-64 of the list of segments */
    } shard[ATTACH_SHARDS_MAX];
};

_Static_assert(sizeof(struct attach_head) <= HEAD_BYTES, "it has its place");

static bool no(struct attach *a, const char *format, ...) MF_PRINTF(2, 3);

static bool no(struct attach *a, const char *format, ...)
{
    MF_FORMAT(a->why, sizeof(a->why), format);
    return false;
}

/* Values computed from the size of a segment follow from the shift, which is in the head. */
uint64_t attach_abi(void)
{
    const uint64_t facts[] = {
        4, /* raise this when the meaning of a block changes */
        sizeof(struct attach_head),
        sizeof(struct keep_segment),
        sizeof(struct item),
        offsetof(struct item, used),
        offsetof(struct item, cas_len),
        offsetof(struct item, key_len),
        offsetof(struct item, heat),
        offsetof(struct item, shape),
        TTL_NODE_BITS,
        ITEM_TTL_BYTES,
        ITEM_WIDE_BYTES,
        offsetof(struct item_wide, client_flags),
        offsetof(struct item_wide, len_high),
        offsetof(struct item_wide, cas_high),
        offsetof(struct item_wide, far_large),
        USED_CAS_BITS | USED_FLAGS_BITS << 8 | LEN_BITS << 16,
        ITEM_UNIT,
        ITEM_KEY_MAX,
        SHAPE_SIZE | (uint64_t)SHAPE_OFF << 16 | (uint64_t)SHAPE_WIDE << 32 |
            (uint64_t)SHAPE_TTL << 48,
        SHAPE_HOLE | (uint64_t)SHAPE_LOOSE << 16 | (uint64_t)SHAPE_STALE << 32 |
            (uint64_t)SHAPE_WON << 48,
        HEAT_SIX | HEAT_JUDGED << 8 | HEAT_FETCHED << 16,
        sizeof(struct large),
        offsetof(struct large, piece),
        PIECES_MAX,
        CHAINS,
        ROUTE_SLOT_BITS,
        hash_key(1, "mayfly", 6),
    };

    return XXH3_64bits(facts, sizeof(facts));
}

/* ---- where things are -------------------------------------------------------------------- */

static uint64_t round_up(uint64_t n)
{
    return (n + REGION_ALIGN - 1) & ~(REGION_ALIGN - 1);
}

/* Maximum size of a shard's list of segments, in bytes. */
static uint64_t list_bytes_max(const struct attach_head *h)
{
    return (h->range_bytes >> h->shift) * sizeof(struct keep_segment);
}

static uint64_t list_at(const struct attach_head *h, uint32_t shard)
{
    return HEAD_BYTES + shard * list_bytes_max(h);
}

/* Positions do not depend on the number of shards, so that another one can be added. */
static uint64_t range_at(const struct attach_head *h, uint32_t shard)
{
    return round_up(list_at(h, h->capacity)) + shard * h->range_bytes;
}

static void place_region(struct attach *a, uint32_t shard, bool has_holes)
{
    const struct attach_head *h = a->head;

    a->region[shard] = (struct region){.fd = a->fd,
                                       .shift = h->shift,
                                       .at = range_at(h, shard),
                                       .bytes = h->range_bytes,
                                       .has_holes = has_holes};
}

static void place_regions(struct attach *a, bool has_holes)
{
    for (uint32_t i = 0; i < a->head->shards; i++) {
        place_region(a, i, has_holes);
    }
}

/* ---- the file ---------------------------------------------------------------------------- */

static bool is_in_memory(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

/* Take the file, if it is one that may be used. */
static bool take_file(struct attach *a)
{
    struct stat st;

    a->head = mem_zalloc(HEAD_BYTES);
    if (a->head == NULL) {
        return no(a, "out of memory");
    }
    if (fstat(a->fd, &st) != 0) {
        return no(a, "%s", strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return no(a, "it is no file");
    }
    /* Another user who can write to the file could change items while they are used. */
    if (st.st_uid != geteuid()) {
        return no(a, "it belongs to another user");
    }
    if (flock(a->fd, LOCK_EX | LOCK_NB) != 0) {
        return no(a, errno == EWOULDBLOCK ? "another process uses it" : "it cannot be locked");
    }
    a->is_in_memory = is_in_memory(a->fd);
    a->is_new = st.st_size == 0;
    if (!a->is_new && (!region_read(a->fd, 0, a->head, HEAD_BYTES) ||
                       memcmp(a->head->magic, MAGIC, sizeof(a->head->magic)) != 0)) {
        return no(a, "it is something else, which is not to be overwritten");
    }
    return fchmod(a->fd, 0600) == 0 || no(a, "%s", strerror(errno));
}

bool attach_open_fd(struct attach *a, int fd)
{
    a->fd = fd;
    a->state = ATTACH_COLD;
    if (!take_file(a)) {
        attach_close(a);
        return false;
    }
    return true;
}

bool attach_open(struct attach *a, const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0) {
        a->fd = -1;
        return no(a, "%s", strerror(errno));
    }
    return attach_open_fd(a, fd);
}

void attach_close(struct attach *a)
{
    if (a->fd >= 0) {
        close(a->fd);
    }
    mem_free(a->head);
    a->fd = -1;
    a->head = NULL;
}

bool attach_is_in_range(const struct engine *e, const void *at)
{
    bool is = false;

    for (uint32_t i = 0; i < e->shard_count; i++) {
        const struct arena *a = &e->shards[i]->memory.arena;

        is |= (uintptr_t)at - (uintptr_t)a->base < a->map_bytes;
    }
    return is;
}

static void read_boot_id(char id[BOOT_ID_BYTES])
{
    memset(id, 0, BOOT_ID_BYTES); /* it is compared whole */
    (void)procfs_read("", "/proc/sys/kernel/random/boot_id", id, BOOT_ID_BYTES);
}

/* From now on the file counts as left by a crash, until attach_leave(). */
static bool write_open(struct attach *a)
{
    a->head->state = STATE_OPEN;
    /* Write all of it, so that its pages exist when it is written again. */
    if (!region_write(a->fd, 0, a->head, HEAD_BYTES) || fdatasync(a->fd) != 0) {
        return no(a, "%s", strerror(errno));
    }
    return true;
}

/* Nothing can be allocated beyond the limit on the size of files. */
static bool may_be_so_long(struct attach *a, uint32_t shards)
{
    uint64_t bytes = range_at(a->head, shards);
    struct rlimit most;

    if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur == RLIM_INFINITY ||
        most.rlim_cur >= bytes) {
        return true;
    }
    return no(a, "files may have %llu MiB at most (ulimit -f), it needs %llu, with holes",
              (unsigned long long)most.rlim_cur >> 20, (unsigned long long)bytes >> 20);
}

/* ---- may it be used? --------------------------------------------------------------------- */

static uint64_t head_sum(struct attach_head *h)
{
    uint64_t was = h->sum;

    h->sum = 0;
    uint64_t sum = XXH3_64bits(h, sizeof(*h));
    h->sum = was;
    return sum;
}

/* Compute the time between the two processes. Returns false if the clocks do not allow that. */
static bool tell_away(struct attach *a)
{
    const struct attach_head *h = a->head;
    int64_t boot_ns = clock_boot_ns();
    struct clock c;
    char boot_id[BOOT_ID_BYTES];
    int64_t away_ms;

    read_boot_id(boot_id);
    if (boot_id[0] != '\0' && memcmp(boot_id, h->boot_id, BOOT_ID_BYTES) == 0) {
        away_ms = (boot_ns - h->boot_ns) / NS_PER_MS;
        if (boot_ns < h->boot_ns) {
            return no(a, "the machine's clock is before the stop");
        }
    } else {
        clock_init(&c);
        msec_t now = clock_now(&c);
        if (__builtin_sub_overflow(clock_to_unix_ms(&c, now), h->unix_ms, &away_ms) ||
            away_ms < 0) {
            return no(a, "the wall clock is before the stop");
        }
        if (away_ms > SANE_MS) {
            return no(a, "the wall clock is far after the stop");
        }
        a->head->zero_ns = clock_zero_ns(&c) - (h->now + away_ms - now) * NS_PER_MS;
    }
    a->away_ms = (uint64_t)away_ms;
    return a->max_age_s == 0 || a->away_ms <= (uint64_t)a->max_age_s * 1000 ||
           no(a, "it was left %llu s ago (restart_max_age)",
              (unsigned long long)(a->away_ms / 1000));
}

/* Can an engine with this config use the items in the file? */
static bool fits(struct attach *a, const struct engine_config *cfg)
{
    const struct attach_head *h = a->head;
    const struct share_size old = {h->shards, h->shift, h->range_bytes};

    return share_suits(&old, cfg->limit_bytes, cfg->shards) ||
           no(a, "a limit of %llu bytes does not suit its %u shards",
              (unsigned long long)cfg->limit_bytes, h->shards);
}

static bool is_sane(const struct attach_head *h)
{
    if (h->shards == 0 || h->shards > h->capacity || h->capacity > ATTACH_SHARDS_MAX ||
        h->shift < 12 || h->shift > 20 || h->range_bytes == 0 ||
        h->range_bytes > ARENA_RANGE_MAX || h->range_bytes % REGION_ALIGN != 0 ||
        h->zero_ns < -SANE_NS || h->zero_ns > h->boot_ns || h->boot_ns < 0 ||
        h->boot_ns > SANE_NS || h->now < 0 || h->now > SANE_MS) {
        return false;
    }
    for (uint32_t i = 0; i < h->shards; i++) {
        if (h->shard[i].left.segments > h->range_bytes >> h->shift ||
            h->shard[i].left.fresh > h->range_bytes >> h->shift ||
            h->shard[i].left.items > SANE_COUNT || h->shard[i].left.index_bytes > SANE_COUNT) {
            return false;
        }
    }
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        if (h->owner[i][0] >= h->shards || h->owner[i][1] >= h->shards) {
            return false;
        }
    }
    return true;
}

bool attach_plan(struct attach *a, struct engine_config *cfg)
{
    struct attach_head *h = a->head;
    struct stat st;

    if (a->is_new) {
        return no(a, "it is new");
    }
    if (h->state != STATE_CLEAN) {
        return no(a, "it was not left by a clean stop");
    }
    if (h->abi != attach_abi()) {
        return no(a, "it is of another version or machine");
    }
    if (h->sum != head_sum(h) || !is_sane(h)) {
        return no(a, "its header is damaged");
    }
    if (fstat(a->fd, &st) != 0 || (uint64_t)st.st_size < range_at(h, h->shards)) {
        return no(a, "it was cut short");
    }
    if (!may_be_so_long(a, h->shards) || !fits(a, cfg) || !tell_away(a) || !write_open(a)) {
        return false;
    }
    cfg->shards = h->shards;
    cfg->seed = h->seed;
    a->companion = h->companion;
    memcpy(a->extra, h->extra, sizeof(a->extra));
    place_regions(a, (uint64_t)st.st_blocks < h->blocks);
    no(a, "out of memory"); /* until another reason is found, or none */
    return true;
}

int64_t attach_clock_zero(const struct attach *a)
{
    return a->head->zero_ns;
}

uint64_t attach_range(const struct attach *a)
{
    return a->head->range_bytes;
}

/* ---- creating the file ------------------------------------------------------------------- */

/*
 * Can the file system ever have room for all of the limit, once the file is emptied? If other
 * files take some of it, the shards use what is left; but each needs a little at the start.
 */
static bool has_room(struct attach *a, const struct engine_config *cfg)
{
    struct statvfs fs;
    struct stat st;

    a->room_bytes = 0;
    if (fstatvfs(a->fd, &fs) != 0 || fs.f_blocks == 0 || fstat(a->fd, &st) != 0) {
        return true; /* the file system has no limit of its own */
    }
    uint64_t all = (uint64_t)fs.f_blocks * fs.f_frsize;
    uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize + (uint64_t)st.st_blocks * 512;
    if (all < cfg->limit_bytes || !share_fits(left, cfg->shards, UINT64_MAX, a->head->shift)) {
        left = all < cfg->limit_bytes ? all : left;
        return no(a, "its file system has room for %llu MiB, and the limit is %llu",
                  (unsigned long long)left >> 20, (unsigned long long)cfg->limit_bytes >> 20);
    }
    if (left < cfg->limit_bytes) {
        a->room_bytes = left;
    }
    return true;
}

bool attach_make(struct attach *a, const struct engine_config *cfg, uint64_t range_bytes)
{
    struct attach_head *h = a->head;

    memset(h, 0, HEAD_BYTES);
    memcpy(h->magic, MAGIC, sizeof(h->magic));
    h->state = STATE_OPEN;
    h->shards = cfg->shards;
    h->capacity = ATTACH_SHARDS_MAX;
    h->abi = attach_abi();
    h->range_bytes = range_bytes & ~(REGION_ALIGN - 1);
    h->shift = arena_shift_for(cfg->limit_bytes / cfg->shards);
    a->state = ATTACH_COLD;
    a->items = a->expired = a->flushed = 0;
    if (cfg->shards > ATTACH_SHARDS_MAX) {
        return no(a, "it is for %u shards at most", ATTACH_SHARDS_MAX);
    }
    /* First: what is in the file stays for a start that has what this one lacks. */
    if (!has_room(a, cfg) || !may_be_so_long(a, h->shards)) {
        return false;
    }
    if (ftruncate(a->fd, 0) != 0) {
        return no(a, "%s", strerror(errno));
    }
    /* Wherever a crash ends this, the file is empty or has a head. */
    if (!region_write(a->fd, 0, h, HEAD_BYTES) || fdatasync(a->fd) != 0 ||
        ftruncate(a->fd, (off_t)range_at(h, h->shards)) != 0) {
        return no(a, "%s", strerror(errno));
    }
    place_regions(a, false);
    if (!region_back(&a->region[0], 0, UINT64_C(1) << h->shift)) {
        return no(a, "memory cannot be allocated in it (%s)", strerror(errno));
    }
    region_drop(&a->region[0], 0, UINT64_C(1) << h->shift);
    return true;
}

bool attach_extend(struct attach *a, uint32_t shard)
{
    const struct attach_head *h = a->head;
    struct stat st;

    if (shard >= h->capacity) {
        return no(a, "it is for %u shards at most", h->capacity);
    }
    if (!may_be_so_long(a, shard + 1)) {
        return false;
    }
    if (fstat(a->fd, &st) != 0 || ((uint64_t)st.st_size < range_at(h, shard + 1) &&
                                   ftruncate(a->fd, (off_t)range_at(h, shard + 1)) != 0)) {
        return no(a, "%s", strerror(errno));
    }
    place_region(a, shard, false);
    return true;
}

/* ---- taking over ------------------------------------------------------------------------- */

/* Threads that share the shards of an engine. */
struct crowd {
    struct attach *attach;
    struct engine *engine;
    msec_t now;
    _Atomic uint32_t next;
    _Atomic bool is_failed;
    pthread_mutex_t mutex; /* what is summed up, and why, are under it */
};

/* Was a slot left while it moved from a shard to another? Then its items may be in either. */
static bool is_between(const struct attach_head *h, uint32_t slot)
{
    return h->owner[slot][0] != h->owner[slot][1];
}

static bool take_shard(struct crowd *w, uint32_t i, struct attach_job *job)
{
    struct attach *a = w->attach;
    const struct attach_head *h = a->head;
    size_t bytes = h->shard[i].left.segments * sizeof(struct keep_segment);
    struct keep_segment *list = mem_alloc(bytes + 1);
    bool is_done = false;

    if (list == NULL) {
        snprintf(job->why, job->why_size, "out of memory");
    } else if (!region_read(a->fd, list_at(h, i), list, bytes) ||
               XXH3_64bits(list, bytes) != h->shard[i].list_sum) {
        snprintf(job->why, job->why_size, "the table of its segments is damaged");
    } else {
        job->list = list;
        is_done = shard_attach(w->engine->shards[i], job);
    }
    mem_free(list);
    return is_done;
}

static void take_shards(void *arg)
{
    struct crowd *w = arg;
    struct attach *a = w->attach;
    uint32_t i;

    while (!atomic_load(&w->is_failed) &&
           (i = atomic_fetch_add(&w->next, 1)) < w->engine->shard_count) {
        char why[ATTACH_WHY_BYTES - 20] = "";
        struct attach_job job = {.left = &a->head->shard[i].left,
                                 .owners = a->head->owner,
                                 .owner_shift = 64 - ROUTE_SLOT_BITS,
                                 .now = w->now,
                                 .marks_stale = a->marks_stale,
                                 .why = why,
                                 .why_size = sizeof(why)};
        bool is_done = take_shard(w, i, &job);

        pthread_mutex_lock(&w->mutex);
        if (!is_done && !atomic_exchange(&w->is_failed, true)) {
            no(a, "shard %u: %s", i, why);
        }
        a->items += job.items;
        a->expired += job.expired;
        a->flushed += job.flushed;
        pthread_mutex_unlock(&w->mutex);
    }
}

static const struct thread_kind taker_kind = {
    .name = "warm start", .run = take_shards, .reads = true};

/* Does an item that has already moved have a second one, of the same key, in the old shard? */
struct attach_search {
    const struct attach_head *head;
    const struct engine *engine;
    const struct shard *shard;
    bool has_twice;
};

static void look_for_another(void *arg, handle_t h, uint64_t hash)
{
    struct attach_search *x = arg;
    const struct item *it = shard_item(x->shard, h);
    uint32_t slot = route_slot_number(hash);

    if (is_between(x->head, slot) && x->head->owner[slot][1] == x->shard->id) {
        const struct shard *from = x->engine->shards[x->head->owner[slot][0]];

        x->has_twice |= table_find(&from->table, from->memory.arena.base, hash, item_key(it),
                                   it->key_len) != NULL;
    }
}

/*
 * A shard takes over no key twice, but two shards could take over the same key of a moving
 * slot. An item deleted in one shard would then come back from the other.
 */
static bool are_in_one_shard(struct attach *a, const struct engine *e)
{
    struct attach_search x = {.head = a->head, .engine = e};
    struct position p = {0};
    uint32_t slot = 0;

    while (slot < ROUTE_SLOTS && !is_between(a->head, slot)) {
        slot++;
    }
    rcu_register();
    while (slot < ROUTE_SLOTS && p.shard < e->shard_count) {
        x.shard = e->shards[p.shard];
        rcu_begin();
        position_step_all(&p, x.shard, look_for_another, &x);
        rcu_end();
    }
    rcu_unregister();
    return !x.has_twice || no(a, "two shards have the same key");
}

bool attach_take_over(struct attach *a, struct engine *e)
{
    struct crowd w = {.attach = a, .engine = e, .now = clock_now(&e->clock)};
    struct thread threads[ATTACH_SHARDS_MAX] = {{0}};
    usec_t began = clock_mono_us();
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = 0;

    a->taken_at = w.now;
    pthread_mutex_init(&w.mutex, NULL);
    /* The caller is one of them; fewer do as well. */
    while (n + 1 < e->shard_count && (long)n + 1 < cpus &&
           thread_start(&threads[n], &taker_kind, &w) == 0) {
        n++;
    }
    take_shards(&w);
    while (n > 0) {
        thread_join(&threads[--n]);
    }
    pthread_mutex_destroy(&w.mutex);
    a->us = (uint64_t)(clock_mono_us() - began);
    if (atomic_load(&w.is_failed) || !are_in_one_shard(a, e)) {
        return false;
    }
    a->state = ATTACH_WARM;
    return true;
}

/* If the slots differ from those of a new table, publish them as they were. */
static enum mf_err restore_routes(struct attach *a, struct engine *e)
{
    const struct attach_head *h = a->head;
    const struct route *now = atomic_load_explicit(&e->router.route, memory_order_relaxed);
    struct route_slot slots[ROUTE_SLOTS];
    bool differs = false;

    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        slots[i] = is_between(h, i) ? route_moving(h->owner[i][0], h->owner[i][1])
                                    : route_settled(h->owner[i][0]);
        a->moving += route_is_moving(&slots[i]);
        differs |= memcmp(&now->slot[i], &slots[i], sizeof(slots[i])) != 0;
    }
    return differs ? router_publish_all(&e->router, slots) : MF_OK;
}

enum mf_err attach_resume(struct attach *a, struct engine *e)
{
    const int64_t used = atomic_load(&e->budget.used_bytes);
    msec_t flush_at = MSEC_NEVER;

    if (a->state != ATTACH_WARM) {
        return MF_OK;
    }
    if (used > (int64_t)(e->config.limit_bytes + e->config.limit_bytes / 64)) {
        a->over_bytes = (uint64_t)used - e->config.limit_bytes;
    }
    /* Only now can anything be stored. */
    atomic_store_explicit(&e->group.cas_next,
                          a->head->cas_next < ITEM_CAS_GOES_ON_MAX ? a->head->cas_next
                                                                   : ITEM_CAS_GOES_ON_MAX,
                          memory_order_relaxed);
    enum mf_err err = restore_routes(a, e);
    for (uint32_t i = 0; i < e->shard_count; i++) {
        msec_t at = a->head->shard[i].left.flush_at;

        /* A flush that became due while items were taken over has not been applied to them. */
        flush_at = at > a->taken_at && at < flush_at ? at : flush_at;
    }
    if (err == MF_OK && flush_at != MSEC_NEVER &&
        engine_flush(e, flush_at, clock_now(&e->clock), false) != OUT_OK) {
        err = MF_ENOMEM;
    }
    /* The limit may be lower than before: items taken over are no overdraft. */
    budget_set_limit(&e->budget, used);
    budget_set_limit(&e->budget, (int64_t)e->config.limit_bytes);
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_enter(e->shards[i]);
        shard_note_work(e->shards[i]); /* before it, the other shards did not exist */
        shard_leave(e->shards[i]);
    }
    if (err == MF_OK) {
        a->why[0] = '\0';
    }
    return err;
}

/* ---- leaving ----------------------------------------------------------------------------- */

static bool leave_shard(struct attach *a, struct shard *s, uint32_t i)
{
    struct attach_shard *left = &a->head->shard[i].left;

    shard_enter(s);
    shard_leave_behind(s, left, NULL);
    size_t bytes = left->segments * sizeof(struct keep_segment);
    struct keep_segment *list = mem_zalloc(bytes + 1);
    if (list != NULL) {
        shard_leave_behind(s, left, list);
    }
    shard_leave(s);
    if (list != NULL) {
        /* First: the list may need the room. */
        keep_drop_rest(&s->memory, list, left->segments);
    }
    bool is_done = list != NULL && region_write(a->fd, list_at(a->head, i), list, bytes);
    if (is_done) {
        a->head->shard[i].list_sum = XXH3_64bits(list, bytes);
    } else {
        no(a, "%s", list == NULL ? "out of memory" : strerror(errno));
    }
    mem_free(list);
    return is_done;
}

/*
 * If a slot was only prepared to move, none of its items has moved. Shards that have no slots,
 * and are to have none, are not saved: the limit of the next engine may be too small for them.
 */
static void leave_routes(struct attach_head *h, const struct engine *e)
{
    const struct route *rt = atomic_load_explicit(&e->router.route, memory_order_relaxed);

    h->shards = reshard_to_be(&e->reshard,
                              atomic_load_explicit(&e->group.sharers, memory_order_relaxed));
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        const uint16_t from = rt->slot[i].from;
        const uint16_t put = rt->slot[i].put;
        const uint16_t last = from > put ? from : put;

        h->owner[i][0] = from;
        h->owner[i][1] = put;
        h->shards = last >= h->shards ? last + 1u : h->shards;
    }
}

void attach_leave(struct attach *a, struct engine *e)
{
    struct attach_head *h = a->head;
    struct stat st;
    bool is_done = true;

    a->why[0] = '\0';
    if (a->leaves_nothing) {
        no(a, "it has nothing to leave");
        return;
    }
    leave_routes(h, e);
    /* All of them: their free segments are released. */
    for (uint32_t i = 0; is_done && i < e->shard_count; i++) {
        is_done = leave_shard(a, e->shards[i], i);
    }
    if (!is_done) {
        return;
    }
    if (fdatasync(a->fd) != 0 || fstat(a->fd, &st) != 0) {
        no(a, "%s", strerror(errno));
        return;
    }
    h->blocks = (uint64_t)st.st_blocks;
    h->seed = e->config.seed;
    h->cas_next = atomic_load_explicit(&e->group.cas_next, memory_order_relaxed);
    read_boot_id(h->boot_id);
    h->zero_ns = clock_zero_ns(&e->clock);
    h->boot_ns = clock_boot_ns();
    h->now = clock_now(&e->clock);
    h->unix_ms = clock_to_unix_ms(&e->clock, h->now);
    h->companion = a->companion;
    memcpy(h->extra, a->extra, sizeof(h->extra));
    h->state = STATE_CLEAN;
    h->sum = head_sum(h);
    if (!region_write(a->fd, 0, h, HEAD_BYTES) || fdatasync(a->fd) != 0) {
        no(a, "%s", strerror(errno));
    }
}
