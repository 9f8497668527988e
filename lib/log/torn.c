/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The torn end of a log: see keychain.h.
 */
#include "lib/log/keychain.h"

#include "lib/base/load.h"
#include "lib/base/mem.h"

/*
 * Bounds on reads that find no good block: bytes in all, and reads for each byte searched. They
 * are needed because clients choose values, and a value may contain what looks like blocks.
 * Good blocks are skipped as a whole, so only the rest of broken ones is searched. The bytes
 * suffice for some 1.4 GiB of a block that consists of nothing but block headers, which takes a
 * second.
 */
#define VAIN_BYTES ((uint64_t)8 << 30)
#define VAIN_TIMES 16

#define PART_BYTES ((size_t)64 << 10)

#define NUMBER_AT 32 /* in a block */

static const char magic[4] = {'M', 'f', 'B', 'K'};

struct torn_search {
    struct snap_reader reader;  /* where the fault is */
    struct snap_opener *opener; /* [borrowed] */
    uint64_t seen;              /* bytes that were searched */
    uint64_t vain;              /* bytes read without finding a good block */
    uint64_t synced;            /* the file was durable up to here */
    bool is_doubtful;
};

/* Is there a good block? Then note up to where the file was durable, and return its end. */
static uint64_t look_at(struct torn_search *s, uint64_t at)
{
    struct snap_reader there = s->reader;
    struct snap_fault fault = {.kind = SNAP_FINE};
    char number[sizeof(uint64_t)];
    struct span content;
    struct snap_block b;
    ssize_t got = there.read(there.arg, number, sizeof(number), at + NUMBER_AT);

    s->is_doubtful |= got < 0;
    if (got != sizeof(number)) {
        return 0;
    }
    there.offset = at;
    there.number = load_le64(number);
    /* No more blocks fit between the two. */
    uint64_t ahead = there.number - s->reader.number;
    if (ahead == 0 || ahead > (at - s->reader.offset) / SNAP_BLOCK_BYTES + 1) {
        return 0;
    }
    there.is_in_value = true; /* it may be any part */
    if (snap_reader_next(&there, &b, &fault) != SNAP_NEXT_BLOCK ||
        !snap_block_open(&there, &b, s->opener, &content, &fault)) {
        s->vain += fault.kind == SNAP_FAULT_SUM ? b.stored : 0;
        s->is_doubtful |=
            fault.kind == SNAP_FAULT_READ || s->vain > VAIN_BYTES + s->seen * VAIN_TIMES;
        return 0;
    }
    uint64_t synced = b.unsynced < SNAP_UNSYNCED_MAX && b.unsynced < at ? at - b.unsynced : 0;
    s->synced = synced > s->synced ? synced : s->synced;
    return there.offset;
}

/* Search these bytes for the next good block. Returns where to continue. */
static uint64_t look_through(struct torn_search *s, const char *part, size_t n, uint64_t at)
{
    for (size_t i = 0; i + sizeof(magic) <= n && !s->is_doubtful; i++) {
        if (memcmp(part + i, magic, sizeof(magic)) == 0) {
            uint64_t end = look_at(s, at + i);

            if (end != 0) {
                return end;
            }
        }
    }
    return at + n - (sizeof(magic) - 1);
}

/* Does a block after this offset record that the bytes at the offset were durable? */
static bool was_durable(struct torn_search *s, uint64_t offset)
{
    char *part = mem_alloc(PART_BYTES);
    uint64_t at = offset + 1;

    s->is_doubtful = part == NULL;
    while (!s->is_doubtful && s->synced <= offset) {
        ssize_t got = s->reader.read(s->reader.arg, part, PART_BYTES, at);

        s->is_doubtful = got < 0;
        if (got < (ssize_t)sizeof(magic)) {
            break;
        }
        uint64_t next = look_through(s, part, (size_t)got, at);
        s->seen += next - at;
        at = next;
    }
    mem_free(part);
    return s->is_doubtful || s->synced > offset;
}

/* Is the block at the fault complete after all? Its checksum decides, whatever its kind. */
static bool is_block(const struct torn_search *s)
{
    struct snap_reader there = s->reader;
    struct snap_fault fault;
    struct span content;
    struct snap_block b;

    return (snap_reader_next(&there, &b, &fault) == SNAP_NEXT_BLOCK ||
            fault.kind == SNAP_FAULT_KIND || fault.kind == SNAP_FAULT_VALUE) &&
           snap_block_open(&there, &b, s->opener, &content, &fault);
}

bool torn_is_end(const struct snap_reader *r, struct snap_opener *o,
                 const struct snap_fault *fault)
{
    struct torn_search s = {.reader = *r, .opener = o};

    if (!snap_fault_is_of_block(fault)) {
        return false;
    }
    s.reader.offset = fault->offset;
    s.reader.number = fault->block;
    return !is_block(&s) && !was_durable(&s, fault->offset);
}
