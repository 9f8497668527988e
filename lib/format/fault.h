/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description of what is wrong with a file: the first fault found, its offset, and a message.
 */
#ifndef MAYFLY_LIB_FORMAT_FAULT_H
#define MAYFLY_LIB_FORMAT_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum snap_fault_kind {
    SNAP_FINE,
    SNAP_FAULT_READ,    /* the system's error, `number` */
    SNAP_FAULT_EMPTY,   /* no byte in it */
    SNAP_FAULT_FOREIGN, /* no magic */
    SNAP_FAULT_RDB,     /* that of Redis */
    SNAP_FAULT_SHORT,   /* ends within the header */
    SNAP_FAULT_HEADER,  /* the header's sum differs */
    SNAP_FAULT_VERSION, /* `number`, that is not read here */
    /* of a block */
    SNAP_FAULT_CUT,    /* the file ends within it, or where it should begin */
    SNAP_FAULT_MAGIC,  /* no block begins here */
    SNAP_FAULT_FIELDS, /* its header contradicts itself */
    SNAP_FAULT_KIND,   /* `number`, which is not known and not optional */
    SNAP_FAULT_SUM,
    SNAP_FAULT_PACKED,  /* packed as this program cannot unpack */
    SNAP_FAULT_UNPACK,  /* does not unpack to the size in its header */
    SNAP_FAULT_CONTENT, /* its content does not match its header */
    SNAP_FAULT_VALUE,   /* a value whose parts do not follow each other */
    SNAP_FAULT_TOTALS,  /* END contradicts what came before it */
    SNAP_FAULT_AFTER,   /* something follows the END */
};

struct snap_fault {
    enum snap_fault_kind kind;
    uint64_t block;  /* from there on: the block's number */
    uint64_t offset; /* and where it begins */
    uint64_t number;
};

/* Does it concern a block? Then block and offset identify it. */
static inline bool snap_fault_is_of_block(const struct snap_fault *f)
{
    return f->kind >= SNAP_FAULT_CUT;
}

#define SNAP_FAULT_TEXT_MAX 160

/*
 * What is wrong, without a line's end and the file's name: "block 17 at 4456448: checksum
 * differs". Returns out. Context: any thread.
 */
const char *snap_fault_text(const struct snap_fault *f, char out[SNAP_FAULT_TEXT_MAX]);

#endif
