/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and values of the stress tests. No state; any thread.
 */
#include "tests/stress/content.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/hash.h"

#define STAMP_MAGIC 0x57a3f1e5u
#define SUM_SEED    0x6d6179666c79ULL

static const char kind_letters[KIND_COUNT + 1] = "vstlcngSRC";

size_t content_key(uint32_t id, char out[KEY_BYTES])
{
    int n = snprintf(out, KEY_BYTES, "%c%02x-%u", kind_letters[KEY_KIND(id)], KEY_OWNER(id),
                     KEY_INDEX(id));
    size_t len = (size_t)n;

    /* One key in 32 has the maximum length, one in 8 a medium one. */
    size_t want = KEY_INDEX(id) % 32 == 7 ? 250 : KEY_INDEX(id) % 8 == 3 ? 60 : len;
    while (len < want) {
        out[len++] = '.';
    }
    return len;
}

static uint64_t stamp_sum(const char *value, size_t len)
{
    struct stamp head;

    memcpy(&head, value, STAMP_BYTES);
    head.sum = SUM_SEED;
    return XXH3_64bits_withSeed(value + STAMP_BYTES, len - STAMP_BYTES,
                                XXH3_64bits(&head, sizeof(head)));
}

void content_stamp(char *out, size_t len, uint32_t id, uint64_t version, msec_t deadline)
{
    struct stamp head = {.magic = STAMP_MAGIC,
                         .id = id,
                         .len = (uint32_t)len,
                         .version = version,
                         .deadline = deadline};
    struct rng rng;
    size_t at = STAMP_BYTES;

    rng_init(&rng, (uint64_t)id << 32 ^ version);
    for (; at + sizeof(uint64_t) <= len; at += sizeof(uint64_t)) {
        uint64_t word = rng_next(&rng);
        memcpy(out + at, &word, sizeof(word));
    }
    for (; at < len; at++) {
        out[at] = (char)rng_next(&rng);
    }
    memcpy(out, &head, sizeof(head));
    head.sum = stamp_sum(out, len);
    memcpy(out, &head, sizeof(head));
}

bool content_check_stamp(const char *value, size_t len, uint32_t id, struct stamp *stamp,
                         char *why, size_t why_size)
{
    if (len < STAMP_BYTES) {
        (void)snprintf(why, why_size, "%zu bytes are too few for a stamp", len);
        return false;
    }
    memcpy(stamp, value, STAMP_BYTES);
    if (stamp->magic != STAMP_MAGIC) {
        (void)snprintf(why, why_size, "no stamp: %08" PRIx32, stamp->magic);
        return false;
    }
    if (stamp->id != id) {
        (void)snprintf(why, why_size, "the value of key %08" PRIx32, stamp->id);
        return false;
    }
    if (stamp->len != len) {
        (void)snprintf(why, why_size, "length %zu, stamped %" PRIu32, len, stamp->len);
        return false;
    }
    if (stamp_sum(value, len) != stamp->sum) {
        (void)snprintf(why, why_size, "checksum of version %" PRIu64 ", %zu bytes",
                       stamp->version, len);
        return false;
    }
    return true;
}

static uint32_t record_sum(const struct record *r)
{
    uint64_t x = ((uint64_t)r->id << 32 | r->lap) * 0x9e3779b97f4a7c15ULL;

    x ^= (uint64_t)(uint32_t)r->seq * 0xd6e8feb86659fd93ULL;
    return (uint32_t)(x >> 32 ^ x);
}

void content_record(struct record *out, uint32_t id, uint32_t lap, int32_t seq)
{
    *out = (struct record){.id = id, .lap = lap, .seq = seq};
    out->sum = record_sum(out);
}

/* The record at an offset; false, with the reason, when it does not belong to that key. */
static bool record_at(const char *value, size_t at, uint32_t id, struct record *out, char *why,
                      size_t why_size)
{
    memcpy(out, value + at, RECORD_BYTES);
    if (out->id != id || out->sum != record_sum(out)) {
        (void)snprintf(why, why_size, "record at %zu is of key %08" PRIx32 " or damaged", at,
                       out->id);
        return false;
    }
    return true;
}

bool content_check_log(const char *value, size_t len, uint32_t id, uint32_t *lap,
                       int32_t *first, int32_t *last, char *why, size_t why_size)
{
    struct record r;

    if (len == 0 || len % RECORD_BYTES != 0) {
        (void)snprintf(why, why_size, "%zu bytes are no whole records", len);
        return false;
    }
    for (size_t at = 0; at < len; at += RECORD_BYTES) {
        if (!record_at(value, at, id, &r, why, why_size)) {
            return false;
        }
        if (at == 0) {
            *lap = r.lap;
            *first = r.seq;
        } else if (r.lap != *lap || r.seq != *last + 1) {
            (void)snprintf(why, why_size, "record %d of lap %u after %d of lap %u", r.seq,
                           r.lap, *last, *lap);
            return false;
        }
        *last = r.seq;
    }
    return true;
}

bool content_check_shared_log(const char *value, size_t len, uint32_t id, uint32_t writers,
                              int32_t *next, char *why, size_t why_size)
{
    struct record r;

    memset(next, 0, writers * sizeof(*next));
    if (len % RECORD_BYTES != 0) {
        (void)snprintf(why, why_size, "%zu bytes are no whole records", len);
        return false;
    }
    for (size_t at = 0; at < len; at += RECORD_BYTES) {
        if (!record_at(value, at, id, &r, why, why_size)) {
            return false;
        }
        if (r.lap >= writers || r.seq != next[r.lap]) {
            (void)snprintf(why, why_size, "record %d of writer %u, %d expected", r.seq, r.lap,
                           r.lap < writers ? next[r.lap] : -1);
            return false;
        }
        next[r.lap]++;
    }
    return true;
}

bool content_check_number(const char *value, size_t len, uint64_t *number)
{
    size_t at = 0;
    uint64_t n = 0;

    while (at < len && value[at] >= '0' && value[at] <= '9') {
        n = n * 10 + (uint64_t)(value[at] - '0');
        at++;
    }
    if (at == 0 || at > 20) {
        return false;
    }
    for (size_t i = at; i < len; i++) {
        if (value[i] != ' ') {
            return false;
        }
    }
    *number = n;
    return true;
}
